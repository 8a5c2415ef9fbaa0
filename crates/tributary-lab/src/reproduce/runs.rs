//! All runs of a reproduction, and the statistics that claims are made of.

use crate::result::RunResult;
use tributary_report::{Interval, stats};

/// Rounds and seed of the bootstrap.
const BOOTSTRAP: (u32, u64) = (1000, 1);

/// The runs.
#[derive(Clone, Debug, Default)]
pub struct Runs(pub Vec<RunResult>);

/// Names a cell: scenario, transport, congestion control.
pub(crate) type Key<'a> = (&'a str, &'a str, &'a str);

impl Runs {
    /// The runs of one cell, one for each seed.
    pub(crate) fn of(&self, (scenario, transport, congestion): Key<'_>) -> Vec<&RunResult> {
        let same = |run: &&RunResult| {
            run.scenario == scenario && run.transport == transport && run.congestion == congestion
        };
        self.0.iter().filter(same).collect()
    }

    /// Median over the seeds of any number of a run.
    pub(crate) fn median(&self, key: Key<'_>, number: impl Fn(&RunResult) -> Option<f64>) -> Option<f64> {
        let numbers: Vec<f64> = self.of(key).into_iter().filter_map(number).collect();
        stats::median(&numbers)
    }

    /// Median of the mean goodputs in Mbit/s.
    pub(crate) fn goodput(&self, key: Key<'_>) -> Option<f64> {
        self.median(key, |run| Some(run.goodput.as_ref()?.mean_mbps))
    }

    /// Median of the worst whole seconds in Mbit/s.
    pub(crate) fn worst_second(&self, key: Key<'_>) -> Option<f64> {
        self.median(key, |run| Some(run.goodput.as_ref()?.worst_second_mbps))
    }

    /// Bootstrap interval of a cell's mean goodput over all its seconds, divided by `by`.
    pub(crate) fn interval(&self, key: Key<'_>, by: f64) -> Option<Interval> {
        let runs = self.of(key);
        let goodputs = runs.iter().filter_map(|run| run.goodput.as_ref());
        let ratios: Vec<f64> = goodputs.flat_map(|g| g.measured()).map(|mbps| mbps / by).collect();
        stats::bootstrap_interval(&ratios, stats::mean, BOOTSTRAP.0, BOOTSTRAP.1)
    }

    /// Smallest and largest of any number over the seeds.
    pub(crate) fn spread(
        &self,
        key: Key<'_>,
        number: impl Fn(&RunResult) -> Option<f64>,
    ) -> Option<Interval> {
        let numbers: Vec<f64> = self.of(key).into_iter().filter_map(number).collect();
        Some(Interval { low: stats::minimum(&numbers)?, high: stats::maximum(&numbers)? })
    }
}
