//! Memory of a session: constant over many transmission windows, and bounded at a large bandwidth-delay
//! product.

use super::end::{CONGESTION, Contestant, EndResult, MemorySample, Until};
use super::process::Transfer;
use super::{BenchError, Expectation, Interval, Judged, Progress, Tables, audited, bootstrap, median};
use clap::Args;
use core::time::Duration;
use serde::Serialize;
use std::ffi::OsStr;
use tributary_cli::quantity;
use tributary_emu::{Audit, Network, Side, VethNetwork};
use tributary_lab::SessionSettings;
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_report::{Column, Table, TableCell, stats};
use tributary_types::Bitrate;

/// Paths of the session.
const PATHS: usize = 2;
/// A small window, so that a transfer has many of them.
const SMALL_WINDOW: usize = 64 << 10;
/// Largest growth from the second tenth of a transfer to the last, MiB: receive blocks that the subflows keep for
/// reuse after a burst.
const FLAT: Expectation = Expectation::AtMost(8.0);
/// Most memory of a session, MiB.
const BOUND: Expectation = Expectation::AtMost(64.0);

/// Memory of a session: over many windows, and at 2 Gbit/s · 50 ms.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Windows of 64 KiB in the long transfer
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u32).range(1000..=10_000_000))]
    pub windows: u32,
    /// Seconds at 2 Gbit/s · 50 ms
    #[arg(long, default_value_t = 15.0, value_parser = quantity::part_seconds_in(1.0..=600.0))]
    pub seconds: f64,
    /// Transfers at 2 Gbit/s · 50 ms
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
}

/// One end in the long transfer.
#[derive(Clone, Debug, Serialize)]
pub struct Flatness {
    /// `source` or `sink`.
    pub end: &'static str,
    /// Median resident memory in the second tenth of the transfer, kB.
    pub early_kb: f64,
    /// In the last tenth, kB.
    pub late_kb: f64,
    /// Median payload held by the session in the second tenth, kB.
    pub early_held_kb: f64,
    /// In the last tenth, kB.
    pub late_held_kb: f64,
    /// The growth between the two, MiB; its interval is from the 95 % intervals of both medians.
    pub growth: Judged,
    /// All samples.
    pub samples: Vec<MemorySample>,
}

/// One end at the large bandwidth-delay product.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// `source` or `sink`.
    pub end: &'static str,
    /// Goodput of each round, Mbit/s.
    pub goodput_mbps: Vec<f64>,
    /// Resident memory before the session in each round, kB.
    pub before_kb: Vec<f64>,
    /// Peak resident memory in each round, kB.
    pub peak_kb: Vec<f64>,
    /// The difference, MiB.
    pub taken: Judged,
}

impl Bound {
    fn new(end: &'static str) -> Self {
        Self {
            end,
            goodput_mbps: Vec::new(),
            before_kb: Vec::new(),
            peak_kb: Vec::new(),
            taken: Judged::median(&[], BOUND),
        }
    }

    fn add(&mut self, goodput_mbps: f64, result: &EndResult) {
        self.goodput_mbps.push(goodput_mbps);
        self.before_kb.push(result.rss_before_kb as f64);
        self.peak_kb.push(result.rss_peak_kb as f64);
        let rounds = self.peak_kb.iter().zip(&self.before_kb);
        let taken: Vec<f64> = rounds.map(|(peak, before)| (peak - before).max(0.0) / 1024.0).collect();
        self.taken = Judged::median(&taken, BOUND);
    }
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Windows in the long transfer.
    pub windows: u32,
    /// Bytes of each.
    pub window: usize,
    /// Both ends of it.
    pub flatness: Vec<Flatness>,
    /// Both ends at 2 Gbit/s · 50 ms.
    pub bounds: Vec<Bound>,
    /// The emulator's audits of that network.
    pub audits: Vec<Audit>,
}

/// Measures both.
///
/// # Errors
/// [`BenchError`].
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    progress(&format!("{} windows of 64 KiB", settings.windows));
    let flatness = long_transfer(settings.windows)?;
    let (mut bounds, mut audits) = ([Bound::new("source"), Bound::new("sink")], Vec::new());
    for round in 1..=settings.rounds {
        progress(&format!("2 Gbit/s, 50 ms, round {round} of {}", settings.rounds));
        let ((source, sink), audit) = large_product(settings.seconds)?;
        let goodput_mbps = sink.bytes as f64 * 8e-6 / sink.seconds;
        bounds[0].add(goodput_mbps, &source);
        bounds[1].add(goodput_mbps, &sink);
        audits.push(audit);
    }
    Ok(Report { windows: settings.windows, window: SMALL_WINDOW, flatness, bounds: bounds.into(), audits })
}

fn long_transfer(windows: u32) -> Result<Vec<Flatness>, BenchError> {
    let network = VethNetwork::create(PATHS)?;
    let command = |side: Side, program: &OsStr| network.command(side, program);
    let until = Until::Bytes(u64::from(windows) * SMALL_WINDOW as u64);
    let small = SessionSettings { window: Some(SMALL_WINDOW), ..SessionSettings::default() };
    let contestant = Contestant::Transport("session".to_owned(), small);
    let transfer = Transfer { command: &command, paths: 0..PATHS, contestant, congestion: CONGESTION, until };
    let (source, sink) = transfer.run()?;
    Ok(vec![flat("source", source), flat("sink", sink)])
}

fn flat(end: &'static str, result: EndResult) -> Flatness {
    let samples = result.samples;
    let tenth = samples.len() / 10;
    let middle = |part: &[MemorySample], of: fn(&MemorySample) -> u64| {
        median(&part.iter().map(|sample| of(sample) as f64).collect::<Vec<_>>())
    };
    let (early, late) = (&samples[tenth..tenth * 2], &samples[samples.len() - tenth..]);
    let rss: fn(&MemorySample) -> u64 = |sample| sample.rss_kb;
    let held: fn(&MemorySample) -> u64 = |sample| sample.held / 1024;
    let around = |part: &[MemorySample]| {
        bootstrap(&part.iter().map(|sample| sample.rss_kb as f64).collect::<Vec<_>>(), stats::median)
    };
    let growth = around(early).zip(around(late)).map(|(early, late)| Interval {
        low: (late.low - early.high) / 1024.0,
        high: (late.high - early.low) / 1024.0,
    });
    let (early_kb, late_kb) = (middle(early, rss), middle(late, rss));
    Flatness {
        end,
        early_kb,
        late_kb,
        early_held_kb: middle(early, held),
        late_held_kb: middle(late, held),
        growth: Judged::new((late_kb - early_kb) / 1024.0, growth, FLAT),
        samples,
    }
}

/// Rate of both radios of the large product together, bit/s.
const RATE: u64 = 2_000_000_000;

/// Two radios of 1 Gbit/s each with 50 ms of RTT and 25 ms of queue.
fn large_product(seconds: f64) -> Result<((EndResult, EndResult), Audit), BenchError> {
    let radio = |name| PathSpec::symmetric(name, LinkSpec::constant(Bitrate::from_bps(RATE / 2)));
    let scenario = Scenario::new("large-product")
        .with_path(radio("first"))
        .with_path(radio("second"))
        .with_rtt(Duration::from_millis(50))
        .with_queue_time(Duration::from_millis(25))
        .with_duration(Duration::from_secs_f64(seconds * 4.0 + 30.0));
    let network = Network::start(&scenario)?;
    let command = |side: Side, program: &OsStr| network.command(side, program);
    let until = Until::Bytes((seconds * RATE as f64 / 8.0) as u64);
    let contestant = Contestant::of("session");
    let transfer = Transfer { command: &command, paths: 0..PATHS, contestant, congestion: CONGESTION, until };
    Ok((transfer.run()?, network.audit()?))
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let megabytes = |kb: f64| TableCell::number(kb / 1024.0, 1);
        let title = format!("{} windows of 64 KiB, TLS, two veth paths", self.windows);
        let columns = [
            Column::left("end"),
            Column::right("RSS at 10–20 %").unit("MiB"),
            Column::right("at 90–100 %").unit("MiB"),
            Column::right("held at 10–20 %").unit("MiB"),
            Column::right("at 90–100 %").unit("MiB"),
        ];
        let columns = columns.into_iter().chain(Judged::columns("growth, MiB"));
        let mut flat = Table::new(&title).columns(columns);
        for f in &self.flatness {
            let held = [f.early_kb, f.late_kb, f.early_held_kb, f.late_held_kb].map(megabytes);
            flat.push([TableCell::text(f.end)].into_iter().chain(held).chain(f.growth.cells(1)));
        }
        let columns = [
            Column::left("end"),
            Column::right("goodput").unit("Mbit/s"),
            Column::right("RSS before").unit("MiB"),
            Column::right("peak").unit("MiB"),
        ];
        let columns = columns.into_iter().chain(Judged::columns("of the session, MiB"));
        let mut bounds = Table::new("2 × 1 Gbit/s, 50 ms, default settings, TLS").columns(columns);
        for b in &self.bounds {
            let names = [
                TableCell::text(b.end),
                TableCell::number(median(&b.goodput_mbps), 0),
                megabytes(median(&b.before_kb)),
                megabytes(median(&b.peak_kb)),
            ];
            bounds.push(names.into_iter().chain(audited(&self.audits, &b.taken, 1)));
        }
        vec![flat, bounds]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn growth_is_found_and_noise_is_not() {
        let end = |grows: u64| EndResult {
            samples: (0..100)
                .map(|i| MemorySample { bytes: i, rss_kb: 20_000 + i * grows + i % 7 * 300, held: 1 << 20 })
                .collect(),
            ..EndResult::default()
        };
        assert_eq!(flat("sink", end(0)).growth.verdict, Verdict::Holds);
        let leaking = flat("sink", end(150));
        assert!(leaking.growth.verdict == Verdict::Fails && leaking.late_kb > leaking.early_kb);
        assert_eq!(leaking.early_held_kb, 1024.0);
    }
}
