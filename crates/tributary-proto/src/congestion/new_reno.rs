//! `NewReno`: additive increase, multiplicative decrease (RFC 5681, RFC 6582). Counts bytes (RFC 3465).

use core::time::Duration;

use tributary_types::Instant;

use super::{Ack, CongestionController, Loss, LossKind, Setup, SiblingView, Siblings};

/// State of one subflow.
#[derive(Clone, Debug)]
pub(super) struct NewReno {
    setup: Setup,
    window: u64,
    threshold: u64,
    /// Bytes acknowledged in congestion avoidance that have not grown the window yet.
    acknowledged: u64,
    srtt: Duration,
    base_rtt: Duration,
    /// Window and threshold before the last loss.
    before: Option<(u64, u64)>,
}

impl NewReno {
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            window: setup.initial_window,
            threshold: u64::MAX,
            acknowledged: 0,
            srtt: Duration::ZERO,
            base_rtt: Duration::ZERO,
            before: None,
        }
    }
}

impl CongestionController for NewReno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn slow_start_threshold(&self) -> u64 {
        self.threshold
    }

    fn view(&self) -> SiblingView {
        let (window, mss) = (self.window, self.setup.mss);
        SiblingView { window, mss, srtt: self.srtt, base_rtt: self.base_rtt, ..SiblingView::default() }
    }

    fn on_ack(&mut self, ack: &Ack, _: Siblings<'_>) {
        (self.srtt, self.base_rtt) = (ack.srtt, ack.min_rtt);
        if ack.in_recovery || !ack.cwnd_limited {
            return;
        }
        let mut bytes = ack.bytes;
        if self.window < self.threshold {
            // RFC 5681 §3.1: at most up to the threshold; the rest counts towards avoidance.
            let slow = bytes.min(self.threshold - self.window);
            self.window += slow;
            bytes -= slow;
        }
        self.acknowledged += bytes;
        while self.acknowledged >= self.window {
            self.acknowledged -= self.window;
            self.window += self.setup.mss;
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: Siblings<'_>) {
        let before = (self.window, self.threshold);
        self.threshold = (self.window / 2).max(2 * self.setup.mss); // RFC 5681 §3.1 (4), by window as Linux
        self.window = match loss.kind {
            LossKind::Fast => self.threshold,
            LossKind::Timeout => self.setup.mss,
        };
        self.before = Some(before);
        self.acknowledged = 0;
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        if let Some((window, threshold)) = self.before.take() {
            self.window = self.window.max(window);
            self.threshold = self.threshold.max(threshold);
        }
    }

    fn on_penalty(&mut self, _: Instant) {
        self.window = (self.window / 2).max(self.setup.mss);
    }
}
