//! Limits a subflow's bytes in flight so that its path's queue stays short, and detects when that has no effect.
//!
//! A congestion controller fills the queue in front of its path: on a slow radio 0.1 s and
//! more. Data in the queue cannot be taken back, and every loss at its end delays all of it.

use core::time::Duration;

use tributary_types::{Bitrate, DataSize, Instant};

/// Target queue of a path, as time.
const QUEUE: Duration = Duration::from_millis(15);
/// Additional bytes, so that whole segments fit: this much time at the path's rate, within these bounds.
const SLACK: Duration = Duration::from_millis(10);
const SLACK_BYTES: (u64, u64) = (8 << 10, 32 << 10);
/// If the delay is still far longer after the limit has applied for this time, other traffic causes the delay.
const TRIED: Duration = Duration::from_secs(2);
/// The limit is then lifted for this time.
const UNLIMITED_TIME: Duration = Duration::from_secs(10);

/// The limit on one subflow.
#[derive(Debug)]
pub(super) struct ShortQueue {
    /// Since when the limit applies, or when it will apply again.
    since: Instant,
}

impl ShortQueue {
    pub fn new(now: Instant) -> Self {
        Self { since: now }
    }

    /// Bytes that may be in flight on a path of this rate and least round trip.
    pub fn most(&self, now: Instant, rate: Bitrate, min_rtt: Duration) -> u64 {
        if now < self.since { u64::MAX } else { bound(rate, min_rtt) }
    }

    /// Takes the recent rate and the best one, the least round trip and the delivery delay.
    pub fn observe(
        &mut self,
        now: Instant,
        (rate, best): (Bitrate, Bitrate),
        (min_rtt, delay): (Duration, Duration),
    ) {
        // A path that is slow at present causes the delay itself.
        let blocked = rate.as_bps() * 2 < best.as_bps();
        if blocked || now < self.since + TRIED {
            return;
        }
        let own = best.time_for(DataSize::from_bytes(bound(best, min_rtt)));
        if own.is_some_and(|own| delay > own * 2 + QUEUE) {
            self.since = now + UNLIMITED_TIME;
        }
    }
}

fn bound(rate: Bitrate, min_rtt: Duration) -> u64 {
    let beyond = rate.size_in(SLACK).as_bytes().clamp(SLACK_BYTES.0, SLACK_BYTES.1);
    rate.size_in(min_rtt + QUEUE).as_bytes() * 5 / 4 + beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(5);

    #[test]
    fn a_slow_path_has_tens_of_milliseconds_under_way_and_a_fast_one_a_round_trip_and_a_queue() {
        let short = ShortQueue::new(Instant::ZERO);
        let most = |mbps| short.most(Instant::ZERO, Bitrate::from_mbps(mbps), RTT);
        assert_eq!(most(5), 12_500 * 5 / 4 + (8 << 10));
        assert_eq!(most(1000), 2_500_000 * 5 / 4 + (32 << 10));
    }

    #[test]
    fn a_queue_filled_by_others_lifts_the_limit_for_a_while() {
        let ms = Duration::from_millis;
        let rate = Bitrate::from_mbps(5);
        let mut short = ShortQueue::new(Instant::ZERO);
        let mut observe = |at: u64, recent, delay| {
            short.observe(Instant::from_millis(at), (recent, rate), (RTT, ms(delay)));
            short.most(Instant::from_millis(at), rate, RTT) == u64::MAX
        };
        assert!(!observe(1900, rate, 300), "the limit has not applied for long enough");
        assert!(!observe(2100, rate, 60), "the bytes in flight explain the delay");
        assert!(!observe(2200, Bitrate::from_mbps(2), 300), "the path is blocked");
        assert!(observe(2300, rate, 300));
        assert!(observe(12_200, rate, 300));
        assert!(!observe(12_400, rate, 300), "the limit applies again");
        assert!(observe(14_400, rate, 300));
    }
}
