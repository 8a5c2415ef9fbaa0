//! BBR's allowance for paths that hold acknowledgements back and let them go together (WiFi, cable):
//! how many more bytes were acknowledged than the bandwidth explains, as in Linux since 5.1.

use tributary_types::Instant;

use super::super::cwnd::seconds;

/// Rounds that each of the two windows of the maximum lasts.
const WINDOW: u32 = 5;
/// Seconds of bandwidth beyond which nothing is allowed.
const LIMIT: f64 = 0.1;
/// Segments after which an epoch starts anew.
const RESET: u64 = 1 << 20;

/// The present epoch and the greatest excess of the last five to ten rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    since: Instant,
    acknowledged: u64,
    excess: [u64; 2],
    current: usize,
    rounds: u32,
}

impl Aggregation {
    /// Counting begins again: the subflow was idle.
    pub fn restart(&mut self, now: Instant) {
        (self.since, self.acknowledged) = (now, 0);
    }

    pub fn start_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= WINDOW {
            self.rounds = 0;
            self.current ^= 1;
            self.excess[self.current] = 0;
        }
    }

    /// `bytes` acknowledged, with `bandwidth` bytes a second and `window` bytes of window.
    pub fn on_ack(&mut self, now: Instant, bytes: u64, bandwidth: f64, limits: Limits) {
        let mut expected = bandwidth * seconds(now.as_nanos().saturating_sub(self.since.as_nanos()));
        let reset = RESET.saturating_mul(limits.mss);
        if self.acknowledged as f64 <= expected || self.acknowledged.saturating_add(bytes) >= reset {
            self.restart(now);
            expected = 0.0;
        }
        self.acknowledged = self.acknowledged.saturating_add(bytes);
        let excess = (self.acknowledged as f64 - expected) as u64;
        let best = &mut self.excess[self.current];
        *best = (*best).max(excess.min(limits.window));
    }

    /// Bytes to add to the window.
    pub fn allowance(&self, bandwidth: f64) -> u64 {
        self.excess[0].max(self.excess[1]).min((bandwidth * LIMIT) as u64)
    }
}

/// Bounds of an excess.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub mss: u64,
    pub window: u64,
}
