//! The link: a queue (drop-tail, or managed by CoDel), a server with a varying rate, loss and a delay line.
//!
//! Super-frames are queued as a whole but served, lost and counted segment by segment. Neighbouring delivered
//! segments are joined into chunks again; a chunk ends at a lost segment or at [`CHUNK_SPAN`] of link time.
//! The output depends on what was pushed and when, not on when or how often `poll` is called.

use crate::codel::Codel;
use crate::delay::Delay;
use crate::loss::Loss;
use crate::{Chunk, LinkSpec, LinkStats, LossSpec, Packet, QueueSpec, RateProcess, Span};
use core::time::Duration;
use std::collections::VecDeque;
use tributary_types::{Bitrate, DataSize, Instant, Rng};

#[cfg(test)]
mod tests;

/// Segments join the same chunk only if they leave within this time.
pub const CHUNK_SPAN: Duration = Duration::from_micros(200);

/// Work per byte in bit · ns / s: a link of R bit/s does R of them each nanosecond.
const WORK_PER_BYTE: u64 = 8 * 1_000_000_000;

/// All settings of a link, seeds included.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Rate, delay, loss and queue.
    pub spec: LinkSpec,
    /// Added to the delay: this direction's half of the scenario's base RTT.
    pub extra_delay: Duration,
    /// `[from, to)`: the path drops everything silently in this time. Ascending, not overlapping.
    pub dead: Vec<(Instant, Instant)>,
    /// What [`Link::change`] has put in place of the specification, and since when; ascending.
    pub changes: Vec<(Instant, Change)>,
    /// Randomness of the rate process; the same for both directions of a path, which share a radio.
    pub rate_rng: Rng,
    /// Randomness of loss and jitter.
    pub rng: Rng,
}

impl LinkConfig {
    /// Settings of a link that never dies.
    #[must_use]
    pub fn new(spec: LinkSpec, seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self {
            spec,
            extra_delay: Duration::ZERO,
            dead: Vec::new(),
            changes: Vec::new(),
            rate_rng: rng.child("rate"),
            rng,
        }
    }

    /// Capacity in `[from, to)`: the integral of the link's rate while the path is not dead.
    #[must_use]
    pub fn capacity(&self, from: Instant, to: Instant) -> DataSize {
        let mut rate = RateProcess::new(self.spec.rate.clone(), self.rate_rng.clone());
        let mut work = 0;
        let mut at = from;
        let mut change = Change::default();
        for &(since, next) in &self.changes {
            work += self.work(&mut rate, change, at, since.min(to));
            (at, change) = (at.max(since), next);
        }
        work += self.work(&mut rate, change, at, to);
        DataSize::from_bytes(u64::try_from(work / u128::from(WORK_PER_BYTE)).unwrap_or(u64::MAX))
    }

    /// The work that the link can do in `[from, to)` with one change in force, in bit · ns / s.
    fn work(&self, rate: &mut RateProcess, change: Change, from: Instant, to: Instant) -> u128 {
        if change.blocked {
            return 0;
        }
        let mut between = |from: Instant, to: Instant| match change.rate {
            _ if from >= to => 0,
            Some(fixed) => u128::from(fixed.as_bps()) * u128::from(to.as_nanos() - from.as_nanos()),
            None => rate.integral(from, to),
        };
        let mut work = 0;
        let mut at = from;
        for &(dead_from, dead_to) in &self.dead {
            work += between(at, dead_from.min(to));
            at = at.max(dead_to);
        }
        work + between(at, to)
    }
}

/// What a running link is told to be, in place of its specification. The default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// A constant rate.
    pub rate: Option<Bitrate>,
    /// Independent loss with this probability, 0 to 1.
    pub loss: Option<f64>,
    /// The path drops everything silently.
    pub blocked: bool,
}

/// A packet in the queue; the first one is in service.
#[derive(Debug)]
struct Waiting<P> {
    packet: Packet<P>,
    /// Number of its segments that fitted into the queue: the first ones.
    admitted: u32,
    /// The segment to serve next.
    next: u32,
    arrived: Instant,
}

/// A chunk that segments may still join.
#[derive(Debug)]
struct Open<P> {
    chunk: Chunk<P>,
    /// When its last segment left the server.
    departed: Instant,
    /// Segments that leave later cannot join.
    limit: Instant,
}

/// The next event of the link.
enum Step {
    /// The open chunk is complete.
    CloseChunk,
    /// The rate changes.
    SpanEnds,
    /// The segment in service has been sent.
    Depart,
}

/// A one-way link. `P` is the driver's reference to a packet's bytes.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    rate: RateProcess,
    loss: Loss,
    delay: Delay,
    codel: Option<Codel>,
    waiting: VecDeque<Waiting<P>>,
    open: Option<Open<P>>,
    delivering: VecDeque<Chunk<P>>,
    /// Service has been computed up to this time.
    served_until: Instant,
    /// Remaining work of the segment in service at `served_until`, in bit · ns / s.
    work_left: u64,
    /// When the segment in service departs if the rate does not change.
    finish: Instant,
    stats: LinkStats,
}

impl<P: Clone> Link<P> {
    /// An idle link at time zero.
    #[must_use]
    pub fn new(config: LinkConfig) -> Self {
        Self {
            rate: RateProcess::new(config.spec.rate.clone(), config.rate_rng.clone()),
            loss: Loss::new(config.spec.loss.clone(), config.rng.child("loss")),
            delay: Delay::new(config.spec.delay.clone(), config.extra_delay, config.rng.child("delay")),
            codel: match config.spec.queue {
                QueueSpec::Codel { target, interval, .. } => Some(Codel::new(target, interval)),
                _ => None,
            },
            config,
            waiting: VecDeque::new(),
            open: None,
            delivering: VecDeque::new(),
            served_until: Instant::ZERO,
            work_left: 0,
            finish: Instant::MAX,
            stats: LinkStats::default(),
        }
    }

    /// Takes a packet at `now`; returns the number of its segments that did not fit into the queue.
    ///
    /// All segments of a super-frame arrive at once; the first that fit are queued.
    pub fn push(&mut self, now: Instant, packet: Packet<P>) -> u32 {
        self.advance(now);
        let total = packet.segments();
        let bytes = packet.length_of(0, total);
        self.stats.offered.add(u64::from(total), bytes);
        if self.is_dead(now) {
            self.stats.dead.add(u64::from(total), bytes);
            return 0;
        }
        let admitted = self.room_for(&packet, total);
        let kept = packet.length_of(0, admitted);
        self.stats.overflowed.add(u64::from(total - admitted), bytes - kept);
        if admitted > 0 {
            self.stats.queued.add(u64::from(admitted), kept);
            self.waiting.push_back(Waiting { packet, admitted, next: 0, arrived: now });
            if self.waiting.len() == 1 {
                self.served_until = self.served_until.max(now);
                self.begin_segment(0);
            }
        }
        total - admitted
    }

    /// The next chunk that has arrived at the far end by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Chunk<P>> {
        self.advance(now);
        if self.delivering.front()?.due > now {
            return None;
        }
        let chunk = self.delivering.pop_front()?;
        self.stats.in_flight.remove(u64::from(chunk.count), chunk.length);
        self.stats.delivered.add(u64::from(chunk.count), chunk.length);
        Some(chunk)
    }

    /// When to call `poll` next; `None` if nothing can happen before the next `push`. Nothing arrives before
    /// this time, and usually something arrives at it, so a driver wakes up once per arrival.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if let Some(chunk) = self.delivering.front() {
            return Some(chunk.due); // all other chunks arrive later, because none overtakes another
        }
        let (at, step) = self.next_step()?;
        let at = match step {
            Step::Depart => self.next_arrival().unwrap_or(at),
            _ => at,
        };
        (at < Instant::MAX).then_some(at)
    }

    /// Puts a change in place of the specification from `now` on, and in place of an earlier change. Loss begins anew.
    pub fn change(&mut self, now: Instant, change: Change) {
        self.advance(now);
        if !self.waiting.is_empty() {
            self.work_left -= self.work_until(now).min(self.work_left);
            self.served_until = now;
        }
        self.rate.advance_to(now);
        let (spec, name) = match change.loss {
            Some(share) => (LossSpec::Bernoulli(share), "changed loss"),
            None => (self.config.spec.loss.clone(), "loss"),
        };
        self.loss = Loss::new(spec, self.config.rng.child(name));
        self.config.changes.push((now, change));
        self.finish = self.finish_estimate();
    }

    /// The change in force.
    #[must_use]
    pub fn changed(&self) -> Change {
        self.config.changes.last().map_or(Change::default(), |&(_, change)| change)
    }

    /// Counters at the last call of `push` or `poll`.
    #[must_use]
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// The link's settings.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// The present span of constant rate.
    #[must_use]
    pub fn rate_span(&self) -> Span {
        self.changed().rate.map_or(self.rate.span(), |rate| Span { until: Instant::MAX, rate })
    }

    fn is_dead(&self, at: Instant) -> bool {
        self.changed().blocked || self.config.dead.iter().any(|&(from, to)| from <= at && at < to)
    }

    /// How many of the packet's `total` segments fit into the queue.
    fn room_for(&self, packet: &Packet<P>, total: u32) -> u32 {
        let queued = self.stats.queued;
        let limit = match &self.config.spec.queue {
            QueueSpec::Packets(limit) => {
                let room = limit.saturating_sub(queued.packets);
                return total.min(u32::try_from(room).unwrap_or(u32::MAX));
            }
            other => other.byte_limit(self.rate_span().rate).unwrap_or(u64::MAX),
        };
        let room = limit.saturating_sub(queued.bytes);
        if packet.length_of(0, total) <= room {
            return total;
        }
        if packet.segment == 0 {
            return 0;
        }
        // All segments but the last have the same length, and not all of them fit.
        let each = u64::from(packet.header) + u64::from(packet.segment);
        u32::try_from(room / each).unwrap_or(u32::MAX).min(total - 1)
    }

    /// Serves the queue until `now`.
    fn advance(&mut self, now: Instant) {
        while let Some((at, step)) = self.next_step() {
            if at > now {
                return;
            }
            match step {
                Step::CloseChunk => self.close_chunk(),
                Step::SpanEnds => {
                    self.work_left -= self.work_until(at).min(self.work_left);
                    self.served_until = at;
                    self.rate.advance_to(at);
                    self.finish = self.finish_estimate();
                }
                Step::Depart => {
                    let spare = self.work_until(at) - self.work_left;
                    self.served_until = at;
                    self.depart(spare);
                }
            }
        }
        self.rate.advance_to(now);
        self.served_until = self.served_until.max(now);
    }

    /// The next event while the queue is not empty. At equal times a chunk closes after the segment that may
    /// still join it, and the rate changes after the segment that it completes.
    fn next_step(&self) -> Option<(Instant, Step)> {
        if self.waiting.is_empty() {
            return None;
        }
        let (finish, until) = (self.finish, self.rate_span().until);
        let (at, step) = if finish <= until { (finish, Step::Depart) } else { (until, Step::SpanEnds) };
        match &self.open {
            Some(open) if open.limit < at => Some((open.limit + Duration::from_nanos(1), Step::CloseChunk)),
            _ => Some((at, step)),
        }
    }

    /// When the segment in service departs if the rate does not change.
    fn finish_estimate(&self) -> Instant {
        match self.rate_span().rate.as_bps() {
            0 => Instant::MAX,
            bps => self.served_until + Duration::from_nanos(self.work_left.div_ceil(bps)),
        }
    }

    /// Work done from `served_until` to `at` at the present rate; the rate must not change before `at`.
    fn work_until(&self, at: Instant) -> u64 {
        let nanos = at.as_nanos().saturating_sub(self.served_until.as_nanos());
        u64::try_from(u128::from(self.rate_span().rate.as_bps()) * u128::from(nanos)).unwrap_or(u64::MAX)
    }

    /// Starts service of the first segment. `spare` is work already done on it within the nanosecond that
    /// completed the previous segment, so that rounding errors do not accumulate.
    fn begin_segment(&mut self, spare: u64) {
        self.manage_queue();
        if let Some(front) = self.waiting.front() {
            let bytes = front.packet.length_of(front.next, 1);
            self.work_left = bytes.saturating_mul(WORK_PER_BYTE).saturating_sub(spare);
            self.finish = self.finish_estimate();
        }
    }

    /// Lets CoDel, if configured, drop segments at the head before one is served.
    fn manage_queue(&mut self) {
        let Some(codel) = &mut self.codel else { return };
        let mut dropped = false;
        loop {
            let Some(front) = self.waiting.front_mut() else {
                codel.found_empty();
                break;
            };
            let bytes = front.packet.length_of(front.next, 1);
            let waited = self.served_until.saturating_since(front.arrived);
            let behind = self.stats.queued.bytes - bytes;
            if !codel.drops(self.served_until, waited, bytes, behind) {
                break;
            }
            dropped = true;
            self.stats.queued.remove(1, bytes);
            self.stats.managed.add(1, bytes);
            front.next += 1;
            if front.next == front.admitted {
                self.waiting.pop_front();
            }
        }
        if dropped {
            self.close_chunk();
        }
    }

    /// When the segment in service will arrive, if it will be a chunk of its own and is not lost. Looks at
    /// the next random values without consuming them.
    fn next_arrival(&self) -> Option<Instant> {
        let front = self.waiting.front()?;
        let alone = self.open.is_none() && front.next + 1 == front.admitted;
        let arrives = alone && !self.is_dead(self.finish) && !self.loss.clone().draw(self.finish);
        arrives.then(|| self.delay.peek_due(self.finish))
    }

    /// The segment in service has left the server at `served_until`.
    fn depart(&mut self, spare: u64) {
        let at = self.served_until;
        let dead = self.is_dead(at);
        let lost = self.loss.draw(at); // drawn for segments of a dead path, too, so that later losses do not depend on dead times
        let front = self.waiting.front_mut().expect("a segment departs only from a queue with a front");
        let index = front.next;
        let bytes = front.packet.length_of(index, 1);
        front.next += 1;
        let finished = front.next == front.admitted;
        self.stats.queued.remove(1, bytes);
        self.stats.emptied += u64::from(self.stats.queued.packets == 0);
        if dead || lost {
            let count = if dead { &mut self.stats.dead } else { &mut self.stats.lost };
            count.add(1, bytes);
            self.close_chunk();
        } else {
            self.stats.in_flight.add(1, bytes);
            if finished && self.open.is_none() {
                self.deliver_alone(index, bytes);
                self.begin_segment(spare);
                return;
            }
            self.join_chunk(index, bytes);
        }
        if finished {
            self.close_chunk();
            self.waiting.pop_front();
        }
        self.begin_segment(spare);
        if self.open.as_ref().is_some_and(|open| self.waiting.is_empty() || self.finish > open.limit) {
            self.close_chunk();
        }
    }

    /// Delivers the first packet's last segment as a separate chunk. This is the common case of whole packets; it
    /// does not clone the handle.
    fn deliver_alone(&mut self, index: u32, bytes: u64) {
        let front = self.waiting.pop_front().expect("the departing packet is still in front");
        let due = self.delay.due(self.served_until);
        let (handle, arrived) = (front.packet.handle, front.arrived);
        self.delivering.push_back(Chunk { handle, first: index, count: 1, length: bytes, arrived, due });
    }

    /// Adds segment `index` of the first packet to the open chunk, or opens a chunk with it.
    fn join_chunk(&mut self, index: u32, bytes: u64) {
        let departed = self.served_until;
        if let Some(open) = &mut self.open {
            open.chunk.count += 1;
            open.chunk.length += bytes;
            open.departed = departed;
            return;
        }
        let front = self.waiting.front().expect("the departing packet is still in front");
        let (handle, arrived) = (front.packet.handle.clone(), front.arrived);
        let chunk = Chunk { handle, first: index, count: 1, length: bytes, arrived, due: departed };
        self.open = Some(Open { chunk, departed, limit: departed + CHUNK_SPAN });
    }

    fn close_chunk(&mut self) {
        if let Some(Open { mut chunk, departed, .. }) = self.open.take() {
            chunk.due = self.delay.due(departed);
            self.delivering.push_back(chunk);
        }
    }
}
