//! Congestion controllers: what happened on a subflow goes in, a window and a pacing rate come out.
//!
//! A controller is told of every acknowledgement and loss of *its* subflow and reads, but never
//! touches, a [`SiblingView`] of the others: coupled control (RFC 6356 and its successors) does not fit
//! a one-path trait. It neither detects losses nor retransmits; the transport does. In the simulator
//! these drive the TCP model; on sockets the kernel's own controllers run. What each does and where it
//! comes from: docs/models/congestion.md.
//! Windows are in bytes. Transcendental functions go through `libm`, so that a run has the same bits
//! on every machine.

mod balia;
mod bbr;
mod compound;
mod coupled;
mod cubic;
mod cwnd;
mod lia;
mod olia;
mod registry;
mod reno;
mod wvegas;

use core::fmt::Debug;
use core::time::Duration;

use tributary_types::{Bitrate, Instant};

pub use registry::{create, names};

/// Settings of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Maximum segment size: payload bytes of a full segment.
    pub mss: u64,
    /// First window, bytes (RFC 6928: ten segments).
    pub initial_window: u64,
    /// Seed of the controllers that draw (BBR's first phase): flows that start together are not to
    /// probe together.
    pub seed: u64,
    /// Whether the window decays while the subflow is idle (RFC 2861, Linux's
    /// `tcp_slow_start_after_idle`).
    pub idle_restart: bool,
    /// Whether acknowledgements in a train tell how long the path is (HyStart). They do not where the
    /// transport spreads every window over the round trip, as QUIC does: the train is then as long as
    /// the round trip from the beginning. RFC 9406 leaves them out for every transport.
    pub ack_trains: bool,
}

impl Setup {
    /// Ten segments of `mss` payload bytes to begin with (RFC 6928), seed 0, decaying when idle, for a
    /// transport that sends a window as acknowledgements let it.
    #[must_use]
    pub fn new(mss: u64) -> Self {
        Self { mss, initial_window: mss.saturating_mul(10), seed: 0, idle_restart: true, ack_trains: true }
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same with a window that stays when the subflow is idle, for a transport that sees to it itself.
    #[must_use]
    pub fn without_idle_restart(self) -> Self {
        Self { idle_restart: false, ..self }
    }

    /// The same for a transport that spreads a window over the round trip.
    #[must_use]
    pub fn without_ack_trains(self) -> Self {
        Self { ack_trains: false, ..self }
    }
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Rate at which bytes were delivered over the sample's interval.
    pub rate: Bitrate,
    /// The sender had nothing to send during it: the path may carry more.
    pub app_limited: bool,
    /// Bytes delivered in all when the sample was taken.
    pub delivered: u64,
    /// Bytes delivered in all when the newest acknowledged segment had been sent.
    pub prior_delivered: u64,
    /// Bytes lost over the interval.
    pub lost: u64,
}

/// Bytes were acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When.
    pub now: Instant,
    /// Bytes acknowledged for the first time, cumulatively or selectively.
    pub bytes: u64,
    /// Bytes in flight before.
    pub in_flight_before: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// Round-trip sample of the newest of them; `None` when all were retransmitted (Karn).
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Least round-trip time of the connection.
    pub min_rtt: Duration,
    /// Delivery rate, once there is a sample.
    pub rate: Option<RateSample>,
    /// The window, not the application or the receiver, limited the sender (RFC 9438 §5.8).
    pub cwnd_limited: bool,
    /// A loss is being recovered from: window growth rests (RFC 5681 §3.2). Not so after a timeout, when
    /// slow start goes on: set then only for a controller that owns its recovery.
    pub in_recovery: bool,
    /// The first acknowledgement of data sent after the last round ended: a round trip has passed.
    pub round_ended: bool,
}

/// How a loss was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// By later acknowledgements (duplicate ACKs, SACK, RACK): once for each recovery episode.
    Fast,
    /// By the retransmission timer.
    Timeout,
}

/// Bytes were lost.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// When.
    pub now: Instant,
    /// How.
    pub kind: LossKind,
    /// Bytes found lost.
    pub bytes: u64,
    /// Bytes in flight before.
    pub in_flight: u64,
}

/// What siblings may know of a controller's subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SiblingView {
    /// Window, bytes.
    pub window: u64,
    /// Maximum segment size, bytes.
    pub mss: u64,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Least round-trip time; zero before the first sample.
    pub base_rtt: Duration,
    /// Bytes acknowledged since the last loss (OLIA's ℓ2).
    pub since_loss: u64,
    /// Bytes acknowledged between the last two losses (OLIA's ℓ1).
    pub between_losses: u64,
}

/// All subflows of a connection, one's own among them.
#[derive(Clone, Copy, Debug)]
pub struct Siblings<'a> {
    all: &'a [SiblingView],
    own: usize,
}

impl<'a> Siblings<'a> {
    /// `all` subflows of a connection, of which `all[own]` is the controller's.
    ///
    /// # Panics
    /// When `own` is not an index of `all`.
    #[must_use]
    pub fn new(all: &'a [SiblingView], own: usize) -> Self {
        assert!(own < all.len(), "a subflow is among its siblings");
        Self { all, own }
    }

    /// Every subflow, one's own included.
    pub fn iter(&self) -> impl Iterator<Item = &'a SiblingView> {
        self.all.iter()
    }

    /// How many there are: at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Index of one's own.
    #[must_use]
    pub fn own(&self) -> usize {
        self.own
    }
}

/// Decides how much may be in flight, and how fast it leaves.
pub trait CongestionController: Debug + Send {
    /// Its name in the registry.
    fn name(&self) -> &'static str;

    /// Bytes that may be in flight. At least one segment.
    fn window(&self) -> u64;

    /// Slow-start threshold in bytes; `u64::MAX` until there is one.
    fn slow_start_threshold(&self) -> u64;

    /// How fast segments may leave; `None` leaves pacing to the transport.
    fn pacing_rate(&self) -> Option<Bitrate> {
        None
    }

    /// What siblings may know.
    fn view(&self) -> SiblingView;

    /// Bytes leave; `in_flight` counts them already. Zero before them means that the subflow was idle.
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        let _ = (now, bytes, in_flight);
    }

    /// Bytes were acknowledged.
    fn on_ack(&mut self, ack: &Ack, siblings: Siblings<'_>);

    /// A loss: [`LossKind::Fast`] once for each recovery episode, [`LossKind::Timeout`] each time.
    fn on_loss(&mut self, loss: &Loss, siblings: Siblings<'_>);

    /// The recovery episode is over, whichever kind of loss began it.
    fn on_recovery_end(&mut self, now: Instant) {
        let _ = now;
    }

    /// The last loss was none: go back to what was before (RFC 4015, Linux's undo).
    fn on_spurious_loss(&mut self, now: Instant) {
        let _ = now;
    }

    /// The scheduler penalises this subflow for holding up the window (multipath-tcp.org's
    /// penalisation): halve, and never below one segment.
    fn on_penalty(&mut self, now: Instant) {
        let _ = now;
    }

    /// The controller, not the transport, decides the window in recovery: no proportional rate
    /// reduction (RFC 6937) for it.
    fn owns_recovery(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
