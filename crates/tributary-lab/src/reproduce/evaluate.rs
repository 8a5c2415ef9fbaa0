//! Values of expressions over measured cells, with paired intervals.
//!
//! All cells of an expression are compared on the same seeds and resampled together, so effects of a seed on all
//! transports cancel. A single run has an interval only if everything in the expression comes from series of equal
//! length, such as the goodput of each second. Then the seconds are resampled, the same ones for every cell. Cells
//! without randomness count as one run for any number of seeds.

use super::expression::{Expression, Map, Operator, Statistic};
use super::sample::{Labels, Metric, Sample, filled};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use tributary_report::{Interval, stats};

/// Larger than every seed. A run's number is its seed plus a multiple of this, one for each combination of pooled
/// values.
const SEEDS: u64 = 1 << 32;
/// Rounds and seed of the bootstrap.
const BOOTSTRAP: (u32, u64) = (1000, 1);

/// Method of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// 95 % percentile bootstrap over the seeds.
    #[default]
    Bootstrap,
    /// 95 % interval by Student's t; for the mean of one number per seed.
    Student,
    /// From the smallest to the largest value; for few seeds.
    Range,
    /// The bootstrap over the pooled values, each with all its seeds: for networks that are a sample of many. Where nothing is
    /// pooled, over the seeds.
    Pooled,
}

/// A value and its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// The value.
    pub value: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
    /// Number of seeds.
    pub seeds: usize,
    /// Every seed gives the same result, so the seeds give no interval.
    pub deterministic: bool,
}

/// An expression matches several cells of one seed.
#[derive(Clone, Debug, PartialEq, Error)]
#[error(
    "`{subject}` matches several cells ({first} and {second}): make the subject more specific, or add the axis to `each` or `over`"
)]
pub struct Ambiguous {
    subject: String,
    first: String,
    second: String,
}

/// The data on which expressions are evaluated.
#[derive(Clone, Copy)]
pub struct Measurements<'a> {
    /// Finished cells.
    pub samples: &'a [Sample],
    /// Subjects of the file, with the labels that they stand for.
    pub subjects: &'a BTreeMap<String, Labels>,
    /// The known metrics.
    pub metrics: &'a [Metric],
    /// Axes whose values count as further runs. Example: with `scenario`, runs of twenty networks with one seed are
    /// twenty runs, and the interval is over the networks.
    pub pool: &'a [String],
}

type Series<'a> = BTreeMap<u64, &'a Sample>;

/// An expression with the cells that it refers to.
pub struct Bound<'a> {
    expression: &'a Expression,
    cells: BTreeMap<&'a str, Series<'a>>,
    metrics: &'a [Metric],
}

/// The runs to use, and the items of their series.
#[derive(Clone, Copy)]
struct Draw<'a> {
    seeds: &'a [u64],
    items: Option<&'a [usize]>,
}

enum Value {
    One(f64),
    Runs(Vec<Vec<f64>>),
}

/// The labels of a subject: those in the file, or those of the transport with this name.
pub(super) fn labels_of(subjects: &BTreeMap<String, Labels>, subject: &str, at: &Labels) -> Labels {
    let own = subjects.get(subject).cloned();
    let own = own.unwrap_or_else(|| [("transport".to_owned(), subject.to_owned())].into());
    let filled = own.into_iter().map(|(axis, value)| (axis, filled(&value, at)));
    at.iter().map(|(axis, value)| (axis.clone(), value.clone())).chain(filled).collect()
}

impl<'a> Measurements<'a> {
    /// Finds the cells of every subject of an expression among those with the labels `at`.
    ///
    /// # Errors
    /// [`Ambiguous`] when a subject has two cells of one seed.
    pub fn bind(&self, expression: &'a Expression, at: &Labels) -> Result<Bound<'a>, Ambiguous> {
        let mut cells: BTreeMap<&str, Series<'a>> = BTreeMap::new();
        let pooled: BTreeSet<Vec<&str>> = self.samples.iter().map(|sample| self.pooled(sample)).collect();
        for (subject, _) in expression.metrics() {
            let wanted = labels_of(self.subjects, subject, at);
            let mut found: Series<'a> = BTreeMap::new();
            for sample in self.samples.iter().filter(|s| s.failure.is_none() && matches(&s.labels, &wanted)) {
                let group = pooled.iter().position(|group| *group == self.pooled(sample)).unwrap_or(0);
                let run = group as u64 * SEEDS + sample.seed;
                if let Some(other) = found.insert(run, sample) {
                    let (first, second) = (other.title(), sample.title());
                    return Err(Ambiguous { subject: subject.to_owned(), first, second });
                }
            }
            cells.insert(subject, found);
        }
        Ok(Bound { expression, cells, metrics: self.metrics })
    }

    /// The sample's values on the pooled axes.
    fn pooled(&self, sample: &'a Sample) -> Vec<&'a str> {
        self.pool.iter().map(|axis| sample.labels.get(axis).map_or("", String::as_str)).collect()
    }
}

/// Whether the labels have every wanted value. Axes that the cells do not have are ignored.
pub(super) fn matches(labels: &Labels, wanted: &Labels) -> bool {
    wanted.iter().all(|(axis, value)| labels.get(axis).is_none_or(|own| own == value))
}

impl Bound<'_> {
    fn has(&self, seed: u64) -> bool {
        let has = |(subject, metric): (&str, &str)| {
            self.cells[subject].get(&seed).is_some_and(|sample| sample.metrics.contains_key(metric))
        };
        self.expression.metrics().into_iter().all(has)
    }

    /// Seeds for which every cell of the expression has a run.
    #[must_use]
    pub fn seeds(&self) -> Vec<u64> {
        let all: BTreeSet<u64> = self.cells.values().flat_map(|series| series.keys().copied()).collect();
        all.into_iter().filter(|seed| self.has(*seed)).collect()
    }

    /// Whether some cell has exactly the same result for all of several seeds.
    fn has_invariant_cell(&self) -> bool {
        let invariant = |series: &Series<'_>| {
            let mut runs = series.values().map(|sample| &sample.metrics);
            let first = runs.next();
            series.len() > 1 && runs.all(|metrics| Some(metrics) == first)
        };
        self.cells.values().any(invariant)
    }

    /// Length of the series from which all values of a run are computed; `None` if the lengths differ.
    fn items(&self, seed: u64) -> Option<usize> {
        let mut lengths = self.expression.metrics().into_iter().map(|(subject, metric)| {
            let sample = self.cells[subject].get(&seed)?;
            let series = self.metrics.iter().find(|m| m.name == metric)?.of_series.map_or(metric, |of| of.1);
            sample.metrics.get(series).map(Vec::len)
        });
        let first = lengths.next()??;
        (first > 1 && lengths.all(|length| length == Some(first))).then_some(first)
    }

    fn value(&self, draw: Draw<'_>) -> Option<f64> {
        match self.of(self.expression, draw)? {
            Value::One(value) => Some(value).filter(|value| value.is_finite()),
            Value::Runs(_) => None,
        }
    }

    fn of(&self, expression: &Expression, draw: Draw<'_>) -> Option<Value> {
        Some(match expression {
            Expression::Number(number) => Value::One(*number),
            Expression::Metric { subject, metric } => {
                let runs = draw.seeds.iter().map(|seed| self.run((subject, metric), *seed, draw.items));
                Value::Runs(runs.collect::<Option<_>>()?)
            }
            Expression::Statistic(statistic, of) => {
                let all = match self.of(of, draw)? {
                    Value::One(value) => vec![value],
                    Value::Runs(runs) => runs.concat(),
                };
                Value::One(apply(*statistic, &all)?)
            }
            Expression::RunStatistic(statistic, of) => match self.of(of, draw)? {
                Value::One(value) => Value::One(value),
                Value::Runs(runs) => {
                    let each = runs.iter().map(|run| Some(vec![apply(*statistic, run)?]));
                    Value::Runs(each.collect::<Option<_>>()?)
                }
            },
            Expression::Map(map, of) => self.of(of, draw)?.map(|item| match map {
                Map::Magnitude => item.abs(),
                Map::Negative => -item,
                Map::Psnr => tributary_video::metrics::psnr_db(item),
            }),
            Expression::Binary(operator, left, right) => {
                self.of(left, draw)?.with(self.of(right, draw)?, |left, right| match operator {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    Operator::Times => left * right,
                    Operator::Over => left / right,
                    Operator::Smaller => left.min(right),
                    Operator::Larger => left.max(right),
                })
            }
        })
    }

    /// A metric of one run, from resampled items if it comes from a series.
    fn run(&self, (subject, metric): (&str, &str), seed: u64, items: Option<&[usize]>) -> Option<Vec<f64>> {
        let sample = self.cells.get(subject)?.get(&seed)?;
        let Some(items) = items else { return sample.metrics.get(metric).cloned() };
        let of_series = self.metrics.iter().find(|known| known.name == metric)?.of_series;
        let series = sample.metrics.get(of_series.map_or(metric, |of| of.1))?;
        let drawn: Vec<f64> = items.iter().filter_map(|item| series.get(*item).copied()).collect();
        match of_series {
            Some((statistic, _)) => Some(vec![apply(statistic, &drawn)?]),
            None => Some(drawn),
        }
    }
}

impl Value {
    fn map(self, of: impl Fn(f64) -> f64) -> Self {
        match self {
            Self::One(value) => Self::One(of(value)),
            Self::Runs(runs) => {
                Self::Runs(runs.into_iter().map(|run| run.into_iter().map(&of).collect()).collect())
            }
        }
    }

    fn with(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        match (self, other) {
            (Self::One(left), Self::One(right)) => Self::One(of(left, right)),
            (Self::One(left), right) => right.map(|right| of(left, right)),
            (left, Self::One(right)) => left.map(|left| of(left, right)),
            (Self::Runs(left), Self::Runs(right)) => {
                let pairs = left.into_iter().zip(right).map(|(left, right)| match (&left[..], &right[..]) {
                    ([one], many) if many.len() != 1 => many.iter().map(|item| of(*one, *item)).collect(),
                    (many, [one]) if many.len() != 1 => many.iter().map(|item| of(*item, *one)).collect(),
                    (left, right) => left.iter().zip(right).map(|(l, r)| of(*l, *r)).collect(),
                });
                Self::Runs(pairs.collect())
            }
        }
    }
}

fn apply(statistic: Statistic, sample: &[f64]) -> Option<f64> {
    match statistic {
        Statistic::Mean => stats::mean(sample),
        Statistic::Minimum => stats::minimum(sample),
        Statistic::Maximum => stats::maximum(sample),
        Statistic::Percentile(percent) => stats::percentile(sample, percent),
        Statistic::Worst5 => {
            let mut largest: Vec<f64> = sample.iter().copied().filter(|v| v.is_finite()).collect();
            largest.sort_by(|a, b| b.total_cmp(a));
            stats::mean(&largest[..largest.len().div_ceil(20)])
        }
        Statistic::Variance => stats::deviation(sample).map(|deviation| deviation * deviation),
    }
}

/// The value of an expression in one or more places, combined by `fold`, on the seeds that all of them have.
pub fn measure(
    bound: &[Bound<'_>],
    fold: impl Fn(&[Option<f64>]) -> Option<f64>,
    method: Method,
) -> Measured {
    let Some(first) = bound.first() else { return Measured::default() };
    let mut seeds = first.seeds();
    seeds.retain(|seed| bound.iter().all(|each| each.has(*seed)));
    let of = |draw: Draw<'_>| fold(&bound.iter().map(|each| each.value(draw)).collect::<Vec<_>>());
    let value = of(Draw { seeds: &seeds, items: None }).filter(|value| value.is_finite());
    if value.is_none() {
        return Measured { seeds: seeds.len(), ..Measured::default() };
    }
    let bootstrap = |population: &[f64], draw: &dyn Fn(&[usize]) -> Option<f64>| {
        let pick = |drawn: &[f64]| draw(&drawn.iter().map(|place| *place as usize).collect::<Vec<_>>());
        stats::bootstrap_interval(population, pick, BOOTSTRAP.0, BOOTSTRAP.1)
    };
    let numbered = |count: usize| (0..count).map(|place| place as f64).collect::<Vec<_>>();
    let over_items = || {
        let mut lengths = bound.iter().map(|each| each.items(*seeds.first()?));
        let length = lengths.next().flatten().filter(|length| lengths.all(|l| l == Some(*length)));
        let draw = |items: &[usize]| of(Draw { seeds: &seeds, items: Some(items) });
        length.and_then(|length| bootstrap(&numbered(length), &draw))
    };
    let interval = match (method, seeds.as_slice()) {
        (_, []) => None,
        (_, [_]) => over_items(),
        (Method::Bootstrap | Method::Pooled, seeds) => {
            let is_pooled = method == Method::Pooled && seeds[0] / SEEDS != seeds[seeds.len() - 1] / SEEDS;
            let groups = seeds.chunk_by(|a, b| is_pooled && a / SEEDS == b / SEEDS);
            let groups: Vec<&[u64]> = groups.collect();
            bootstrap(&numbered(groups.len()), &|places| {
                let drawn: Vec<u64> = places.iter().flat_map(|place| groups[*place]).copied().collect();
                of(Draw { seeds: &drawn, items: None })
            })
        }
        (method, seeds) => {
            let alone = |seed: &u64| of(Draw { seeds: &[*seed], items: None });
            let each: Vec<f64> = seeds.iter().filter_map(alone).collect();
            match method {
                Method::Student => stats::mean_interval(&each),
                _ => {
                    stats::minimum(&each).zip(stats::maximum(&each)).map(|(low, high)| Interval { low, high })
                }
            }
        }
    };
    let narrow = |i: Interval| i.high - i.low <= 1e-9 * i.high.abs();
    let deterministic =
        seeds.len() > 1 && interval.is_none_or(narrow) && bound.iter().any(Bound::has_invariant_cell);
    let interval = if deterministic { over_items() } else { interval };
    Measured { value, interval, seeds: seeds.len(), deterministic }
}

#[cfg(test)]
mod tests;
