//! `tributary-lab bench simulator ns3`: goodput and completion times in both simulators on the same bottlenecks.

mod grid;
mod tables;

use super::super::{BenchError, Progress};
use super::{Bottleneck, Driver, Measured, Traffic, own};
use core::time::Duration;
use grid::Probe;
use serde::Serialize;
use std::path::PathBuf;

/// Two results agree if they differ by at most this share.
pub const BAND: f64 = 0.05;

/// Settings of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Whether to run every rate with every round trip and queue instead of a selection.
    pub full: bool,
    /// Congestion controls, by the simulator's names.
    pub congestions: Vec<String>,
    /// Seeds of each cell with losses.
    pub seeds: u64,
    /// Timeout of ns-3 in one cell.
    pub patience: Duration,
    /// Folder of the driver.
    pub driver: PathBuf,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            full: false,
            congestions: ["reno", "cubic", "bbr"].map(str::to_owned).to_vec(),
            seeds: 5,
            patience: Duration::from_secs(120),
            driver: super::default_driver(),
        }
    }
}

/// The quantity that a row compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Goodput of a long transfer without random loss.
    Goodput,
    /// Goodput of a long transfer with random loss, mean over seeds.
    GoodputUnderLoss,
    /// Time of a short transfer.
    Completion,
}

/// One cell in both simulators.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is compared.
    pub subject: Subject,
    /// The cell; with several seeds, the first.
    pub cell: Bottleneck,
    /// Queue in bandwidth-delay products.
    pub buffer_bdp: f64,
    /// Our result: Mbit/s, or seconds for a transfer.
    pub ours: f64,
    /// The result of ns-3; `None` if it crashed or took too long.
    pub peer: Option<f64>,
    /// `ours` / `peer`.
    pub ratio: Option<f64>,
    /// The ratio of goodputs without the first third of the run.
    pub settled_ratio: Option<f64>,
    /// Why ns-3 has no result.
    pub failure: Option<String>,
}

impl Row {
    /// Whether both agree; `None` if ns-3 has no result.
    #[must_use]
    pub fn agrees(&self) -> Option<bool> {
        self.ratio.map(within_band)
    }
}

/// Whether a ratio is within the band.
#[must_use]
pub fn within_band(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= BAND
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Every cell.
    pub rows: Vec<Row>,
    /// The band.
    pub band: f64,
}

/// Runs every cell in both simulators, one after the other.
///
/// # Errors
/// [`BenchError`] if the driver cannot be built, or a cell cannot be run in our simulator. A cell that ns-3
/// fails is a row.
pub fn run(plan: &Plan, progress: Progress<'_>) -> Result<Report, BenchError> {
    progress("building the ns-3 driver");
    let driver = Driver::build(&plan.driver)?;
    let probes = grid::probes(plan);
    let mut rows = Vec::new();
    for (index, probe) in probes.iter().enumerate() {
        progress(&format!("{} of {}: {}", index + 1, probes.len(), probe.label()));
        rows.push(compare(probe, &driver, plan.patience)?);
    }
    Ok(Report { rows, band: BAND })
}

/// One row: means over the seeds of a cell.
fn compare(probe: &Probe, driver: &Driver, patience: Duration) -> Result<Row, BenchError> {
    let mut ours = Vec::new();
    let mut peers = Vec::new();
    let mut failure = None;
    for seed in 1..=probe.seeds {
        let cell = Bottleneck { seed, ..probe.cell.clone() };
        ours.push(own::run(&cell)?);
        match driver.run(&cell, patience) {
            Ok(measured) => peers.push(measured),
            Err(error) => failure = Some(error.to_string()),
        }
    }
    Ok(row(probe, &ours, &peers, failure))
}

fn row(probe: &Probe, ours: &[Measured], peers: &[Measured], failure: Option<String>) -> Row {
    let value = |runs: &[Measured]| mean(runs.iter().map(|run| figure(&probe.cell, run)));
    let settled = |runs: &[Measured]| mean(runs.iter().map(Measured::settled_bps));
    let our = value(ours).unwrap_or(f64::NAN);
    let peer = value(peers);
    let settled_ratio = match probe.cell.traffic {
        Traffic::Endless => settled(ours).zip(settled(peers)).map(|(our, peer)| our / peer),
        Traffic::Transfer(_) => None,
    };
    Row {
        subject: probe.subject,
        cell: probe.cell.clone(),
        buffer_bdp: probe.buffer_bdp,
        ours: our,
        peer,
        ratio: peer.map(|peer| our / peer),
        settled_ratio,
        failure,
    }
}

/// The quantity compared: Mbit/s, or seconds.
fn figure(cell: &Bottleneck, run: &Measured) -> f64 {
    match cell.traffic {
        Traffic::Endless => run.goodput_bps / 1e6,
        Traffic::Transfer(_) => run.completed.unwrap_or(f64::NAN),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests;
