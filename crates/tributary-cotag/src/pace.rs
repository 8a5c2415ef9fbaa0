//! How much may be sent on a hop: the receiver's room, and on a radio link slightly more than fills the link.
//!
//! The receiver's feedback names the newest packet it has; all packets up to that have left the link,
//! received or lost. A radio link's window is rate × (smallest round trip + 4 ms, or + an eighth of it). The rate is the
//! largest delivery rate of the last second, as in BBR's model (Cardwell et al., 2016), so that loss does not
//! reduce it and the queue in front of the radio stays at a few milliseconds. A rate measured while the sender had too little
//! to send is a lower bound, so it may only raise the estimate (draft-ietf-ccwg-bbr, `BBRUpdateMaxBw`). If the queue stays longer than this
//! window explains, the radio has become slower, and the newest delivery rate replaces the largest, unless the queue does
//! not become shorter either: then it belongs to other traffic on the radio. Inner
//! congestion control sees the tunnel's queue, which is bounded and drops packets.

use crate::message::Feedback;
use core::time::Duration;
use std::collections::VecDeque;
use tributary_types::Instant;

/// Initial and smallest window.
const LEAST_WINDOW: u64 = 48 * 1500;
/// Queue in front of a radio that the window allows, if an eighth of the round trip is not more.
const QUEUE: Duration = Duration::from_millis(4);
/// How long the queue must be too long before the largest rate counts as out of date.
const DOUBT: Duration = Duration::from_millis(3);
/// How long a smaller window needs at most to shorten the queue. A queue that stays longer belongs to other traffic.
const DRAIN: Duration = Duration::from_millis(100);
/// How long the queue is then ignored.
const OTHERS: Duration = Duration::from_secs(2);
/// Shortest time over which a delivery rate is measured, so that feedback that arrives late and then at once
/// does not look like a fast link.
const MEASURED: Duration = Duration::from_millis(10);
/// Queue inside an access point that its room allows.
const HELD: Duration = Duration::from_millis(5);
const LEAST_HELD: u64 = 32 * 1500;
/// Half of the time that a largest rate is remembered.
const RATE_MEMORY: Duration = Duration::from_millis(500);
/// Half of the time that a smallest round trip is remembered.
const RTT_MEMORY: Duration = Duration::from_secs(5);
/// Packets sent close together share an entry.
const GRAIN: Duration = Duration::from_micros(100);
/// Silence with packets in flight after which the link counts as stalled.
const STALL: Duration = Duration::from_millis(100);
/// Silence of a radio after which it counts as quiet, if its oldest packet should have been answered. Several
/// times the interval of feedback, and less than the device waits for a packet.
const QUIET: Duration = Duration::from_millis(8);

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
    /// Whether the sender had nothing to send before one of them although there was room.
    after_pause: bool,
}

/// The maximum or minimum of the last one to two periods.
#[derive(Clone, Copy, Debug)]
struct WindowedFilter {
    period: Duration,
    since: Instant,
    present: Option<u64>,
    before: Option<u64>,
    better: fn(u64, u64) -> u64,
}

impl WindowedFilter {
    fn new(period: Duration, better: fn(u64, u64) -> u64) -> Self {
        Self { period, since: Instant::ZERO, present: None, before: None, better }
    }

    fn add(&mut self, now: Instant, value: u64) {
        if now.saturating_since(self.since) >= self.period {
            (self.before, self.present, self.since) = (self.present, None, now);
        }
        self.present = Some(self.present.map_or(value, |known| (self.better)(known, value)));
    }

    /// Forgets everything but `value`.
    fn replace(&mut self, now: Instant, value: u64) {
        (self.before, self.present, self.since) = (None, Some(value), now);
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
pub struct Pace {
    /// Whether this is a radio link, whose queue must stay short.
    is_radio: bool,
    sent: VecDeque<Sent>,
    total: u64,
    off: u64,
    /// When the newest packet had arrived according to each feedback of the last [`MEASURED`] or longer, and the
    /// bytes delivered until then.
    arrivals: VecDeque<(Instant, u64)>,
    /// Since when every round trip shows a queue that is too long.
    slow_since: Option<Instant>,
    /// The rate before that, and until when the queue is ignored because it belongs to other traffic.
    undoubted: u64,
    ignored_until: Instant,
    newest: Option<u64>,
    room: u64,
    capacity: u64,
    rate: WindowedFilter,
    /// Whether a rate was measured that is not only a lower bound.
    is_rate_known: bool,
    /// Whether the sender has had nothing to send since the last packet, and the bytes sent before the newest answered packet
    /// of which this was so.
    pauses: bool,
    paused: Option<u64>,
    rtt: WindowedFilter,
    loss: Option<f64>,
    heard: Instant,
    quiet: bool,
    stalled: bool,
    /// Bytes sent before the last stall. They waited for the link, so they measure neither its rate nor its round trip.
    unmeasured: u64,
}

impl Pace {
    /// `is_radio`: the link's queue must stay short.
    #[must_use]
    pub fn new(is_radio: bool) -> Self {
        Self {
            is_radio,
            sent: VecDeque::new(),
            total: 0,
            off: 0,
            arrivals: VecDeque::new(),
            slow_since: None,
            undoubted: 0,
            ignored_until: Instant::ZERO,
            newest: None,
            room: LEAST_WINDOW,
            capacity: LEAST_WINDOW,
            rate: WindowedFilter::new(RATE_MEMORY, u64::max),
            is_rate_known: false,
            // Nothing was sent before the first packet.
            pauses: true,
            paused: None,
            rtt: WindowedFilter::new(RTT_MEMORY, u64::min),
            loss: None,
            heard: Instant::ZERO,
            quiet: false,
            stalled: false,
            unmeasured: 0,
        }
    }

    /// A packet of `bytes` with this number has been sent.
    pub fn on_sent(&mut self, now: Instant, number: u64, bytes: usize) {
        if self.in_flight() == 0 {
            self.heard = now;
            if self.arrivals.back().is_none_or(|(at, _)| now.saturating_since(*at) >= MEASURED) {
                // The link was idle: the time before does not count.
                self.arrivals.clear();
                self.arrivals.push_back((now, self.off));
            }
        }
        let (before, after_pause) = (self.total, core::mem::take(&mut self.pauses));
        self.total += bytes as u64;
        let total = self.total;
        match self.sent.back_mut() {
            Some(last) if now.saturating_since(last.at) < GRAIN => {
                (last.last, last.total) = (number, total);
                last.after_pause |= after_pause;
            }
            _ => {
                self.sent.push_back(Sent { first: number, last: number, before, total, at: now, after_pause })
            }
        }
    }

    /// The sender has nothing more to send although there is room.
    pub fn on_pause(&mut self) {
        self.pauses = true;
    }

    /// Processes feedback.
    pub fn on_feedback(&mut self, now: Instant, feedback: &Feedback) {
        (self.heard, self.quiet, self.stalled) = (now, false, false);
        if self.newest.is_some_and(|newest| feedback.newest < newest) {
            return; // Overtaken by later feedback.
        }
        (self.room, self.capacity) = (feedback.room.into(), feedback.capacity.into());
        self.loss = feedback.loss.share();
        if self.newest == Some(feedback.newest) {
            return;
        }
        self.newest = Some(feedback.newest);
        let mut last = None;
        while let Some(sent) = self.sent.front().filter(|sent| sent.last <= feedback.newest) {
            self.off = sent.total;
            if sent.after_pause {
                self.paused = Some(sent.before);
            }
            last = self.sent.pop_front();
        }
        // Some packets sent at the same time may have arrived; the loss of the last must not delay accounting
        // for them.
        if let Some(sent) = self.sent.front().filter(|sent| sent.first <= feedback.newest) {
            let (part, whole) = (feedback.newest - sent.first + 1, sent.last - sent.first + 1);
            let bytes = u128::from(sent.total - sent.before) * u128::from(part) / u128::from(whole);
            self.off = self.off.max(sent.before + bytes as u64);
            if sent.after_pause {
                self.paused = Some(sent.before);
            }
        }
        if self.off <= self.unmeasured {
            return;
        }
        let arrived = now - Duration::from_micros(feedback.age.into());
        self.measure_rate(now, arrived);
        if let Some(sent) = last {
            self.measure_round_trip(now, arrived.saturating_since(sent.at));
        }
    }

    /// `arrived` is when the newest packet arrived, later by the delay of the feedback.
    fn measure_rate(&mut self, now: Instant, arrived: Instant) {
        let time = MEASURED.max(self.round_trip().unwrap_or_default());
        self.arrivals.push_back((arrived, self.off));
        while self.arrivals.get(1).is_some_and(|(at, _)| arrived.saturating_since(*at) >= time) {
            self.arrivals.pop_front();
        }
        let Some((at, off)) = self.arrivals.front() else { return };
        let time = arrived.saturating_since(*at).max(time);
        let rate = (u128::from(self.off.saturating_sub(*off)) * 1_000_000_000 / time.as_nanos()) as u64;
        let is_bound = self.paused.is_some_and(|paused| paused >= *off);
        let slow =
            self.slow_since.filter(|_| now >= self.ignored_until).map(|since| now.saturating_since(since));
        match slow {
            Some(time) if time >= DRAIN => {
                self.rate.replace(now, self.undoubted.max(rate));
                self.ignored_until = now + OTHERS;
            }
            Some(time) if time >= DOUBT => self.rate.replace(now, rate),
            _ if is_bound && rate < self.rate() => {}
            _ => {
                self.rate.add(now, rate);
                self.is_rate_known |= !is_bound;
                self.undoubted = self.rate();
            }
        }
    }

    fn measure_round_trip(&mut self, now: Instant, round_trip: Duration) {
        self.rtt.add(now, round_trip.as_nanos() as u64);
        let queue = round_trip.saturating_sub(self.round_trip().unwrap_or_default());
        let is_slow = queue > self.queue() * 2;
        self.slow_since = is_slow.then(|| self.slow_since.unwrap_or(now));
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let stall = (self.in_flight() > 0 && !self.stalled).then(|| self.heard + self.patience());
        self.quiet_at().filter(|_| !self.quiet).into_iter().chain(stall).min()
    }

    /// When a radio that stays silent counts as quiet.
    fn quiet_at(&self) -> Option<Instant> {
        let (oldest, round_trip) = (self.sent.front()?, self.round_trip()?);
        let answered = oldest.at + round_trip + self.queue() * 2;
        self.is_radio.then(|| answered.max(self.heard + QUIET))
    }

    fn patience(&self) -> Duration {
        STALL.max(self.round_trip().unwrap_or_default() * 4)
    }

    /// Detects that the link is silent. Packets in flight stay there: a radio that was blocked still has them, and a
    /// second window on top of them would overflow its queue. Feedback for a later packet, for example a ping,
    /// ends their flight if they are lost.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.quiet |= self.quiet_at().is_some_and(|at| now >= at);
        if self.in_flight() > 0 && !self.stalled && now >= self.heard + self.patience() {
            self.stalled = true;
            self.unmeasured = self.total;
            self.arrivals.clear();
            self.slow_since = None;
        }
    }

    /// Starts again with another session, whose packet numbers begin at zero.
    pub fn reset(&mut self) {
        *self = Self::new(self.is_radio);
    }

    /// Bytes sent that may still be on the link.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.total - self.off
    }

    /// Whether packets were not answered and nothing has arrived since.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Whether a radio has been silent for longer than its queue explains: it is blocked, or about to stall. Data should
    /// take another way, but the radio may still be used.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.stalled
    }

    /// The newest packet that the peer has answered.
    #[must_use]
    pub fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Bytes a second, as measured.
    #[must_use]
    pub fn rate(&self) -> u64 {
        self.rate.value().unwrap_or(0)
    }

    /// Whether the sender has filled the link since the session began. Until then the rate is only a lower bound.
    #[must_use]
    pub fn is_rate_known(&self) -> bool {
        self.is_rate_known
    }

    /// The smallest recent round trip.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.rtt.value().map(Duration::from_nanos)
    }

    /// Share of packets lost on the way to the device, once known.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        self.loss
    }

    fn window(&self) -> u64 {
        if !self.is_radio {
            return u64::MAX;
        }
        let time = self.round_trip().unwrap_or_default() + self.queue();
        in_time(self.rate(), time).max(LEAST_WINDOW)
    }

    /// Queue of a full window at the right rate.
    fn queue(&self) -> Duration {
        QUEUE.max(self.round_trip().unwrap_or_default() / 8)
    }

    fn limit(&self) -> u64 {
        self.room.min(self.window())
    }

    /// Bytes that may be sent.
    #[must_use]
    pub fn space(&self) -> u64 {
        if self.stalled { 0 } else { self.limit().saturating_sub(self.in_flight()) }
    }

    /// Whether the link has time for redundant packets: less than half of the queue that the window allows in front
    /// of a radio is there, or less than half of the receiver's room is in flight.
    #[must_use]
    pub fn is_spare(&self) -> bool {
        let limit = if self.is_radio {
            // What is sent in a round trip does not queue.
            let on_the_way = in_time(self.rate(), self.round_trip().unwrap_or_default());
            ((on_the_way + self.window()) / 2).min(self.room)
        } else {
            self.limit() / 2
        };
        !self.stalled && self.in_flight() < limit
    }

    /// Free share of the receiver's capacity, in 1/65536; the next packet goes where it is largest.
    #[must_use]
    pub fn ease(&self) -> u64 {
        self.space() * 65_536 / self.capacity.max(1)
    }

    /// The offer to the previous node: the room for data from it, with `held` bytes already waiting here, and
    /// the room if nothing waits.
    #[must_use]
    pub fn offer(&self, held: u64) -> (u32, u32) {
        let window = self.window();
        let capacity = window.saturating_add(in_time(self.rate(), HELD)).saturating_add(LEAST_HELD);
        let taken = if self.is_quiet() { capacity } else { self.in_flight() + held };
        let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        (narrow(capacity.saturating_sub(taken)), narrow(capacity))
    }
}

/// Bytes at this rate (bytes a second) in this time.
#[must_use]
pub fn in_time(rate: u64, time: Duration) -> u64 {
    (u128::from(rate) * time.as_nanos() / 1_000_000_000) as u64
}

#[cfg(test)]
mod tests;
