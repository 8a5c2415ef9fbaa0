//! Segments sent and not yet cumulatively acknowledged, one entry each, as in Linux's retransmission queue.
//! Records which are selectively acknowledged, considered lost, retransmitted, and the order of their last
//! transmission. Decides nothing; source: RFC 2018, RFC 6675 §4 and Linux's `tcp_sock`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tributary_types::Instant;

use super::ranges::RangeSet;

/// Acknowledged selectively.
pub(super) const SACKED: u8 = 1;
/// Considered lost.
pub(super) const LOST: u8 = 2;
/// A retransmission of it is in flight.
pub(super) const RETRANSMITTED: u8 = 4;
/// It was retransmitted at least once.
pub(super) const EVER_RETRANSMITTED: u8 = 8;
/// It carries FIN.
pub(super) const FIN: u8 = 16;
/// It was sent while the application limited the sender.
pub(super) const APP_LIMITED: u8 = 32;

const MASK: u32 = 0x7fff_ffff;
const NONE: u32 = u32::MAX;

/// State when a segment was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    /// When the first segment of the flight was sent.
    pub first_sent: Instant,
    /// When `delivered` was reached.
    pub delivered_at: Instant,
    /// Bytes delivered.
    pub delivered: u64,
    /// Bytes lost.
    pub lost: u64,
}

/// A segment in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub seq: u64,
    /// Sequence space: payload and FIN.
    pub span: u32,
    pub flags: u8,
    /// Neighbours in the order of transmission: low bits of their ids.
    earlier: u32,
    later: u32,
    /// Last transmission.
    pub at: Instant,
    pub stamp: Stamp,
}

impl Sent {
    /// A segment that is sent now for the first time.
    pub fn new(now: Instant, seq: u64, span: u32, flags: u8, stamp: Stamp) -> Self {
        Self { seq, span, flags, earlier: NONE, later: NONE, at: now, stamp }
    }

    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.span)
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The retransmission queue. A segment's id is its number in the order of first transmission.
#[derive(Debug)]
pub(super) struct Scoreboard {
    ring: VecDeque<Sent>,
    /// Id of the front.
    base: u64,
    /// Ids acknowledged selectively.
    sacked: RangeSet,
    /// Ids marked lost and not sent again; may contain some that are neither any more.
    lost: BinaryHeap<Reverse<u64>>,
    first_sent: u32,
    last_sent: u32,
    mss: u64,
    out: u64,
    sacked_bytes: u64,
    lost_bytes: u64,
    retransmitted_bytes: u64,
    /// Bytes ever marked lost.
    lost_total: u64,
}

impl Scoreboard {
    pub fn new(mss: u64) -> Self {
        Self {
            ring: VecDeque::new(),
            base: 0,
            sacked: RangeSet::default(),
            lost: BinaryHeap::new(),
            first_sent: NONE,
            last_sent: NONE,
            mss: mss.max(1),
            out: 0,
            sacked_bytes: 0,
            lost_bytes: 0,
            retransmitted_bytes: 0,
            lost_total: 0,
        }
    }

    // ---- reading

    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub fn count(&self) -> usize {
        self.ring.len()
    }

    /// Sequence space sent and not cumulatively acknowledged.
    pub fn out(&self) -> u64 {
        self.out
    }

    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    pub fn retransmitted_bytes(&self) -> u64 {
        self.retransmitted_bytes
    }

    pub fn lost_total(&self) -> u64 {
        self.lost_total
    }

    /// RFC 6675's pipe: bytes estimated to be in the network.
    pub fn in_flight(&self) -> u64 {
        // Never negative: what is sacked or lost is part of `out`, and what is retransmitted was lost before.
        self.out - self.sacked_bytes - self.lost_bytes + self.retransmitted_bytes
    }

    pub fn front(&self) -> Option<&Sent> {
        self.ring.front()
    }

    pub fn back_id(&self) -> Option<u64> {
        (!self.ring.is_empty()).then(|| self.base + self.ring.len() as u64 - 1)
    }

    pub fn front_id(&self) -> Option<u64> {
        (!self.ring.is_empty()).then_some(self.base)
    }

    pub fn entry(&self, id: u64) -> &Sent {
        &self.ring[(id - self.base) as usize]
    }

    /// One past the highest selectively acknowledged byte.
    pub fn highest_sacked(&self) -> Option<u64> {
        self.sacked.descending().next().map(|(_, to)| self.entry(to - 1).end())
    }

    /// The highest id at or above which `count` segments are selectively acknowledged.
    pub fn sacked_from_top(&self, count: u64) -> Option<u64> {
        let mut missing = count;
        for (from, to) in self.sacked.descending() {
            if to - from >= missing {
                return Some(to - missing);
            }
            missing -= to - from;
        }
        None
    }

    pub fn sacked_count(&self) -> u64 {
        self.sacked_bytes.div_ceil(self.mss)
    }

    /// The segment in flight whose last transmission is the oldest.
    pub fn oldest_in_flight(&self) -> Option<u64> {
        (self.first_sent != NONE).then(|| self.widen(self.first_sent))
    }

    /// The lowest segment that is lost and not sent again.
    pub fn next_lost(&mut self) -> Option<u64> {
        while let Some(&Reverse(id)) = self.lost.peek() {
            if id >= self.base && self.entry(id).flags & (LOST | SACKED | RETRANSMITTED) == LOST {
                return Some(id);
            }
            self.lost.pop();
        }
        None
    }

    // ---- sending

    /// A segment is sent for the first time.
    pub fn push(&mut self, sent: Sent) {
        self.ring.push_back(sent);
        self.out += u64::from(sent.span);
        self.link_last(self.base + self.ring.len() as u64 - 1);
    }

    /// A segment is sent again.
    pub fn retransmit(&mut self, now: Instant, id: u64, stamp: Stamp) {
        self.unlink(id);
        let index = (id - self.base) as usize;
        let sent = &mut self.ring[index];
        if sent.flags & (RETRANSMITTED | SACKED) == 0 {
            // A probe or a forced retransmission may repeat a segment that was not marked lost; it then
            // counts twice in the pipe, as in Linux.
            sent.flags |= RETRANSMITTED;
            self.retransmitted_bytes += u64::from(sent.span);
        }
        sent.flags |= EVER_RETRANSMITTED;
        (sent.at, sent.stamp) = (now, stamp);
        self.link_last(id);
    }

    // ---- acknowledgements

    /// Everything below `ack` has arrived: passes these segments to `each` and removes them.
    pub fn acknowledge(&mut self, ack: u64, mut each: impl FnMut(&Sent)) {
        while let Some(front) = self.ring.front() {
            if front.end() > ack {
                break;
            }
            self.unlink(self.base);
            let sent = self.ring.pop_front().expect("the front was just seen");
            self.base += 1;
            self.remove_from_counts(&sent);
            self.out -= u64::from(sent.span);
            each(&sent);
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(self.base);
        }
        if self.lost_bytes == 0 {
            self.lost.clear();
        }
    }

    fn remove_from_counts(&mut self, sent: &Sent) {
        let span = u64::from(sent.span);
        if sent.has(SACKED) {
            self.sacked_bytes -= span;
        }
        if sent.has(LOST) {
            self.lost_bytes -= span;
        }
        if sent.has(RETRANSMITTED) {
            self.retransmitted_bytes -= span;
        }
    }

    /// `[from, to)` has arrived: passes each segment within that was not acknowledged before to `each`, in
    /// its state before.
    pub fn sack(&mut self, from: u64, to: u64, mut each: impl FnMut(&Sent)) {
        let first = self.first_not_below(from);
        let mut last = self.first_not_below(to);
        if last > first && self.entry(last - 1).end() > to {
            last -= 1;
        }
        if first >= last {
            return;
        }
        let mut sacked = core::mem::take(&mut self.sacked);
        sacked.insert(first, last, |a, b| {
            for id in a..b {
                self.unlink(id);
                let index = (id - self.base) as usize;
                let before = self.ring[index];
                self.remove_from_counts(&before);
                self.ring[index].flags = before.flags & !(LOST | RETRANSMITTED) | SACKED;
                self.sacked_bytes += u64::from(before.span);
                each(&before);
            }
        });
        self.sacked = sacked;
    }

    /// Marks one more segment behind the front as arrived, without knowing which: the lowest that is not marked yet (Linux's
    /// `tcp_add_reno_sack`).
    pub fn sack_another(&mut self, each: impl FnMut(&Sent)) {
        let next = self.ring.iter().skip(1).find(|sent| !sent.has(SACKED)).map(|sent| (sent.seq, sent.end()));
        if let Some((from, to)) = next {
            self.sack(from, to, each);
        }
    }

    /// Id of the first segment that begins at or after `seq`; the next free id if there is none.
    fn first_not_below(&self, seq: u64) -> u64 {
        let Some(front) = self.ring.front() else { return self.base };
        if seq <= front.seq {
            return self.base;
        }
        // Segments are nearly always full: guess the place before searching.
        let guess = ((seq - front.seq) / self.mss) as usize;
        if self.ring.get(guess).is_some_and(|sent| sent.seq == seq) {
            return self.base + guess as u64;
        }
        self.base + self.ring.partition_point(|sent| sent.seq < seq) as u64
    }

    // ---- losses

    /// Marks a segment, or its retransmission, as lost.
    pub fn mark_lost(&mut self, id: u64) {
        let index = (id - self.base) as usize;
        let sent = self.ring[index];
        let span = u64::from(sent.span);
        if sent.has(SACKED) || sent.flags & (LOST | RETRANSMITTED) == LOST {
            return;
        }
        self.unlink(id);
        if !sent.has(LOST) {
            self.lost_bytes += span;
        }
        if sent.has(RETRANSMITTED) {
            self.retransmitted_bytes -= span;
        }
        self.lost_total += span;
        self.ring[index].flags = sent.flags & !RETRANSMITTED | LOST;
        self.lost.push(Reverse(id));
    }

    /// The losses were spurious (RFC 4015): segments marked lost and not sent again are in flight.
    pub fn unmark_lost(&mut self) {
        for index in 0..self.ring.len() {
            let sent = self.ring[index];
            if !sent.has(LOST) {
                continue;
            }
            self.lost_bytes -= u64::from(sent.span);
            self.ring[index].flags &= !LOST;
        }
        self.lost.clear();
        self.link_all();
    }

    /// Clears all marks of selective acknowledgement: the receiver has discarded that data (RFC 2018 §8), or the marks were
    /// guesses.
    pub fn forget_sacks(&mut self) {
        for index in 0..self.ring.len() {
            let sent = self.ring[index];
            if sent.has(SACKED) {
                self.sacked_bytes -= u64::from(sent.span);
                self.ring[index].flags &= !SACKED;
            }
        }
        self.sacked.clear();
        self.link_all();
    }

    // ---- the order of transmission: a list through the ring

    fn widen(&self, low: u32) -> u64 {
        self.base + u64::from(low.wrapping_sub(self.base as u32) & MASK)
    }

    fn index_of(&self, low: u32) -> usize {
        (low.wrapping_sub(self.base as u32) & MASK) as usize
    }

    /// The segment transmitted next after `id`.
    pub fn later(&self, id: u64) -> Option<u64> {
        let later = self.entry(id).later;
        (later != NONE).then(|| self.widen(later))
    }

    fn is_linked(&self, id: u64) -> bool {
        let sent = self.entry(id);
        sent.earlier != NONE || self.first_sent == id as u32 & MASK
    }

    fn link_last(&mut self, id: u64) {
        let low = id as u32 & MASK;
        let last = self.last_sent;
        if last == NONE {
            self.first_sent = low;
        } else {
            let index = self.index_of(last);
            self.ring[index].later = low;
        }
        let index = (id - self.base) as usize;
        (self.ring[index].earlier, self.ring[index].later) = (last, NONE);
        self.last_sent = low;
    }

    /// Rebuilds the list: rare, after many segments were added to it again.
    fn link_all(&mut self) {
        let in_flight = |sent: &Sent| !sent.has(SACKED) && sent.flags & (LOST | RETRANSMITTED) != LOST;
        let ids = self.base..self.base + self.ring.len() as u64;
        let mut order: Vec<(Instant, u64)> =
            ids.map(|id| (self.entry(id).at, id)).filter(|(_, id)| in_flight(self.entry(*id))).collect();
        order.sort_unstable();
        (self.first_sent, self.last_sent) = (NONE, NONE);
        for sent in &mut self.ring {
            (sent.earlier, sent.later) = (NONE, NONE);
        }
        for (_, id) in order {
            self.link_last(id);
        }
    }

    fn unlink(&mut self, id: u64) {
        if !self.is_linked(id) {
            return;
        }
        let index = (id - self.base) as usize;
        let Sent { earlier, later, .. } = self.ring[index];
        (self.ring[index].earlier, self.ring[index].later) = (NONE, NONE);
        if earlier == NONE {
            self.first_sent = later;
        } else {
            let index = self.index_of(earlier);
            self.ring[index].later = later;
        }
        if later == NONE {
            self.last_sent = earlier;
        } else {
            let index = self.index_of(later);
            self.ring[index].earlier = earlier;
        }
    }
}

#[cfg(test)]
mod tests;
