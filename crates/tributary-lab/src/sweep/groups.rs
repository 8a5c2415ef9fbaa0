//! Statistics over the seeds: a group contains the cells that differ only in their seed; one row per group
//! and metric.

use super::frame::{Column, Frame};
use super::row::Row;
use tributary_report::{Interval, stats};

/// Rounds and seed of the bootstrap.
const BOOTSTRAP: (u32, u64) = (1000, 1);

/// A number of a cell that is summarised over its seeds.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Name, as in the table of cells.
    pub name: &'static str,
    /// Reads its value from a row.
    pub of: fn(&Row) -> Option<f64>,
}

/// All metrics.
pub const METRICS: [Metric; 8] = [
    Metric { name: "goodput_mbps", of: |row| row.measured.goodput_mbps },
    Metric { name: "p10_mbps", of: |row| row.measured.p10_mbps },
    Metric { name: "worst_second_mbps", of: |row| row.measured.worst_second_mbps },
    Metric { name: "share_of_capacity", of: |row| row.measured.share_of_capacity },
    Metric { name: "longest_silence_ms", of: |row| row.measured.longest_silence_ms },
    Metric { name: "took_p99_ms", of: |row| row.measured.took_p99_ms },
    Metric { name: "retransmitted_percent", of: |row| Some(row.measured.retransmitted_percent) },
    Metric { name: "reinjected_percent", of: |row| row.measured.reinjected_percent },
];

/// The cells that differ only in their seed.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Its rows; at least one.
    pub rows: Vec<&'a Row>,
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
    /// Groups in the order of their first rows, without failed cells.
    #[must_use]
    pub fn of(rows: &'a [Row]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        let mut places = std::collections::BTreeMap::new();
        for row in rows.iter().filter(|row| row.failure.is_none()) {
            let name = (&row.scenario, &row.transport, &row.congestion, &row.rtt, &row.queue);
            let name = (name, &row.workload, row.seconds.to_bits());
            let place = *places.entry(name).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.rows.push(row),
                None => groups.push(Self { rows: vec![row] }),
            }
        }
        groups
    }

    /// The fields that all its rows share.
    #[must_use]
    pub fn head(&self) -> &'a Row {
        self.rows[0]
    }

    /// A metric over the seeds; `None` when no row has it.
    #[must_use]
    pub fn spread(&self, of: impl Fn(&Row) -> Option<f64>) -> Option<Spread> {
        let values: Vec<f64> = self.rows.iter().filter_map(|row| of(row)).collect();
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

/// The tidy table: one row per group and metric, with confidence intervals.
#[must_use]
pub fn frame(groups: &[Group<'_>]) -> Frame {
    let mut rows: Vec<(&Row, &'static str, Spread)> = Vec::new();
    for group in groups {
        for metric in METRICS {
            if let Some(spread) = group.spread(metric.of) {
                rows.push((group.head(), metric.name, spread));
            }
        }
    }
    let text =
        |of: fn(&Row) -> &str| Column::Text(rows.iter().map(|(row, ..)| Some(of(row).to_owned())).collect());
    let number =
        |of: fn(&Spread) -> Option<f64>| Column::Number(rows.iter().map(|(.., spread)| of(spread)).collect());
    Frame {
        columns: vec![
            ("scenario", text(|row| &row.scenario)),
            ("transport", text(|row| &row.transport)),
            ("congestion", text(|row| &row.congestion)),
            ("rtt", text(|row| &row.rtt)),
            ("queue", text(|row| &row.queue)),
            ("workload", text(|row| &row.workload)),
            ("seconds", Column::Number(rows.iter().map(|(row, ..)| Some(row.seconds)).collect())),
            ("metric", Column::Text(rows.iter().map(|(_, name, _)| Some((*name).to_owned())).collect())),
            ("seeds", Column::Whole(rows.iter().map(|(.., spread)| spread.count as u64).collect())),
            ("mean", number(|spread| Some(spread.mean))),
            ("low", number(|spread| spread.interval.map(|interval| interval.low))),
            ("high", number(|spread| spread.interval.map(|interval| interval.high))),
            ("minimum", number(|spread| Some(spread.minimum))),
            ("maximum", number(|spread| Some(spread.maximum))),
        ],
    }
}
