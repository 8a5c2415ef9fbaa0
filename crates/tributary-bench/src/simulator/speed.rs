//! `tributary-lab bench simulator`: data packets per second of one core's time, in our simulator and in
//! ns-3.
//!
//! Both run as processes on the same core, alternately. Results are medians of processor time, so that other
//! load of the machine has little effect. Memory is the process's peak.

use super::super::{BenchError, Expectation, Judged, Progress, Tables, median, middle};
use super::driver::pinned;
use super::{Bottleneck, Driver, Measured};
use clap::Args;
use core::time::Duration;
use serde::Serialize;
use std::path::PathBuf;
use tributary_cli::quantity;
use tributary_lab::process::{Process, own_program};
use tributary_report::{Column, Table, TableCell};

/// With one flow at 1 Gbit/s: packets per second over ns-3's.
const RATIO_AIM: Expectation = Expectation::AtLeast(20.0);
/// With one flow at 1 Gbit/s: millions of data packets per second.
const PACKETS_AIM: Expectation = Expectation::AtLeast(1.0);
/// The most expensive packet over the cheapest.
const FLATNESS: Expectation = Expectation::AtMost(2.0);
/// Rate at which [`RATIO_AIM`] and [`PACKETS_AIM`] apply.
const AIM_RATE: u64 = 1_000_000_000;
const CONGESTION: &str = "cubic";
const ROUND_TRIP: Duration = Duration::from_millis(10);

/// Simulated data packets per second of one core's time, and memory per flow.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each simulator runs once per round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// The core that both run on
    #[arg(long, default_value_t = 0)]
    pub core: usize,
    /// Stop ns-3 after so many seconds in a cell
    #[arg(long, default_value_t = 300, value_parser = quantity::long_seconds_in(1..=86_400))]
    pub patience: u64,
    /// Folder of the ns-3 driver
    #[arg(long, default_value = super::DRIVER)]
    pub driver: PathBuf,
}

/// One cell in both simulators.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub cell: Bottleneck,
    /// Our results, every round.
    pub ours: Vec<Measured>,
    /// ns-3's results, of rounds in which it had one.
    pub peers: Vec<Measured>,
    /// Our data packets per second of processor time, median.
    pub ours_per_second: f64,
    /// The same of ns-3.
    pub peer_per_second: f64,
    /// Ours over ns-3's. If ns-3 failed in a round: the ratio of the medians, without an interval.
    pub ratio: Judged,
    /// Our nanoseconds of processor time per data packet, median.
    pub packet_ns: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One flow, four rates.
    pub rates: Vec<Row>,
    /// 1 Gbit/s, 1 to 1000 flows.
    pub flows: Vec<Row>,
    /// Most expensive packet over cheapest, over rates.
    pub flatness_over_rates: Judged,
    /// Most expensive packet over cheapest, over flows.
    pub flatness_over_flows: Judged,
    /// Bytes of memory per flow in our simulator, between one flow and a thousand.
    pub bytes_per_flow: f64,
    /// The same of ns-3; NaN if it had no result.
    pub peer_bytes_per_flow: f64,
}

/// Runs every cell in both simulators alternately.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    progress("building the ns-3 driver");
    let driver = Driver::build(&settings.driver)?;
    let mut measure = |cells: Vec<Bottleneck>| -> Result<Vec<Row>, BenchError> {
        let mut runs: Vec<(Vec<Measured>, Vec<Measured>)> = vec![Default::default(); cells.len()];
        for round in 1..=settings.rounds {
            for (cell, (ours, peers)) in cells.iter().zip(&mut runs) {
                progress(&format!("round {round} of {}: {}", settings.rounds, label(cell)));
                ours.push(run_own(settings, cell)?);
                // A cell that ns-3 fails has no peer; the table says so.
                peers.extend(driver.run_on(settings.core, cell, Duration::from_secs(settings.patience)).ok());
            }
        }
        Ok(cells.into_iter().zip(runs).map(|(cell, (ours, peers))| row(cell, ours, peers)).collect())
    };
    let rates = measure(rate_cells())?;
    let flows = measure(flow_cells())?;
    Ok(report(rates, flows))
}

/// Runs a cell in a process of its own.
fn run_own(settings: &Settings, cell: &Bottleneck) -> Result<Measured, BenchError> {
    let command = pinned(settings.core, &own_program()?);
    let process = Process::endpoint("simulator", command, "bottleneck", cell)?;
    Ok(process.reply(Duration::from_secs(settings.patience))?)
}

/// Ten Mbit/s to ten Gbit/s, with about 50 000 to 400 000 packets each.
fn rate_cells() -> Vec<Bottleneck> {
    let times = [(10_000_000, 60_000), (100_000_000, 10_000), (AIM_RATE, 2_000), (10_000_000_000, 500)];
    times.into_iter().map(|(rate, millis)| cell(rate, 1, millis)).collect()
}

fn flow_cells() -> Vec<Bottleneck> {
    [1, 10, 100, 1000].into_iter().map(|flows| cell(AIM_RATE, flows, 2_000)).collect()
}

fn cell(rate: u64, flows: u32, millis: u64) -> Bottleneck {
    let cell = Bottleneck::new(rate, ROUND_TRIP, 1.0, CONGESTION);
    Bottleneck { flows, duration: Duration::from_millis(millis), ..cell }
}

fn label(cell: &Bottleneck) -> String {
    format!("{} Mbit/s, {} flows", cell.rate_bps / 1_000_000, cell.flows)
}

fn row(cell: Bottleneck, ours: Vec<Measured>, peers: Vec<Measured>) -> Row {
    let rates = |runs: &[Measured]| runs.iter().map(Measured::packets_per_second).collect::<Vec<f64>>();
    let (our_rates, peer_rates) = (rates(&ours), rates(&peers));
    let (ours_per_second, peer_per_second) = (median(&our_rates), median(&peer_rates));
    // Rounds are paired only if none is missing.
    let complete = peers.len() == ours.len();
    Row {
        ours_per_second,
        peer_per_second,
        ratio: if complete {
            Judged::ratio(&our_rates, &peer_rates, RATIO_AIM)
        } else {
            Judged::new(ours_per_second / peer_per_second, None, RATIO_AIM)
        },
        packet_ns: 1e9 / ours_per_second,
        cell,
        ours,
        peers,
    }
}

fn report(rates: Vec<Row>, flows: Vec<Row>) -> Report {
    let per_flow = |held: fn(&Row) -> &Vec<Measured>| {
        let peak = |row: &Row| middle(held(row), |run| run.peak_rss_kb as f64 * 1024.0);
        match (flows.first(), flows.last()) {
            (Some(few), Some(many)) => {
                (peak(many) - peak(few)) / f64::from(many.cell.flows - few.cell.flows).max(1.0)
            }
            _ => f64::NAN,
        }
    };
    Report {
        flatness_over_rates: flatness(&rates),
        flatness_over_flows: flatness(&flows),
        bytes_per_flow: per_flow(|row| &row.ours),
        peer_bytes_per_flow: per_flow(|row| &row.peers),
        rates,
        flows,
    }
}

/// Most expensive packet over cheapest, in each round.
fn flatness(rows: &[Row]) -> Judged {
    let rounds = rows.iter().map(|row| row.ours.len()).min().unwrap_or(0);
    let of = |round: usize| {
        let rates: Vec<f64> = rows.iter().map(|row| row.ours[round].packets_per_second()).collect();
        rates.iter().copied().fold(0.0, f64::max) / rates.iter().copied().fold(f64::INFINITY, f64::min)
    };
    Judged::median(&(0..rounds).map(of).collect::<Vec<_>>(), FLATNESS)
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let rates = table("One flow, CUBIC, 10 ms, queue of 1 BDP, one core", &self.rates);
        vec![rates, table("1 Gbit/s, 1 to 1000 flows", &self.flows), self.aims()]
    }
}

impl Report {
    fn aims(&self) -> Table {
        let columns = [Column::left("figure")].into_iter().chain(Judged::columns("measured"));
        let mut table = Table::new("Aims").columns(columns);
        let mut push = |what: &str, judged: &Judged| {
            table.push([TableCell::text(what)].into_iter().chain(judged.cells(2)));
        };
        if let Some(row) = self.rates.iter().find(|row| row.cell.rate_bps == AIM_RATE) {
            push("packets over ns-3's, 1 Gbit/s", &row.ratio);
            let millions: Vec<f64> = row.ours.iter().map(|run| run.packets_per_second() / 1e6).collect();
            push("data packets, 1 Gbit/s, M/s", &Judged::median(&millions, PACKETS_AIM));
        }
        push("dearest packet by cheapest, 10 Mbit/s to 10 Gbit/s", &self.flatness_over_rates);
        push("dearest packet by cheapest, 1 to 1000 flows", &self.flatness_over_flows);
        for (what, bytes) in [
            ("memory per flow, kB", self.bytes_per_flow),
            ("memory per flow in ns-3, kB", self.peer_bytes_per_flow),
        ] {
            table.push([TableCell::text(what), TableCell::number(bytes / 1e3, 1)]);
        }
        table
    }
}

fn table(title: &str, rows: &[Row]) -> Table {
    let megabytes = |runs: &[Measured]| middle(runs, |run| run.peak_rss_kb as f64 / 1e3);
    Table::of(title, rows)
        .number(("rate", "Mbit/s"), 0, |row| row.cell.rate_bps as f64 / 1e6)
        .number("flows", 0, |row| f64::from(row.cell.flows))
        .number(("simulated", "s"), 1, |row| row.cell.duration.as_secs_f64())
        .number(("data packets", "1000"), 0, |row| middle(&row.ours, |run| run.data_packets as f64 / 1e3))
        .number(("here", "1000/s"), 0, |row| row.ours_per_second / 1e3)
        .number(("ns-3", "1000/s"), 1, |row| row.peer_per_second / 1e3)
        .number("ratio", 1, |row| row.ratio.value)
        .number(("a packet here", "ns"), 0, |row| row.packet_ns)
        .number(("memory here", "MB"), 1, |row| megabytes(&row.ours))
        .number(("ns-3", "MB"), 1, |row| megabytes(&row.peers))
        .table()
}

#[cfg(test)]
mod tests;
