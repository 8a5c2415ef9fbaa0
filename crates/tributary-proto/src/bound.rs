//! A bound that follows use: it doubles while it is used up quickly and falls when hardly anything passes.
//!
//! The rule is that of receive buffer autotuning (Semke, Mahdavi and Mathis, 1998): a bound that is a small
//! multiple of the bytes that pass in a round trip never limits. In TCP's slow start the bytes in flight are at
//! most those delivered so far and the initial window. A bound that doubles each time a quarter of it has passed
//! is at least twice what was delivered. Sessions that share memory have two such bounds, and every stream has one as its
//! receive window. Not here: whether a larger bound is granted.

use core::time::Duration;

use tributary_types::Instant;

/// A bound of which less than a quarter has passed in this time is halved. So it is kept while it is what passes in 16 s.
const REST: Duration = Duration::from_secs(4);
/// Traffic is steady once a bound was used up by a quarter so many times in a row, each time within the pace. A peer that
/// fills what it was granted and then stops gets to two or three.
const STEADY: u32 = 8;

/// A bound on bytes that pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub limit: u64,
    least: u64,
    /// Without traffic the limit falls to this.
    rest: u64,
    pub most: u64,
    /// Bytes that had passed when the current count began, and when that was.
    from: u64,
    since: Instant,
    /// Turns in a row in which a quarter passed in time.
    in_time: u32,
    /// Bytes that had passed when a quarter was last through, or the bound was halved, and when that was.
    used_from: u64,
    used_at: Instant,
    /// Time in which the last quarter passed; `None` once it was taken.
    quarter: Option<Duration>,
}

impl Bound {
    pub fn new(least: u64, start: u64, most: u64) -> Self {
        let least = least.min(most);
        let limit = start.clamp(least, most);
        let zero = Instant::ZERO;
        let (from, since, in_time, used_from, used_at) = (0, zero, 0, 0, zero);
        Self { limit, least, rest: limit, most, from, since, in_time, used_from, used_at, quarter: None }
    }

    /// Takes the number of bytes that have passed so far, and whether the bound was a limit (`wanted`). Returns a
    /// larger bound if one is needed. Lowers the bound after a time with little traffic.
    pub fn observe(&mut self, now: Instant, passed: u64, pace: Duration, wanted: bool) -> Option<u64> {
        let (moved, elapsed) = (passed - self.from, now.saturating_since(self.since));
        let in_time = elapsed <= pace;
        if in_time && moved < self.limit / 4 {
            return None;
        }
        (self.from, self.since) = (passed, now);
        self.in_time = if in_time { self.in_time.saturating_add(1) } else { 0 };
        self.rest(now, passed);
        self.wanted().filter(|_| in_time && wanted)
    }

    /// Lowers the bound for each time in which too little of it has passed. The pace plays no part: it follows the round
    /// trip, and a reader of 1 MiB/s takes little in a few milliseconds whatever the bound.
    fn rest(&mut self, now: Instant, passed: u64) {
        if passed - self.used_from >= self.limit / 4 {
            self.quarter = Some(now.saturating_since(self.used_at));
            (self.used_from, self.used_at) = (passed, now);
            return;
        }
        while self.limit > self.rest && now >= self.used_at + REST {
            (self.used_from, self.used_at) = (passed, self.used_at + REST);
            self.limit = (self.limit / 2).max(self.rest);
        }
    }

    /// Time in which a quarter of the bound passed, however long; once for each quarter.
    pub fn take_quarter(&mut self) -> Option<Duration> {
        self.quarter.take()
    }

    /// Where the present count began.
    pub fn count(&self) -> (u64, Instant) {
        (self.from, self.since)
    }

    /// Whether the present count has lasted longer than the pace.
    pub fn is_late(&self, now: Instant, pace: Duration) -> bool {
        now.saturating_since(self.since) > pace
    }

    /// Twice the bound, as far as it may grow.
    fn doubled(&self) -> u64 {
        (self.limit * 2).min(self.most)
    }

    /// A larger bound, if there is one, for a user that needs it whatever has passed.
    pub fn wanted(&self) -> Option<u64> {
        (self.limit < self.most).then(|| self.doubled())
    }

    /// The bound was a limit for another reason than the rate: doubles it.
    pub fn stretch(&mut self) {
        self.limit = self.doubled();
    }

    pub fn is_steady(&self) -> bool {
        self.in_time >= STEADY
    }

    pub fn halve(&mut self) {
        self.limit = (self.limit / 2).max(self.least);
        self.rest = self.rest.min(self.limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const PACE: Duration = Duration::from_millis(250);

    #[test]
    fn a_bound_doubles_with_each_quarter_that_passes_in_time() {
        let mut bound = Bound::new(MIB, 0, 5 * MIB);
        let now = Instant::from_millis(10);
        assert_eq!(bound.observe(now, MIB / 4 - 1, PACE, true), None);
        assert_eq!(bound.observe(now, MIB / 4, PACE, true), Some(2 * MIB));
        // Refused: requested again a quarter later.
        assert_eq!(bound.observe(now, MIB / 2, PACE, true), Some(2 * MIB));
        bound.limit = 4 * MIB;
        assert_eq!(bound.observe(now, MIB * 3 / 2, PACE, false), None, "the bound was not a limit");
        assert_eq!(bound.observe(now, MIB * 5 / 2, PACE, true), Some(5 * MIB));
        bound.limit = 5 * MIB;
        assert_eq!(bound.observe(now, 10 * MIB, PACE, true), None, "it is the most");
    }

    #[test]
    fn a_bound_that_passes_slowly_stays_and_one_that_rests_shrinks() {
        let mut bound = Bound::new(MIB, 0, 64 * MIB);
        bound.limit = 16 * MIB;
        let mut passed = 0;
        for second in 1..100 {
            // A quarter in 4 s is use, but no reason to grow.
            passed += MIB;
            assert_eq!(bound.observe(Instant::from_millis(second * 1000), passed, PACE, true), None);
        }
        assert_eq!(bound.limit, 16 * MIB);
        bound.observe(Instant::from_millis(96_000 + 7999), passed, PACE, true);
        assert_eq!(bound.limit, 8 * MIB);
        bound.observe(Instant::from_millis(1_000_000), passed, PACE, true);
        assert_eq!(bound.limit, MIB, "and not below the least");
        assert_eq!(
            bound.observe(Instant::from_millis(1_000_001), passed + MIB / 4, PACE, true),
            Some(2 * MIB)
        );
    }

    #[test]
    fn traffic_is_steady_after_eight_quarters_in_time_and_until_a_pause() {
        let mut bound = Bound::new(MIB, 0, 64 * MIB);
        let observe = |bound: &mut Bound, at, quarters| {
            bound.observe(Instant::from_millis(at), quarters * MIB / 4, PACE, true);
            bound.is_steady()
        };
        let steady: Vec<_> = (1..=9).map(|n| observe(&mut bound, n * 250, n)).collect();
        assert_eq!(steady, [false, false, false, false, false, false, false, true, true]);
        assert!(!observe(&mut bound, 9 * 250 + 251, 10));
    }

    #[test]
    fn an_ample_bound_is_kept_at_rest_until_others_need_it() {
        let mut bound = Bound::new(MIB, 8 * MIB, 64 * MIB);
        bound.limit = 32 * MIB;
        assert_eq!(bound.observe(Instant::from_millis(1_000_000), 0, PACE, true), None);
        assert_eq!(bound.limit, 8 * MIB);
        (0..4).for_each(|_| bound.halve());
        assert_eq!(bound.limit, MIB);
        bound.limit = 32 * MIB;
        bound.observe(Instant::from_millis(2_000_000), 0, PACE, true);
        assert_eq!(bound.limit, MIB, "after that it rests at the least");
    }
}
