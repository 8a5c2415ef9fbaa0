//! One subflow as the session knows it: what is outstanding on it, how it progresses, what it may take.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::{Bitrate, DataSeq, DataSize, Instant, PathId, SubflowId};

use crate::scheduler::SubflowView;
use crate::wire::Decoder;

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
    /// Bytes sent that the transport has no acknowledgement for.
    pub in_flight: u64,
    /// Bytes accepted that the transport has not sent.
    pub unsent: u64,
    /// Delivery rate, when the last sample was not limited by the application.
    pub delivery_rate: Option<Bitrate>,
    /// Maximum segment size, bytes.
    pub mss: u32,
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
    /// Payload bytes outstanding on it.
    pub in_flight: u64,
    /// Smoothed time from handing a segment over to its acknowledgement.
    pub delivery_delay: Duration,
    /// Whether it is silent now.
    pub silent: bool,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    seq: DataSeq,
    bytes: u32,
    sent_at: Instant,
}

/// Least silence that counts: below it, acknowledgement clocks and schedulers jitter.
const SILENCE_FLOOR: Duration = Duration::from_millis(30);

/// While segments keep arriving, a pause of this length is silence however slow the path.
const SILENCE_CEILING: Duration = Duration::from_millis(100);
/// Attempts to connect live this long, so a younger subflow may meet its siblings.
const YOUNG: Duration = Duration::from_secs(3);
/// A longer gap says nothing more about the usual one.
const GAP_CEILING: Duration = Duration::from_millis(50);

/// Smoothed delivery delay, by time and not by sample, and slow to believe in a collapse: a sample
/// counts as at most half as much again as the mean, so a path that sinks into its queue soon
/// counts as late. While the subflow is young its queue is still growing, and it is believed.
#[derive(Debug)]
struct DeliveryDelay {
    mean: Option<Duration>,
    since: Instant,
    at: Instant,
}

impl DeliveryDelay {
    /// Time constant of the mean, and how long a subflow is young.
    const MEMORY: Duration = Duration::from_secs(1);

    fn new(now: Instant) -> Self {
        Self { mean: None, since: now, at: now }
    }

    fn sample(&mut self, now: Instant, sample: Duration) {
        let passed = now.saturating_since(self.at);
        let life = now.saturating_since(self.since);
        self.at = now;
        self.mean = Some(match self.mean {
            None => sample,
            Some(mean) => {
                let young = life < Self::MEMORY;
                let sample = if young { sample } else { sample.min(mean * 3 / 2) };
                let memory = if young { life / 8 } else { Self::MEMORY };
                let weight = passed.as_secs_f64() / (passed + memory).as_secs_f64().max(1e-9);
                if sample >= mean {
                    mean + (sample - mean).mul_f64(weight)
                } else {
                    mean - (mean - sample).mul_f64(weight)
                }
            }
        });
    }
}

/// What a subflow has delivered lately, while it was busy all the time.
#[derive(Debug, Default)]
struct RecentRate {
    /// Moments and bytes delivered until then, oldest first.
    marks: VecDeque<(Instant, u64)>,
    delivered: u64,
}

impl RecentRate {
    /// Time looked back over, unless the round trip is longer: acknowledgements come in its rhythm.
    const SPAN: Duration = Duration::from_millis(100);
    /// Less than this, or than a round trip and a quarter, says nothing.
    const LEAST: Duration = Duration::from_millis(30);
    /// The long view.
    const LONG: Duration = Duration::from_secs(1);
    /// Time between marks.
    const STEP: Duration = Duration::from_millis(5);

    /// The subflow becomes busy.
    fn begin(&mut self, now: Instant) {
        self.marks.clear();
        self.marks.push_back((now, self.delivered));
    }

    fn progress(&mut self, now: Instant, delivered: u64) {
        self.delivered = delivered;
        if self.marks.back().is_none_or(|(at, _)| now.saturating_since(*at) >= Self::STEP) {
            self.marks.push_back((now, delivered));
        }
        while self.marks.get(1).is_some_and(|(at, _)| now.saturating_since(*at) >= Self::LONG) {
            self.marks.pop_front();
        }
    }

    /// `None` while too little is known. Never zero: a path that stands still has a rate of a bit.
    fn rate(&self, now: Instant, delivered: u64, round_trip: Duration, span: Duration) -> Option<Bitrate> {
        let span = span.max(round_trip * 5 / 4);
        let old = self.marks.iter().rev().find(|(at, _)| now.saturating_since(*at) >= span);
        let &(from, before) = old.or(self.marks.front())?;
        let time = now.saturating_since(from);
        if time < Self::LEAST.max(round_trip * 5 / 4) {
            return None;
        }
        let rate = Bitrate::of(DataSize::from_bytes(delivered - before), time)?;
        Some(rate.max(Bitrate::from_bps(1)))
    }
}

/// State of one open subflow.
#[derive(Debug)]
pub(crate) struct Subflow {
    pub id: SubflowId,
    pub path: PathId,
    pub decoder: Decoder,
    /// Bytes it can take soon, as the driver last said, less what was sent since.
    pub room: usize,
    pub info: SubflowInfo,
    /// Segments that arrived on it.
    pub arrived: u64,
    /// Something arrived that the peer should hear about on this subflow.
    pub ack_due: bool,
    pub settings_due: bool,
    pub refresh_due: Option<PathId>,
    pub pong_due: Option<u64>,
    pub ping_due: bool,
    pub close_sent: bool,
    pub last_heard: Instant,
    pub last_ping: Instant,
    pub last_refresh: Instant,
    pub silent: bool,
    pub stats: SubflowStats,
    opened_at: Instant,
    outstanding: VecDeque<Outstanding>,
    in_flight: u64,
    /// Segments of `outstanding` that were ever pushed and acknowledged, to match the peer's count.
    progressed: u64,
    last_progress: Instant,
    /// The last progress, while something has been outstanding ever since.
    busy_progress: Option<Instant>,
    /// Smoothed time between two progresses while busy.
    gap: Duration,
    recent: RecentRate,
    delay: DeliveryDelay,
    rate: Option<Bitrate>,
}

impl Subflow {
    pub fn new(id: SubflowId, path: PathId, now: Instant) -> Self {
        Self {
            id,
            path,
            decoder: Decoder::default(),
            room: 0,
            info: SubflowInfo::default(),
            arrived: 0,
            ack_due: false,
            settings_due: true,
            refresh_due: None,
            pong_due: None,
            ping_due: false,
            close_sent: false,
            last_heard: now,
            last_ping: now,
            last_refresh: now,
            silent: false,
            opened_at: now,
            stats: SubflowStats { subflow: id, path, ..SubflowStats::default() },
            outstanding: VecDeque::new(),
            in_flight: 0,
            progressed: 0,
            last_progress: now,
            busy_progress: None,
            gap: Duration::ZERO,
            recent: RecentRate::default(),
            delay: DeliveryDelay::new(now),
            rate: None,
        }
    }

    pub fn update(&mut self, info: SubflowInfo) {
        self.info = info;
        self.rate = info.delivery_rate.or(self.rate);
    }

    /// Records a segment handed over; returns its position among all bytes handed to this subflow.
    pub fn sent(&mut self, now: Instant, seq: DataSeq, bytes: u32) -> u64 {
        if self.outstanding.is_empty() {
            self.recent.begin(now);
        }
        self.outstanding.push_back(Outstanding { seq, bytes, sent_at: now });
        self.in_flight += u64::from(bytes);
        self.stats.sent += u64::from(bytes);
        self.stats.sent
    }

    /// The peer counts `total` segments arrived on this subflow. Subflows deliver in order, so
    /// these are the oldest outstanding ones. Returns how long
    /// the newest of them took, when anything was new.
    pub fn progress(&mut self, now: Instant, total: u64) -> Option<Duration> {
        let new = total.saturating_sub(self.progressed).min(self.outstanding.len() as u64);
        let mut newest = None;
        for done in self.outstanding.drain(..new as usize) {
            self.in_flight -= u64::from(done.bytes);
            newest = Some(done.sent_at);
        }
        let sample = now.saturating_since(newest?);
        self.progressed += new;
        self.last_progress = now;
        self.recent.progress(now, self.delivered());
        self.delay.sample(now, sample);
        if let Some(before) = self.busy_progress.replace(now) {
            let gap = now.saturating_since(before).min(GAP_CEILING);
            self.gap = (self.gap * 7 + gap) / 8;
        }
        if self.outstanding.is_empty() {
            self.busy_progress = None;
        }
        Some(sample)
    }

    /// Whether a fresh connection on its path would be one too many: it is young, so that attempts
    /// started with it may still come in, or it was heard a moment ago.
    pub fn moves(&self, now: Instant) -> bool {
        let young = now.saturating_since(self.opened_at) < YOUNG;
        !self.silent && (young || now.saturating_since(self.last_heard) < SILENCE_CEILING)
    }

    /// Payload bytes that have arrived on it.
    fn delivered(&self) -> u64 {
        self.stats.sent - self.in_flight
    }

    /// Segments still outstanding, in the order they were sent.
    pub fn outstanding(&self) -> impl Iterator<Item = DataSeq> + '_ {
        self.outstanding.iter().map(|o| o.seq)
    }

    /// When the oldest outstanding segment was handed over.
    pub fn oldest_sent(&self) -> Option<Instant> {
        self.outstanding.front().map(|o| o.sent_at)
    }

    /// Since when nothing outstanding has moved; `None` while nothing is outstanding.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.oldest_sent().map(|sent| sent.max(self.last_progress))
    }

    fn delivery_delay(&self) -> Duration {
        self.delay.mean.unwrap_or(self.info.srtt)
    }

    /// How long without progress is silence. While segments keep arriving, their usual gap tells,
    /// however long the queue they wait in; before the first of a burst, the round trip does.
    pub fn silence_threshold(&self) -> Duration {
        let round_trip = self.info.min_rtt * 2;
        if self.busy_progress.is_some() {
            (round_trip + self.gap * 4).clamp(SILENCE_FLOOR, SILENCE_CEILING.max(self.info.min_rtt * 3))
        } else {
            round_trip.max(self.info.srtt * 2).max(SILENCE_FLOOR)
        }
    }

    pub fn view(&self, now: Instant) -> SubflowView {
        let srtt = self.delivery_delay();
        let window_rate = || Bitrate::of(DataSize::from_bytes(self.info.cwnd), self.info.srtt);
        let busy = !self.outstanding.is_empty();
        let over =
            |span| busy.then(|| self.recent.rate(now, self.delivered(), self.info.min_rtt, span)).flatten();
        let rate = over(RecentRate::SPAN).or(self.rate).or_else(window_rate);
        SubflowView {
            id: self.id,
            path: self.path,
            room: self.room,
            srtt,
            rttvar: self.info.rttvar,
            min_rtt: if self.info.min_rtt.is_zero() { self.info.srtt } else { self.info.min_rtt },
            cwnd: self.info.cwnd,
            in_flight: self.in_flight,
            delivered: self.delivered(),
            rate,
            long_rate: over(RecentRate::LONG).or(rate),
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
            ..self.stats
        }
    }
}
