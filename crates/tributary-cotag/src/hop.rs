//! One end of a hop: what may be sent to the neighbour, and when feedback and pings are due. Sans-IO.
//!
//! Not here: numbers, encryption and sessions of a hop. The driver has them and tells the number of each datagram.

use crate::loss::LossMeter;
use crate::message::{Feedback, HopMessage, Loss};
use crate::pace::Pace;
use core::time::Duration;
use tributary_types::Instant;

/// Shortest interval between feedback messages.
const FEEDBACK: Duration = Duration::from_millis(1);
/// Interval of pings on a hop on which nothing else asks for feedback, so that each end notices the other.
const PING: Duration = Duration::from_millis(50);
/// A hop heard within this time is used for data that must not wait until a failed hop is detected.
const LIVELY: Duration = Duration::from_millis(300);

/// A neighbour that was not heard for this long is gone.
const GONE: Duration = Duration::from_secs(1);

/// What a node tells the previous one.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// Room for data.
    pub room: u32,
    /// The room if nothing waits.
    pub capacity: u32,
    /// Share of packets lost behind this node, once known.
    pub loss: Option<f64>,
}

impl Offer {
    /// Of a node that passes data on at once.
    pub const UNLIMITED: Self = Self { room: u32::MAX, capacity: u32::MAX, loss: Some(0.0) };
}

/// The state of one end of a hop.
#[derive(Debug)]
pub struct HopControl {
    /// Whether there is a session.
    is_open: bool,
    pace: Pace,
    /// Newest number received, and when.
    newest: Option<(u64, Instant)>,
    meter: LossMeter,
    /// Whether feedback is due for what has arrived.
    owes: bool,
    fed_back: Instant,
    told: u32,
    /// When something was last sent that the neighbour answers with feedback.
    asked_at: Instant,
    heard: Option<Instant>,
    stalls: u64,
}

impl HopControl {
    /// `is_radio`: the queue in front of the link to the neighbour must stay short.
    #[must_use]
    pub fn new(is_radio: bool) -> Self {
        Self {
            is_open: false,
            pace: Pace::new(is_radio),
            newest: None,
            meter: LossMeter::default(),
            owes: false,
            fed_back: Instant::ZERO,
            told: 0,
            asked_at: Instant::ZERO,
            heard: None,
            stalls: 0,
        }
    }

    /// What may be sent.
    #[must_use]
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// When the neighbour was last heard.
    #[must_use]
    pub fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// Whether the neighbour was heard within the last 0.3 s.
    #[must_use]
    pub fn is_lively(&self, now: Instant) -> bool {
        self.heard.is_some_and(|at| now.saturating_since(at) < LIVELY)
    }

    /// Whether the neighbour was heard once, but not within the last second.
    #[must_use]
    pub fn is_gone(&self, now: Instant) -> bool {
        self.heard.is_some_and(|at| now.saturating_since(at) >= GONE)
    }

    /// Whether a datagram of `bytes` may be sent.
    #[must_use]
    pub fn has_room(&self, bytes: u64) -> bool {
        self.is_open && self.pace.space() >= bytes
    }

    /// How often the link has stalled.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls
    }

    /// A session has begun; its numbers begin at zero.
    pub fn begin_session(&mut self) {
        self.is_open = true;
        self.pace.reset();
        (self.newest, self.owes, self.told) = (None, false, 0);
        self.meter = LossMeter::default();
    }

    /// The session has ended and none follows: there is no room any more, and the neighbour counts as gone.
    pub fn end(&mut self) {
        (self.is_open, self.owes) = (false, false);
        self.pace.reset();
        self.heard = self.heard.map(|_| Instant::ZERO);
    }

    /// A message was sent in a datagram with this number and length. `paced` messages count against the hop's window.
    pub fn on_sent(
        &mut self,
        now: Instant,
        message: &HopMessage<'_>,
        (number, bytes): (u64, usize),
        paced: bool,
    ) {
        // Feedback does not ask for feedback: otherwise two ends that only answer each other would never
        // ping.
        if !matches!(message, HopMessage::Feedback(_)) {
            self.asked_at = now;
        }
        if paced {
            self.pace.on_sent(now, number, bytes);
        }
    }

    /// The node has nothing more for this hop. Where there is room, the rate that is measured now is only a lower bound.
    pub fn on_pause(&mut self, bytes: u64) {
        if self.has_room(bytes) {
            self.pace.on_pause();
        }
    }

    /// A datagram with this number has arrived, for the first time.
    pub fn on_received(&mut self, now: Instant, number: u64) {
        self.heard = Some(now);
        self.meter.on_received(number);
        if self.newest.is_none_or(|(newest, _)| number > newest) {
            self.newest = Some((number, now));
        }
    }

    /// Takes the message of that datagram; returns it if it is one for the node.
    pub fn handle_message<'a>(&mut self, now: Instant, message: HopMessage<'a>) -> Option<HopMessage<'a>> {
        if let HopMessage::Feedback(feedback) = message {
            self.pace.on_feedback(now, &feedback);
            return None;
        }
        self.owes = true;
        (message != HopMessage::Ping).then_some(message)
    }

    /// Notices that the link is silent.
    pub fn handle_timeout(&mut self, now: Instant) {
        let was_stalled = self.pace.is_stalled();
        self.pace.handle_timeout(now);
        self.stalls += u64::from(self.pace.is_stalled() && !was_stalled);
    }

    /// The ping or the feedback that is due; `offer` is for data from the neighbour.
    pub fn poll_message(&mut self, now: Instant, offer: Offer) -> Option<HopMessage<'static>> {
        if !self.is_open {
            return None;
        }
        if now.saturating_since(self.asked_at) >= PING {
            self.asked_at = now;
            return Some(HopMessage::Ping);
        }
        let moved = u64::from(offer.room.abs_diff(self.told)) * 4 >= u64::from(offer.capacity.max(1));
        if !(self.owes || moved) || now.saturating_since(self.fed_back) < FEEDBACK {
            return None;
        }
        let (newest, at) = self.newest?;
        let age = u32::try_from(now.saturating_since(at).as_micros()).unwrap_or(u32::MAX);
        let loss = Loss::new(self.meter.share_with(offer.loss));
        (self.owes, self.fed_back, self.told) = (false, now, offer.room);
        let Offer { room, capacity, .. } = offer;
        Some(HopMessage::Feedback(Feedback { newest, age, room, capacity, loss }))
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_message`](Self::poll_message); never without a session.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.is_open {
            return None;
        }
        let ping = self.asked_at + PING;
        let feedback = if self.owes { self.fed_back + FEEDBACK } else { ping };
        Some(self.pace.poll_timeout().map_or(ping, |stall| stall.min(ping)).min(feedback))
    }
}
