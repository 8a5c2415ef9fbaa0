//! The session's state of one subflow: outstanding segments, progress, and how much it may take.

mod capped;
mod delay;
mod listening;
mod outstanding;
mod queue;
mod rate;
mod speed;

use bytes::{Bytes, BytesMut};
use core::time::Duration;
use tributary_types::{Bitrate, DataSeq, DataSize, Instant, PathId, SubflowId};

use crate::scheduler::SubflowView;
use crate::wire::{Decoder, SegmentHead, SegmentKind};
use capped::Capped;
use delay::DeliveryDelay;
pub(crate) use listening::{Listening, Verdict};
use outstanding::{Outstanding, Sent};
use queue::ShortQueue;
use rate::RecentRate;
use speed::Speed;

/// The transport's own view of a subflow, refreshed by the driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubflowInfo {
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Mean deviation of the round-trip time.
    pub rttvar: Duration,
    /// Least round-trip time seen.
    pub min_rtt: Duration,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight: sent and not acknowledged.
    pub in_flight: u64,
    /// Bytes that the transport has accepted and not sent.
    pub unsent: u64,
    /// Delivery rate, when the last sample was not limited by the application or raises the one before.
    pub delivery_rate: Option<Bitrate>,
    /// Maximum segment size, bytes.
    pub mss: u32,
    /// Grows with what the peer's transport acknowledges, selectively too.
    pub delivered: u64,
    /// When an acknowledgement last arrived.
    pub heard_at: Instant,
}

/// Counters of one subflow, for reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubflowStats {
    /// The subflow.
    pub subflow: SubflowId,
    /// Its path.
    pub path: PathId,
    /// Payload bytes sent on it, copies included.
    pub sent: u64,
    /// Payload bytes received on it, copies included.
    pub received: u64,
    /// Payload bytes sent on it and not acknowledged.
    pub in_flight: u64,
    /// Smoothed time from handing a segment over to its acknowledgement.
    pub delivery_delay: Duration,
    /// Whether it is silent now.
    pub silent: bool,
    /// What this side sends on it at most: its own cap, or the peer's if that is lower.
    pub cap: Option<Bitrate>,
}

/// Shortest silence that counts. Shorter pauses are jitter of acknowledgements and schedulers.
const SILENCE_FLOOR: Duration = Duration::from_millis(30);

/// Largest queue, as time, of a path that is not the fastest. Retransmissions on the path wait behind this queue.
const SHORT_QUEUE: Duration = Duration::from_millis(15);
/// Additional bytes, so that whole segments fit.
const HEADROOM: u64 = 32 << 10;
/// While segments keep arriving, a pause of this length counts as silence on any path, or one of three least round
/// trips if that is longer.
const SILENCE_CEILING: Duration = Duration::from_millis(100);
/// Lifetime of connection attempts: a subflow younger than this may have parallel attempts.
const YOUNG: Duration = Duration::from_secs(3);
/// More payload than this does not fit in a small segment ([`crate::handshakes::SMALL_SEGMENT`]).
const FULL_SIZE: u64 = 1400;
/// Maximum number of removed subflows that are reported to the peer; beyond that the oldest are dropped.
pub(crate) const MOST_GONE: usize = 8;
/// A path that is silent for this long gets a new connection; the peer is reminded at this interval.
pub(crate) const FRESH_AFTER: Duration = Duration::from_millis(100);
/// Linux's least part of a retransmission timeout beyond the round trip.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
/// A silence of so many retransmission timeouts is a blockage. The loss of a whole window and then of its retransmission is
/// repaired after three (RFC 6298 §5.5: the second timeout is twice the first).
const BLOCKAGE: u32 = 4;
/// After this time without use, the best rate of the last seconds is assumed. Otherwise a path that was last measured in a
/// blockage may never be used, and measured, again.
const RATE_STALE: Duration = Duration::from_millis(500);
/// A longer gap counts as this much in the mean.
const GAP_CEILING: Duration = Duration::from_millis(50);

/// State of one open subflow.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub id: SubflowId,
    pub path: PathId,
    pub decoder: Decoder,
    /// The segment of datagrams that is arriving in pieces.
    assembly: BytesMut,
    /// Bytes it can take soon: the driver's last value, less what was sent since.
    pub room: usize,
    pub info: SubflowInfo,
    /// Segments of some kinds may arrive before what was sent before them ([`SegmentKind::may_overtake`]), and are counted apart.
    pub overtakes: bool,
    /// Segments that arrived on it in order.
    pub arrived: u64,
    /// Segments that arrived on it and may have overtaken others.
    pub arrived_apart: u64,
    /// Something arrived that must be acknowledged on this subflow.
    pub ack_due: bool,
    /// How many had arrived at the last acknowledgement on this subflow.
    pub acknowledged_arrivals: u64,
    pub settings_due: bool,
    pub refresh_due: Option<PathId>,
    pub replace_due: Option<PathId>,
    pub capped: Capped,
    /// Subflows of removed paths that have not been reported to the peer on this subflow.
    pub gone_due: Vec<SubflowId>,
    /// Until this time a new connection may replace it although it delivers.
    pub replaceable_until: Option<Instant>,
    pub pong_due: Option<u64>,
    pub ping_due: bool,
    pub close_sent: bool,
    pub last_heard: Instant,
    /// The receive block that its input comes from.
    pub block: Option<u64>,
    pub last_ping: Instant,
    pub last_refresh: Instant,
    pub silent: bool,
    /// As in its view.
    pub usual_blockage: Duration,
    /// Client: whether data that was arriving has stopped.
    pub listening: Listening,
    silent_since: Instant,
    /// This connection has been counted as one that passes, or does not pass, full-size segments.
    pub judged: bool,
    pub stats: SubflowStats,
    opened_at: Instant,
    outstanding: Outstanding,
    /// Those that may overtake others.
    apart: Outstanding,
    in_flight: u64,
    last_progress: Instant,
    /// When the peer's transport last acknowledged something new.
    transported: Instant,
    /// The last progress, while something has been outstanding ever since.
    busy_progress: Option<Instant>,
    /// Smoothed time between two progresses while busy.
    gap: Duration,
    recent: RecentRate,
    speed: Speed,
    /// Its congestion control is coupled with other subflows'.
    coupled: bool,
    before_silence: Option<Bitrate>,
    delay: DeliveryDelay,
    /// The limit that keeps the queue short, for an application that replaces queued data.
    short: Option<ShortQueue>,
    rate: Option<Bitrate>,
}

impl Subflow {
    /// `coupled`: its congestion control is.
    pub fn new(id: SubflowId, path: PathId, now: Instant, coupled: bool) -> Self {
        Self {
            id,
            path,
            decoder: Decoder::default(),
            assembly: BytesMut::new(),
            room: 0,
            info: SubflowInfo::default(),
            overtakes: false,
            arrived: 0,
            arrived_apart: 0,
            ack_due: false,
            acknowledged_arrivals: 0,
            settings_due: true,
            refresh_due: None,
            replace_due: None,
            capped: Capped::default(),
            gone_due: Vec::new(),
            replaceable_until: None,
            pong_due: None,
            ping_due: false,
            close_sent: false,
            last_heard: now,
            block: None,
            last_ping: now,
            last_refresh: now,
            silent: false,
            usual_blockage: Duration::ZERO,
            listening: Listening::default(),
            silent_since: now,
            judged: false,
            opened_at: now,
            stats: SubflowStats { subflow: id, path, ..SubflowStats::default() },
            outstanding: Outstanding::default(),
            apart: Outstanding::default(),
            in_flight: 0,
            last_progress: now,
            transported: Instant::ZERO,
            busy_progress: None,
            gap: Duration::ZERO,
            recent: RecentRate::default(),
            speed: Speed::new(coupled),
            coupled,
            before_silence: None,
            delay: DeliveryDelay::new(now),
            short: None,
            rate: None,
        }
    }

    pub fn update(&mut self, info: SubflowInfo) {
        if info.delivered != self.info.delivered {
            self.transported = self.transported.max(info.heard_at);
            // With coupled control a subflow may need seconds for one segment. What its transport delivers of it counts.
            if self.coupled {
                self.last_progress = self.last_progress.max(info.heard_at);
            }
        }
        self.info = info;
        self.rate = info.delivery_rate.or(self.rate);
    }

    /// Whether a segment of this kind is counted apart from those in order.
    pub fn counts_apart(&self, kind: SegmentKind) -> bool {
        self.overtakes && kind.may_overtake()
    }

    /// Records a segment handed over, expected to be acknowledged at `due`; returns its position among all bytes handed to
    /// this subflow.
    pub fn sent(&mut self, now: Instant, head: &SegmentHead, bytes: u32, due: Instant) -> u64 {
        if !self.is_busy() {
            self.recent.begin(now, None);
        }
        let order = if self.counts_apart(head.kind) { &mut self.apart } else { &mut self.outstanding };
        order.push(Sent { seq: head.seq, bytes, at: now, due });
        self.in_flight += u64::from(bytes);
        self.stats.sent += u64::from(bytes);
        self.stats.sent
    }

    /// Puts a segment of datagrams together from its pieces, which come in order. Returns it when it is whole, and whether
    /// it was copied.
    pub fn assemble(&mut self, (at, length): (u32, u32), piece: Bytes, last: bool) -> Option<(Bytes, bool)> {
        if at == 0 && last {
            return Some((piece, false));
        }
        if at == 0 {
            self.assembly.clear();
            self.assembly.reserve(length as usize);
        }
        self.assembly.extend_from_slice(&piece);
        last.then(|| (self.assembly.split().freeze(), true))
    }

    /// The peer is to be told that the path of another subflow was removed.
    pub fn tell_gone(&mut self, gone: SubflowId) {
        if self.gone_due.len() >= MOST_GONE {
            self.gone_due.remove(0);
        }
        self.gone_due.push(gone);
    }

    /// The subflow is silent. Its earlier state is kept for when it delivers again.
    pub fn fall_silent(&mut self, now: Instant) {
        self.silent = true;
        self.silent_since = now;
        let delivered = self.delivered();
        self.before_silence = self.recent.rate(now, delivered, self.info.min_rtt, RecentRate::LONG);
    }

    /// The subflow delivers; returns whether it was silent.
    pub fn wake(&mut self, now: Instant) -> bool {
        let woke = std::mem::take(&mut self.silent);
        if woke {
            self.recent.begin(now, self.before_silence.take());
            if now.saturating_since(self.silent_since) >= self.retransmission_timeout() * BLOCKAGE {
                self.speed.blocked(now);
            }
        }
        woke
    }

    /// The peer counts `total` segments arrived on this subflow in order or, with `apart`, of those that may overtake. Returns
    /// how late the newest of them is, if any is new.
    pub fn progress(&mut self, now: Instant, total: u64, apart: bool) -> Option<Duration> {
        let order = if apart { &mut self.apart } else { &mut self.outstanding };
        let (bytes, newest) = order.count(total)?;
        self.in_flight -= bytes;
        let sample = now.saturating_since(newest.at);
        self.last_progress = now;
        self.recent.progress(now, self.delivered());
        self.delay.sample(now, sample);
        if let Some(before) = self.busy_progress.replace(now) {
            let gap = now.saturating_since(before).min(GAP_CEILING);
            self.gap = (self.gap * 7 + gap) / 8;
        }
        if !self.is_busy() {
            self.busy_progress = None;
        }
        Some(now.saturating_since(newest.due))
    }

    /// Whether the subflow is far slower than it was. Called when something was acknowledged.
    pub fn watch_speed(&mut self, now: Instant) -> bool {
        let rate = self.recent.rate(now, self.delivered(), self.info.min_rtt, RecentRate::SPAN);
        let best = self.short.as_ref().and_then(|_| self.best_rate(now));
        if let (Some(rate), Some(best)) = (rate, best) {
            let delays = (self.info.min_rtt, self.delivery_delay());
            self.short.iter_mut().for_each(|short| short.observe(now, (rate, best), delays));
        }
        // A cap explains a low rate.
        rate.is_some_and(|rate| self.speed.observe(now, rate, &self.info)) && !self.capped.is_set()
    }

    /// Whether the path needs no new connection, because the subflow is young, so that attempts started with it
    /// may still succeed, or because something arrived on it a moment ago.
    pub fn moves(&self, now: Instant) -> bool {
        if self.replaceable_until.is_some_and(|until| now < until) {
            return false;
        }
        let young = now.saturating_since(self.opened_at) < YOUNG;
        !self.silent
            && !self.listening.is_silent()
            && (young || now.saturating_since(self.last_heard) < SILENCE_CEILING)
    }

    /// Whether full-size segments have got through, in either direction.
    pub fn has_passed(&self) -> bool {
        self.delivered().max(self.stats.received) >= FULL_SIZE
    }

    /// Whether full-size segments are in flight.
    pub fn has_full_size_under_way(&self) -> bool {
        self.in_flight >= FULL_SIZE
    }

    /// Payload bytes that have arrived on it.
    fn delivered(&self) -> u64 {
        self.stats.sent - self.in_flight
    }

    /// Segments still outstanding, in the order they were sent; without those that may overtake.
    pub fn outstanding(&self) -> impl Iterator<Item = DataSeq> + '_ {
        self.outstanding.iter().map(|sent| sent.seq)
    }

    fn is_busy(&self) -> bool {
        !(self.outstanding.is_empty() && self.apart.is_empty())
    }

    fn oldest(&self) -> Option<&Sent> {
        self.outstanding.oldest().into_iter().chain(self.apart.oldest()).min_by_key(|sent| sent.at)
    }

    /// When the oldest outstanding segment was handed over.
    pub fn oldest_sent(&self) -> Option<Instant> {
        Some(self.oldest()?.at)
    }

    /// When the oldest outstanding segment was expected to be acknowledged.
    pub fn oldest_due(&self) -> Option<Instant> {
        Some(self.oldest()?.due)
    }

    /// Time of the last progress; `None` while nothing is outstanding.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.oldest_sent().map(|sent| sent.max(self.last_progress))
    }

    fn delivery_delay(&self) -> Duration {
        self.delay.mean.unwrap_or(self.info.srtt)
    }

    /// Time without progress that counts as silence. While segments keep arriving it follows their usual gap,
    /// regardless of the queue; before the first of a burst it follows the round trip.
    pub fn silence_threshold(&self) -> Duration {
        let round_trip = self.info.min_rtt * 2;
        if self.busy_progress.is_some() {
            (round_trip + self.gap * 4).clamp(SILENCE_FLOOR, SILENCE_CEILING.max(self.info.min_rtt * 3))
        } else {
            round_trip.max(self.info.srtt * 2).max(SILENCE_FLOOR)
        }
    }

    /// When it falls silent if nothing more is acknowledged by the peer's session. While a segment is missing, the transport may
    /// still deliver what is behind it. Then it is not silent before the transport's time-out: without new data, only that
    /// would repair the loss of a retransmission.
    pub fn silent_at(&self) -> Option<Instant> {
        let (since, threshold) = (self.waiting_since()?, self.silence_threshold());
        let delivering = (self.transported + threshold).min(since + self.retransmission_timeout());
        Some((since + threshold).max(delivering))
    }

    /// The transport's estimate without back-off, as in Linux (RFC 6298 with a least deviation of 200 ms).
    fn retransmission_timeout(&self) -> Duration {
        self.info.srtt + (self.info.rttvar * 4).max(LEAST_TIMEOUT)
    }

    /// When a silent path gets a new connection. With coupled control the window may be so small that only a timeout repairs a
    /// loss; then the connection gets the time for one. `alone`: no other path carries data. If the transport's round trip is then
    /// longer than the time for a new connection, a queue holds up the news of what has arrived. A new connection would wait
    /// in it, too, so there is one only when the transport has delivered nothing for a round trip.
    pub fn fresh_at(&self, alone: bool) -> Option<Instant> {
        let least =
            if self.coupled { FRESH_AFTER.max(self.retransmission_timeout() * 2) } else { FRESH_AFTER };
        let at = self.silent_at()?.max(self.waiting_since()? + least);
        let queued = alone && self.info.srtt > FRESH_AFTER;
        Some(if queued { at.max(self.transported + self.info.srtt) } else { at })
    }

    /// Its highest recent delivery rate; `None` if unknown.
    pub fn best_rate(&self, now: Instant) -> Option<Bitrate> {
        self.capped.limited(self.speed.best(now).max(self.rate))
    }

    /// Keeps the subflow's queue as short as its path allows, for an application that replaces queued data.
    pub fn keep_short(&mut self, now: Instant) {
        self.short = Some(ShortQueue::new(now));
    }

    /// Bytes it may take so that the bytes in flight are what its path carries in a round trip plus
    /// [`SHORT_QUEUE`]. No limit while that is unknown, or while other traffic fills the path's queue anyway. For an
    /// application that replaces queued data the limit is lower, and is dropped only while it has been seen not to
    /// shorten the queue.
    pub fn headroom(&self, now: Instant) -> usize {
        let round_trip = self.info.min_rtt + SHORT_QUEUE;
        let Some(rate) = self.best_rate(now) else { return usize::MAX };
        let most = match &self.short {
            Some(short) => short.most(now, rate, self.info.min_rtt),
            None if self.delivery_delay() > round_trip * 2 + SHORT_QUEUE => return usize::MAX,
            None => rate.size_in(round_trip).as_bytes() * 5 / 4 + HEADROOM,
        };
        usize::try_from(most.saturating_sub(self.in_flight)).unwrap_or(usize::MAX)
    }

    /// The rate that its congestion window allows.
    fn window_rate(&self) -> Option<Bitrate> {
        Bitrate::of(DataSize::from_bytes(self.info.cwnd), self.info.srtt)
    }

    /// What it could carry, although the application sends less.
    pub fn possible_rate(&self, now: Instant) -> Option<Bitrate> {
        self.capped.limited(self.best_rate(now).max(self.window_rate()))
    }

    pub fn view(&self, now: Instant) -> SubflowView {
        let srtt = self.delivery_delay();
        let busy = self.is_busy();
        let over =
            |span| busy.then(|| self.recent.rate(now, self.delivered(), self.info.min_rtt, span)).flatten();
        let stale = !busy && now.saturating_since(self.last_progress) >= RATE_STALE;
        let best = if stale { self.speed.best(now) } else { None };
        let rate = over(RecentRate::SPAN).or(self.rate.max(best)).or_else(|| self.window_rate());
        let min_rtt = if self.info.min_rtt.is_zero() { self.info.srtt } else { self.info.min_rtt };
        SubflowView {
            id: self.id,
            path: self.path,
            room: self.room,
            srtt,
            rttvar: self.info.rttvar,
            min_rtt,
            least_delay: self.delay.least(now).unwrap_or(min_rtt),
            usual_blockage: self.usual_blockage,
            cwnd: self.info.cwnd,
            in_flight: self.in_flight,
            delivered: self.delivered(),
            rate,
            long_rate: over(RecentRate::LONG).or(rate),
            sustained_rate: over(RecentRate::SPAN)
                .max(over(RecentRate::LONG))
                .or(self.rate.max(best))
                .or_else(|| self.speed.best(now))
                .or_else(|| self.window_rate()),
            oldest_sent: self.oldest_sent(),
            silent: self.silent,
            rank: 0,
        }
    }

    pub fn stats(&self) -> SubflowStats {
        SubflowStats {
            in_flight: self.in_flight,
            delivery_delay: self.delivery_delay(),
            silent: self.silent,
            cap: self.capped.rate(),
            ..self.stats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_types::StreamId;

    const HEAD: SegmentHead = SegmentHead {
        seq: DataSeq(0),
        stream: StreamId(0),
        kind: SegmentKind::Data { offset: 0, length: 16_384, fin: false },
    };

    #[test]
    fn an_only_connection_is_not_replaced_while_its_transport_empties_a_long_queue() {
        let at = Instant::from_millis;
        let fresh_at = |srtt: u64, alone| {
            let mut subflow = Subflow::new(SubflowId(0), PathId(0), at(0), false);
            subflow.sent(at(0), &HEAD, 16_384, at(20));
            let srtt = Duration::from_millis(srtt);
            subflow.update(SubflowInfo { srtt, delivered: 1, heard_at: at(700), ..SubflowInfo::default() });
            subflow.fresh_at(alone)
        };
        // The transport delivered 700 ms after the segment was handed over; it delivers nothing for a round trip.
        assert_eq!(fresh_at(400, true), Some(at(1100)));
        // Another path carries data: when it is silent.
        assert_eq!(fresh_at(400, false), Some(at(800)));
        // There is no long queue: after the transport's time-out.
        assert_eq!(fresh_at(20, true), Some(at(220)));
    }

    #[test]
    fn a_subflow_is_not_silent_while_its_transport_delivers_behind_a_loss() {
        let at = Instant::from_millis;
        let mut subflow = Subflow::new(SubflowId(0), PathId(0), at(0), false);
        subflow.sent(at(0), &HEAD, 16_384, at(20));
        let srtt = Duration::from_millis(20);
        let mut heard = |delivered, heard| {
            subflow.update(SubflowInfo { srtt, delivered, heard_at: at(heard), ..SubflowInfo::default() });
            subflow.silent_at()
        };
        assert_eq!(heard(0, 5), Some(at(40)), "acknowledgements of nothing new do not count");
        assert_eq!(heard(1, 60), Some(at(100)));
        assert_eq!(heard(1, 90), Some(at(100)));
        assert_eq!(heard(2, 200), Some(at(220)), "at the latest with the transport's time-out");
    }
}
