//! Summary of many pictures or GoPs: the mean of decibels, the decibels of the mean error, and the worst
//! part.
//!
//! The two means differ: a picture that is bad for a moment hardly changes the first and dominates the
//! second. Both are always given.

use serde::{Deserialize, Serialize};

use super::psnr_db;

/// Equal pictures count as this many decibels in a mean of decibels.
pub const MOST_DB: f64 = 100.0;

/// Summary of mean squared errors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of errors.
    pub count: usize,
    /// The mean of their decibels.
    pub mean_db: f64,
    /// The decibels of their mean.
    pub pooled_db: f64,
    /// The decibels of the mean of the worst 5 %, at least one of them.
    pub worst_db: f64,
}

impl Summary {
    /// Summary of mean squared errors; `None` if there are none, or if one is negative or not a number.
    #[must_use]
    pub fn of(errors: &[f64]) -> Option<Self> {
        if errors.is_empty() || !errors.iter().all(|error| *error >= 0.0 && error.is_finite()) {
            return None;
        }
        let count = errors.len();
        let mut worst_first = errors.to_vec();
        worst_first.sort_by(|a, b| b.total_cmp(a));
        let worst = &worst_first[..count.div_ceil(20)];
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let decibels = |error: f64| psnr_db(error).min(MOST_DB);
        Some(Self {
            count,
            mean_db: errors.iter().map(|error| decibels(*error)).sum::<f64>() / count as f64,
            pooled_db: decibels(mean(errors)),
            worst_db: decibels(mean(worst)),
        })
    }
}
