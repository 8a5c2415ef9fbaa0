//! wVegas, weighted Vegas (Cao, Xu, Fu, "Delay-based congestion control for multipath TCP";
//! draft-xu-mptcp-congestion-control): each subflow keeps a share of ten segments in the queues, in
//! proportion to its rate.
//!
//! Decides once per round trip. A loss halves the window as in Reno.

use tributary_types::Instant;

use super::coupled::Paths;
use super::cwnd::{Cwnd, nanos};
use super::{Ack, CongestionController, Loss, Setup, SiblingView, Siblings};

/// Segments that the whole connection keeps in queues.
const TOTAL_ALPHA: f64 = 10.0;
/// Initial and smallest number of segments that a subflow keeps in queues.
const LEAST_ALPHA: f64 = 2.0;
/// Queued segments that end slow start.
const GAMMA: f64 = 1.0;
/// A round with fewer samples is treated as by Reno.
const SAMPLES: u64 = 3;

/// State of one subflow.
#[derive(Clone, Debug)]
pub(super) struct WVegas {
    cwnd: Cwnd,
    /// Segments that this subflow keeps in queues.
    alpha: f64,
    /// Minimum queueing delay, seconds. Zero does not count: the path was empty. Deviates:
    /// multipath-tcp.org's code accepts zero and would back off on every empty path.
    least_delay: Option<f64>,
    /// Sum, in nanoseconds, and number of the round's samples.
    samples: (u64, u64),
    round_ended: bool,
}

impl WVegas {
    pub fn new(setup: Setup) -> Self {
        let cwnd = Cwnd::new(setup);
        Self { cwnd, alpha: LEAST_ALPHA, least_delay: None, samples: (0, 0), round_ended: false }
    }

    fn grow_as_reno(&mut self, bytes: u64) {
        let rest = self.cwnd.slow_start(bytes).min(self.cwnd.window());
        self.cwnd.grow(rest as f64 / self.cwnd.segments());
    }

    /// Ends a round with a mean of `rtt` seconds, on a path with a minimum of `base` seconds.
    fn judge(&mut self, base: f64, rtt: f64, siblings: Siblings<'_>) {
        let (window, mss) = (self.cwnd.segments(), self.cwnd.mss() as f64);
        let queued = window * (rtt - base) / rtt;
        if self.cwnd.in_slow_start() {
            if queued > GAMMA {
                let fits = (window * base / rtt + 1.0) * mss;
                self.cwnd.set(self.cwnd.window().min(fits as u64).max(2 * self.cwnd.mss()));
                self.cwnd.end_slow_start();
            }
            return;
        }
        if queued >= self.alpha {
            self.alpha = self.share(siblings);
        }
        if queued > self.alpha {
            self.cwnd.grow(-mss);
            self.cwnd.end_slow_start();
        } else if queued < self.alpha {
            self.cwnd.grow(mss);
        }
        self.drain(rtt - base, base / (2.0 * rtt));
        self.cwnd.remember();
    }

    /// Forgets the queues' state, after recovery or idle time.
    fn forget(&mut self) {
        (self.alpha, self.least_delay) = (LEAST_ALPHA, None);
        (self.samples, self.round_ended) = ((0, 0), false);
    }

    /// This subflow's share of the connection's segments in queues, by its rate.
    fn share(&self, siblings: Siblings<'_>) -> f64 {
        let view = self.cwnd.view();
        Paths::new(siblings, &view).map_or(TOTAL_ALPHA, |paths| {
            let rates = paths.sum(|path| path.rate() * path.mss);
            (TOTAL_ALPHA * paths.own().rate() * paths.own().mss / rates).max(LEAST_ALPHA)
        })
    }

    /// At twice the minimum queueing delay the standing queue is drained, so that the base round-trip time
    /// can be measured again.
    fn drain(&mut self, delay: f64, factor: f64) {
        if delay > 0.0 {
            let least = self.least_delay.map_or(delay, |least| least.min(delay));
            self.least_delay = Some(least);
            if delay >= 2.0 * least {
                let kept = (self.cwnd.window() as f64 * factor) as u64;
                self.cwnd.set(kept.max(2 * self.cwnd.mss()));
                self.least_delay = None;
            }
        }
    }
}

impl CongestionController for WVegas {
    fn name(&self) -> &'static str {
        "wvegas"
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
        if self.cwnd.sent(now, bytes, in_flight) {
            self.forget();
        }
    }

    fn on_ack(&mut self, ack: &Ack, siblings: Siblings<'_>) {
        let may_grow = self.cwnd.acknowledge(ack);
        if ack.in_recovery {
            self.samples = (0, 0);
        } else if let Some(rtt) = ack.rtt {
            let (sum, count) = self.samples;
            self.samples = (sum.saturating_add(nanos(rtt)), count + 1);
        }
        self.round_ended |= ack.round_ended;
        if !may_grow {
            return;
        }
        if !self.round_ended {
            self.cwnd.slow_start(ack.bytes);
            return;
        }
        self.round_ended = false;
        let (sum, count) = core::mem::take(&mut self.samples);
        if count < SAMPLES || sum == 0 {
            self.grow_as_reno(ack.bytes);
            return;
        }
        let rtt = sum as f64 / count as f64 / 1e9;
        let slow = self.cwnd.in_slow_start();
        self.judge(ack.min_rtt.as_secs_f64().min(rtt), rtt, siblings);
        if slow {
            self.cwnd.slow_start(ack.bytes);
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: Siblings<'_>) {
        self.cwnd.reduce(loss, self.cwnd.window() / 2);
        self.forget();
    }

    fn on_recovery_end(&mut self, _: Instant) {
        self.cwnd.end_recovery();
        self.forget();
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        self.cwnd.undo();
    }

    fn on_penalty(&mut self, _: Instant) {
        self.cwnd.penalise();
    }
}

#[cfg(test)]
mod tests;
