//! The last observations of one subflow: a ring of fixed size, and the lines through it.

use tributary_types::Instant;

use super::Forecast;
use super::line::{Fit, Line};

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
    /// Latency in seconds, throughput in bit/s.
    pub fn new(at: Instant, latency: f64, throughput: f64) -> Self {
        Self { at, latency, throughput }
    }

    fn features(&self) -> [f64; 2] {
        [self.latency, self.throughput]
    }
}

/// The last observations of a subflow. The fitted lines, which every decision reads, are stored apart from the
/// observations.
#[derive(Debug)]
pub(super) struct History {
    latency: Line,
    throughput: Line,
    /// The time at which `x` is zero. It is not after the oldest observation.
    origin: Instant,
    newest: Instant,
    /// How far a line is extrapolated beyond the newest observation.
    reach: u64,
    /// Observations made; the newest is in place `made - 1`, modulo [`KEPT`].
    made: usize,
    fit: Fit<2>,
    samples: Box<[Sample; KEPT]>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            latency: Line::default(),
            throughput: Line::default(),
            origin: Instant::ZERO,
            newest: Instant::ZERO,
            reach: 0,
            made: 0,
            fit: Fit::default(),
            samples: Box::new([Sample::default(); KEPT]),
        }
    }
}

fn nanos_between(earlier: Instant, later: Instant) -> u64 {
    later.as_nanos().saturating_sub(earlier.as_nanos())
}

impl History {
    /// When the newest observation was made.
    pub fn last(&self) -> Option<Instant> {
        (self.made > 0).then_some(self.newest)
    }

    fn x(&self, at: Instant) -> f64 {
        nanos_between(self.origin, at) as f64 * 1e-9
    }

    fn oldest(&self) -> Instant {
        if self.made > KEPT { self.samples[self.made % KEPT].at } else { self.samples[0].at }
    }

    /// Adds an observation, replacing the oldest one when the ring is full, and fits the lines. A decision only
    /// reads them.
    pub fn push(&mut self, sample: Sample) {
        let replaced = std::mem::replace(&mut self.samples[self.made % KEPT], sample);
        self.made += 1;
        self.newest = sample.at;
        let oldest = self.oldest();
        self.reach = nanos_between(oldest, sample.at);
        // Adding to and removing from the sums accumulates rounding errors. So they are computed anew from the
        // observations: when the origin is too far behind the oldest observation, when time goes back, and once
        // per turn of the ring.
        let left_behind = nanos_between(self.origin, oldest) > self.reach;
        if self.made == 1 || left_behind || sample.at < self.origin || self.made.is_multiple_of(KEPT) {
            self.sum_up();
        } else {
            if self.made > KEPT {
                self.fit.remove(self.x(replaced.at), replaced.features());
            }
            self.fit.add(self.x(sample.at), sample.features());
        }
        [self.latency, self.throughput] = self.fit.lines();
    }

    fn sum_up(&mut self) {
        let kept = self.made.min(KEPT);
        self.origin = self.samples[..kept].iter().map(|sample| sample.at).min().unwrap_or_default();
        self.fit = Fit::default();
        for at in 0..kept {
            let sample = self.samples[at];
            self.fit.add(self.x(sample.at), sample.features());
        }
    }

    /// The lines' values at `now`; `None` without observations.
    ///
    /// Deviates: a line is extrapolated at most as far as the observations reach back, and never below zero; the
    /// paper does not bound it.
    pub fn forecast(&self, now: Instant) -> Option<Forecast> {
        let ahead = nanos_between(self.newest, now).min(self.reach);
        let x = self.x(self.newest) + ahead as f64 * 1e-9;
        let at = |line: &Line| line.at(x).max(0.0);
        (self.made > 0).then(|| Forecast { latency: at(&self.latency), throughput: at(&self.throughput) })
    }
}
