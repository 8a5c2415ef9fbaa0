//! What the simulated runs of a plan cost, before they are made: a few of them are measured, one at a time.
//!
//! Not here: emulated runs, whose time is known ([`crate::reproduce::expected`]).

use crate::reproduce::matrix::Cell;
use crate::reproduce::{Experiment, Paper, ReproduceError, Selection};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::time::Instant;
use tributary_report::{Interval, stats};

/// Most shards of a plan.
const MOST_SHARDS: f64 = 10_000.0;

/// Measured cost of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Planned runs.
    pub runs: usize,
    /// Seconds that each measured run took.
    pub seconds: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// The 95 % interval of the mean over all runs of the plan; `None` with one measured run.
    pub interval: Option<Interval>,
}

/// Makes `count` runs of a plan, evenly spread over it, and measures how long each takes. Nothing is kept of them.
///
/// # Errors
/// [`ReproduceError`]: the plan is not possible, or a measured run fails.
pub fn measure(
    paper: &Paper,
    experiments: &[&dyn Experiment],
    (selection, count): (&Selection, NonZeroUsize),
    progress: &mut dyn FnMut(f64, &str),
) -> Result<Cost, ReproduceError> {
    let cells = paper.cells(selection)?;
    let mut seconds = Vec::new();
    let measured = sample(cells.len(), count.get());
    for at in &measured {
        let cell = &cells[*at];
        let title = crate::reproduce::title(cell);
        let failed = |source| ReproduceError::Cell { cell: title.clone(), source };
        let experiment = find(cell, experiments)?;
        experiment.check(cell).map_err(failed)?;
        let began = Instant::now();
        experiment.measure(cell).map_err(failed)?;
        seconds.push(began.elapsed().as_secs_f64());
        progress(seconds.len() as f64 / measured.len() as f64, &title);
    }
    Ok(Cost::new(cells.len(), seconds))
}

fn find<'a>(cell: &Cell, experiments: &[&'a dyn Experiment]) -> Result<&'a dyn Experiment, ReproduceError> {
    let known = || experiments.iter().map(|known| known.name()).collect::<Vec<_>>().join(", ");
    let found = experiments.iter().find(|known| known.name() == cell.experiment);
    found.copied().ok_or_else(|| ReproduceError::Experiment { name: cell.experiment.clone(), known: known() })
}

/// `count` places of `all`, or all of them. Plans are ordered seed by seed with the transports innermost, so the steps between them are
/// those of the golden ratio: they meet every axis, whatever its length.
fn sample(all: usize, count: usize) -> Vec<usize> {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    if count >= all {
        return (0..all).collect();
    }
    let mut places: Vec<usize> = Vec::new();
    let spread = (1..).map(|number: u32| ((f64::from(number) * GOLDEN).fract() * all as f64) as usize);
    for place in spread {
        if !places.contains(&place) {
            places.push(place);
        }
        if places.len() == count {
            break;
        }
    }
    places
}

impl Cost {
    fn new(runs: usize, seconds: Vec<f64>) -> Self {
        let mean = stats::mean(&seconds).unwrap_or(0.0);
        // All runs were measured: their mean is known.
        let interval = stats::mean_interval(&seconds).filter(|_| seconds.len() < runs);
        let interval = interval.map(|interval| Interval { low: interval.low.max(0.0), ..interval });
        Self { runs, seconds, mean, interval }
    }

    /// Hours of one core for the whole plan.
    #[must_use]
    pub fn hours(&self) -> f64 {
        self.mean * self.runs as f64 / 3600.0
    }

    /// Hours of one core at the ends of the interval.
    #[must_use]
    pub fn hours_interval(&self) -> Option<Interval> {
        let hours = |seconds: f64| seconds * self.runs as f64 / 3600.0;
        self.interval.map(|interval| Interval { low: hours(interval.low), high: hours(interval.high) })
    }

    /// Shards so that each takes at most this long on one core, also at the upper end of the interval.
    #[must_use]
    pub fn shards(&self, hours: f64) -> usize {
        let all = self.hours_interval().map_or(self.hours(), |interval| interval.high);
        (all / hours).ceil().clamp(1.0, MOST_SHARDS.min(self.runs.max(1) as f64)) as usize
    }

    /// For the terminal: the cost of a run and of all, on this machine and in shards of at most `hours` on one core.
    #[must_use]
    pub fn text(&self, plan: &str, hours: f64) -> String {
        let of = |low_high: Option<Interval>, unit: &str| {
            low_high.map_or(String::new(), |i| {
                format!(" (95 % interval {} to {} {unit})", digits(i.low), digits(i.high))
            })
        };
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let shards = self.shards(hours);
        format!(
            "{runs} runs planned, {measured} measured one at a time on this machine\n\
             each run: {mean} s{per_run}\n\
             all runs: {all} h of one core{total}; {here} h on this machine's {cores} cores\n\
             shards of at most {limit} h on one core: {shards}\n  \
             tributary-lab sweep {plan} --shard 1/{shards} --out DIR",
            runs = self.runs,
            measured = self.seconds.len(),
            mean = digits(self.mean),
            per_run = of(self.interval, "s"),
            all = digits(self.hours()),
            total = of(self.hours_interval(), "h"),
            here = digits(self.hours() / cores as f64),
            limit = digits(hours),
        )
    }
}

/// Three significant digits.
fn digits(value: f64) -> String {
    let whole = if value > 0.0 { value.log10().floor() as i32 } else { 0 };
    format!("{value:.*}", (2 - whole).clamp(0, 9) as usize)
}

#[cfg(test)]
mod tests;
