//! The last observations of one subflow: a ring of fixed size, and the lines through it.

use core::time::Duration;

use tributary_types::{Bitrate, Instant};

use super::Forecast;
use super::line::Line;

/// Observations kept.
pub(super) const KEPT: usize = 64;

/// One observation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    at: Instant,
    /// Seconds.
    latency: f64,
    /// bit/s.
    throughput: f64,
}

impl Sample {
    pub fn of(at: Instant, latency: Duration, throughput: Option<Bitrate>) -> Self {
        let throughput = throughput.map_or(0.0, |rate| rate.as_bps() as f64);
        Self { at, latency: latency.as_secs_f64(), throughput }
    }
}

/// The last observations.
#[derive(Debug)]
pub(super) struct History {
    samples: [Sample; KEPT],
    /// Observations made; the newest is in place `made - 1`, modulo [`KEPT`].
    made: usize,
    /// Where `x` is zero: the oldest observation kept.
    origin: Instant,
    latency: Line,
    throughput: Line,
}

impl Default for History {
    fn default() -> Self {
        Self {
            samples: [Sample::default(); KEPT],
            made: 0,
            origin: Instant::ZERO,
            latency: Line::default(),
            throughput: Line::default(),
        }
    }
}

impl History {
    /// When the newest observation was made.
    pub fn last(&self) -> Option<Instant> {
        self.made.checked_sub(1).map(|at| self.samples[at % KEPT].at)
    }

    /// Adds an observation, in place of the oldest when there are enough, and fits the lines: a
    /// decision only reads them.
    pub fn push(&mut self, sample: Sample) {
        self.samples[self.made % KEPT] = sample;
        self.made += 1;
        let kept = &self.samples[..self.made.min(KEPT)];
        let oldest = if self.made > KEPT { self.samples[self.made % KEPT] } else { self.samples[0] };
        self.origin = oldest.at;
        let x = |sample: &Sample| sample.at.saturating_since(oldest.at).as_secs_f64();
        let line = |y: fn(&Sample) -> f64| Line::through(kept.iter().map(|s| (x(s), y(s))));
        self.latency = line(|s| s.latency).unwrap_or_default();
        self.throughput = line(|s| s.throughput).unwrap_or_default();
    }

    /// Where the lines are now; `None` without observations.
    ///
    /// Deviates: a line is followed no farther ahead of the newest observation than the observations
    /// reach back, and never below zero; the paper does not bound it.
    pub fn forecast(&self, now: Instant) -> Option<Forecast> {
        let last = self.last()?;
        let reach = last.saturating_since(self.origin);
        let x = now.min(last + reach).saturating_since(self.origin).as_secs_f64();
        Some(Forecast { latency: self.latency.at(x).max(0.0), throughput: self.throughput.at(x).max(0.0) })
    }
}
