//! Similar viewers: viewers who look in the same direction now predict better than all together.
//!
//! Each other viewer is weighted by the angle between the two directions, with a minimum weight, so that a
//! viewer who looks where nobody else looks is predicted from the whole crowd. (After the clusters of Xie et
//! al., "CLS: A Cross-user Learning based System for Improving QoE in 360-degree Video Adaptive Streaming",
//! ACM MM 2018; with a smooth weight instead of clusters.)

use crate::head::HeadTrace;
use crate::sphere::Orientation;

/// Concentration of the weight over directions (von Mises–Fisher): it falls to 1/e at 29 degrees.
const CONCENTRATION: f64 = 8.0;
/// Weight of a viewer who looks the opposite way.
const LEAST_WEIGHT: f64 = 0.02;

/// The weight of each of `others`, in 0…1, for predicting a viewer with orientation `own`, from their
/// directions at `now_s`. For [`Population::outlook_weighted`](super::Population::outlook_weighted).
#[must_use]
pub fn similarity(own: Orientation, others: &[HeadTrace], now_s: f64) -> Vec<f64> {
    let own = own.ahead();
    let weight = |trace: &HeadTrace| {
        let away = 1.0 - trace.at(now_s).ahead().dot(own);
        LEAST_WEIGHT + (1.0 - LEAST_WEIGHT) * libm::exp(-CONCENTRATION * away)
    };
    others.iter().map(weight).collect()
}
