//! Recent delivery rate of a subflow.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::{Bitrate, DataSize, Instant};

/// Recent delivery rate of a subflow while it is busy.
#[derive(Debug, Default)]
pub(super) struct RecentRate {
    /// Times and bytes delivered until then, oldest first.
    samples: VecDeque<(Instant, u64)>,
    delivered: u64,
    /// Rate to use before there are enough samples.
    prior: Option<Bitrate>,
}

impl RecentRate {
    /// Length of the window, unless the round trip is longer, because acknowledgements arrive once per round trip.
    pub const SPAN: Duration = Duration::from_millis(100);
    /// Least time for an estimate; at least 1.25 round trips.
    const LEAST: Duration = Duration::from_millis(30);
    /// Length of the long window.
    pub const LONG: Duration = Duration::from_secs(1);
    /// Time between samples.
    const STEP: Duration = Duration::from_millis(5);

    /// The subflow becomes busy, or delivers again after being silent, so earlier samples do not count; `prior` is the
    /// rate used at first.
    pub fn begin(&mut self, now: Instant, prior: Option<Bitrate>) {
        self.prior = prior;
        self.samples.clear();
        self.samples.push_back((now, self.delivered));
    }

    pub fn progress(&mut self, now: Instant, delivered: u64) {
        self.delivered = delivered;
        if self.samples.back().is_none_or(|(at, _)| now.saturating_since(*at) >= Self::STEP) {
            self.samples.push_back((now, delivered));
        }
        while self.samples.get(1).is_some_and(|(at, _)| now.saturating_since(*at) >= Self::LONG) {
            self.samples.pop_front();
        }
    }

    /// `None` while too little is known. Never zero: a path that stands still has a rate of 1 bit/s.
    pub fn rate(
        &self,
        now: Instant,
        delivered: u64,
        round_trip: Duration,
        span: Duration,
    ) -> Option<Bitrate> {
        let span = span.max(round_trip * 5 / 4);
        let old = self.samples.iter().rev().find(|(at, _)| now.saturating_since(*at) >= span);
        let &(from, before) = old.or(self.samples.front())?;
        let time = now.saturating_since(from);
        if time < Self::LEAST.max(round_trip * 5 / 4) {
            return self.prior;
        }
        let rate = Bitrate::of(DataSize::from_bytes(delivered - before), time)?;
        Some(rate.max(Bitrate::from_bps(1)))
    }
}
