//! The emulator's own benchmarks ([`tributary_emu::bench`]) as one report: accuracy, highest rate, loss
//! equivalence, and rattan in the same run.

use super::{BenchError, Expectation, Judged, Progress, Tables, Verdict, median};
use clap::Args;
use core::time::Duration;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tributary_cli::quantity;
use tributary_emu::bench::{self, Accuracy, AccuracyPlan, Load, LossEquivalence, PeerComparison};
use tributary_report::{Column, Table, TableCell};
use tributary_types::Bitrate;

/// Error of the rate, per cent.
const RATE_AIM: Expectation = Expectation::Between(-2.0, 2.0);
/// 99th percentile of the error of added delay, ms.
const DELAY_AIM: Expectation = Expectation::AtMost(0.5);
/// Our shaped TCP throughput over the peer's.
const PEER_AIM: Expectation = Expectation::AtLeast(4.0);
/// Configured rate of both emulators: above the peer's maximum.
const PEER_RATE: Bitrate = Bitrate::from_mbps(4_000);

/// The emulator: accuracy, ceiling, loss equivalence, and rattan 0.1.1 in the same run.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Directory of rattan; cargo installs it there if it is missing (minutes); without this option there is no peer
    #[arg(long)]
    pub rattan: Option<PathBuf>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5,
          value_parser = quantity::long_seconds_in(1..=600))]
    pub seconds: u64,
    /// Seeds of the loss equivalence
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub seeds: u64,
    /// Rounds of accuracy, and of the comparison with rattan
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
}

/// A rate under one load, round by round.
#[derive(Clone, Debug, Serialize)]
pub struct Exactness {
    pub rounds: Vec<Accuracy>,
    /// Error of the rate, per cent; `None` without TCP.
    pub rate_error: Option<Judged>,
    /// 99th percentile of the error of added delay, ms.
    pub delay_error: Judged,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rate and delay, up to 1 Gbit/s.
    pub accuracy: Vec<Exactness>,
    /// Higher rates, up to the first that is missed.
    pub ceiling: Vec<Accuracy>,
    /// Super-frames compared with packets under loss.
    pub loss: LossEquivalence,
    /// The peer, if it was installed.
    pub peer: Option<PeerComparison>,
}

/// Measures everything; `rattan` is the result of [`tributary_emu::bench::install_rattan`] before isolation.
pub fn run(settings: &Settings, rattan: Option<&Path>, progress: Progress<'_>) -> Result<Report, BenchError> {
    let time = Duration::from_secs(settings.seconds);
    let once = AccuracyPlan { time, ..AccuracyPlan::default() };
    let mut accuracy: Vec<Vec<Accuracy>> = Vec::new();
    for round in 1..=settings.rounds {
        progress(&format!("accuracy, round {round} of {}", settings.rounds));
        let rows = bench::accuracy(&once, &mut *progress)?;
        accuracy.resize(rows.len(), Vec::new());
        accuracy.iter_mut().zip(rows).for_each(|(rounds, row)| rounds.push(row));
    }
    let accuracy = accuracy.into_iter().map(Exactness::new).collect();
    let ceiling = bench::ceiling(time, &mut *progress)?;
    let loss = bench::loss_equivalence(settings.seeds, Duration::from_secs(2), &mut *progress)?;
    let compare = |program| {
        bench::compare_with_rattan(program, PEER_RATE, (settings.rounds as usize, time), &mut *progress)
    };
    Ok(Report { accuracy, ceiling, loss, peer: rattan.map(compare).transpose()? })
}

impl Exactness {
    fn new(rounds: Vec<Accuracy>) -> Self {
        let rates: Vec<f64> = rounds.iter().filter_map(|round| Some(round.rate_error? * 100.0)).collect();
        let delays: Vec<f64> = rounds.iter().map(|round| round.delay_error.p99_us / 1e3).collect();
        let rate_error = (!rates.is_empty()).then(|| Judged::median(&rates, RATE_AIM));
        Self { rate_error, delay_error: Judged::median(&delays, DELAY_AIM), rounds }
    }

    /// The verdict on both, and whether every audit is valid.
    fn cells(&self) -> [TableCell; 2] {
        let verdict = Verdict::all(self.rate_error.iter().chain([&self.delay_error]).map(|of| of.verdict));
        [audit(&self.rounds), verdict.cell()]
    }
}

fn audit(rounds: &[Accuracy]) -> TableCell {
    match rounds.iter().all(|round| round.verdict == tributary_emu::Verdict::Valid) {
        true => TableCell::text("valid"),
        false => TableCell::text("invalid").bad(),
    }
}

fn accuracy_table(rows: &[Exactness]) -> Table {
    let title = format!(
        "Accuracy; medians of the rounds; wanted: error of the rate {RATE_AIM} %, of the delay at p99 {DELAY_AIM} ms"
    );
    let interval = || Column::right("95 % interval");
    let mut table = Table::new(&title).columns([
        Column::right("rate").unit("Mbit/s"),
        Column::left("load"),
        Column::right("rate error").unit("%"),
        interval(),
        Column::right("delay error, p99").unit("ms"),
        interval(),
        Column::left("audit"),
        Column::left("verdict"),
    ]);
    for row in rows {
        let value = |of: &Judged, decimals| of.cells(decimals).into_iter().take(2);
        let mut cells = row.rounds.first().map_or_else(Vec::new, |first| {
            let load = if first.load == Load::Tcp { "TCP" } else { "idle" };
            vec![TableCell::number(first.rate_mbps, 0), TableCell::text(load)]
        });
        match &row.rate_error {
            Some(error) => cells.extend(value(error, 2)),
            None => cells.extend([TableCell::optional(None), TableCell::optional(None)]),
        }
        table.push(cells.into_iter().chain(value(&row.delay_error, 3)).chain(row.cells()));
    }
    table
}

/// The search for the highest rate: one measurement of each, without a verdict.
fn ceiling_table(rows: &[Accuracy]) -> Table {
    Table::of("Ceiling: TCP until a rate is missed", rows)
        .number(("rate", "Mbit/s"), 0, |row| row.rate_mbps)
        .number(("goodput", "Mbit/s"), 0, |row| row.goodput_mbps)
        .number(("rate error", "%"), 2, |row| row.rate_error.map(|error| error * 100.0))
        .number(("delay error, p99", "ms"), 3, |row| row.delay_error.p99_us / 1e3)
        .number(("CPU", "%"), 0, |row| row.cpu_share * 100.0)
        .text("audit", |row| audit(core::slice::from_ref(row)))
        .table()
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let mut tables =
            vec![accuracy_table(&self.accuracy), ceiling_table(&self.ceiling), self.loss_table()];
        tables.extend(self.peer.as_ref().map(peer_table));
        tables
    }
}

impl Report {
    fn loss_table(&self) -> Table {
        let title = format!(
            "Goodput under {} % loss on {:.0} Mbit/s, {} seeds",
            self.loss.loss * 100.0,
            self.loss.rate_mbps,
            self.loss.seeds
        );
        Table::of(&title, [&self.loss])
            .number(("super-frames", "Mbit/s"), 1, |loss| loss.super_frames_mbps)
            .number(("single packets", "Mbit/s"), 1, |loss| loss.packets_mbps)
            .number("ratio", 3, |loss| loss.ratio)
            .number("standard error", 3, |loss| loss.standard_error)
            .table()
    }
}

fn peer_table(peer: &PeerComparison) -> Table {
    let title =
        format!("Shaped TCP at {:.0} Mbit/s, {:.0} ms; medians of the rounds", peer.rate_mbps, peer.rtt_ms);
    let ratio = Judged::ratio(&peer.ours_mbps, &peer.peer_mbps, PEER_AIM);
    Table::of(&title, [peer])
        .number((&*peer.peer, "Mbit/s"), 0, |peer| median(&peer.peer_mbps))
        .number(("tributary", "Mbit/s"), 0, |peer| median(&peer.ours_mbps))
        .number("to its best round", 1, |peer| peer.ratio_to_best)
        .text("audit", |peer| if peer.ours_valid { "valid" } else { "invalid" })
        .judged("ratio", |_| ratio.cells(1))
        .table()
}
