//! Linear scales and round tick values.

/// Maps a range of values to a range of coordinates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// `low..high` on `start..end`; an empty or broken range becomes one of length 1.
    pub(super) fn new((low, high): (f64, f64), (start, end): (f64, f64)) -> Self {
        let low = if low.is_finite() { low } else { 0.0 };
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        Self { low, high, start, end }
    }

    /// The coordinate of `value`, which may lie outside the range; `NaN` stays `NaN`.
    pub(super) fn at(self, value: f64) -> f64 {
        self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)
    }

    /// The coordinate of `value` moved into the range.
    pub(super) fn clamped(self, value: f64) -> f64 {
        self.at(if value.is_finite() { value.clamp(self.low, self.high) } else { self.low })
    }

    /// About `count` round values inside the range.
    pub(super) fn ticks(self, count: usize) -> Vec<f64> {
        let step = round_step((self.high - self.low) / count.max(1) as f64);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).take(100).map(|i| i as f64 * step).collect()
    }
}

/// The smallest of 1, 2, 2.5, 5 × 10ⁿ that is at least `raw`.
fn round_step(raw: f64) -> f64 {
    if !(raw.is_finite() && raw > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(raw.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= raw * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// The end of an axis from zero: a round value with room above `largest` for labels.
pub(super) fn round_top(largest: f64, ticks: usize) -> f64 {
    if !(largest.is_finite() && largest > 0.0) {
        return 1.0;
    }
    let step = round_step(largest * 1.02 / ticks.max(1) as f64);
    (largest * 1.02 / step).ceil() * step
}

/// A tick label without trailing zeros.
pub(super) fn label(value: f64) -> String {
    let magnitude = value.abs();
    let text = match magnitude {
        m if m >= 10.0 => format!("{value:.1}"),
        m if m >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale::new((0.0, 187.0), (0.0, 100.0));
        assert_eq!(scale.ticks(4), vec![0.0, 50.0, 100.0, 150.0]);
        assert_eq!(
            Scale::new((0.0, 60.0), (0.0, 1.0)).ticks(6),
            (0..=6).map(|i| f64::from(i) * 10.0).collect::<Vec<_>>()
        );
        assert_eq!(round_top(187.0, 4), 200.0);
        assert_eq!(round_top(f64::NAN, 4), 1.0);
    }

    #[test]
    fn broken_ranges_do_not_divide_by_zero() {
        let scale = Scale::new((3.0, 3.0), (0.0, 10.0));
        assert_eq!(scale.at(3.0), 0.0);
        assert!(Scale::new((f64::NAN, f64::INFINITY), (0.0, 1.0)).ticks(5).len() < 100);
        assert_eq!(scale.clamped(f64::NAN), 0.0);
    }

    #[test]
    fn labels_have_no_needless_digits() {
        assert_eq!(
            ["0", "50", "2.5", "0.05", "1000"].map(String::from),
            [0.0, 50.0, 2.5, 0.05, 1000.0].map(label)
        );
    }
}
