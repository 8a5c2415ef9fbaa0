//! The emulator's own benchmarks ([`tributary_emu::bench`]) as one report: accuracy, highest rate, loss
//! equivalence, and rattan in the same run.

use super::{BenchError, Judgement, Progress, median, paired_interval, verdict};
use core::time::Duration;
use serde::Serialize;
use std::path::Path;
use tributary_emu::Verdict;
use tributary_emu::bench::{self, Accuracy, AccuracyPlan, Load, LossEquivalence, PeerComparison};
use tributary_report::{Cell, Column, Table};
use tributary_types::Bitrate;

/// Largest allowed relative error of the rate.
const RATE_AIM: f64 = 0.02;
/// Largest allowed 99th percentile of the error of added delay, microseconds.
const DELAY_AIM_US: f64 = 500.0;
/// Least ratio of our shaped TCP throughput to the peer's.
const PEER_AIM: f64 = 4.0;
/// Configured rate of both emulators: above the peer's maximum.
const PEER_RATE: Bitrate = Bitrate::from_mbps(4_000);

/// Settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Time of each measurement.
    pub time: Duration,
    /// Seeds of the loss equivalence.
    pub seeds: u64,
    /// Rounds of the comparison with the peer.
    pub rounds: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self { time: Duration::from_secs(5), seeds: 15, rounds: 5 }
    }
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rate and delay, up to 1 Gbit/s.
    pub accuracy: Vec<Accuracy>,
    /// Higher rates, up to the first that is missed.
    pub ceiling: Vec<Accuracy>,
    /// Super-frames compared with packets under loss.
    pub loss: LossEquivalence,
    /// The peer, if it was installed.
    pub peer: Option<PeerComparison>,
}

/// Measures everything; `rattan` is the result of [`tributary_emu::bench::install_rattan`] before isolation.
///
/// # Errors
/// [`BenchError`].
pub fn run(plan: &Plan, rattan: Option<&Path>, progress: Progress<'_>) -> Result<Report, BenchError> {
    let accuracy = AccuracyPlan { time: plan.time, ..AccuracyPlan::default() };
    let accuracy = bench::accuracy(&accuracy, &mut *progress)?;
    let ceiling = bench::ceiling(plan.time, &mut *progress)?;
    let loss = bench::loss_equivalence(plan.seeds, Duration::from_secs(2), &mut *progress)?;
    let compare =
        |program| bench::compare_with_rattan(program, PEER_RATE, (plan.rounds, plan.time), &mut *progress);
    Ok(Report { accuracy, ceiling, loss, peer: rattan.map(compare).transpose()? })
}

/// Whether a row is accurate enough.
fn is_exact(row: &Accuracy) -> bool {
    row.verdict == Verdict::Valid
        && row.rate_error.is_none_or(|error| error.abs() <= RATE_AIM)
        && row.delay_error.p99_us <= DELAY_AIM_US
}

fn rates(title: &str, rows: &[Accuracy]) -> Table {
    let mut table = Table::new(title).columns([
        Column::right("rate").unit("Mbit/s"),
        Column::left("load"),
        Column::right("goodput").unit("Mbit/s"),
        Column::right("rate error").unit("%"),
        Column::right("delay error p50").unit("ms"),
        Column::right("p99").unit("ms"),
        Column::right("CPU").unit("%"),
        Column::left("audit"),
        Column::left(""),
    ]);
    for row in rows {
        table.push([
            Cell::number(row.rate_mbps, 0),
            Cell::text(if row.load == Load::Tcp { "TCP" } else { "idle" }),
            Cell::optional_number(row.goodput_mbps, 0),
            Cell::optional_number(row.rate_error.map(|error| error * 100.0), 2),
            Cell::number(row.delay_error.p50_us / 1e3, 3),
            Cell::number(row.delay_error.p99_us / 1e3, 3),
            Cell::number(row.cpu_share * 100.0, 0),
            Cell::text(if row.verdict == Verdict::Valid { "valid" } else { "invalid" }),
            verdict(is_exact(row)),
        ]);
    }
    table
}

impl Report {
    /// The tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![
            rates("Accuracy; wanted ± 2 % and ± 0.5 ms at p99", &self.accuracy),
            rates("Ceiling: TCP until a rate is missed", &self.ceiling),
            self.loss_table(),
        ];
        tables.extend(self.peer.as_ref().map(peer_table));
        tables
    }

    fn loss_table(&self) -> Table {
        let title = format!(
            "Goodput under {} % loss on {:.0} Mbit/s, {} seeds",
            self.loss.loss * 100.0,
            self.loss.rate_mbps,
            self.loss.seeds
        );
        let mut table = Table::new(&title).columns([
            Column::right("super-frames").unit("Mbit/s"),
            Column::right("single packets").unit("Mbit/s"),
            Column::right("ratio"),
            Column::right("standard error"),
        ]);
        table.push([
            Cell::number(self.loss.super_frames_mbps, 1),
            Cell::number(self.loss.packets_mbps, 1),
            Cell::number(self.loss.ratio, 3),
            Cell::number(self.loss.standard_error, 3),
        ]);
        table
    }
}

fn peer_table(peer: &PeerComparison) -> Table {
    let title =
        format!("Shaped TCP at {:.0} Mbit/s, {:.0} ms; medians of the rounds", peer.rate_mbps, peer.rtt_ms);
    let mut table = Table::new(&title).columns([
        Column::right(&peer.peer).unit("Mbit/s"),
        Column::right("tributary").unit("Mbit/s"),
        Column::right("ratio"),
        Column::right("95 % interval"),
        Column::right("wanted"),
        Column::right("to its best round"),
        Column::left("audit"),
        Column::left(""),
    ]);
    let interval = paired_interval(&peer.ours_mbps, &peer.peer_mbps);
    table.push([
        Cell::number(median(&peer.peer_mbps), 0),
        Cell::number(median(&peer.ours_mbps), 0),
        Cell::number(peer.ratio, 1).strong(),
        Cell::optional(interval.map(|interval| interval.to_string())),
        Cell::text(&format!("≥ {PEER_AIM}")),
        Cell::number(peer.ratio_to_best, 1),
        Cell::text(if peer.ours_valid { "valid" } else { "invalid" }),
        Judgement::at_least(PEER_AIM, interval).cell(),
    ]);
    table
}
