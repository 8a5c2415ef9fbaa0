//! Memory of a session: constant over many transmission windows, and bounded at a large bandwidth-delay
//! product.

use super::end::{CONGESTION, Contestant, EndResult, MemorySample, Until};
use super::process::Transfer;
use super::{BenchError, Progress, judged, median, verdict, within};
use core::time::Duration;
use serde::Serialize;
use std::ffi::OsStr;
use tributary_emu::{Network, Side, VethNetwork};
use tributary_lab::SessionSettings;
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_report::{Cell, Column, Table};
use tributary_types::Bitrate;

/// Paths of the session.
const PATHS: usize = 2;
/// A small window, so that a transfer has many of them.
const SMALL_WINDOW: usize = 64 << 10;
/// Largest growth from the second tenth of a transfer to the last: receive blocks that the subflows keep for
/// reuse after a burst, 8 MiB together.
const FLAT_KB: f64 = 8192.0;
/// Most memory of a session.
const BOUND_KB: f64 = 64.0 * 1024.0;

/// Settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Windows of 64 KiB in the long transfer.
    pub windows: u32,
    /// Duration at 2 Gbit/s · 50 ms: the transfer has the bytes that the links carry in this time.
    pub seconds: f64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { windows: 300_000, seconds: 15.0 }
    }
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
    /// Whether memory did not grow.
    pub holds: bool,
    /// All samples.
    pub samples: Vec<MemorySample>,
}

/// One end at the large bandwidth-delay product.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// `source` or `sink`.
    pub end: &'static str,
    /// Goodput, Mbit/s.
    pub goodput_mbps: f64,
    /// Resident memory before the session, kB.
    pub before_kb: u64,
    /// Peak resident memory, kB.
    pub peak_kb: u64,
    /// Whether the difference is within 64 MiB.
    pub holds: bool,
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
    /// The emulator's audit of that network.
    pub audit: tributary_emu::Audit,
}

/// Measures both.
///
/// # Errors
/// [`BenchError`].
pub fn run(plan: &Plan, progress: Progress<'_>) -> Result<Report, BenchError> {
    within("windows", f64::from(plan.windows), 1000.0..=10_000_000.0)?;
    within("seconds", plan.seconds, 1.0..=600.0)?;
    progress(&format!("{} windows of 64 KiB", plan.windows));
    let flatness = long_transfer(plan.windows)?;
    progress("2 Gbit/s, 50 ms");
    let (bounds, audit) = large_product(plan.seconds)?;
    Ok(Report { windows: plan.windows, window: SMALL_WINDOW, flatness, bounds, audit })
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
    let (early_kb, late_kb) = (middle(early, rss), middle(late, rss));
    Flatness {
        end,
        early_kb,
        late_kb,
        early_held_kb: middle(early, held),
        late_held_kb: middle(late, held),
        holds: late_kb <= early_kb + FLAT_KB,
        samples,
    }
}

/// Rate of both radios of the large product together, bit/s.
const RATE: u64 = 2_000_000_000;

/// Two radios of 1 Gbit/s each with 50 ms of RTT and 25 ms of queue.
fn large_product(seconds: f64) -> Result<(Vec<Bound>, tributary_emu::Audit), BenchError> {
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
    let (source, sink) = transfer.run()?;
    let goodput_mbps = sink.bytes as f64 * 8e-6 / sink.seconds;
    let bound = |end, result: &EndResult| Bound {
        end,
        goodput_mbps,
        before_kb: result.rss_before_kb,
        peak_kb: result.rss_peak_kb,
        holds: result.rss_peak_kb.saturating_sub(result.rss_before_kb) as f64 <= BOUND_KB,
    };
    Ok((vec![bound("source", &source), bound("sink", &sink)], network.audit()?))
}

impl Report {
    /// The tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let megabytes = |kb: f64| Cell::number(kb / 1024.0, 1);
        let title = format!("{} windows of 64 KiB, TLS, two veth paths", self.windows);
        let mut flat = Table::new(&title).columns([
            Column::left("end"),
            Column::right("RSS at 10–20 %").unit("MiB"),
            Column::right("at 90–100 %").unit("MiB"),
            Column::right("held at 10–20 %").unit("MiB"),
            Column::right("at 90–100 %").unit("MiB"),
            Column::left("flat"),
        ]);
        for f in &self.flatness {
            flat.push([
                Cell::text(f.end),
                megabytes(f.early_kb),
                megabytes(f.late_kb),
                megabytes(f.early_held_kb),
                megabytes(f.late_held_kb),
                verdict(f.holds),
            ]);
        }
        let mut bounds = Table::new("2 × 1 Gbit/s, 50 ms, default settings, TLS; wanted ≤ 64 MiB").columns([
            Column::left("end"),
            Column::right("goodput").unit("Mbit/s"),
            Column::right("RSS before").unit("MiB"),
            Column::right("peak").unit("MiB"),
            Column::right("of the session").unit("MiB"),
            Column::left(""),
        ]);
        for b in &self.bounds {
            bounds.push([
                Cell::text(b.end),
                Cell::number(b.goodput_mbps, 0),
                megabytes(b.before_kb as f64),
                megabytes(b.peak_kb as f64),
                judged(b.peak_kb.saturating_sub(b.before_kb) as f64 / 1024.0, 1, b.holds),
                verdict(b.holds),
            ]);
        }
        vec![flat, bounds]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_found_and_noise_is_not() {
        let end = |grows: u64| EndResult {
            samples: (0..100)
                .map(|i| MemorySample { bytes: i, rss_kb: 20_000 + i * grows + i % 7 * 300, held: 1 << 20 })
                .collect(),
            ..EndResult::default()
        };
        assert!(flat("sink", end(0)).holds);
        let leaking = flat("sink", end(150));
        assert!(!leaking.holds && leaking.late_kb > leaking.early_kb);
        assert_eq!(leaking.early_held_kb, 1024.0);
    }
}
