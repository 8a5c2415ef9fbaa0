//! The classifier: the subflow with the least weighted sum of forecast latency and throughput is the best.
//!
//! Source: AVIRA §III-F and algorithm 1, lines 19 to 27. The paper then applies a sigmoid and sorts. It is
//! monotone, so it does not change the order of the sums and is left out.
//!
//! Deviates: the paper adds milliseconds and bits per second as they are. Here each feature is divided by
//! the largest of all subflows first, so that weights mean the same on every network.

use thiserror::Error;
use tributary_types::{Instant, SubflowId};

use super::SubflowView;
use super::forecast::{Forecast, Tracker};
use crate::content::ContentClass;

/// Weights of latency and throughput in the choice of the best subflow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Weight of the forecast latency relative to the largest one: the larger, the more latency counts against a
    /// subflow. From 0.001 to 1000.
    pub latency: f64,
    /// Weight of the forecast throughput relative to the largest one: the lower, the more throughput counts for a
    /// subflow. From -1000 to 0.
    pub throughput: f64,
}

/// Latency counts four times as much as throughput: prioritised data is small.
impl Default for Weights {
    fn default() -> Self {
        Self { latency: 1.0, throughput: -0.25 }
    }
}

/// A weight is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("weight `{field}` is {value}; it must be {range}")]
pub struct WeightsError {
    /// The weight.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub range: &'static str,
}

impl Weights {
    /// Checks both weights.
    ///
    /// # Errors
    /// [`WeightsError`] names the first that is out of range, or not a number, and the range.
    pub fn check(&self) -> Result<(), WeightsError> {
        let refuse = |field, value: f64, range| Err(WeightsError { field, value: value.to_string(), range });
        if !(0.001..=1000.0).contains(&self.latency) {
            return refuse("latency", self.latency, "from 0.001 to 1000");
        }
        if !(-1000.0..=0.0).contains(&self.throughput) {
            return refuse("throughput", self.throughput, "from -1000 to 0");
        }
        Ok(())
    }

    /// The weights for a class of content; `self` are the session's.
    pub(super) fn of(self, content: ContentClass) -> Self {
        match content {
            ContentClass::Mixed => self,
            ContentClass::Latency => Self { latency: 1.0, throughput: 0.0 },
            ContentClass::Throughput => Self { latency: 0.0, throughput: -1.0 },
        }
    }

    /// Weights of the features after each is divided by its largest value.
    fn scaled(&self, largest: Forecast) -> Self {
        let over = |weight: f64, most: f64| if most > 0.0 { weight / most } else { 0.0 };
        Self {
            latency: over(self.latency, largest.latency),
            throughput: over(self.throughput, largest.throughput),
        }
    }

    fn score(&self, forecast: Forecast) -> f64 {
        self.latency * forecast.latency + self.throughput * forecast.throughput
    }
}

/// A subflow with its forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub subflow: SubflowId,
    pub score: f64,
    pub forecast: Forecast,
    /// It has room now.
    pub has_room: bool,
}

/// Number of subflows whose forecasts are computed once and kept; further ones are computed twice.
const MOST: usize = 32;

/// The best of the `allowed` subflows; silent ones only when all of them are silent.
pub(super) fn best(
    (now, tracker, weights): (Instant, &Tracker, &Weights),
    subflows: &[SubflowView],
    allowed: impl Fn(&SubflowView) -> bool,
) -> Option<Choice> {
    let mut forecasts = [Forecast::default(); MOST];
    let (mut scale, mut moving) = (Forecast::default(), false);
    for (at, view) in subflows.iter().enumerate() {
        let forecast = tracker.forecast(now, view, at);
        scale.latency = scale.latency.max(forecast.latency);
        scale.throughput = scale.throughput.max(forecast.throughput);
        moving |= !view.silent;
        if let Some(kept) = forecasts.get_mut(at) {
            *kept = forecast;
        }
    }
    let weights = weights.scaled(scale);
    let mut best: Option<Choice> = None;
    for (at, view) in subflows.iter().enumerate() {
        if view.silent == moving || !allowed(view) {
            continue;
        }
        let forecast = forecasts.get(at).copied().unwrap_or_else(|| tracker.forecast(now, view, at));
        let score = weights.score(forecast);
        let order = |best: &Choice| score.total_cmp(&best.score).then(view.id.cmp(&best.subflow));
        if best.as_ref().is_none_or(|best| order(best).is_lt()) {
            best = Some(Choice { subflow: view.id, score, forecast, has_room: view.room > 0 });
        }
    }
    best
}

#[cfg(test)]
mod tests;
