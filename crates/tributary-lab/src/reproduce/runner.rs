//! Runs the cells of a paper and stores their results. One runner for every paper and both worlds.
//!
//! Simulated cells run in parallel, emulated ones one after the other. Finished cells are kept in the report's
//! directory, so that a stopped reproduction can be resumed.

use super::error::ReproduceError;
use super::evaluate::Measurements;
use super::judge;
use super::matrix::{Cell, CellError, Selection};
use super::paper::Paper;
use super::sample::{Labels, Metric, Sample};
use crate::audits;
use crate::demo::Progress;
use crate::result::World;
use crate::store::execute::{Effort, Tally, execute};
use crate::store::{Shard, Store, key};
use core::time::Duration;
use serde::Serialize;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tributary_report::machine;
use tributary_report::{Reproduction, RunInfo};

/// Time to set up and take down an emulated run.
const OVERHEAD: Duration = Duration::from_secs(1);

/// The experiment of a cell. Papers name it; all cells of a matrix have the same one.
pub trait Experiment: Sync {
    /// Its name in a matrix.
    fn name(&self) -> &'static str;

    /// The metrics that it measures.
    fn metrics(&self) -> &[Metric];

    /// All settings of a cell's run as text. Runs with the same text have the same result.
    fn identity(&self, cell: &Cell) -> String {
        cell.identity()
    }

    /// How the congestion controller of real sockets is known, for the report.
    fn congestion_note(&self) -> &'static str {
        "asserted on both ends of every run"
    }

    /// Checks whether the cell is possible, without running it.
    ///
    /// # Errors
    /// [`CellError`] names what is not possible.
    fn check(&self, cell: &Cell) -> Result<(), CellError>;

    /// Runs the cell. Key, labels and seed of the sample are set by the runner.
    ///
    /// # Errors
    /// [`CellError`]; bad performance is a result, not an error.
    fn measure(&self, cell: &Cell) -> Result<Sample, CellError>;
}

/// Settings of a reproduction or a sweep.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The user's choice.
    pub selection: Selection,
    /// Directory for finished cells.
    pub directory: PathBuf,
    /// The part of the cells to run.
    pub shard: Shard,
    /// Directories of other shards or of earlier runs, with finished cells.
    pub merge: Vec<PathBuf>,
    /// Whether finished emulated cells are reused; finished simulated ones always are.
    pub resume: bool,
    /// Parallel simulated runs; `None`: one per core.
    pub jobs: Option<NonZeroUsize>,
    /// The command line, for the report.
    pub command: String,
    /// No run is started after this time, nor after the paper's own limit of quick runs.
    pub limit: Option<Duration>,
    /// No run is started once this is set; those left out can be made later.
    pub stop: Arc<AtomicBool>,
}

/// Result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Claims and the conditions of the measurement.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// Every cell.
    pub samples: Vec<Sample>,
    /// Labels of every planned cell, without its seed.
    #[serde(skip)]
    pub planned: Vec<Labels>,
    /// The planned cells of the first seed.
    #[serde(skip)]
    pub first: Vec<Cell>,
    /// Number of planned cells of all shards.
    #[serde(skip)]
    pub cells: usize,
    /// Counts of finished, failed and left-out runs of this shard.
    #[serde(skip)]
    pub tally: Tally,
    /// The world.
    #[serde(skip)]
    pub world: World,
    /// The metrics.
    #[serde(skip)]
    pub metrics: Vec<Metric>,
}

struct Task<'a> {
    key: String,
    cell: &'a Cell,
    experiment: &'a dyn Experiment,
}

/// Runs the cells that are not finished yet and judges the claims.
///
/// # Errors
/// [`ReproduceError`]; a claim that fails is a result.
pub fn run(
    paper: &Paper,
    experiments: &[&dyn Experiment],
    settings: &Settings,
    progress: Progress<'_>,
) -> Result<Outcome, ReproduceError> {
    judge::check(paper, &settings.selection)?;
    let mut outcome = measure(paper, experiments, settings, progress)?;
    let (samples, metrics) = (&outcome.samples, &outcome.metrics);
    let measurements = Measurements { samples, subjects: &paper.subject, metrics, pool: &[] };
    outcome.reproduction.claims = judge::claims(paper, outcome.world, &outcome.planned, measurements)?;
    Ok(outcome)
}

/// As [`run`], without a verdict on the claims.
///
/// # Errors
/// [`ReproduceError`].
pub fn measure(
    paper: &Paper,
    experiments: &[&dyn Experiment],
    settings: &Settings,
    progress: Progress<'_>,
) -> Result<Outcome, ReproduceError> {
    let began = Instant::now();
    let metrics: Vec<Metric> = experiments.iter().flat_map(|e| e.metrics()).copied().collect();
    paper.check_metrics(&metrics)?;
    let cells = paper.cells(&settings.selection)?;
    let tasks = cells.iter().map(|cell| task(cell, experiments)).collect::<Result<Vec<_>, _>>()?;
    let mut known = BTreeSet::new();
    let (mut planned, mut first) = (Vec::new(), Vec::new());
    for task in tasks.iter().filter(|task| known.insert(&task.cell.labels)) {
        let impossible =
            |source| ReproduceError::Cell { cell: super::sample::title(&task.cell.labels, 1), source };
        task.experiment.check(task.cell).map_err(impossible)?; // checked before the runs, which may take hours
        planned.push(task.cell.labels.clone());
        first.push(task.cell.clone());
    }
    let world = settings.selection.world;
    let folder = format!("{}-{world}-cells", paper.name);
    let directory = settings.directory.join(&folder);
    if world == World::Emu && !settings.resume {
        Store::<Sample>::forget(&directory)?;
    }
    let mut store = Store::open(&directory, settings.shard)?;
    settings.merge.iter().try_for_each(|other| store.add(&other.join(&folder)))?;
    let quick = paper.quick_limit.filter(|_| settings.selection.quick).map(Duration::from_secs);
    let limit = settings.limit.into_iter().chain(quick).min();
    let jobs = if world == World::Emu { NonZeroUsize::new(1) } else { settings.jobs };
    let effort = Effort { jobs, limit, shard: settings.shard, stop: settings.stop.clone() };
    let outdated = outdated(&tasks, &store, settings.shard);
    let tally = execute((&tasks, |task| &task.key), one, &mut store, effort, progress)?;
    let tally = Tally { outdated, ..tally };
    // Cells with other labels may have the same settings, and so the same run.
    let labelled = |task: &Task<'_>| {
        let (labels, seed) = (task.cell.labels.clone(), task.cell.seed);
        Some(Sample { labels, seed, ..store.row(&task.key)?.clone() })
    };
    let samples: Vec<Sample> = tasks.iter().filter_map(labelled).collect();
    let mut info = describe(paper, settings, &cells, (&samples, tally));
    if world == World::Emu {
        let mut notes: Vec<&str> = tasks.iter().map(|task| task.experiment.congestion_note()).collect();
        notes.dedup();
        info.congestion.push_str(&format!("; {}", notes.join("; ")));
    }
    info.seconds = Some(began.elapsed().as_secs_f64());
    let name = format!("{}-{world}", paper.name);
    let reproduction = Reproduction { name, claims: Vec::new(), run: info };
    Ok(Outcome { reproduction, samples, planned, first, cells: cells.len(), tally, world, metrics })
}

/// The number of a shard's runs that the store has with the same labels and seed, but not with their keys.
fn outdated(tasks: &[Task<'_>], store: &Store<Sample>, shard: Shard) -> usize {
    let stored: BTreeSet<(&Labels, u64)> = store.rows().map(|row| (&row.labels, row.seed)).collect();
    let own = tasks.iter().enumerate().filter(|(place, _)| shard.has(*place)).map(|(_, task)| task);
    let absent = own.filter(|task| store.row(&task.key).is_none());
    absent.filter(|task| stored.contains(&(&task.cell.labels, task.cell.seed))).count()
}

/// Upper bound of the wall time of a choice's emulated runs. Simulated runs count as zero, because their time depends
/// on the processor.
///
/// # Errors
/// [`CellError::Empty`] when the choice leaves nothing.
pub fn expected(paper: &Paper, selection: &Selection) -> Result<Duration, CellError> {
    let cells = paper.cells(selection)?;
    let emulated = cells.iter().filter(|cell| cell.world == World::Emu);
    let all: Duration = emulated.map(|cell| Duration::from_secs(cell.seconds.into()) + OVERHEAD).sum();
    let limit = paper.quick_limit.filter(|_| selection.quick).map(Duration::from_secs);
    Ok(limit.map_or(all, |limit| all.min(limit)))
}

fn task<'a>(cell: &'a Cell, experiments: &[&'a dyn Experiment]) -> Result<Task<'a>, ReproduceError> {
    let Some(experiment) = experiments.iter().find(|known| known.name() == cell.experiment) else {
        let known = experiments.iter().map(|known| known.name()).collect::<Vec<_>>().join(", ");
        return Err(ReproduceError::Experiment { name: cell.experiment.clone(), known });
    };
    Ok(Task { key: key::of(&experiment.identity(cell)), cell, experiment: *experiment })
}

fn one(task: &Task<'_>) -> Sample {
    let (sample, failure) = match crate::store::execute::guarded(|| task.experiment.measure(task.cell)) {
        Ok(Ok(sample)) => (sample, None),
        Ok(Err(error)) => (Sample::default(), Some(error.to_string())),
        Err(fault) => (Sample::default(), Some(fault)),
    };
    Sample {
        key: task.key.clone(),
        labels: task.cell.labels.clone(),
        seed: task.cell.seed,
        failure: failure.or(sample.failure.clone()),
        ..sample
    }
}

fn describe(
    paper: &Paper,
    settings: &Settings,
    cells: &[Cell],
    (samples, tally): (&[Sample], Tally),
) -> RunInfo {
    let mut info = machine::run_info(&settings.command);
    info.seeds = samples.iter().map(|sample| sample.seed).collect();
    info.seeds.sort_unstable();
    info.seeds.dedup();
    let labels: Vec<Labels> = cells.iter().map(|cell| cell.labels.clone()).collect();
    let values = |axis: &str| super::check::values_of(axis, &labels).join(", ");
    info.congestion = values("congestion");
    let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
    match settings.selection.world {
        World::Emu => {
            let judged = samples.iter().filter_map(|s| Some((s.title(), s.audit.as_ref()?)));
            info.audit = Some(audits::of_notes(judged.collect::<Vec<_>>().into_iter()));
        }
        World::Sim => set("world", "simulated: the same on every machine for the same seeds".to_owned()),
    }
    let mut scales: Vec<String> = cells.iter().map(|cell| cell.scale.to_string()).collect();
    scales.sort_unstable();
    scales.dedup();
    if scales != ["1"] {
        set("rates and queues", format!("{} × those of the scenario files", scales.join(" or ")));
    }
    for (name, axis) in [("base RTT", "rtt"), ("queue", "queue"), ("loss", "loss")] {
        if !["none", ""].contains(&values(axis).as_str()) {
            set(name, values(axis));
        }
    }
    let mut seconds: Vec<u32> = cells.iter().map(|cell| cell.seconds).collect();
    seconds.sort_unstable();
    seconds.dedup();
    let seconds: Vec<String> = seconds.iter().map(u32::to_string).collect();
    set("each run", format!("{} s", seconds.join(" or ")));
    set("runs", format!("{} of {}", samples.len(), cells.len()));
    if tally.left_out + tally.failed > 0 {
        set("left out", format!("{} because the time was up, {} failed", tally.left_out, tally.failed));
    }
    set("paper", paper.title.clone());
    info
}

#[cfg(test)]
mod tests;
