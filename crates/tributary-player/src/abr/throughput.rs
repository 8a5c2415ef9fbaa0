//! Throughput rule: the highest quality that the measured throughput sustains, lowered while the buffer is too
//! short for it (insufficient-buffer rule), with abandonment of downloads that take too long. Source: dash.js'
//! `ThroughputRule`, `InsufficientBufferRule` and `AbandonRequestsRule`; MMSys 2018 §4.

use core::time::Duration;

use super::{Decision, Estimate, Progress, Rule, View};

/// Share of the throughput that the rule uses.
const SAFETY: f64 = 0.9;
/// A download is abandoned when it would take more than this many segment durations.
const ABANDON_AFTER: f64 = 1.8;
/// Shortest time after which a download is abandoned.
const LEAST_TIME: Duration = Duration::from_millis(500);

/// Lowers a quality whose segment would arrive only after the buffer runs dry. Source: dash.js'
/// `InsufficientBufferRule`.
#[derive(Clone, Debug)]
pub(super) struct InsufficientBuffer {
    /// Used share of the data that the throughput delivers before the buffer runs dry.
    safety: f64,
}

impl InsufficientBuffer {
    /// Share at the first decision, and the factor by which it shrinks with each decision.
    const FIRST: f64 = 0.9;
    /// Share after many decisions.
    const LEAST: f64 = 0.5;

    /// The highest quality up to `quality` whose segment is safe.
    pub fn limit(&mut self, quality: usize, view: &View<'_>, estimate: Estimate) -> usize {
        let time = view.level.as_secs_f64() - estimate.latency.as_secs_f64();
        let safe = self.safety * time * estimate.throughput;
        self.safety = (self.safety * Self::FIRST).max(Self::LEAST);
        let segment = view.ladder.segment().as_secs_f64();
        let too_large = |lower: &usize| view.ladder.bitrate(lower + 1) * segment > safe;
        (0..quality).find(too_large).unwrap_or(quality)
    }
}

impl Default for InsufficientBuffer {
    fn default() -> Self {
        Self { safety: Self::FIRST }
    }
}

/// The throughput rule.
#[derive(Clone, Debug, Default)]
pub struct Throughput {
    insufficient: InsufficientBuffer,
}

impl Rule for Throughput {
    fn choose(&mut self, view: &View<'_>) -> Decision {
        let Some(estimate) = view.estimate else { return Decision::at_once(0) };
        let quality = view.ladder.sustainable(estimate.throughput * SAFETY, estimate.latency);
        Decision::at_once(self.insufficient.limit(quality, view, estimate))
    }

    fn abandon(&mut self, view: &View<'_>, progress: &Progress) -> Option<usize> {
        let downloading = progress.elapsed.saturating_sub(progress.first_byte).as_secs_f64();
        if progress.elapsed < LEAST_TIME || downloading <= 0.0 || progress.arrived <= 0.0 {
            return None;
        }
        let throughput = progress.arrived / downloading;
        let left = progress.size - progress.arrived;
        let whole = progress.elapsed.as_secs_f64() + left / throughput;
        if whole <= ABANDON_AFTER * view.ladder.segment().as_secs_f64() {
            return None;
        }
        let latency = view.estimate.map_or(progress.first_byte, |estimate| estimate.latency);
        let quality = view.ladder.sustainable(throughput * SAFETY, latency);
        let size = progress.size * view.ladder.bitrate(quality) / view.ladder.bitrate(progress.quality);
        (quality < progress.quality && size < left).then_some(quality)
    }
}
