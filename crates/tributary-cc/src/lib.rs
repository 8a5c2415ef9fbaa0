//! Congestion controllers: events of a subflow go in, a window and a pacing rate come out.
//!
//! A controller gets every acknowledgement and loss of *its* subflow and has read access to a [`SiblingView`]
//! of the others, which coupled control (RFC 6356 and its successors) needs. It neither detects losses nor
//! retransmits; the transport does. In the simulator these controllers drive the TCP model; sockets use the
//! kernel's. Rules and sources: docs/models/congestion.md.
//! Windows are in bytes. Transcendental functions come from `libm`, so that results are bit-identical on
//! every machine.

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
    /// Seed for controllers with random choices (BBR's first phase), so that flows that start together do not
    /// probe together.
    pub seed: u64,
    /// Whether the window decays while the subflow is idle (RFC 2861, Linux's
    /// `tcp_slow_start_after_idle`).
    pub idle_restart: bool,
    /// Whether trains of acknowledgements show the length of the path (HyStart). They do not if the transport
    /// spreads every window over the round trip, as QUIC does: the train is then as long as the round trip
    /// from the beginning. RFC 9406 does not use trains for any transport.
    pub ack_trains: bool,
}

impl Setup {
    /// Initial window of ten segments of `mss` payload bytes (RFC 6928), seed 0, decay when idle, for a
    /// transport that sends as acknowledgements arrive.
    #[must_use]
    pub fn new(mss: u64) -> Self {
        Self { mss, initial_window: mss.saturating_mul(10), seed: 0, idle_restart: true, ack_trains: true }
    }

    /// Sets the seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The window does not decay when the subflow is idle, for a transport that handles idle time itself.
    #[must_use]
    pub fn without_idle_restart(self) -> Self {
        Self { idle_restart: false, ..self }
    }

    /// For a transport that spreads a window over the round trip.
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
    /// The sender had no data for part of the interval: the path may be faster.
    pub app_limited: bool,
    /// Total bytes delivered when the sample was taken.
    pub delivered: u64,
    /// Total bytes delivered when the newest acknowledged segment was sent.
    pub prior_delivered: u64,
    /// Bytes lost over the interval.
    pub lost: u64,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Time of arrival.
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
    /// Whether the window limited the sender, not the application or the receiver (RFC 9438 §5.8).
    pub cwnd_limited: bool,
    /// Whether a loss is being recovered from, when the window must not grow (RFC 5681 §3.2). After a timeout
    /// slow start continues; then set only for a controller that owns its recovery.
    pub in_recovery: bool,
    /// Whether a round trip has passed: this is the first acknowledgement of data sent after the last round
    /// ended.
    pub round_ended: bool,
}

/// How a loss was detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// By later acknowledgements (duplicate ACKs, SACK, RACK): once for each recovery episode.
    Fast,
    /// By the retransmission timer.
    Timeout,
}

/// A loss.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Time of detection.
    pub now: Instant,
    /// How it was detected.
    pub kind: LossKind,
    /// Bytes detected as lost.
    pub bytes: u64,
    /// Bytes in flight before.
    pub in_flight: u64,
}

/// What siblings may read of a controller's subflow.
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

/// All subflows of a connection, including the controller's own.
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

    /// Every subflow, including the controller's own.
    pub fn iter(&self) -> impl Iterator<Item = &'a SiblingView> {
        self.all.iter()
    }

    /// Number of subflows: at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Index of the controller's own subflow.
    #[must_use]
    pub fn own(&self) -> usize {
        self.own
    }
}

/// Decides how much may be in flight, and how fast it is sent.
pub trait CongestionController: Debug + Send {
    /// Its name in the registry.
    fn name(&self) -> &'static str;

    /// Bytes that may be in flight. At least one segment.
    fn window(&self) -> u64;

    /// Slow-start threshold in bytes; `u64::MAX` until there is one.
    fn slow_start_threshold(&self) -> u64;

    /// The pacing rate; `None` leaves pacing to the transport.
    fn pacing_rate(&self) -> Option<Bitrate> {
        None
    }

    /// What siblings may read.
    fn view(&self) -> SiblingView;

    /// Bytes are sent; `in_flight` includes them. If nothing was in flight before, the subflow was idle.
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        let _ = (now, bytes, in_flight);
    }

    /// Bytes were acknowledged.
    fn on_ack(&mut self, ack: &Ack, siblings: Siblings<'_>);

    /// A loss: [`LossKind::Fast`] once per recovery episode, [`LossKind::Timeout`] each time.
    fn on_loss(&mut self, loss: &Loss, siblings: Siblings<'_>);

    /// The recovery episode is over, for either kind of loss.
    fn on_recovery_end(&mut self, now: Instant) {
        let _ = now;
    }

    /// The last loss was spurious: return to the state before it (RFC 4015, Linux's undo).
    fn on_spurious_loss(&mut self, now: Instant) {
        let _ = now;
    }

    /// The scheduler penalises this subflow for blocking the receive window (as in multipath-tcp.org): halve
    /// the window, to at least one segment.
    fn on_penalty(&mut self, now: Instant) {
        let _ = now;
    }

    /// Whether the controller, not the transport, decides the window in recovery, without proportional rate
    /// reduction (RFC 6937).
    fn owns_recovery(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
