//! Spaces segments as Linux's internal pacing does, in bursts of about a millisecond (`tcp_tso_autosize`).

use tributary_types::{Bitrate, Instant};

use super::offload::MOST_BURST;

/// Below this rate bursts are single segments (BBR's `min_tso_segs`).
const SLOW: u64 = 1_200_000;

/// The pacer of one sender.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    next: Instant,
    burst_left: u64,
    /// Lateness that may shorten the next gap.
    credit: u64,
    waiting: bool,
}

impl Pacer {
    /// Whether a segment may be sent now; if not, [`Self::poll_timeout`] returns when.
    pub fn may_send(&mut self, now: Instant) -> bool {
        self.waiting = self.burst_left == 0 && now < self.next;
        !self.waiting
    }

    /// A segment of `bytes` is sent at `rate`.
    pub fn on_sent(&mut self, now: Instant, bytes: u64, rate: Bitrate, mss: u64) {
        let bps = rate.as_bps().max(1);
        if self.burst_left == 0 {
            self.credit = now.saturating_since(self.next).as_nanos() as u64;
            self.next = self.next.max(now);
            let least = if bps < SLOW { 1 } else { 2 * mss };
            self.burst_left = (bps / 8 / 1024).clamp(least, MOST_BURST.max(least));
        }
        let length = u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(bps)).unwrap_or(u64::MAX);
        let back = self.credit.min(length / 2);
        self.credit -= back;
        self.next = Instant::from_nanos(self.next.as_nanos().saturating_add(length - back));
        self.burst_left = self.burst_left.saturating_sub(bytes);
    }

    /// Nothing more is sent now: the burst is over.
    pub fn pause(&mut self) {
        self.burst_left = 0;
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.waiting.then_some(self.next)
    }

    pub fn on_timeout(&mut self, now: Instant) {
        self.waiting &= now < self.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_of_a_millisecond_at_the_rate() {
        let mut pacer = Pacer::default();
        let rate = Bitrate::from_mbps(96); // 12 kB a millisecond
        let (mut now, mut sent) = (Instant::ZERO, 0);
        while now < Instant::from_millis(100) {
            while pacer.may_send(now) {
                pacer.on_sent(now, 1200, rate, 1200);
                sent += 1200;
            }
            pacer.pause();
            now = pacer.poll_timeout().unwrap();
        }
        assert!((1_200_000..=1_212_000).contains(&sent), "{sent}");
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut pacer = Pacer::default();
        let rate = Bitrate::from_mbps(96);
        let now = Instant::from_millis(5000);
        let mut sent = 0;
        while pacer.may_send(now) {
            pacer.on_sent(now, 1200, rate, 1200);
            sent += 1200;
        }
        assert!(sent <= 12_000, "{sent}");
    }
}
