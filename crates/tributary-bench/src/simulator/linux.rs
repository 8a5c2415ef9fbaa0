//! `tributary bench simulator linux`: goodput in the simulator and through the kernel's own stacks in the
//! emulator, on the same scenarios.
//!
//! The kernel's half takes place in wall time, so its results may be kept in a file and compared with
//! again. The simulator's half always runs.

mod figures;
mod grid;
mod measure;
mod store;
mod tables;

use super::super::{BenchError, Progress, median};
use core::time::Duration;
use grid::Probe;
pub use measure::{Sample, Window};
use serde::Serialize;
use std::path::PathBuf;
use store::Store;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// One TCP connection over a link of constant rate.
    Steady,
    /// The same with random loss.
    Loss,
    /// One TCP connection over a link whose rate changes.
    Changing,
    /// A Tributary session over two radios.
    Schedulers,
}

impl Group {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Steady, Self::Loss, Self::Changing, Self::Schedulers];

    /// Name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Loss => "loss",
            Self::Changing => "changing",
            Self::Schedulers => "schedulers",
        }
    }

    /// Two results agree within this share.
    #[must_use]
    pub fn band(self) -> f64 {
        if self == Self::Steady { 0.05 } else { 0.10 }
    }

    /// The group called `name`.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

/// What to compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The whole grid, not a telling selection.
    pub full: bool,
    /// Groups.
    pub groups: Vec<Group>,
    /// Links of constant rate have at most this rate, Mbit/s.
    pub fastest_mbps: u64,
    /// The kernel's runs of each cell with random loss, each with its seed.
    pub seeds: u64,
    /// Where the kernel's results are kept, and taken from when they are there already.
    pub kernel: Option<PathBuf>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { full: false, groups: Group::ALL.to_vec(), fastest_mbps: 500, seeds: 3, kernel: None }
    }
}

/// One cell in both worlds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What is compared.
    pub group: Group,
    /// The network in words.
    pub network: String,
    /// What carried the bytes.
    pub transport: String,
    /// Congestion control.
    pub congestion: String,
    /// Length of a run in seconds.
    pub seconds: f64,
    /// The kernel: Mbit/s from the second second on, mean over the seeds.
    pub kernel: f64,
    /// The simulator: the same.
    pub simulator: f64,
    /// The simulator's by the kernel's.
    pub ratio: f64,
    /// The same without the first third of the run.
    pub settled_ratio: f64,
    /// The kernel's runs, each by their mean: what repetition alone makes of it.
    pub spread: f64,
    /// The emulator found every run exact.
    pub valid: bool,
}

impl Row {
    /// Whether both agree.
    #[must_use]
    pub fn agrees(&self) -> bool {
        within_band(self.group, self.ratio)
    }
}

fn within_band(group: Group, ratio: f64) -> bool {
    (ratio - 1.0).abs() <= group.band()
}

/// The windows of one cell in both worlds.
#[derive(Clone, Debug, Serialize)]
pub struct Overlay {
    /// A short name for files.
    pub name: String,
    /// The cell in words.
    pub title: String,
    /// The kernel's window.
    pub kernel: Vec<Window>,
    /// The simulator's.
    pub simulator: Vec<Window>,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Every cell.
    pub rows: Vec<Row>,
    /// Windows over time of a few.
    #[serde(skip)]
    pub overlays: Vec<Overlay>,
}

/// Runs every cell in both worlds.
///
/// # Errors
/// [`BenchError`]: a run could not be made; one that the emulator found inexact is a row that says so.
pub fn run(plan: &Plan, progress: Progress<'_>) -> Result<Report, BenchError> {
    let mut store = Store::open(plan.kernel.clone())?;
    let probes = grid::probes(plan);
    let mut report = Report { rows: Vec::new(), overlays: Vec::new() };
    for (index, probe) in probes.iter().enumerate() {
        progress(&format!("{} of {}: {}", index + 1, probes.len(), probe.label()));
        let kernel = kernel(probe, &mut store)?;
        let simulator = probe.simulated_seeds().map(|seed| measure::simulator(probe, seed));
        let simulator: Vec<Sample> = simulator.collect::<Result<_, _>>()?;
        let row = row(probe, &kernel, &simulator);
        progress(&format!(
            "    kernel {:.2}, simulator {:.2}, ratio {:.3}",
            row.kernel, row.simulator, row.ratio
        ));
        report.rows.push(row);
        if let Some(name) = probe.overlay()
            && let (Some(kernel), Some(simulator)) = (kernel.first(), simulator.first())
        {
            let (kernel, simulator) = (kernel.windows.clone(), simulator.windows.clone());
            report.overlays.push(Overlay { name, title: probe.label(), kernel, simulator });
        }
    }
    Ok(report)
}

/// The kernel's runs. A steady cell that is outside its narrow band is run twice more, so that one odd
/// moment of the machine is not taken for a difference; then the middle one counts.
fn kernel(probe: &Probe, store: &mut Store) -> Result<Vec<Sample>, BenchError> {
    let mut samples = Vec::new();
    for seed in probe.kernel_seeds() {
        samples.push(store.take_or(probe, (seed, 0), || measure::kernel(probe, seed))?);
    }
    let [first] = samples.as_slice() else { return Ok(samples) };
    if probe.group != Group::Steady {
        return Ok(samples);
    }
    let ours = measure::simulator(probe, probe.scenario.seed)?.mean(RAMP_UP);
    if within_band(probe.group, ours / first.mean(RAMP_UP)) {
        return Ok(samples);
    }
    for again in 1..=2 {
        let seed = probe.scenario.seed;
        samples.push(store.take_or(probe, (seed, again), || measure::kernel(probe, seed))?);
    }
    samples.sort_by(|a, b| a.mean(RAMP_UP).total_cmp(&b.mean(RAMP_UP)));
    samples.swap(0, 1);
    Ok(samples)
}

/// Left out at the beginning, as in every result of the lab.
const RAMP_UP: Duration = Duration::from_secs(1);

fn row(probe: &Probe, kernel: &[Sample], simulator: &[Sample]) -> Row {
    let settled = Duration::from_secs_f64(probe.seconds / 3.0);
    let figure = |samples: &[Sample], from: Duration| {
        let means: Vec<f64> = samples.iter().map(|sample| sample.mean(from)).collect();
        // Runs of one seed are repetitions: the middle one counts. Runs of several are a sample: their mean.
        if probe.has_seeds() { means.iter().sum::<f64>() / means.len() as f64 } else { median(&means) }
    };
    let (theirs, ours) = (figure(kernel, RAMP_UP), figure(simulator, RAMP_UP));
    let means = || kernel.iter().map(|sample| sample.mean(RAMP_UP));
    let spread = means().fold(0.0, f64::max) - means().fold(f64::INFINITY, f64::min);
    Row {
        group: probe.group,
        network: probe.network.clone(),
        transport: probe.transport.clone(),
        congestion: probe.congestion.clone(),
        seconds: probe.seconds,
        kernel: theirs,
        simulator: ours,
        ratio: ours / theirs,
        settled_ratio: figure(simulator, settled) / figure(kernel, settled),
        spread: spread / theirs,
        valid: kernel.iter().all(|sample| sample.valid),
    }
}

#[cfg(test)]
mod tests;
