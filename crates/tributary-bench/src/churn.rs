//! A proxy under connections that come and go: memory, descriptors and streams must not grow.
//!
//! `tributary serve` and `tributary connect` run as separate processes, connected by two paths over loopback.
//! Connections begin at a fixed rate; half of them are aborted, by either side, at a random point of their
//! life. Not here: what a connection does (`load`) and how a process is observed (`proxy`).

mod load;
mod proxy;

use super::{BenchError, Expectation, Judged, Progress, Tables};
use clap::Args;
use core::time::Duration;
use load::{Life, Load, Tally};
use proxy::Proxy;
use serde::Serialize;
use std::time::Instant;
use tributary_cli::quantity;
use tributary_report::{Column, Table, TableCell, stats};
use tributary_types::Rng;

/// Connections before the measurement, so that one-time allocations do not count.
const WARM_UP: u32 = 20;
/// Time for the last connections to end, in addition to the longest life.
const GRACE: Duration = Duration::from_secs(30);
/// Share of the time at the beginning that is left out of the slopes, until allocators have settled.
const SETTLING: f64 = 0.1;
/// Fewest samples for a slope.
const FEWEST: usize = 8;
/// Growth of memory per connection, bytes: less than what either end keeps for an open one.
const LEAK: Expectation = Expectation::AtMost(256.0);
/// Descriptors and streams left after the last connection.
const LEFT: Expectation = Expectation::AtMost(0.0);

/// Leaks of a proxy while connections open and close: memory, descriptors and streams of both ends over time.
///
/// Half of the connections are aborted, by either side, at a random time. Bounds: growth of memory for each connection, and
/// descriptors and streams that are left at the end.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example: an hour at one connection a second
  tributary-lab bench churn --seconds 3600 --json > churn.json")]
pub struct Settings {
    /// Seconds during which connections are opened
    #[arg(long, default_value_t = 3600.0, value_parser = quantity::part_seconds_in(10.0..=86_400.0))]
    pub seconds: f64,
    /// Connections opened per second
    #[arg(long, default_value_t = 1.0, value_parser = quantity::number_in(0.1..=100.0))]
    pub rate: f64,
    /// Seconds between two samples
    #[arg(long, default_value_t = 10.0, value_parser = quantity::part_seconds_in(0.1..=86_400.0))]
    pub every: f64,
    /// Seed of sizes, lifetimes and aborts
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The state of one process at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the measurement began.
    pub at_s: f64,
    /// Connections that had begun.
    pub begun: u64,
    /// Connections in progress.
    pub open: u64,
    /// Anonymous resident memory, kB: memory that the process allocated.
    pub memory_kb: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Streams that count against the limit of streams.
    pub streams: u64,
}

/// One end of the proxy.
#[derive(Clone, Debug, Serialize)]
pub struct End {
    /// `serve` or `connect`.
    pub name: &'static str,
    /// Before the measurement, with no connection open.
    pub before: Sample,
    /// After it, with no connection open.
    pub after: Sample,
    /// Growth of memory per connection, bytes: slope of the samples. Undecided with too few samples.
    pub memory: Judged,
    /// Descriptors that are open after the last connection and were not before the first.
    pub descriptors: Judged,
    /// The same of streams.
    pub streams: Judged,
    pub samples: Vec<Sample>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Seconds in which connections began.
    pub seconds: f64,
    /// Connections that began per second.
    pub rate: f64,
    pub seed: u64,
    /// Outcomes of the connections.
    pub connections: Tally,
    /// Both processes.
    pub ends: Vec<End>,
}

/// Measures both ends of a proxy.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| crate::failed("runtime", error))?.block_on(measure(settings, progress))
}

async fn measure(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let target = load::target().await?;
    let proxy = Proxy::start(target)?;
    let mut rng = Rng::new(settings.seed).child("churn");
    let mut warm_up = Load::new(proxy.address());
    (0..WARM_UP).for_each(|_| warm_up.begin(Life::short(&mut rng)));
    warm_up.finish(GRACE).await;
    let before = proxy.at_rest().await?;
    let mut load = Load::new(proxy.address());
    let mut samples: [Vec<Sample>; 2] = Default::default();
    let began = Instant::now();
    let mut sample_at = settings.every;
    let mut told = 0;
    for number in 0.. {
        let at = f64::from(number) / settings.rate;
        while sample_at <= at.min(settings.seconds) {
            wait_until(began, sample_at).await;
            for (list, sample) in samples.iter_mut().zip(proxy.look()?) {
                list.push(Sample { at_s: sample_at, begun: load.begun(), open: load.open(), ..sample });
            }
            sample_at += settings.every;
            let share = sample_at / settings.seconds;
            if (share * 10.0) as u32 > told {
                told = (share * 10.0) as u32;
                progress(&format!(
                    "{:.0} s of {:.0}: {}",
                    sample_at - settings.every,
                    settings.seconds,
                    load.tally()
                ));
            }
        }
        if at >= settings.seconds {
            break;
        }
        wait_until(began, at).await;
        load.begin(Life::random(&mut rng));
    }
    let connections = load.finish(GRACE).await;
    let after = proxy.at_rest().await?;
    let ends = ["serve", "connect"].into_iter().zip(samples).zip(before.into_iter().zip(after));
    let ends =
        ends.map(|((name, samples), (before, after))| End::new(name, (before, after), samples, settings));
    Ok(Report {
        seconds: settings.seconds,
        rate: settings.rate,
        seed: settings.seed,
        connections,
        ends: ends.collect(),
    })
}

async fn wait_until(began: Instant, seconds: f64) {
    tokio::time::sleep_until((began + Duration::from_secs_f64(seconds)).into()).await;
}

impl End {
    fn new(
        name: &'static str,
        (before, after): (Sample, Sample),
        samples: Vec<Sample>,
        settings: &Settings,
    ) -> Self {
        let counted: Vec<&Sample> = samples.iter().filter(|s| s.at_s > settings.seconds * SETTLING).collect();
        let points: Vec<(f64, f64)> =
            counted.iter().map(|s| (s.begun as f64, s.memory_kb as f64 * 1024.0)).collect();
        let slope = stats::slope_interval(&points).filter(|_| points.len() >= FEWEST);
        let memory = Judged::new(slope.map_or(f64::NAN, |of| of.0), slope.map(|of| of.1), LEAK);
        let left =
            |of: fn(&Sample) -> u64| Judged::count((of(&after) as f64 - of(&before) as f64).max(0.0), LEFT);
        let (descriptors, streams) = (left(|s| s.descriptors), left(|s| s.streams));
        Self { name, before, after, memory, descriptors, streams, samples }
    }
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let title = format!(
            "{:.0} s, {} connections a second, seed {}: {}",
            self.seconds, self.rate, self.seed, self.connections
        );
        let columns =
            [Column::left("end"), Column::left("of"), Column::right("before"), Column::right("after")];
        let columns = columns.into_iter().chain(Judged::columns("bytes a connection, or left"));
        let mut table = Table::new(&title).columns(columns);
        for end in &self.ends {
            let mut push = |of: &str, value: fn(&Sample) -> f64, decimals, judged: &Judged| {
                let both = [&end.before, &end.after].map(|sample| TableCell::number(value(sample), decimals));
                let names = [TableCell::text(end.name), TableCell::text(of)];
                table.push(names.into_iter().chain(both).chain(judged.cells(0)));
            };
            push("memory, MiB", |sample| sample.memory_kb as f64 / 1024.0, 1, &end.memory);
            push("descriptors", |sample| sample.descriptors as f64, 0, &end.descriptors);
            push("streams", |sample| sample.streams as f64, 0, &end.streams);
        }
        vec![table]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn end(grows: u64, after: Sample) -> End {
        let sample = |n: u64| Sample {
            at_s: n as f64,
            begun: n,
            open: n % 3,
            // A sawtooth around a mean, and what each connection leaves behind.
            memory_kb: 10_000 + n % 5 * 20 + n * grows,
            descriptors: 20 + n % 3,
            streams: n % 3,
        };
        let before = Sample { descriptors: 20, ..Sample::default() };
        let settings = Settings { seconds: 100.0, ..crate::defaults() };
        End::new("serve", (before, after), (1..=100).map(sample).collect(), &settings)
    }

    #[test]
    fn a_leak_of_a_kilobyte_is_distinguished_from_a_sawtooth() {
        let rest = Sample { descriptors: 20, ..Sample::default() };
        let flat = end(0, rest).memory;
        assert!(flat.verdict != Verdict::Fails && flat.value.abs() < 256.0, "{flat:?}");
        let leaks = end(1, rest).memory;
        let slope = leaks.interval.unwrap();
        assert!(leaks.verdict == Verdict::Fails && slope.low > 500.0 && slope.high < 1500.0, "{slope:?}");
    }

    #[test]
    fn a_leaked_descriptor_or_stream_is_reported() {
        let of = |descriptors, streams| {
            let end = end(0, Sample { descriptors, streams, ..Sample::default() });
            (end.descriptors.verdict, end.streams.verdict)
        };
        assert_eq!(of(20, 0), (Verdict::Holds, Verdict::Holds));
        assert_eq!(of(21, 1), (Verdict::Fails, Verdict::Fails));
    }
}
