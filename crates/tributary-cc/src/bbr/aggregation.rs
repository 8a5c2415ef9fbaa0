//! BBR's allowance for paths that delay acknowledgements and release them together (WiFi, cable): how many
//! more bytes were acknowledged than the bandwidth explains, as in Linux since 5.1.

use tributary_types::Instant;

use super::super::cwnd::seconds;

/// Duration of each of the two windows of the maximum, in rounds.
const WINDOW: u32 = 5;
/// Upper limit of the allowance, in seconds of bandwidth.
const LIMIT: f64 = 0.1;
/// Segments after which an epoch restarts.
const RESET: u64 = 1 << 20;

/// The present epoch and the largest excess of the last five to ten rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    since: Instant,
    acknowledged: u64,
    excess: [u64; 2],
    current: usize,
    rounds: u32,
}

impl Aggregation {
    /// Restarts counting after an idle time.
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

    /// `bytes` were acknowledged, at `bandwidth` bytes a second with a window of `window` bytes.
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
