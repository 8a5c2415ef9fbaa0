//! `tributary-lab bench simulator linux`: goodput in the simulator and with the kernel's own stacks in the
//! emulator, on the same scenarios.
//!
//! The kernel's runs take wall time, so their results may be stored in a file and reused. The simulator
//! always runs.

mod figures;
mod grid;
mod measure;
mod store;
mod tables;

use super::super::controllers::Controllers;
use super::super::{BenchError, Progress, median};
use core::time::Duration;
use grid::Probe;
pub use measure::{Sample, Window};
use serde::Serialize;
use std::path::PathBuf;
use store::Store;

/// A group of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// One TCP connection over a link of constant rate.
    Steady,
    /// As `Steady`, with random loss.
    Loss,
    /// One TCP connection over a link whose rate changes.
    Changing,
    /// A Tributary session over two radios.
    Schedulers,
    /// One TCP connection with a controller that is loaded into the kernel by eBPF. Needs root and feature `ebpf`.
    Ebpf,
}

impl Group {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 5] = [Self::Steady, Self::Loss, Self::Changing, Self::Schedulers, Self::Ebpf];
    /// Those that need no privilege outside the emulator.
    pub const USUAL: [Self; 4] = [Self::Steady, Self::Loss, Self::Changing, Self::Schedulers];

    /// Name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Loss => "loss",
            Self::Changing => "changing",
            Self::Schedulers => "schedulers",
            Self::Ebpf => "ebpf",
        }
    }

    /// Two results agree if they differ by at most this share.
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

/// Settings of the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Whether to run the whole grid instead of a selection.
    pub full: bool,
    /// Groups.
    pub groups: Vec<Group>,
    /// Highest rate of constant links, Mbit/s.
    pub fastest_mbps: u64,
    /// The kernel's runs of each cell with random loss, each with its own seed.
    pub seeds: u64,
    /// File of the kernel's results: read if it exists, and extended.
    pub kernel: Option<PathBuf>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { full: false, groups: Group::USUAL.to_vec(), fastest_mbps: 500, seeds: 3, kernel: None }
    }
}

/// One cell in simulator and kernel.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its group.
    pub group: Group,
    /// The network in words.
    pub network: String,
    /// The transport.
    pub transport: String,
    /// Congestion control.
    pub congestion: String,
    /// Length of a run in seconds.
    pub seconds: f64,
    /// The kernel's goodput from the second second on, mean over the seeds, Mbit/s.
    pub kernel: f64,
    /// The simulator's goodput.
    pub simulator: f64,
    /// `simulator` / `kernel`.
    pub ratio: f64,
    /// The ratio without the first third of the run.
    pub settled_ratio: f64,
    /// Spread of the kernel's runs relative to their mean: the effect of repetition alone.
    pub spread: f64,
    /// Whether the emulator's audit called every run valid.
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

/// The windows of one cell in simulator and kernel.
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
    /// Windows over time of some cells.
    #[serde(skip)]
    pub overlays: Vec<Overlay>,
}

/// Runs every cell in simulator and kernel.
///
/// # Errors
/// [`BenchError`] if a run cannot be made. An invalid run of the emulator is a row that says so.
pub fn run(plan: &Plan, progress: Progress<'_>) -> Result<Report, BenchError> {
    let mut store = Store::open(plan.kernel.clone())?;
    let loaded =
        if plan.groups.contains(&Group::Ebpf) { Some(Controllers::load(&[], PREFIX)?) } else { None };
    let probes = grid::probes(plan);
    let mut report = Report { rows: Vec::new(), overlays: Vec::new() };
    for (index, probe) in probes.iter().enumerate() {
        progress(&format!("{} of {}: {}", index + 1, probes.len(), probe.label()));
        let kernel = kernel(probe, loaded.as_ref(), &mut store)?;
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

/// The kernel's runs. A steady cell outside its narrow band is run twice more, so that a disturbance of the
/// machine is not taken for a difference; the median counts then.
fn kernel(probe: &Probe, loaded: Option<&Controllers>, store: &mut Store) -> Result<Vec<Sample>, BenchError> {
    let congestion = &probe.congestion;
    let congestion = loaded.map_or_else(|| congestion.clone(), |loaded| loaded.in_kernel(congestion));
    let mut samples = Vec::new();
    for seed in probe.kernel_seeds() {
        samples.push(store.take_or(probe, (seed, 0), || measure::kernel(probe, &congestion, seed))?);
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
        samples.push(store.take_or(probe, (seed, again), || measure::kernel(probe, &congestion, seed))?);
    }
    samples.sort_by(|a, b| a.mean(RAMP_UP).total_cmp(&b.mean(RAMP_UP)));
    samples.swap(0, 1);
    Ok(samples)
}

/// Prefix of the eBPF controllers' names.
const PREFIX: &str = "bsl_";
/// Left out at the beginning, as in all results of the laboratory.
const RAMP_UP: Duration = Duration::from_secs(1);

fn row(probe: &Probe, kernel: &[Sample], simulator: &[Sample]) -> Row {
    let settled = Duration::from_secs_f64(probe.seconds / 3.0);
    let figure = |samples: &[Sample], from: Duration| {
        let means: Vec<f64> = samples.iter().map(|sample| sample.mean(from)).collect();
        // Runs with the same seed are repetitions: the median counts. Runs with several seeds are a sample:
        // their mean.
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
