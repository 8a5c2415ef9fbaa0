//! A histogram of times with 6 % resolution and constant memory.

use core::time::Duration;
use serde::Serialize;

const STEPS: usize = 16;
const OCTAVES: usize = 40;

/// Counts times from 1 ns to 18 minutes.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    total: u64,
    max: u64,
}

/// Summary of a distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of values.
    pub count: u64,
    /// Median, µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
    /// 99.9th percentile, µs.
    pub p999_us: f64,
    /// Largest, µs.
    pub max_us: f64,
}

fn bucket(nanos: u64) -> usize {
    let value = nanos.max(STEPS as u64);
    let octave = value.ilog2() as usize - STEPS.ilog2() as usize;
    let step = (value >> octave) as usize - STEPS;
    (octave * STEPS + step).min(STEPS * OCTAVES - 1)
}

/// The middle of a bucket.
fn value_of(bucket: usize) -> u64 {
    let (octave, step) = (bucket / STEPS, bucket % STEPS);
    ((STEPS + step) as u64) << octave | ((1 << octave) >> 1)
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; STEPS * OCTAVES].into(), total: 0, max: 0 }
    }

    pub(crate) fn record(&mut self, time: Duration, times: u64) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += times;
        self.total += times;
        self.max = self.max.max(nanos);
    }

    fn quantile(&self, share: f64) -> f64 {
        let rank = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank.max(1) {
                return value_of(i).min(self.max) as f64 / 1e3;
            }
        }
        0.0
    }

    /// Share of the values above `limit`.
    pub(crate) fn share_above(&self, limit: Duration) -> f64 {
        let from = bucket(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)) + 1;
        let above: u64 = self.counts[from.min(self.counts.len())..].iter().sum();
        above as f64 / self.total.max(1) as f64
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles {
            count: self.total,
            p50_us: self.quantile(0.5),
            p99_us: self.quantile(0.99),
            p999_us: self.quantile(0.999),
            max_us: self.max as f64 / 1e3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_the_resolution() {
        let mut histogram = Histogram::new();
        for us in 1..=1000 {
            histogram.record(Duration::from_micros(us), 1);
        }
        let p = histogram.percentiles();
        assert!((p.p50_us / 500.0 - 1.0).abs() < 0.07, "{p:?}");
        assert!((p.p99_us / 990.0 - 1.0).abs() < 0.07, "{p:?}");
        assert_eq!((p.count, p.max_us), (1000, 1000.0));
        assert!((histogram.share_above(Duration::from_micros(900)) - 0.1).abs() < 0.07);
        assert_eq!(Histogram::new().percentiles(), Percentiles::default());
    }
}
