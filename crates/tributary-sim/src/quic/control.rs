//! Congestion control of the simulated QUIC: the QUIC crates' own controllers by name, and [`tributary_cc`]'s
//! behind their traits.
//!
//! [`Driven`] converts QUIC's events (single packets, RFC 9002) into those of our controllers (batches of
//! acknowledgements with a delivery rate, one loss per recovery episode). Deviates: QUIC has no proportional
//! rate reduction, so after a loss the controller's window applies at once; the QUIC crate paces controllers
//! without their own pacing at 5/4 of a window per RTT.

pub(super) mod noq;
pub(super) mod quinn;
mod rate;
mod twins;

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tributary_cc::{
    self as congestion, Ack, CongestionController, Loss, LossKind, Setup, SiblingView, Siblings,
};
use tributary_types::Instant;

use rate::RateMeter;

/// The QUIC crates' own CUBIC.
pub(super) const OWN_CUBIC: &str = "quic-cubic";
/// The QUIC crates' own NewReno.
pub(super) const OWN_NEW_RENO: &str = "quic-new-reno";

/// Every congestion controller of the simulated QUIC, in alphabetical order. The crates' own BBRs are
/// excluded: they take seeds from the operating system, so that no run would be repeatable.
#[must_use]
pub fn quic_controllers() -> Vec<&'static str> {
    let mut names = congestion::names();
    names.extend([OWN_CUBIC, OWN_NEW_RENO]);
    names.sort_unstable();
    names
}

/// The controllers of one connection's paths, for coupled ones that read each other.
#[derive(Debug, Default)]
struct Family {
    members: Vec<u64>,
    views: Vec<SiblingView>,
    next: u64,
}

/// Makes the controllers of one connection.
#[derive(Clone, Debug)]
pub(super) struct Maker {
    name: String,
    seed: u64,
    family: Arc<Mutex<Family>>,
}

impl Maker {
    /// Controllers called `name`; `None` if there are none.
    pub fn new(name: &str, seed: u64) -> Option<Self> {
        congestion::create(name, Setup::new(1200))?;
        Some(Self { name: name.to_owned(), seed, family: Arc::default() })
    }

    /// A controller for another path, whose datagrams have up to `mtu` bytes.
    pub fn make(&self, mtu: u16) -> Driven {
        let mut family = lock(&self.family);
        family.next += 1;
        let member = family.next;
        let seed = self.seed.wrapping_add(member);
        let setup = Setup::new(u64::from(mtu)).with_seed(seed).without_ack_trains();
        let controller = congestion::create(&self.name, setup).expect("checked when the maker was made");
        family.members.push(member);
        family.views.push(controller.view());
        drop(family);
        Driven {
            says: Says::of(controller.as_ref(), setup.mss),
            controller: Mutex::new(controller),
            maker: self.clone(),
            member,
            setup,
            in_flight: 0,
            batch: Batch::default(),
            rate: RateMeter::default(),
            recovering: false,
            recovery_start: None,
            round_start: Instant::ZERO,
            last_sent: Instant::ZERO,
            last_heard: Instant::ZERO,
            min_rtt: None,
        }
    }
}

fn lock(family: &Mutex<Family>) -> MutexGuard<'_, Family> {
    family.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the current acknowledgement has acknowledged so far.
#[derive(Debug, Default)]
struct Batch {
    bytes: u64,
    newest_sent: Option<Instant>,
    srtt: Duration,
}

/// A controller's answers to queries.
#[derive(Clone, Copy, Debug)]
struct Says {
    window: u64,
    threshold: Option<u64>,
    /// Bytes per second.
    pacing_rate: Option<u64>,
}

impl Says {
    fn of(controller: &dyn CongestionController, mss: u64) -> Self {
        Self {
            // RFC 9002 §7.2. With less, QUIC crates send nothing that is acknowledged, and no acknowledgement with it.
            window: controller.window().max(2 * mss),
            threshold: Some(controller.slow_start_threshold()).filter(|bytes| *bytes != u64::MAX),
            pacing_rate: controller.pacing_rate().map(|rate| rate.as_bps() / 8),
        }
    }
}

/// One of our controllers, driven by QUIC's events.
#[derive(Debug)]
pub(super) struct Driven {
    /// Never contended: the QUIC crates require `Sync`, and our controllers are only `Send`.
    controller: Mutex<Box<dyn CongestionController>>,
    /// Its answers after the last event.
    says: Says,
    maker: Maker,
    member: u64,
    setup: Setup,
    in_flight: u64,
    batch: Batch,
    rate: RateMeter,
    recovering: bool,
    /// Losses of packets sent before this belong to an episode already reported (RFC 9002 §7.3.2).
    recovery_start: Option<Instant>,
    /// An acknowledgement of a packet sent from here on ends a round.
    round_start: Instant,
    last_sent: Instant,
    last_heard: Instant,
    min_rtt: Option<Duration>,
}

impl Driven {
    /// A new controller of the same connection, used only when an address changes, which simulated ones do
    /// not. Controllers cannot be cloned.
    pub fn another(&self) -> Self {
        self.maker.make(u16::try_from(self.setup.mss).unwrap_or(u16::MAX))
    }

    pub fn window(&self) -> u64 {
        self.says.window
    }

    pub fn initial_window(&self) -> u64 {
        self.setup.initial_window
    }

    pub fn threshold(&self) -> Option<u64> {
        self.says.threshold
    }

    /// Bytes per second, if the controller paces.
    pub fn pacing_rate(&self) -> Option<u64> {
        self.says.pacing_rate
    }

    /// Bytes were sent.
    pub fn sent(&mut self, now: Instant, bytes: u64) {
        self.rate.sent(now, bytes, self.in_flight);
        self.in_flight += bytes;
        self.last_sent = now;
        let in_flight = self.in_flight;
        self.alone(|controller| controller.on_sent(now, bytes, in_flight));
    }

    /// One packet was acknowledged; `srtt` does not include it yet.
    pub fn acknowledged(&mut self, sent: Instant, bytes: u64, srtt: Duration) {
        let newest_sent = self.batch.newest_sent.max(Some(sent));
        self.batch = Batch { bytes: self.batch.bytes + bytes, newest_sent, srtt };
    }

    /// The acknowledgement is complete; `in_flight` bytes remain in flight.
    pub fn acknowledgement_ended(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        let batch = core::mem::take(&mut self.batch);
        let Some(newest_sent) = batch.newest_sent else { return };
        let in_flight_before = in_flight + batch.bytes;
        self.in_flight = in_flight;
        self.last_heard = now;
        let rate = self.rate.acknowledged(now, newest_sent, batch.bytes, app_limited);
        if self.recovering && self.recovery_start.is_some_and(|start| newest_sent > start) {
            self.recovering = false;
            self.alone(|controller| controller.on_recovery_end(now));
        }
        let round_ended = newest_sent >= self.round_start;
        if round_ended {
            self.round_start = self.last_sent + Duration::from_nanos(1);
        }
        let rtt = now.saturating_since(newest_sent);
        // Before the first sample QUIC's estimate is its initial 333 ms (RFC 9002 §6.2.2).
        let srtt = if self.min_rtt.is_none() { rtt } else { batch.srtt };
        let min_rtt = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min_rtt);
        let ack = Ack {
            now,
            bytes: batch.bytes,
            in_flight_before,
            in_flight,
            rtt: Some(rtt),
            srtt,
            min_rtt,
            rate,
            cwnd_limited: !app_limited,
            in_recovery: self.recovering,
            round_ended,
        };
        self.tell(|controller, siblings| controller.on_ack(&ack, siblings));
    }

    /// Packets were lost, the newest of them sent at `sent`.
    pub fn lost(&mut self, now: Instant, sent: Instant, bytes: u64, persistent: bool) {
        let in_flight = self.in_flight;
        self.in_flight -= bytes.min(in_flight);
        self.rate.lost(bytes);
        if !persistent && self.recovery_start.is_some_and(|start| sent <= start) {
            return;
        }
        self.recovering = true;
        self.recovery_start = Some(now);
        let kind = if persistent { LossKind::Timeout } else { LossKind::Fast };
        let loss = Loss { now, kind, bytes, in_flight };
        self.tell(|controller, siblings| controller.on_loss(&loss, siblings));
    }

    /// The last episode was spurious.
    pub fn spurious(&mut self) {
        self.recovering = false;
        let now = self.last_heard;
        self.alone(|controller| controller.on_spurious_loss(now));
    }

    fn alone(&mut self, tell: impl FnOnce(&mut dyn CongestionController)) {
        let controller = self.controller.get_mut().unwrap_or_else(PoisonError::into_inner);
        tell(controller.as_mut());
        self.says = Says::of(controller.as_ref(), self.setup.mss);
    }

    fn tell(&mut self, tell: impl FnOnce(&mut dyn CongestionController, Siblings<'_>)) {
        let controller = self.controller.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut family = lock(&self.maker.family);
        let own = family.members.binary_search(&self.member).expect("a member until it is dropped");
        family.views[own] = controller.view();
        tell(controller.as_mut(), Siblings::new(&family.views, own));
        family.views[own] = controller.view();
        self.says = Says::of(controller.as_ref(), self.setup.mss);
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        let mut family = lock(&self.maker.family);
        if let Ok(own) = family.members.binary_search(&self.member) {
            family.members.remove(own);
            family.views.remove(own);
        }
    }
}

#[cfg(test)]
mod tests;
