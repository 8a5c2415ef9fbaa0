//! What a subflow has delivered lately.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::{Bitrate, DataSize, Instant};

/// What a subflow has delivered lately, while it was busy all the time.
#[derive(Debug, Default)]
pub(super) struct RecentRate {
    /// Moments and bytes delivered until then, oldest first.
    marks: VecDeque<(Instant, u64)>,
    delivered: u64,
    /// What to believe before there are marks enough.
    prior: Option<Bitrate>,
}

impl RecentRate {
    /// Time looked back over, unless the round trip is longer: acknowledgements come in its rhythm.
    pub const SPAN: Duration = Duration::from_millis(100);
    /// Less than this, or than a round trip and a quarter, says nothing.
    const LEAST: Duration = Duration::from_millis(30);
    /// The long view.
    pub const LONG: Duration = Duration::from_secs(1);
    /// Time between marks.
    const STEP: Duration = Duration::from_millis(5);

    /// The subflow becomes busy, or moves again after a silence, which says nothing about what it
    /// can do now; `prior` is believed at first.
    pub fn begin(&mut self, now: Instant, prior: Option<Bitrate>) {
        self.prior = prior;
        self.marks.clear();
        self.marks.push_back((now, self.delivered));
    }

    pub fn progress(&mut self, now: Instant, delivered: u64) {
        self.delivered = delivered;
        if self.marks.back().is_none_or(|(at, _)| now.saturating_since(*at) >= Self::STEP) {
            self.marks.push_back((now, delivered));
        }
        while self.marks.get(1).is_some_and(|(at, _)| now.saturating_since(*at) >= Self::LONG) {
            self.marks.pop_front();
        }
    }

    /// `None` while too little is known. Never zero: a path that stands still has a rate of a bit.
    pub fn rate(
        &self,
        now: Instant,
        delivered: u64,
        round_trip: Duration,
        span: Duration,
    ) -> Option<Bitrate> {
        let span = span.max(round_trip * 5 / 4);
        let old = self.marks.iter().rev().find(|(at, _)| now.saturating_since(*at) >= span);
        let &(from, before) = old.or(self.marks.front())?;
        let time = now.saturating_since(from);
        if time < Self::LEAST.max(round_trip * 5 / 4) {
            return self.prior;
        }
        let rate = Bitrate::of(DataSize::from_bytes(delivered - before), time)?;
        Some(rate.max(Bitrate::from_bps(1)))
    }
}
