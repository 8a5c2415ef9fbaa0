//! What MuSher measures: the sum of the subflows' rates and the sum of their queues.
//!
//! Source: MuSher's public code, which reads the interfaces' counters of sent bytes. Here they are the bytes that
//! the subflows took. Bytes that have arrived would be a worse measure: during loss recovery their number stands
//! still, then jumps. A queue is what the subflow holds unacknowledged, averaged over all samples of the interval.

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_types::{Instant, SubflowId};

use crate::scheduler::SubflowView;

/// Sums over all subflows in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Mbit/s.
    pub rate: f64,
    /// Bytes.
    pub queue: f64,
}

/// Counters of the current interval.
#[derive(Debug, Default)]
pub(super) struct Meter {
    since: Option<Instant>,
    /// Bytes that each subflow had taken when the interval began.
    taken: BTreeMap<SubflowId, u64>,
    queued: u64,
    looks: u64,
}

fn taken(subflow: &SubflowView) -> u64 {
    subflow.delivered + subflow.in_flight
}

impl Meter {
    /// Samples the subflows. Returns the sums of the interval once `period` is over, and begins the next one.
    pub fn look(&mut self, now: Instant, period: Duration, subflows: &[SubflowView]) -> Option<Sample> {
        self.queued += subflows.iter().map(|s| s.in_flight).sum::<u64>();
        self.looks += 1;
        let elapsed = self.since.map(|since| now.saturating_since(since));
        if elapsed.is_some_and(|elapsed| elapsed < period) {
            return None;
        }
        let before = |s: &SubflowView| self.taken.get(&s.id).copied().unwrap_or(0);
        let bytes: u64 = subflows.iter().map(|s| taken(s).saturating_sub(before(s))).sum();
        let sample = elapsed.map(|elapsed| Sample {
            rate: bytes as f64 * 8.0 / 1e6 / elapsed.as_secs_f64(),
            queue: self.queued as f64 / self.looks as f64,
        });
        let taken = subflows.iter().map(|s| (s.id, taken(s))).collect();
        *self = Self { since: Some(now), taken, queued: 0, looks: 0 };
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::one_at_a_time::tests::view;

    #[test]
    fn a_sample_has_what_was_taken_in_its_interval_and_the_mean_queue() {
        let period = Duration::from_millis(100);
        let mut meter = Meter::default();
        let mut look = |ms, delivered: &[u64], in_flight| {
            let subflows: Vec<_> = delivered
                .iter()
                .zip(0..)
                .map(|(&delivered, id)| SubflowView { delivered, in_flight, ..view(id, 10, 1) })
                .collect();
            let sample = meter.look(Instant::from_millis(ms), period, &subflows);
            sample.map(|sample| (sample.rate.round(), sample.queue))
        };
        assert_eq!(look(1000, &[500_000, 0], 0), None, "bytes sent before the first interval do not count");
        assert_eq!(look(1050, &[600_000, 0], 10_000), None);
        // 145 kB + 55 kB in 100 ms are 16 Mbit/s; queues of 2 × 10 kB and 2 × 20 kB.
        assert_eq!(look(1100, &[625_000, 35_000], 20_000), Some((16.0, 30_000.0)));
        // A new subflow counts from its first byte on: 25 kB in 200 ms.
        assert_eq!(look(1300, &[645_000, 55_000, 25_000], 0), Some((1.0, 0.0)));
    }
}
