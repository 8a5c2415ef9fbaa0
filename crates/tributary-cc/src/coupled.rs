//! Common parts of the coupled controllers: Reno whose increase, and sometimes decrease, depends on the other
//! subflows of the connection. One file per rule: LIA, OLIA, BALIA.
//!
//! Only congestion avoidance is coupled; each subflow has its own slow start (RFC 6356 §3). Without a sibling
//! that has a round-trip time, every rule equals Reno.

use core::fmt::Debug;

use tributary_types::Instant;

use super::cwnd::{Cwnd, nanos, seconds};
use super::{Ack, CongestionController, Loss, Setup, SiblingView, Siblings};

/// One subflow, as input of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Path {
    /// Window, segments.
    pub window: f64,
    /// Maximum segment size, bytes.
    pub mss: f64,
    /// Smoothed round-trip time, seconds; above zero.
    pub rtt: f64,
    /// OLIA's ℓ: the larger of the bytes acknowledged since the last loss and between the last two.
    pub transit: f64,
}

impl Path {
    fn of(view: &SiblingView) -> Option<Self> {
        (view.window > 0 && view.mss > 0 && !view.srtt.is_zero()).then(|| Self {
            window: view.window as f64 / view.mss as f64,
            mss: view.mss as f64,
            rtt: seconds(nanos(view.srtt)),
            transit: view.since_loss.max(view.between_losses) as f64,
        })
    }

    /// Segments a second.
    pub fn rate(&self) -> f64 {
        self.window / self.rtt
    }
}

/// The subflows that have a round-trip time, including this one with its present values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paths<'a> {
    siblings: Siblings<'a>,
    own: Path,
}

impl<'a> Paths<'a> {
    /// `None` before this subflow's first round-trip sample.
    pub fn new(siblings: Siblings<'a>, own: &SiblingView) -> Option<Self> {
        Path::of(own).map(|own| Self { siblings, own })
    }

    pub fn own(&self) -> Path {
        self.own
    }

    pub fn iter(&self) -> impl Iterator<Item = Path> {
        let own = self.siblings.own();
        self.siblings
            .iter()
            .enumerate()
            .filter_map(move |(at, view)| if at == own { Some(self.own) } else { Path::of(view) })
    }

    /// Maximum of `of` over all subflows.
    pub fn max(&self, of: impl Fn(Path) -> f64) -> f64 {
        self.iter().map(of).fold(0.0, f64::max)
    }

    /// Sum of `of` over all subflows.
    pub fn sum(&self, of: impl Fn(Path) -> f64) -> f64 {
        self.iter().map(of).sum()
    }
}

/// How one subflow depends on the others.
pub(super) trait Rule: Debug + Default + Send {
    const NAME: &'static str;

    /// Bytes of window per byte acknowledged in congestion avoidance. May be negative.
    fn increase(paths: &Paths<'_>) -> f64;

    /// Share of the window given up after a loss.
    fn decrease(_: &Paths<'_>) -> f64 {
        0.5
    }
}

/// State of one subflow under rule `R`.
#[derive(Clone, Debug)]
pub(super) struct Coupled<R> {
    cwnd: Cwnd,
    rule: core::marker::PhantomData<R>,
}

impl<R: Rule> Coupled<R> {
    pub fn new(setup: Setup) -> Self {
        Self { cwnd: Cwnd::new(setup), rule: core::marker::PhantomData }
    }
}

impl<R: Rule> CongestionController for Coupled<R> {
    fn name(&self) -> &'static str {
        R::NAME
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

    fn on_ack(&mut self, ack: &Ack, siblings: Siblings<'_>) {
        if !self.cwnd.acknowledge(ack) {
            return;
        }
        let rest = self.cwnd.slow_start(ack.bytes).min(self.cwnd.window());
        if rest > 0 {
            let view = self.cwnd.view();
            let increase = Paths::new(siblings, &view)
                .map(|paths| R::increase(&paths))
                .filter(|increase| increase.is_finite())
                .unwrap_or_else(|| 1.0 / self.cwnd.segments());
            self.cwnd.grow(increase * rest as f64);
        }
    }

    fn on_loss(&mut self, loss: &Loss, siblings: Siblings<'_>) {
        let view = self.cwnd.view();
        let part = Paths::new(siblings, &view).map_or(0.5, |paths| R::decrease(&paths));
        let window = self.cwnd.window();
        self.cwnd.reduce(loss, window - (window as f64 * part) as u64);
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

#[cfg(test)]
mod tests;
