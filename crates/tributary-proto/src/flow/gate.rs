//! What a flow's queue does with a datagram that arrives: the queue is bounded by time, and shows congestion early.
//!
//! The delay that the datagram will meet is the bytes of its flow that no subflow has taken and none has room for, over the flow's part of
//! the session's rate. Two rules:
//!
//! - *Bound*: the delay is at most [`BOUND`]. So the flow's own congestion control sees a full queue of a real link, at any
//!   rate. A controlled delay alone does not hold a sender like BBR, which answers to neither loss nor marks soon enough.
//! - *Control*: for bulk, once the delay has been above [`TARGET`] for [`INTERVAL`], datagrams are marked or dropped one at a time, at
//!   a rate that grows with the square root of their number (CoDel, RFC 8289 §5.3).
//!
//! Deviates: RFC 8289 drops at the head, by the time that a packet has waited. Segments are numbered in batches, so the time waited jumps; the
//! delay that is ahead does not (as PIE, RFC 8033 §4.2).

use core::time::Duration;

use tributary_types::{Bitrate, DataSize, Instant};

/// Longest delay in a flow's queue. Shorter ones leave the paths idle when their rate changes; longer ones add to the flow's
/// round trips.
pub(crate) const BOUND: Duration = Duration::from_millis(50);
/// The same for key frames, which come as a burst: without one, nothing is shown until the next one.
pub(crate) const KEY_BOUND: Duration = Duration::from_millis(500);
/// The queue may always hold this, bytes, whatever the rate: an initial window (RFC 9002 §7.2) twice.
const LEAST: u64 = 32 << 10;
const TARGET: Duration = Duration::from_millis(15);
const INTERVAL: Duration = Duration::from_millis(100);

/// What happens to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Queue,
    /// Shows congestion: marked if it can be, dropped otherwise.
    Signal,
    /// There is no room for it.
    Full,
}

/// The state of one flow's queue.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// When the delay will have been above the target for an interval; `None` while it is below.
    first_above: Option<Instant>,
    /// While it signals: when it does next, and the number of signals so far.
    next: Option<Instant>,
    count: u32,
    last: Option<Instant>,
}

impl Gate {
    /// A datagram of `bytes` arrives behind `ahead` bytes, of which the flow's part of the session's rate, `rate`, may need the time
    /// `bound`.
    pub fn verdict(
        &mut self,
        now: Instant,
        (bytes, ahead): (usize, usize),
        rate: Bitrate,
        bound: Duration,
    ) -> Verdict {
        let most = rate.size_in(bound).as_bytes().max(LEAST);
        let (bytes, ahead) = (bytes as u64, ahead as u64);
        if ahead > 0 && ahead + bytes > most {
            return Verdict::Full;
        }
        let delay = rate.time_for(DataSize::from_bytes(ahead)).unwrap_or_default();
        if delay < TARGET || ahead <= LEAST {
            (self.first_above, self.next) = (None, None);
            return Verdict::Queue;
        }
        let first_above = *self.first_above.get_or_insert(now + INTERVAL);
        match self.next {
            None if now < first_above => return Verdict::Queue,
            None => {
                // RFC 8289 §5.5: soon after the last signal, goes on at about the same rate.
                let recent = self.last.is_some_and(|last| now.saturating_since(last) < INTERVAL * 16);
                self.count = if recent && self.count > 2 { self.count - 2 } else { 1 };
                self.next = Some(self.after(now));
            }
            Some(next) if now < next => return Verdict::Queue,
            Some(next) => {
                self.count = self.count.saturating_add(1);
                self.next = Some(self.after(next));
            }
        }
        self.last = Some(now);
        Verdict::Signal
    }

    /// RFC 8289 §5.3. An IEEE 754 square root is exact, so every machine gives the same result.
    fn after(&self, at: Instant) -> Instant {
        at + Duration::from_nanos((INTERVAL.as_nanos() as f64 / f64::from(self.count).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Bitrate = Bitrate::from_mbps(80);

    fn verdicts(gate: &mut Gate, from: u64, ms: u64, ahead: usize) -> Vec<(u64, Verdict)> {
        let judge = |ms| (ms, gate.verdict(Instant::from_millis(ms), (1200, ahead), RATE, BOUND));
        (from..from + ms).map(judge).filter(|(_, verdict)| *verdict != Verdict::Queue).collect()
    }

    #[test]
    fn a_burst_passes_and_a_standing_queue_is_signalled_ever_more_often() {
        let mut gate = Gate::default();
        // 20 ms of 80 Mbit/s.
        let standing = 200_000;
        assert_eq!(verdicts(&mut gate, 0, 100, standing), []);
        assert_eq!(verdicts(&mut gate, 100, 10, 50_000), []);
        let signals: Vec<u64> =
            verdicts(&mut gate, 110, 1000, standing).into_iter().map(|(ms, _)| ms).collect();
        assert_eq!(signals[..5], [210, 310, 381, 439, 489]);
        assert_eq!(verdicts(&mut gate, 1110, 500, 50_000), []);
    }

    #[test]
    fn the_bound_is_a_time_at_the_rate_and_a_least_number_of_bytes() {
        let mut gate = Gate::default();
        let mut full =
            |bytes, ahead, rate| gate.verdict(Instant::ZERO, (bytes, ahead), rate, BOUND) == Verdict::Full;
        assert!(!full(1200, 500_000 - 1200, RATE) && full(1200, 500_000 - 1199, RATE));
        let slow = Bitrate::from_bps(1000);
        assert!(!full(1200, (32 << 10) - 1200, slow) && full(1200, (32 << 10) - 1199, slow));
        assert!(!full(65_000, 0, slow), "a long datagram passes alone");
        assert!(!full(1200, 1000, Bitrate::ZERO));
    }
}
