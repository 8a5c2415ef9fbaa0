//! CUBIC (RFC 9438): after a loss the window follows a cubic function of time, flat around the window at
//! which the loss happened. With HyStart, as by default in Linux.
//!
//! Windows are in segments here, as in the RFC; the returned window is in bytes. Where the RFC leaves a
//! choice or Linux differs, this follows Linux's `tcp_cubic.c`: whole segments, growth that is recomputed
//! only at intervals, and a target one minimum round trip ahead.

mod hystart;

use core::time::Duration;

use tributary_types::Instant;

use super::cwnd::{Cwnd, MAX_WINDOW, nanos, seconds};
use super::{Ack, CongestionController, Loss, LossKind, Setup, SiblingView, Siblings};
use hystart::HyStart;

/// RFC 9438 §5: segments per second cubed.
const C: f64 = 0.4;
/// RFC 9438 §4.6: share of the window that remains after a loss, 0.7 as in Linux.
const BETA: f64 = 717.0 / 1024.0;
/// RFC 9438 §4.3: segments per round trip that make it as fast as Reno, which halves its window after a loss.
/// Deviates: §4.3 continues with 1 above the window of the last loss; Linux does not.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Fewest acknowledged segments that grow the window by one (RFC 9438 §4.4: by half per round trip).
const FASTEST: f64 = 2.0;
/// Most acknowledged segments per growth by one before the first loss (Linux).
const SLOWEST_BEFORE_LOSS: f64 = 20.0;
/// Windows of acknowledged segments per growth by one at the flat point (Linux).
const FLAT: f64 = 100.0;
/// Growth is recomputed at this interval while the window does not change (Linux's `HZ / 32`).
const RECOMPUTE_INTERVAL: Duration = Duration::from_nanos(31_250_000);

/// A congestion-avoidance stage.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it began, shifted by the time in which the window could not grow.
    start: Instant,
    /// Seconds from the beginning to the flat point (K).
    to_origin: f64,
    /// Window at the flat point (W_max), segments.
    origin: f64,
    /// Window of a Reno flow under the same conditions (W_est), segments.
    reno: f64,
    /// Segments acknowledged since `reno` was updated.
    acked: f64,
    /// Acknowledged segments that have not grown the window yet; if growth becomes faster they count at once
    /// (Linux's `snd_cwnd_cnt`).
    credit: f64,
    /// When growth was last computed, and for which window; `None` before the first time.
    known: Option<(Instant, f64)>,
    /// Acknowledged segments per growth by one.
    each: f64,
}

impl Epoch {
    /// Starts at `window` segments, with the last loss at `w_max`.
    fn begin(start: Instant, window: f64, w_max: f64) -> Self {
        let (to_origin, origin) = if window < w_max {
            (libm::cbrt((w_max - window) / C), w_max) // RFC 9438 §4.2, figure 2
        } else {
            (0.0, window)
        };
        Self { start, to_origin, origin, reno: window, acked: 0.0, credit: 0.0, known: None, each: FASTEST }
    }

    /// RFC 9438 §4.2, figure 1: segments at `t` seconds. As in Linux, the distance from the flat point is in
    /// whole segments: if it is less than one, the target is the flat point.
    fn at(&self, t: f64) -> f64 {
        let t = t - self.to_origin;
        self.origin + (C * t * t * t).trunc()
    }

    /// Recomputes growth from `window` segments, unless it is recent (Linux's `bictcp_update`).
    fn aim(&mut self, now: Instant, window: f64, (ahead, aimed): (Duration, bool)) {
        let fresh = |(at, of): (Instant, f64)| {
            of.to_bits() == window.to_bits() && now.saturating_since(at) <= RECOMPUTE_INTERVAL
        };
        if self.known.is_some_and(fresh) {
            return;
        }
        self.known = Some((now, window));
        let t = seconds(now.as_nanos().saturating_sub(self.start.as_nanos()));
        // RFC 9438 §4.4 and §4.5, one minimum round trip ahead.
        let target = self.at(t + seconds(nanos(ahead)));
        self.each = if target > window { (window / (target - window)).trunc() } else { FLAT * window };
        if !aimed {
            self.each = self.each.min(SLOWEST_BEFORE_LOSS);
        }
        // RFC 9438 §4.3, figure 4.
        let step = (window / ALPHA).trunc().max(1.0);
        let steps = ((self.acked / step).ceil() - 1.0).max(0.0);
        self.reno = (self.reno + steps).min(MAX_WINDOW as f64);
        self.acked -= steps * step;
        if self.reno > window {
            self.each = self.each.min((window / (self.reno - window)).trunc());
        }
        self.each = self.each.max(FASTEST);
    }

    /// Whole segments by which `acked` acknowledged segments grow the window (Linux's `tcp_cong_avoid_ai`).
    fn grow(&mut self, acked: f64) -> u64 {
        let mut grown = 0;
        if self.credit >= self.each {
            (self.credit, grown) = (0.0, 1);
        }
        self.credit += acked;
        let whole = (self.credit / self.each) as u64;
        self.credit = (self.credit - whole as f64 * self.each).max(0.0);
        grown + whole
    }
}

/// State that an undo restores besides the window (RFC 9438 §4.9.2).
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    epoch: Option<Epoch>,
    /// Window at the last loss, reduced by fast convergence; zero before the first.
    w_max: f64,
}

/// State of one subflow.
#[derive(Clone, Debug)]
pub(super) struct Cubic {
    cwnd: Cwnd,
    hystart: Option<HyStart>,
    curve: Curve,
    before: Curve,
    /// Until when time without possible growth has been removed from the epoch.
    counted: Instant,
}

impl Cubic {
    /// With HyStart.
    pub fn new(setup: Setup) -> Self {
        Self { hystart: Some(HyStart::new(setup.ack_trains)), ..Self::without_hystart(setup) }
    }

    /// With slow start up to the first loss.
    pub fn without_hystart(setup: Setup) -> Self {
        Self {
            cwnd: Cwnd::new(setup),
            hystart: None,
            curve: Curve::default(),
            before: Curve::default(),
            counted: Instant::ZERO,
        }
    }

    /// Removes the time since the last event from the epoch if the window could not grow in it.
    fn count(&mut self, now: Instant, could_grow: bool) {
        if let (false, Some(epoch)) = (could_grow, &mut self.curve.epoch) {
            epoch.start = (epoch.start + now.saturating_since(self.counted)).min(now);
        }
        self.counted = self.counted.max(now);
    }

    /// Congestion avoidance with `bytes` acknowledged (RFC 9438 §4.2 to §4.5).
    fn avoid(&mut self, now: Instant, bytes: u64, min_rtt: Duration) {
        let window = self.whole_segments();
        let acked = self.cwnd.in_segments(bytes as f64);
        let curve = &mut self.curve;
        let epoch = curve.epoch.get_or_insert_with(|| Epoch::begin(now, window, curve.w_max));
        epoch.acked += acked;
        epoch.aim(now, window, (min_rtt, curve.w_max > 0.0));
        let grown = epoch.grow(acked);
        self.cwnd.set(self.cwnd.window().saturating_add(grown.saturating_mul(self.cwnd.mss())));
    }

    /// The window as Linux counts it.
    fn whole_segments(&self) -> f64 {
        (self.cwnd.window() / self.cwnd.mss()).max(1) as f64
    }
}

impl CongestionController for Cubic {
    fn name(&self) -> &'static str {
        if self.hystart.is_some() { "cubic" } else { "cubic-no-hystart" }
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
        if in_flight <= bytes {
            self.count(now, false); // RFC 9438 §5.8; Linux shifts its epoch here too
        }
    }

    fn on_ack(&mut self, ack: &Ack, _: Siblings<'_>) {
        let may_grow = self.cwnd.acknowledge(ack);
        self.count(ack.now, ack.cwnd_limited);
        if let Some(hystart) = &mut self.hystart
            && self.cwnd.in_slow_start()
            && hystart.on_ack(ack, self.cwnd.segments(), self.cwnd.mss())
        {
            self.cwnd.end_slow_start();
        }
        if may_grow {
            let rest = self.cwnd.slow_start(ack.bytes);
            if rest > 0 {
                self.avoid(ack.now, rest, ack.min_rtt);
            }
        }
    }

    fn on_loss(&mut self, loss: &Loss, _: Siblings<'_>) {
        let window = self.whole_segments();
        let target = (window * BETA) as u64 * self.cwnd.mss(); // RFC 9438 §4.6, in whole segments
        if self.cwnd.reduce(loss, target) {
            self.before = self.curve;
            // RFC 9438 §4.7, fast convergence: a flow whose window has shrunk gives up some more.
            self.curve.w_max =
                if window < self.curve.w_max { (window * (1.0 + BETA) / 2.0).trunc() } else { window };
        }
        self.curve.epoch = None;
        if loss.kind == LossKind::Timeout {
            self.curve.w_max = 0.0; // RFC 9438 §4.8: K is zero in the stage after it
            if let Some(hystart) = &mut self.hystart {
                hystart.restart();
            }
        }
    }

    fn on_recovery_end(&mut self, _: Instant) {
        self.cwnd.end_recovery();
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        if self.cwnd.undo() {
            self.curve = self.before; // RFC 9438 §4.9.2
        }
    }

    fn on_penalty(&mut self, _: Instant) {
        self.cwnd.penalise();
        self.curve.epoch = None;
    }
}

#[cfg(test)]
mod tests;
