//! Statistics over the seeds: a group contains the runs that differ only in their seed; one row per group and metric.

use super::frame::{Column, Frame};
use crate::reproduce::matrix::AXES;
use crate::reproduce::{Labels, Metric, Sample};
use std::collections::{BTreeMap, BTreeSet};
use tributary_report::{Interval, stats};

/// Rounds and seed of the bootstrap.
const BOOTSTRAP: (u32, u64) = (1000, 1);

/// The runs that differ only in their seed.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Its runs; at least one.
    pub runs: Vec<&'a Sample>,
}

/// Statistics of a group's metric over its seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Number of values.
    pub count: usize,
    /// Mean.
    pub mean: f64,
    /// 95 % bootstrap confidence interval of the mean; `None` with one value, and if all seeds give the same value.
    pub interval: Option<Interval>,
    /// Smallest.
    pub minimum: f64,
    /// Largest.
    pub maximum: f64,
}

impl<'a> Group<'a> {
    /// Groups in the order of their first runs, without failed ones.
    #[must_use]
    pub fn of(samples: &'a [Sample]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        let mut places = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.failure.is_none()) {
            let place = *places.entry(&sample.labels).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.runs.push(sample),
                None => groups.push(Self { runs: vec![sample] }),
            }
        }
        groups
    }

    /// The labels that all its runs share.
    #[must_use]
    pub fn labels(&self) -> &'a Labels {
        &self.runs[0].labels
    }

    /// A metric by seed.
    #[must_use]
    pub fn values(&self, metric: &str) -> BTreeMap<u64, f64> {
        self.runs.iter().filter_map(|run| Some((run.seed, number(run, metric)?))).collect()
    }

    /// A metric over the seeds; `None` when no run has it.
    #[must_use]
    pub fn spread(&self, metric: &str) -> Option<Spread> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| number(run, metric)).collect();
        let differ = values.iter().any(|value| value.to_bits() != values[0].to_bits());
        let interval =
            differ.then(|| stats::bootstrap_interval(&values, stats::mean, BOOTSTRAP.0, BOOTSTRAP.1));
        Some(Spread {
            count: values.len(),
            mean: stats::mean(&values)?,
            interval: interval.flatten(),
            minimum: stats::minimum(&values)?,
            maximum: stats::maximum(&values)?,
        })
    }
}

/// The value of a metric that is one number.
fn number(sample: &Sample, metric: &str) -> Option<f64> {
    match sample.metrics.get(metric)?[..] {
        [value] => Some(value),
        _ => None,
    }
}

/// The axes of the runs, those of every matrix first.
pub(super) fn axes(samples: &[Sample]) -> Vec<&str> {
    let used: BTreeSet<&str> = samples.iter().flat_map(|s| s.labels.keys().map(String::as_str)).collect();
    let first = AXES.into_iter().filter(|axis| used.contains(axis));
    first.chain(used.iter().copied().filter(|axis| !AXES.contains(axis))).collect()
}

/// The metrics that are one number in every run that has them, and that some run has.
pub(super) fn scalars(samples: &[Sample], metrics: &[Metric]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for Metric { name, .. } in metrics {
        let mut lengths =
            samples.iter().filter_map(|sample| sample.metrics.get(*name)).map(Vec::len).peekable();
        if lengths.peek().is_some() && lengths.all(|length| length == 1) && !names.contains(name) {
            names.push(name);
        }
    }
    names
}

/// One row per run, without the series.
pub(super) fn runs(samples: &[Sample], metrics: &[Metric]) -> Frame {
    let text = |of: &dyn Fn(&Sample) -> Option<String>| Column::Text(samples.iter().map(of).collect());
    let mut columns = vec![("key".to_owned(), text(&|sample| Some(sample.key.clone())))];
    for axis in axes(samples) {
        columns.push((axis.to_owned(), text(&|sample| sample.labels.get(axis).cloned())));
    }
    columns.push(("seed".to_owned(), Column::Whole(samples.iter().map(|sample| sample.seed).collect())));
    for name in scalars(samples, metrics) {
        let values = samples.iter().map(|sample| number(sample, name)).collect();
        columns.push((name.to_owned(), Column::Number(values)));
    }
    columns.push(("event_log_hash".to_owned(), text(&|sample| sample.event_log_hash.clone())));
    columns.push(("failure".to_owned(), text(&|sample| sample.failure.clone())));
    Frame { columns }
}

/// The tidy table: one row per group and metric, with confidence intervals.
pub(super) fn spreads(samples: &[Sample], metrics: &[Metric]) -> Frame {
    let names = scalars(samples, metrics);
    let mut rows: Vec<(&Labels, &str, Spread)> = Vec::new();
    for group in Group::of(samples) {
        let each = names.iter().filter_map(|name| Some((group.labels(), *name, group.spread(name)?)));
        rows.extend(each);
    }
    let number =
        |of: fn(&Spread) -> Option<f64>| Column::Number(rows.iter().map(|(.., spread)| of(spread)).collect());
    let axis = |axis: &str| Column::Text(rows.iter().map(|(labels, ..)| labels.get(axis).cloned()).collect());
    let mut columns: Vec<(String, Column)> =
        axes(samples).into_iter().map(|name| (name.to_owned(), axis(name))).collect();
    let metric = Column::Text(rows.iter().map(|(_, name, _)| Some((*name).to_owned())).collect());
    columns.extend([
        ("metric".to_owned(), metric),
        ("seeds".to_owned(), Column::Whole(rows.iter().map(|(.., spread)| spread.count as u64).collect())),
        ("mean".to_owned(), number(|spread| Some(spread.mean))),
        ("low".to_owned(), number(|spread| spread.interval.map(|interval| interval.low))),
        ("high".to_owned(), number(|spread| spread.interval.map(|interval| interval.high))),
        ("minimum".to_owned(), number(|spread| Some(spread.minimum))),
        ("maximum".to_owned(), number(|spread| Some(spread.maximum))),
    ]);
    Frame { columns }
}
