//! `NewReno` as in Linux: additive increase, multiplicative decrease (RFC 5681, RFC 6582).
//!
//! Counts bytes (RFC 3465) and adds whole segments. Slow start overshoots by up to a window on a path with a
//! short queue, as in Linux; only CUBIC leaves it early.

use tributary_types::Instant;

use super::cwnd::Cwnd;
use super::{Ack, CongestionController, Loss, Setup, SiblingView, Siblings};

/// State of one subflow.
#[derive(Clone, Debug)]
pub(super) struct Reno {
    cwnd: Cwnd,
    /// Bytes acknowledged in congestion avoidance that have not grown the window yet.
    acknowledged: u64,
}

impl Reno {
    pub fn new(setup: Setup) -> Self {
        Self { cwnd: Cwnd::new(setup), acknowledged: 0 }
    }
}

impl CongestionController for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn window(&self) -> u64 {
        self.cwnd.window()
    }

    fn slow_start_threshold(&self) -> u64 {
        self.cwnd.threshold()
    }

    fn view(&self) -> SiblingView {
        self.cwnd.view()
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.cwnd.sent(now, bytes, in_flight);
    }

    fn on_ack(&mut self, ack: &Ack, _: Siblings<'_>) {
        if !self.cwnd.acknowledge(ack) {
            return;
        }
        let rest = self.cwnd.slow_start(ack.bytes);
        self.acknowledged = self.acknowledged.saturating_add(rest);
        let window = self.cwnd.window();
        if self.acknowledged >= window {
            // RFC 5681 §3.1: one segment per window acknowledged.
            let windows = self.acknowledged / window;
            self.acknowledged %= window;
            self.cwnd.set(window.saturating_add(windows.saturating_mul(self.cwnd.mss())));
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: Siblings<'_>) {
        self.cwnd.reduce(loss, self.cwnd.window() / 2); // RFC 5681 §3.1 (4)
        self.acknowledged = 0;
    }

    fn on_recovery_end(&mut self, _: Instant) {
        self.cwnd.end_recovery();
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        self.cwnd.undo();
    }

    fn on_penalty(&mut self, _: Instant) {
        self.cwnd.penalise();
    }
}
