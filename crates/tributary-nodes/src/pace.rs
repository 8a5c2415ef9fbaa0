//! How much may be sent on a hop: the receiver's room, and on a radio link slightly more than fills the link.
//! Sans-IO.
//!
//! The receiver's feedback names the newest packet it has; all packets up to that have left the link,
//! received or lost. A radio link's window is 1.25 × rate × (smallest round trip + 3 ms). The rate is the
//! largest delivery rate of the last second, as in BBR's model (Cardwell et al., 2016), so that loss does not
//! reduce it and the queue in front of the radio stays at a few milliseconds. Inner congestion control sees
//! the tunnel's queue, which is bounded and drops packets.

use crate::message::Feedback;
use core::time::Duration;
use std::collections::VecDeque;
use tributary_types::Instant;

/// Initial and smallest window.
const LEAST_WINDOW: u64 = 48 * 1500;
/// Queue in front of a radio that the window allows.
const QUEUE: Duration = Duration::from_millis(3);
/// Queue inside an access point that its room allows.
const HELD: Duration = Duration::from_millis(5);
const LEAST_HELD: u64 = 32 * 1500;
/// Half of the time that a largest rate is remembered.
const RATE_MEMORY: Duration = Duration::from_millis(500);
/// Half of the time that a smallest round trip is remembered.
const RTT_MEMORY: Duration = Duration::from_secs(5);
/// Packets sent close together share an entry.
const GRAIN: Duration = Duration::from_micros(100);
/// Silence with packets in flight after which they count as lost and the link as stalled.
const STALL: Duration = Duration::from_millis(100);

/// Packets that were sent at about the same time.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Numbers of the first and the last.
    first: u64,
    last: u64,
    /// Bytes sent before the first packet, and including the last.
    before: u64,
    total: u64,
    at: Instant,
    /// Bytes delivered when they were sent, and when that was known.
    delivered: u64,
    delivered_at: Instant,
}

/// The maximum or minimum of the last one to two periods.
#[derive(Clone, Copy, Debug)]
struct Extreme {
    period: Duration,
    since: Instant,
    present: Option<u64>,
    before: Option<u64>,
    better: fn(u64, u64) -> u64,
}

impl Extreme {
    fn new(period: Duration, better: fn(u64, u64) -> u64) -> Self {
        Self { period, since: Instant::ZERO, present: None, before: None, better }
    }

    fn add(&mut self, now: Instant, value: u64) {
        if now.saturating_since(self.since) >= self.period {
            (self.before, self.present, self.since) = (self.present, None, now);
        }
        self.present = Some(self.present.map_or(value, |known| (self.better)(known, value)));
    }

    fn value(&self) -> Option<u64> {
        match (self.present, self.before) {
            (Some(a), Some(b)) => Some((self.better)(a, b)),
            (a, b) => a.or(b),
        }
    }
}

/// The sending side of a hop.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Whether this is a radio link, whose queue must stay short.
    is_radio: bool,
    sent: VecDeque<Sent>,
    total: u64,
    off: u64,
    off_at: Instant,
    newest: Option<u64>,
    room: u64,
    capacity: u64,
    rate: Extreme,
    rtt: Extreme,
    heard: Instant,
    stalled: bool,
}

impl Pace {
    pub(crate) fn new(is_radio: bool) -> Self {
        Self {
            is_radio,
            sent: VecDeque::new(),
            total: 0,
            off: 0,
            off_at: Instant::ZERO,
            newest: None,
            room: LEAST_WINDOW,
            capacity: LEAST_WINDOW,
            rate: Extreme::new(RATE_MEMORY, u64::max),
            rtt: Extreme::new(RTT_MEMORY, u64::min),
            heard: Instant::ZERO,
            stalled: false,
        }
    }

    /// A packet of `bytes` with this number has been sent.
    pub(crate) fn on_sent(&mut self, now: Instant, number: u64, bytes: usize) {
        if self.in_flight() == 0 {
            self.heard = now;
            self.off_at = now;
        }
        let before = self.total;
        self.total += bytes as u64;
        match self.sent.back_mut() {
            Some(last) if now.saturating_since(last.at) < GRAIN => {
                (last.last, last.total) = (number, self.total);
            }
            _ => self.sent.push_back(Sent {
                first: number,
                last: number,
                before,
                total: self.total,
                at: now,
                delivered: self.off,
                delivered_at: self.off_at,
            }),
        }
    }

    /// Processes feedback.
    pub(crate) fn on_feedback(&mut self, now: Instant, feedback: &Feedback) {
        (self.heard, self.stalled) = (now, false);
        if self.newest.is_some_and(|newest| feedback.newest < newest) {
            return; // Overtaken by later feedback.
        }
        (self.room, self.capacity) = (feedback.room.into(), feedback.capacity.into());
        if self.newest == Some(feedback.newest) {
            return;
        }
        self.newest = Some(feedback.newest);
        let mut last = None;
        while let Some(sent) = self.sent.front().filter(|sent| sent.last <= feedback.newest) {
            self.off = sent.total;
            last = self.sent.pop_front();
        }
        // Some packets sent at the same time may have arrived; the loss of the last must not delay accounting
        // for them.
        if let Some(sent) = self.sent.front().filter(|sent| sent.first <= feedback.newest) {
            let (part, whole) = (feedback.newest - sent.first + 1, sent.last - sent.first + 1);
            let bytes = u128::from(sent.total - sent.before) * u128::from(part) / u128::from(whole);
            self.off = self.off.max(sent.before + bytes as u64);
        }
        let Some(sent) = last else { return };
        self.off_at = now;
        let age = Duration::from_micros(feedback.age.into());
        let round_trip = now.saturating_since(sent.at).saturating_sub(age);
        self.rtt.add(now, round_trip.as_nanos() as u64);
        let time = now.saturating_since(sent.delivered_at).max(Duration::from_micros(200));
        let bytes = self.off.saturating_sub(sent.delivered);
        self.rate.add(now, (u128::from(bytes) * 1_000_000_000 / time.as_nanos()) as u64);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (self.in_flight() > 0).then(|| self.heard + self.patience())
    }

    fn patience(&self) -> Duration {
        STALL.max(self.round_trip().unwrap_or_default() * 4)
    }

    /// Detects that the link is silent.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|at| now >= at) {
            self.stalled = true;
            self.off = self.total;
            self.sent.clear();
        }
    }

    /// Starts again with another session, whose packet numbers begin at zero.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.is_radio);
    }

    /// Bytes sent that may still be on the link.
    pub(crate) fn in_flight(&self) -> u64 {
        self.total - self.off
    }

    /// Whether packets were not answered and nothing has arrived since.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Bytes a second, as measured.
    pub(crate) fn rate(&self) -> u64 {
        self.rate.value().unwrap_or(0)
    }

    /// The smallest recent round trip.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.rtt.value().map(Duration::from_nanos)
    }

    fn window(&self) -> u64 {
        if !self.is_radio {
            return u64::MAX;
        }
        let time = self.round_trip().unwrap_or_default() + QUEUE;
        (in_time(self.rate(), time) * 5 / 4).max(LEAST_WINDOW)
    }

    fn limit(&self) -> u64 {
        self.room.min(self.window())
    }

    /// Bytes that may be sent.
    pub(crate) fn space(&self) -> u64 {
        if self.stalled { 0 } else { self.limit().saturating_sub(self.in_flight()) }
    }

    /// Whether so little is in flight that redundant packets delay nothing.
    pub(crate) fn is_spare(&self) -> bool {
        !self.stalled && self.in_flight() * 2 < self.limit()
    }

    /// Free share of the receiver's capacity, in 1/65536; the next packet goes where it is largest.
    pub(crate) fn ease(&self) -> u64 {
        self.space() * 65_536 / self.capacity.max(1)
    }

    /// The offer to the previous node: the room for data from it, with `held` bytes already waiting here, and
    /// the room if nothing waits.
    pub(crate) fn offer(&self, held: u64) -> (u32, u32) {
        let window = self.window();
        let capacity = window.saturating_add(in_time(self.rate(), HELD)).saturating_add(LEAST_HELD);
        let taken = if self.stalled { capacity } else { self.in_flight() + held };
        let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        (narrow(capacity.saturating_sub(taken)), narrow(capacity))
    }
}

/// Bytes at this rate (bytes a second) in this time.
pub(crate) fn in_time(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * time.as_nanos() / 1_000_000_000) as u64
}

#[cfg(test)]
mod tests;
