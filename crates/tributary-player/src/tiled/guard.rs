//! The guard interval: the last tile must begin to be sent this long before the deadline. It is learnt from the
//! lateness of tiles.
//!
//! A tile that begins just before the deadline arrives after it; it is useless and delays the next GoP. Its lateness
//! depends on sizes, rates and buffers that the client cannot observe, so the client measures it.

use core::time::Duration;
use std::collections::VecDeque;

/// Slots whose median lateness is used. One outage does not change the guard interval; three late slots of five do.
const SLOTS: usize = 5;
/// Factor per slot by which the interval shrinks while no tile is late.
const KEPT: f64 = 0.9;
/// Maximum interval, as a share of the GoP duration.
const MOST: f64 = 0.25;

/// The guard interval.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    most: Duration,
    guard: Duration,
    late: VecDeque<Duration>,
}

impl Guard {
    pub(super) fn new(gop: Duration) -> Self {
        Self { most: gop.mul_f64(MOST), guard: Duration::ZERO, late: VecDeque::new() }
    }

    /// Records the lateness of a finished slot's last tile.
    pub(super) fn slot_over(&mut self, late: Duration) {
        self.late.push_back(late);
        if self.late.len() > SLOTS {
            self.late.pop_front();
        }
        let mut sorted: Vec<Duration> = self.late.iter().copied().collect();
        sorted.sort_unstable();
        let median = sorted[(sorted.len() - 1) / 2];
        self.guard = median.max(self.guard.mul_f64(KEPT)).min(self.most);
    }

    /// The present interval.
    pub(super) fn time(&self) -> Duration {
        self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_lateness_counts_and_one_outage_does_not() {
        let millis = Duration::from_millis;
        let mut guard = Guard::new(millis(1000));
        for late in [0, 0, 900, 0, 0] {
            guard.slot_over(millis(late));
        }
        assert_eq!(guard.time(), Duration::ZERO);
        for _ in 0..3 {
            guard.slot_over(millis(100));
        }
        assert_eq!(guard.time(), millis(100));
        for _ in 0..5 {
            guard.slot_over(Duration::ZERO);
        }
        assert!((millis(60)..millis(100)).contains(&guard.time()), "{:?}", guard.time());
        for _ in 0..5 {
            guard.slot_over(millis(5000));
        }
        assert_eq!(guard.time(), millis(250));
    }
}
