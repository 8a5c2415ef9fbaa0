//! Ordinary least squares with one variable (AVIRA §III-E, equations 1a to 1c).

/// A straight line, kept as its centre and its slope.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    centre: (f64, f64),
    slope: f64,
}

impl Line {
    /// The line closest to the points; their mean where fewer than two distinct `x` leave no slope.
    /// `None` without points. Finite for finite points.
    ///
    /// Deviates: algorithm 1 as printed does not begin its sums anew for each feature, and subtracts
    /// squares of time stamps that are equal but for their last digits. Here `x` is centred first.
    pub fn through(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Self> {
        let (mut count, mut sums) = (0.0, (0.0, 0.0));
        for (x, y) in points.clone() {
            count += 1.0;
            sums = (sums.0 + x, sums.1 + y);
        }
        if count == 0.0 {
            return None;
        }
        let centre = (sums.0 / count, sums.1 / count);
        let (mut along, mut across) = (0.0, 0.0);
        for (x, y) in points {
            along += (x - centre.0) * (x - centre.0);
            across += (x - centre.0) * (y - centre.1);
        }
        let slope = across / along;
        Some(Self { centre, slope: if slope.is_finite() { slope } else { 0.0 } })
    }

    /// The line's value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.centre.1 + self.slope * (x - self.centre.0)
    }
}
