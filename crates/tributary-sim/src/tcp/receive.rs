//! The receiving half: reassembly of numbers, selective acknowledgements (RFC 2018, RFC 2883), the end of the
//! stream. `ack_policy` decides when to acknowledge, `window` how much the peer may send.

mod ack_policy;
mod window;

use tributary_types::Instant;

use super::config::TcpConfig;
use super::ranges::RangeSet;
use crate::packet::{MAX_SACK_BLOCKS, SackBlock, TcpSegment};
use ack_policy::{AckPolicy, Arrival};
use window::ReceiveWindow;

/// Most ranges held out of order: about Linux's limit for small segments, and a bound on the memory that a
/// hostile sender can use.
const MOST_RANGES: usize = 8192;

/// Blocks remembered for acknowledgements; one more than fit beside a duplicate report.
const REMEMBERED: usize = MAX_SACK_BLOCKS + 1;

/// The receiving half of a connection.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Next number expected.
    next: u64,
    /// Next number the application reads.
    read: u64,
    ahead: RangeSet,
    ahead_bytes: u64,
    /// Blocks in the order of their last growth, newest first.
    recent: [SackBlock; REMEMBERED],
    recent_count: usize,
    duplicate: Option<SackBlock>,
    /// Number of the FIN.
    fin: Option<u64>,
    finished: bool,
    window: ReceiveWindow,
    policy: AckPolicy,
    /// Timestamp to echo (RFC 7323 §4.3).
    echo: Instant,
    acknowledged: u64,
    duplicates: u64,
    held_most: u64,
}

impl Receiver {
    pub fn new(config: &TcpConfig) -> Self {
        Self {
            next: 1,
            read: 1,
            ahead: RangeSet::default(),
            ahead_bytes: 0,
            recent: [SackBlock::default(); REMEMBERED],
            recent_count: 0,
            duplicate: None,
            fin: None,
            finished: false,
            window: ReceiveWindow::new(config),
            policy: AckPolicy::new(config),
            echo: Instant::ZERO,
            acknowledged: 0,
            duplicates: 0,
            held_most: 0,
        }
    }

    /// The peer's SYN arrived.
    pub fn start(&mut self, now: Instant, syn: &TcpSegment) {
        self.echo = syn.timestamp;
        self.window.start(now);
    }

    /// Puts the window on our own SYN, which acknowledges nothing.
    pub fn announce(&mut self, segment: &mut TcpSegment) {
        segment.window = self.window.advertise(self.next, 0);
    }

    // ---- reading

    /// Next number expected.
    pub fn expected(&self) -> u64 {
        self.next
    }

    /// In-order bytes not read.
    pub fn readable(&self) -> u64 {
        self.next - u64::from(self.finished) - self.read
    }

    /// FIN was received and everything before it read.
    pub fn is_finished_reading(&self) -> bool {
        self.finished && self.readable() == 0
    }

    /// FIN was received, and everything before it.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    pub fn held(&self) -> u64 {
        self.readable() + self.ahead_bytes
    }

    pub fn held_most(&self) -> u64 {
        self.held_most
    }

    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    pub fn read(&mut self, now: Instant, bytes: u64) {
        let bytes = bytes.min(self.readable());
        if bytes == 0 {
            return;
        }
        self.read += bytes;
        self.window.on_read(now, self.read);
        if self.window.has_opened(self.next, self.held()) {
            self.policy.acknowledge_now();
        }
    }

    // ---- windows given from outside

    pub fn override_window(&mut self, window: Option<u64>) {
        self.window.override_with(window);
        if self.window.has_opened(self.next, self.held()) {
            self.policy.acknowledge_now();
        }
    }

    // ---- arrivals

    /// Something arrived that must be acknowledged at once.
    pub fn acknowledge_now(&mut self) {
        self.policy.acknowledge_now();
    }

    /// Handles a segment of an established connection. `rto` is the pause after which the connection counts
    /// as idle.
    pub fn handle(&mut self, now: Instant, segment: &TcpSegment, rto: u64) {
        let (from, to) = (segment.seq, segment.seq + u64::from(segment.length));
        if from <= self.acknowledged && segment.timestamp >= self.echo {
            self.echo = segment.timestamp;
        }
        if segment.span() == 0 {
            if from < self.next {
                self.policy.on_probe(now); // a keep-alive or window probe
            }
            return;
        }
        self.window.on_segment(now, segment);
        self.policy.set_rtt(self.window.rtt());
        let limit = self.window.end(self.next).min(self.fin.unwrap_or(u64::MAX));
        if to + u64::from(segment.is_fin) <= self.next {
            self.duplicates += u64::from(segment.length);
            self.duplicate = Some(SackBlock { from, to: to.max(from + 1) });
            return self.policy.on_unusable();
        }
        if from > limit || (to > limit && self.next >= limit && segment.length > 0) {
            return self.policy.on_unusable();
        }
        if segment.is_fin && self.fin.is_none() && to <= limit {
            self.end_at(to);
        }
        let before = self.next;
        let had_gap = !self.ahead.is_empty();
        self.place(from.max(before), to.min(limit), from);
        self.take_fin();
        let arrival = Arrival {
            bytes: self.next - before,
            next: self.next,
            fills_gap: had_gap && self.next > before && self.ahead.is_empty(),
            has_gap: !self.ahead.is_empty(),
            ends: self.finished,
            rto,
            window_left: self.window.end(self.next) - self.next,
        };
        self.policy.on_data(now, arrival);
        self.held_most = self.held_most.max(self.held());
    }

    /// Stores `[from, to)`; the segment began at `sent_from`.
    fn place(&mut self, from: u64, to: u64, sent_from: u64) {
        if from < to && from > self.next {
            return self.place_ahead(from, to);
        }
        self.duplicates += from - sent_from.min(from);
        if from >= to {
            return;
        }
        self.next = to;
        while let Some((low, high)) = self.ahead.first().filter(|(low, _)| *low <= self.next) {
            self.duplicates += self.next.min(high) - low;
            self.ahead.remove_below(high);
            self.ahead_bytes -= high - low;
            self.next = self.next.max(high);
        }
        self.window.on_progress(to - from);
        self.forget_blocks_below(self.next);
    }

    fn place_ahead(&mut self, from: u64, to: u64) {
        if self.ahead.count() >= MOST_RANGES && !self.ahead.contains_range(from, to) {
            return;
        }
        let mut fresh = 0;
        let (low, high) = self.ahead.insert(from, to, |a, b| fresh += b - a);
        self.ahead_bytes += fresh;
        if fresh < to - from {
            self.duplicates += to - from - fresh;
            self.duplicate = Some(SackBlock { from, to });
        }
        self.remember(SackBlock { from: low, to: high });
    }

    /// FIN has number `fin`. Data beyond it, from a peer that breaks the rules, is dropped.
    fn end_at(&mut self, fin: u64) {
        self.fin = Some(fin);
        let beyond = self.ahead.remove_from(fin);
        if beyond > 0 {
            self.ahead_bytes -= beyond;
            let (old, count) = (self.recent, self.recent_count);
            self.recent_count = 0;
            for block in old[..count].iter().filter(|block| block.from < block.to.min(fin)) {
                self.recent[self.recent_count] = SackBlock { to: block.to.min(fin), ..*block };
                self.recent_count += 1;
            }
        }
    }

    fn take_fin(&mut self) {
        if self.fin == Some(self.next) && !self.finished {
            self.next += 1;
            self.finished = true;
            self.ahead.clear();
            self.ahead_bytes = 0;
            self.recent_count = 0;
        }
    }

    /// The newest block goes first and replaces those it covers (RFC 2018 §4).
    fn remember(&mut self, block: SackBlock) {
        let old = self.recent;
        let kept = old[..self.recent_count].iter().filter(|old| old.to < block.from || block.to < old.from);
        let mut count = 1;
        for kept in kept.take(REMEMBERED - 1) {
            self.recent[count] = *kept;
            count += 1;
        }
        self.recent[0] = block;
        self.recent_count = count;
    }

    fn forget_blocks_below(&mut self, next: u64) {
        let mut count = 0;
        for index in 0..self.recent_count {
            let block = self.recent[index];
            if block.to > next {
                self.recent[count] = block;
                count += 1;
            }
        }
        self.recent_count = count;
    }

    // ---- acknowledging

    /// Whether an acknowledgement is to be sent now.
    pub fn wants_to_acknowledge(&self) -> bool {
        self.policy.is_due()
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.policy.poll_timeout()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.policy.handle_timeout(now);
    }

    /// Fills in the acknowledgement of a segment that leaves, with or without payload.
    pub fn acknowledge(&mut self, now: Instant, segment: &mut TcpSegment) {
        segment.is_ack = true;
        segment.ack = self.next;
        segment.window = self.window.advertise(self.next, self.held());
        segment.echo = self.echo;
        let blocks =
            self.duplicate.take().into_iter().chain(self.recent[..self.recent_count].iter().copied());
        for (slot, block) in segment.sack.iter_mut().zip(blocks) {
            *slot = block;
            segment.sack_count += 1;
        }
        self.acknowledged = self.next;
        self.policy.on_acknowledged(now, segment.length > 0);
    }
}

#[cfg(test)]
mod tests;
