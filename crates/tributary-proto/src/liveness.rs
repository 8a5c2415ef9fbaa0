//! The liveness rule and its checker, for tests: *every stream whose reader reads makes progress within T while a path
//! lives.*
//!
//! T is [`allowed`]: four round trips, one second, and the time in which the paths carry one segment of every other
//! stream, because waiting streams take turns by segments. The second covers what a silent path costs until its
//! segments are sent on another one. The checker knows nothing of sessions: whoever drives two ends tells it what a
//! reader is owed and what it has read, in virtual or in wall time. Not here: what makes the rule true
//! ([`crate::Session`]).

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use tributary_types::{Bitrate, Instant};

use crate::wire::MAX_SEGMENT;

/// Round trips in T, and its constant part.
const ROUND_TRIPS: u32 = 4;
const CONSTANT: Duration = Duration::from_secs(1);

/// The T of the rule: for paths whose longest round trip is `rtt` and that carry `rate` together, with `streams`
/// streams that have data.
#[must_use]
pub fn allowed(rtt: Duration, rate: Bitrate, streams: usize) -> Duration {
    let turn_ms = (8000 * (streams * MAX_SEGMENT) as u64).div_ceil(rate.as_bps().max(1));
    rtt * ROUND_TRIPS + CONSTANT + Duration::from_millis(turn_ms)
}

/// What the reader of one stream waits for.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// Bytes that it has read.
    read: u64,
    /// When it had last made progress, or was owed nothing.
    since: Instant,
}

/// A stream that breaks the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The stream, as the caller names it.
    pub stream: u64,
    /// Bytes that its reader has read.
    pub read: u64,
    /// Time without progress.
    pub waited: Duration,
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, read, waited } = self;
        write!(f, "stream {stream}: its reader reads and has got nothing for {waited:?} after {read} bytes")
    }
}

/// Watches the streams of one direction of one session.
#[derive(Debug, Default)]
pub struct Liveness {
    streams: BTreeMap<u64, Waiting>,
}

impl Liveness {
    /// A stream's state: whether its reader is `owed` bytes (the writer has written more, or waits for room to write,
    /// and the reader takes whatever comes), and the bytes `read` so far.
    pub fn observe(&mut self, now: Instant, stream: u64, owed: bool, read: u64) {
        let known = self.streams.entry(stream).or_insert(Waiting { read, since: now });
        if !owed || read != known.read {
            *known = Waiting { read, since: now };
        }
    }

    /// Forgets the streams that have ended.
    pub fn retain(&mut self, mut lives: impl FnMut(u64) -> bool) {
        self.streams.retain(|stream, _| lives(*stream));
    }

    /// No path lives: no stream can make progress.
    pub fn interrupted(&mut self, now: Instant) {
        self.streams.values_mut().for_each(|waiting| waiting.since = now);
    }

    /// Whether every stream made progress within `allowed`.
    ///
    /// # Errors
    /// The stream that has waited longest.
    pub fn check(&self, now: Instant, allowed: Duration) -> Result<(), Overdue> {
        let longest = self.streams.iter().min_by_key(|(_, waiting)| waiting.since);
        let Some((&stream, &Waiting { read, since })) = longest else { return Ok(()) };
        let waited = now.saturating_since(since);
        if waited <= allowed { Ok(()) } else { Err(Overdue { stream, read, waited }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(second: u64) -> Instant {
        Instant::from_millis(second * 1000)
    }

    #[test]
    fn a_stream_that_is_owed_bytes_and_gets_none_is_named() {
        let mut liveness = Liveness::default();
        for second in 0..=3 {
            liveness.observe(at(second), 4, true, 100);
            liveness.observe(at(second), 8, true, second);
            liveness.observe(at(second), 12, false, 5);
        }
        assert_eq!(liveness.check(at(3), 3 * SECOND), Ok(()));
        let overdue = Overdue { stream: 4, read: 100, waited: 3 * SECOND };
        assert_eq!(liveness.check(at(3), 2 * SECOND), Err(overdue));
        liveness.interrupted(at(3));
        assert_eq!(liveness.check(at(4), SECOND), Ok(()));
        assert!(liveness.check(at(5), SECOND).is_err());
        liveness.retain(|stream| stream > 12);
        assert_eq!(liveness.check(at(50), SECOND), Ok(()));
    }

    #[test]
    fn the_time_allowed_grows_with_round_trips_and_with_other_streams() {
        let rtt = Duration::from_millis(50);
        assert_eq!(allowed(rtt, Bitrate::from_mbps(1000), 0), Duration::from_millis(1200));
        // 1000 segments of 64 KiB at 100 Mbit/s.
        let crowded = allowed(rtt, Bitrate::from_mbps(100), 1000);
        assert!((Duration::from_millis(6400)..Duration::from_millis(6500)).contains(&crowded), "{crowded:?}");
    }
}
