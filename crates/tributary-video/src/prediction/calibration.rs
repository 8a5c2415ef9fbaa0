//! Evaluation of probabilities: Brier score, logarithmic loss, reliability.
//!
//! Sources: Brier, "Verification of forecasts expressed in terms of probability", 1950; Murphy, "A new
//! vector partition of the probability score", 1973 (reliability).

use serde::{Deserialize, Serialize};

use super::{TileOutlook, TileView};

/// Probabilities closer to 0 or 1 count as this value in the logarithmic loss, so that one certain error does
/// not make it infinite.
const LEAST: f64 = 1e-3;

/// Predictions of similar probability, and their outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ReliabilityBin {
    /// Number of predictions.
    pub count: u64,
    /// Their mean; 0 for none.
    pub predicted: f64,
    /// The share that came true; 0 for none.
    pub observed: f64,
}

/// Collects predictions with their outcomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Per bin: count, sum of probabilities, number that came true.
    bins: Vec<(u64, f64, u64)>,
    brier: f64,
    log_loss: f64,
}

impl Calibration {
    /// An empty collection with `bins` (at least 1) equal parts of 0…1 for the reliability.
    #[must_use]
    pub fn new(bins: usize) -> Self {
        Self { bins: vec![(0, 0.0, 0); bins.max(1)], brier: 0.0, log_loss: 0.0 }
    }

    /// Adds one prediction; a probability outside 0…1 counts as the nearest inside.
    pub fn add(&mut self, probability: f64, came_true: bool) {
        let probability = if probability.is_nan() { 0.5 } else { probability.clamp(0.0, 1.0) };
        let bins = self.bins.len();
        let bin = &mut self.bins[((probability * bins as f64) as usize).min(bins - 1)];
        bin.0 += 1;
        bin.1 += probability;
        bin.2 += u64::from(came_true);
        let outcome = f64::from(u8::from(came_true));
        self.brier += (probability - outcome) * (probability - outcome);
        let likely = probability.clamp(LEAST, 1.0 - LEAST);
        self.log_loss -= libm::log(if came_true { likely } else { 1.0 - likely });
    }

    /// Adds one GoP's tiles.
    pub fn add_gop(&mut self, outlook: &[TileOutlook], views: &[TileView]) {
        for (outlook, view) in outlook.iter().zip(views) {
            self.add(outlook.seen, view.seen);
        }
    }

    /// Number of predictions.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bins.iter().map(|(count, ..)| count).sum()
    }

    /// Brier score: mean squared difference of probability and outcome; 0 is perfect, 0.25 a coin toss; 0 if
    /// empty.
    #[must_use]
    pub fn brier(&self) -> f64 {
        self.brier / self.count().max(1) as f64
    }

    /// Logarithmic loss: mean negative logarithm of the probability of the outcome, nats; 0 if empty.
    #[must_use]
    pub fn log_loss(&self) -> f64 {
        self.log_loss / self.count().max(1) as f64
    }

    /// Predicted and observed frequencies.
    #[must_use]
    pub fn reliability(&self) -> Vec<ReliabilityBin> {
        let bin = |(count, sum, came_true): &(u64, f64, u64)| ReliabilityBin {
            count: *count,
            predicted: sum / (*count).max(1) as f64,
            observed: *came_true as f64 / (*count).max(1) as f64,
        };
        self.bins.iter().map(bin).collect()
    }

    /// The mean distance of predicted and observed frequencies over all predictions.
    #[must_use]
    pub fn calibration_error(&self) -> f64 {
        let distance = |bin: ReliabilityBin| bin.count as f64 * (bin.predicted - bin.observed).abs();
        self.reliability().into_iter().map(distance).sum::<f64>() / self.count().max(1) as f64
    }
}

/// Share of the viewport that was expected in the wrong place: 0 is perfect, 1 is all wrong.
#[must_use]
pub fn share_distance(outlook: &[TileOutlook], views: &[TileView]) -> f64 {
    outlook.iter().zip(views).map(|(outlook, view)| (outlook.share - view.share).abs()).sum::<f64>() / 2.0
}
