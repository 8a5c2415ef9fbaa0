//! Memory of a session: constant over many transmission windows, and bounded at a large bandwidth-delay
//! product.

use super::end::{CONGESTION, Contestant, EndResult, MemorySample, Until};
use super::process::{PATHS, Transfer, over_veth};
use super::{
    BenchError, Expectation, Interval, Judged, Progress, Tables, audited, bootstrap, median, middle,
};
use clap::Args;
use core::time::Duration;
use serde::Serialize;
use std::ffi::OsStr;
use tributary_cli::quantity;
use tributary_emu::{Audit, Network, Side};
use tributary_lab::SessionSettings;
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_report::{Table, stats};
use tributary_types::Bitrate;

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
    let until = Until::Bytes(u64::from(windows) * SMALL_WINDOW as u64);
    let small = SessionSettings { window: Some(SMALL_WINDOW), ..SessionSettings::default() };
    let contestant = Contestant::Transport("session".to_owned(), small);
    let (source, sink) = over_veth(&contestant, CONGESTION, until)?;
    Ok(vec![flat("source", source), flat("sink", sink)])
}

fn flat(end: &'static str, result: EndResult) -> Flatness {
    let samples = result.samples;
    let tenth = samples.len() / 10;
    let (early, late) = (&samples[tenth..tenth * 2], &samples[samples.len() - tenth..]);
    let rss = |sample: &MemorySample| sample.rss_kb as f64;
    let held = |sample: &MemorySample| (sample.held / 1024) as f64;
    let around = |part: &[MemorySample]| bootstrap(&part.iter().map(rss).collect::<Vec<_>>(), stats::median);
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
        let title = format!("{} windows of 64 KiB, TLS, two veth paths", self.windows);
        let flat = Table::of(&title, &self.flatness)
            .text("end", |f| f.end)
            .number(("RSS at 10–20 %", "MiB"), 1, |f| f.early_kb / 1024.0)
            .number(("at 90–100 %", "MiB"), 1, |f| f.late_kb / 1024.0)
            .number(("held at 10–20 %", "MiB"), 1, |f| f.early_held_kb / 1024.0)
            .number(("at 90–100 %", "MiB"), 1, |f| f.late_held_kb / 1024.0)
            .judged("growth, MiB", |f| f.growth.cells(1))
            .table();
        let bounds = Table::of("2 × 1 Gbit/s, 50 ms, default settings, TLS", &self.bounds)
            .text("end", |b| b.end)
            .number(("goodput", "Mbit/s"), 0, |b| median(&b.goodput_mbps))
            .number(("RSS before", "MiB"), 1, |b| median(&b.before_kb) / 1024.0)
            .number(("peak", "MiB"), 1, |b| median(&b.peak_kb) / 1024.0)
            .judged("of the session, MiB", |b| audited(&self.audits, &b.taken, 1))
            .table();
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
