//! How much earlier than the deadline the last tile should begin, learnt from how late tiles were.
//!
//! What begins just before the deadline arrives behind it, is of no use, and takes its time from the next
//! GoP. How far it runs over depends on sizes, rates and buffers nobody tells the client of; it sees it.

use core::time::Duration;
use std::collections::VecDeque;

/// Slots whose lateness counts; their median is taken, for an outage is no habit.
const SLOTS: usize = 5;
/// Of a guard, what stays from slot to slot when nothing is late any more.
const KEPT: f64 = 0.9;
/// The largest share of a GoP duration that is given up.
const MOST: f64 = 0.25;

/// The time to leave before a deadline.
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

    /// A slot is over whose last tile was this late.
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

    /// The time to leave.
    pub(super) fn time(&self) -> Duration {
        self.guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_count_and_outliers_do_not() {
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
