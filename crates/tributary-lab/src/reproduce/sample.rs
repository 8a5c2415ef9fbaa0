//! One measured cell of a reproduction: its labels and its metrics.

use crate::result::AuditNote;
use crate::store::Finished;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Labels of a cell: axis to value, such as `transport` to `fbdt`.
pub type Labels = BTreeMap<String, String>;

/// A text with `{axis}` replaced by the axis's value.
pub(super) fn filled(text: &str, at: &Labels) -> String {
    at.iter().fold(text.to_owned(), |text, (axis, value)| text.replace(&format!("{{{axis}}}"), value))
}

/// Every combination of the values of some axes, the last of which varies first, added to what `fixed` has.
pub(super) fn combined<'a>(
    fixed: Labels,
    axes: impl IntoIterator<Item = (&'a str, Vec<String>)>,
) -> Vec<Labels> {
    axes.into_iter().fold(vec![fixed], |all, (axis, values)| {
        let with = |at: &Labels| {
            let one = |value: &String| at.clone().into_iter().chain([(axis.to_owned(), value.clone())]);
            values.iter().map(|value| one(value).collect()).collect::<Vec<Labels>>()
        };
        all.iter().flat_map(with).collect()
    })
}

/// A metric that experiments measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name in expressions.
    pub name: &'static str,
    /// Unit, empty for a ratio.
    pub unit: &'static str,
    /// Description.
    pub what: &'static str,
    /// The metric is this statistic of this series of the same run. With it a single run has an interval.
    pub of_series: Option<(super::Statistic, &'static str)>,
}

impl Metric {
    /// A metric that is not derived from a series.
    #[must_use]
    pub const fn new(name: &'static str, unit: &'static str, what: &'static str) -> Self {
        Self { name, unit, what, of_series: None }
    }

    /// A statistic of a series of the same run.
    #[must_use]
    pub const fn of(mut self, statistic: super::Statistic, series: &'static str) -> Self {
        self.of_series = Some((statistic, series));
        self
    }
}

/// A finished cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Key of all settings of the run.
    pub key: String,
    /// Labels of the cell.
    pub labels: Labels,
    /// Runs of the same seed are compared with each other.
    pub seed: u64,
    /// Why the run has no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The emulator's audit; `None` in the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditNote>,
    /// Hash of the simulator's event log: equal runs have equal hashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_log_hash: Option<String>,
    /// Values by metric; a series has one number per item.
    pub metrics: BTreeMap<String, Vec<f64>>,
}

impl Sample {
    /// Sets a metric. `None` and numbers that are not finite are left out.
    pub fn set(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.metrics.insert(name.to_owned(), vec![short(value)]);
        }
    }

    /// Sets a series.
    pub fn series(&mut self, name: &str, values: Vec<f64>) {
        self.metrics.insert(name.to_owned(), values.into_iter().map(short).collect());
    }

    /// Adds metrics of the same cell in the simulator, with the prefix `simulated_`.
    pub(super) fn add_simulated(&mut self, simulated: &Self, names: &[&str]) {
        for name in names {
            self.set(&format!("simulated_{name}"), simulated.first(name));
        }
    }

    /// The first number of a metric.
    pub(super) fn first(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).and_then(|values| values.first().copied())
    }

    /// Description of the cell.
    #[must_use]
    pub fn title(&self) -> String {
        title(&self.labels, self.seed)
    }
}

/// Rounds to six decimals, so that values do not change when written and read as JSON.
fn short(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Description of a cell: its values other than the defaults, and its seed.
pub(super) fn title(labels: &Labels, seed: u64) -> String {
    let first = ["scenario", "transport", "congestion"];
    let order = first.iter().copied().chain(labels.keys().map(String::as_str).filter(|k| !first.contains(k)));
    let values = order.filter_map(|axis| labels.get(axis));
    let told: Vec<&str> = values.map(String::as_str).filter(|v| !["scenario", "none"].contains(v)).collect();
    format!("{} · seed {seed}", told.join(" · "))
}

impl Finished for Sample {
    fn key(&self) -> &str {
        &self.key
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn title(&self) -> String {
        Self::title(self)
    }
}
