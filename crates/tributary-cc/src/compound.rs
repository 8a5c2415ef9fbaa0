//! Compound TCP (draft-sridharan-tcpm-ctcp-02): Reno's window plus one that follows the queueing delay. It
//! grows fast on long empty paths and shrinks to zero when a queue builds up.
//!
//! The delay window does not change in slow start and is zero after a timeout.

use tributary_types::Instant;

use super::cwnd::{Cwnd, MAX_WINDOW, nanos};
use super::{Ack, CongestionController, Loss, LossKind, Setup, SiblingView, Siblings};

/// The draft's §3 parameters; windows in segments.
const ALPHA: f64 = 0.125;
const BETA: f64 = 0.5;
const EXPONENT: f64 = 0.75;
/// Queued segments above which the path counts as congested.
const GAMMA: f64 = 30.0;
const ZETA: f64 = 1.0;

/// State of one subflow.
#[derive(Clone, Debug)]
pub(super) struct Compound {
    /// The loss-based component.
    cwnd: Cwnd,
    /// The delay-based component, segments.
    delay_window: f64,
    before: f64,
    /// Sum, in nanoseconds, and number of the round's samples.
    samples: (u64, u64),
}

impl Compound {
    pub fn new(setup: Setup) -> Self {
        Self { cwnd: Cwnd::new(setup), delay_window: 0.0, before: 0.0, samples: (0, 0) }
    }

    /// Both components, segments.
    fn total(&self) -> f64 {
        self.cwnd.segments() + self.delay_window
    }

    /// Mean round-trip time of the round, seconds.
    fn take_mean(&mut self) -> Option<f64> {
        let (sum, count) = core::mem::take(&mut self.samples);
        (count > 0 && sum > 0).then(|| sum as f64 / count as f64 / 1e9)
    }

    fn bound(&self) -> f64 {
        MAX_WINDOW as f64 / self.cwnd.mss() as f64
    }
}

/// The delay window after a round trip of `rtt` seconds with `total` segments.
fn adjust(delay_window: f64, total: f64, base: f64, rtt: f64) -> f64 {
    // Draft §3: queued segments, from the expected and the actual rate.
    let queued = total * (1.0 - base / rtt);
    if queued < GAMMA {
        delay_window + (ALPHA * libm::pow(total, EXPONENT) - 1.0).max(0.0)
    } else {
        (delay_window - ZETA * queued).max(0.0)
    }
}

impl CongestionController for Compound {
    fn name(&self) -> &'static str {
        "compound"
    }

    fn window(&self) -> u64 {
        let delay = self.delay_window * self.cwnd.mss() as f64;
        self.cwnd.window().saturating_add(delay as u64).min(MAX_WINDOW)
    }

    fn slow_start_threshold(&self) -> u64 {
        self.cwnd.threshold()
    }

    fn view(&self) -> SiblingView {
        SiblingView { window: self.window(), ..self.cwnd.view() }
    }

    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        if self.cwnd.sent(now, bytes, in_flight) {
            self.delay_window = 0.0;
        }
    }

    fn on_ack(&mut self, ack: &Ack, _: Siblings<'_>) {
        let may_grow = self.cwnd.acknowledge(ack);
        if let Some(rtt) = ack.rtt {
            let (sum, count) = self.samples;
            self.samples = (sum.saturating_add(nanos(rtt)), count + 1);
        }
        if may_grow {
            let rest = self.cwnd.slow_start(ack.bytes).min(self.window());
            self.cwnd.grow(rest as f64 / self.total()); // the draft's 1/(cwnd + dwnd) a segment
        }
        if ack.round_ended {
            let mean = self.take_mean();
            if let (true, false, Some(rtt)) = (may_grow, self.cwnd.in_slow_start(), mean) {
                let base = ack.min_rtt.as_secs_f64().min(rtt);
                self.delay_window = adjust(self.delay_window, self.total(), base, rtt).min(self.bound());
            }
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: Siblings<'_>) {
        let (total, half) = (self.total(), self.cwnd.segments() / 2.0);
        let before = self.delay_window;
        if self.cwnd.reduce(loss, self.cwnd.window() / 2) {
            self.before = before;
        }
        self.delay_window = match loss.kind {
            LossKind::Fast => (total * (1.0 - BETA) - half).max(0.0),
            LossKind::Timeout => 0.0,
        };
        self.samples = (0, 0);
    }

    fn on_recovery_end(&mut self, _: Instant) {
        self.cwnd.end_recovery();
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        if self.cwnd.undo() {
            self.delay_window = self.delay_window.max(self.before);
        }
    }

    fn on_penalty(&mut self, _: Instant) {
        self.cwnd.penalise();
        self.delay_window /= 2.0;
    }
}

#[cfg(test)]
mod tests;
