//! `tributary-lab bench simulator speed`: data packets per second of one core's time, in our simulator and in
//! ns-3.
//!
//! Both run as processes on the same core, alternately. Results are medians of processor time, so that other
//! load of the machine has little effect. Memory is the process's peak.

use super::super::{BenchError, Progress, judged, median, paired_ratio, verdict, within};
use super::driver::{answer, pinned};
use super::{Bottleneck, Driver, Measured};
use core::time::Duration;
use serde::Serialize;
use std::path::PathBuf;
use tributary_lab::process::own_program;
use tributary_report::{Cell, Column, Table};

/// Aim with one flow at 1 Gbit/s: this many times ns-3's packets per second.
pub const RATIO_AIM: f64 = 20.0;
/// Aim with one flow at 1 Gbit/s: data packets per second.
pub const PACKETS_AIM: f64 = 1e6;
/// Aim: the most expensive packet costs at most this many times the cheapest.
pub const FLATNESS: f64 = 2.0;
/// Rate at which [`RATIO_AIM`] and [`PACKETS_AIM`] apply.
const AIM_RATE: u64 = 1_000_000_000;
const CONGESTION: &str = "cubic";
const ROUND_TRIP: Duration = Duration::from_millis(10);

/// Settings of the benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Number of rounds, with a turn of both in every cell.
    pub rounds: u32,
    /// The core.
    pub core: usize,
    /// Timeout of ns-3 in one cell.
    pub patience: Duration,
    /// Folder of the driver.
    pub driver: PathBuf,
}

impl Default for Plan {
    fn default() -> Self {
        let patience = Duration::from_secs(300);
        Self { rounds: 3, core: 0, patience, driver: super::default_driver() }
    }
}

/// One cell in both simulators.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The cell.
    pub cell: Bottleneck,
    /// Our results, every round.
    pub ours: Vec<Measured>,
    /// ns-3's results, of rounds in which it had one.
    pub peers: Vec<Measured>,
    /// Our data packets per second of processor time, median.
    pub ours_per_second: f64,
    /// The same of ns-3.
    pub peer_per_second: f64,
    /// Median of the rounds' ratios; ratio of the medians if ns-3 failed in a round.
    pub ratio: f64,
    /// Our nanoseconds of processor time per data packet, median.
    pub packet_ns: f64,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// One flow, four rates.
    pub rates: Vec<Row>,
    /// 1 Gbit/s, 1 to 1000 flows.
    pub flows: Vec<Row>,
    /// Most expensive packet over cheapest, over rates.
    pub flatness_over_rates: f64,
    /// Most expensive packet over cheapest, over flows.
    pub flatness_over_flows: f64,
    /// Bytes of memory per flow in our simulator, between one flow and a thousand.
    pub bytes_per_flow: f64,
    /// The same of ns-3; NaN if it had no result.
    pub peer_bytes_per_flow: f64,
}

/// Runs every cell in both simulators alternately.
///
/// # Errors
/// [`BenchError`].
pub fn run(plan: &Plan, progress: Progress<'_>) -> Result<Report, BenchError> {
    within("rounds", f64::from(plan.rounds), 1.0..=99.0)?;
    progress("building the ns-3 driver");
    let driver = Driver::build(&plan.driver)?;
    let mut measure = |cells: Vec<Bottleneck>| -> Result<Vec<Row>, BenchError> {
        let mut runs: Vec<(Vec<Measured>, Vec<Measured>)> = vec![Default::default(); cells.len()];
        for round in 1..=plan.rounds {
            for (cell, (ours, peers)) in cells.iter().zip(&mut runs) {
                progress(&format!("round {round} of {}: {}", plan.rounds, label(cell)));
                ours.push(run_own(plan, cell)?);
                // A cell that ns-3 fails has no peer; the table says so.
                peers.extend(driver.run_on(plan.core, cell, plan.patience).ok());
            }
        }
        Ok(cells.into_iter().zip(runs).map(|(cell, (ours, peers))| row(cell, ours, peers)).collect())
    };
    let rates = measure(rate_cells())?;
    let flows = measure(flow_cells())?;
    Ok(report(rates, flows))
}

/// Runs this program as a process: `tributary-lab bench simulator cell`.
fn run_own(plan: &Plan, cell: &Bottleneck) -> Result<Measured, BenchError> {
    let cell = serde_json::to_string(cell).expect("cells have string keys only");
    let mut command = pinned(plan.core, &own_program()?);
    command.args(["bench", "simulator", "cell", &cell]);
    Ok(answer(command, plan.patience)?)
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
            paired_ratio(&our_rates, &peer_rates)
        } else {
            ours_per_second / peer_per_second
        },
        packet_ns: 1e9 / ours_per_second,
        cell,
        ours,
        peers,
    }
}

fn report(rates: Vec<Row>, flows: Vec<Row>) -> Report {
    let per_flow = |held: fn(&Row) -> &Vec<Measured>| {
        let peak = |row: &Row| {
            median(&held(row).iter().map(|run| run.peak_rss_kb as f64 * 1024.0).collect::<Vec<f64>>())
        };
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

/// Most expensive packet over cheapest.
fn flatness(rows: &[Row]) -> f64 {
    let dearest = rows.iter().map(|row| row.packet_ns).fold(0.0, f64::max);
    dearest / rows.iter().map(|row| row.packet_ns).fold(f64::INFINITY, f64::min)
}

impl Report {
    /// The tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let rates = table("One flow, CUBIC, 10 ms, queue of 1 BDP, one core", &self.rates);
        vec![rates, table("1 Gbit/s, 1 to 1000 flows", &self.flows), self.aims()]
    }

    fn aims(&self) -> Table {
        let mut table = Table::new("Aims").columns([
            Column::left("aim"),
            Column::right("measured"),
            Column::right("wanted"),
            Column::left(""),
        ]);
        let mut push = |what: &str, (value, decimals): (f64, usize), wanted: String, good: bool| {
            table.push([Cell::text(what), judged(value, decimals, good), Cell::text(&wanted), verdict(good)]);
        };
        if let Some(row) = self.rates.iter().find(|row| row.cell.rate_bps == AIM_RATE) {
            push(
                "ns-3's packets, 1 Gbit/s",
                (row.ratio, 1),
                format!("at least {RATIO_AIM} times"),
                row.ratio >= RATIO_AIM,
            );
            let aim = format!("aim {:.1} M/s", PACKETS_AIM / 1e6);
            push(
                "data packets, 1 Gbit/s, M/s",
                (row.ours_per_second / 1e6, 2),
                aim,
                row.ours_per_second >= PACKETS_AIM,
            );
        }
        let flat = format!("flat: at most {FLATNESS}");
        for (what, value) in [
            ("dearest packet by cheapest, 10 Mbit/s to 10 Gbit/s", self.flatness_over_rates),
            ("dearest packet by cheapest, 1 to 1000 flows", self.flatness_over_flows),
        ] {
            push(what, (value, 2), flat.clone(), value <= FLATNESS);
        }
        table.push([
            Cell::text("memory per flow, kB"),
            Cell::number(self.bytes_per_flow / 1e3, 1),
            Cell::text("stated"),
        ]);
        table.push([
            Cell::text("memory per flow in ns-3, kB"),
            Cell::number(self.peer_bytes_per_flow / 1e3, 1),
            Cell::text("stated"),
        ]);
        table
    }
}

fn table(title: &str, rows: &[Row]) -> Table {
    let mut table = Table::new(title).columns([
        Column::right("rate").unit("Mbit/s"),
        Column::right("flows"),
        Column::right("simulated").unit("s"),
        Column::right("data packets").unit("1000"),
        Column::right("here").unit("1000/s"),
        Column::right("ns-3").unit("1000/s"),
        Column::right("ratio"),
        Column::right("a packet here").unit("ns"),
        Column::right("memory here").unit("MB"),
        Column::right("ns-3").unit("MB"),
    ]);
    for row in rows {
        let megabytes = |runs: &[Measured]| {
            median(&runs.iter().map(|run| run.peak_rss_kb as f64 / 1e3).collect::<Vec<f64>>())
        };
        let packets: Vec<f64> = row.ours.iter().map(|run| run.data_packets as f64 / 1e3).collect();
        table.push([
            Cell::number(row.cell.rate_bps as f64 / 1e6, 0),
            Cell::number(f64::from(row.cell.flows), 0),
            Cell::number(row.cell.duration.as_secs_f64(), 1),
            Cell::number(median(&packets), 0),
            Cell::number(row.ours_per_second / 1e3, 0),
            Cell::number(row.peer_per_second / 1e3, 1),
            Cell::number(row.ratio, 1),
            Cell::number(row.packet_ns, 0),
            Cell::number(megabytes(&row.ours), 1),
            Cell::number(megabytes(&row.peers), 1),
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
