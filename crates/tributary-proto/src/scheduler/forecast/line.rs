//! Ordinary least squares with one variable (AVIRA §III-E, equations 1a to 1c), by running sums.

/// Sums over the points of one feature.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    y: f64,
    xy: f64,
}

/// Sums over the points of several features that share their `x`.
///
/// Deviates: algorithm 1 as printed does not reset its sums for each feature, and subtracts squares of
/// time stamps that differ only in their last digits. Here each feature has its own sums, and `x` is counted
/// from an origin near the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit<const FEATURES: usize> {
    count: f64,
    x: f64,
    xx: f64,
    features: [Sums; FEATURES],
}

impl<const FEATURES: usize> Default for Fit<FEATURES> {
    fn default() -> Self {
        Self { count: 0.0, x: 0.0, xx: 0.0, features: [Sums::default(); FEATURES] }
    }
}

impl<const FEATURES: usize> Fit<FEATURES> {
    /// Adds a point.
    pub fn add(&mut self, x: f64, y: [f64; FEATURES]) {
        self.weigh(1.0, x, y);
    }

    /// Removes a point.
    pub fn remove(&mut self, x: f64, y: [f64; FEATURES]) {
        self.weigh(-1.0, x, y);
    }

    fn weigh(&mut self, weight: f64, x: f64, y: [f64; FEATURES]) {
        let weighted = weight * x;
        self.count += weight;
        self.x += weighted;
        self.xx += weighted * x;
        for (sums, y) in self.features.iter_mut().zip(y) {
            sums.y += weight * y;
            sums.xy += weighted * y;
        }
    }

    /// The lines that fit the points best. With fewer than two distinct `x` there is no slope, and a line is the
    /// mean. Finite for finite points.
    pub fn lines(&self) -> [Line; FEATURES] {
        let count = self.count.max(1.0);
        let mean = self.x / count;
        let along = self.xx - self.x * mean;
        // A tiny difference of squares is rounding error.
        let distinct = along > self.xx * 1e-12;
        self.features.map(|sums| {
            let slope = (sums.xy - sums.y * mean) / along;
            let slope = if distinct && slope.is_finite() { slope } else { 0.0 };
            Line { centre: (mean, sums.y / count), slope }
        })
    }
}

/// A straight line, kept as its centre and its slope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    centre: (f64, f64),
    slope: f64,
}

impl Line {
    /// The line's value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.centre.1 + self.slope * (x - self.centre.0)
    }
}
