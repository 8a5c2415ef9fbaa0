//! One stream's reassembly: in-order chunks ready to read, and pieces that arrived out of order.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use tributary_types::Instant;

use super::pins::{Pin, Pins};
use crate::bound::Bound;
use crate::numbers::NumberSet;
use crate::work::step;

/// Slices shorter than this are copied: the copy is cheap, and bookkeeping for a slice would cost as much.
const COPY_BELOW: usize = 4 * 1024;
/// Copied in-order pieces are gathered in chunks of about this size.
const GATHERED: usize = 64 * 1024;

/// A waiting piece of payload, and the block that it pins unless it is a copy.
#[derive(Debug)]
pub(super) struct Held {
    pub bytes: Bytes,
    pub pin: Option<Pin>,
}

/// Effect of a piece of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// Bytes that were new.
    pub new: usize,
    /// The application can read more than before.
    pub readable: bool,
}

/// The receiving half of one stream.
#[derive(Debug)]
pub(crate) struct RecvStream {
    pub(super) ready: VecDeque<Held>,
    /// In-order bytes behind `ready`, copied together.
    gathered: BytesMut,
    /// Pieces ahead of `next` by their offsets, without overlap.
    pub(super) ahead: BTreeMap<u64, Held>,
    /// First byte offset not yet in order.
    pub(super) next: u64,
    /// A flow of datagrams: the byte offsets that have arrived, delivered or not.
    pub(super) arrived: NumberSet,
    /// Bytes the application has taken.
    pub consumed: u64,
    /// First offset the peer may not send.
    pub limit: u64,
    /// The limit that the peer was told for this stream; 0 until then. It may be below the initial credit.
    pub told: u64,
    /// Receive window: how far ahead of the reader the peer may send, if there is session credit for it.
    pub window: Bound,
    /// The stream's part of the session's committed credit.
    pub committed: u64,
    /// Since when bytes in order wait for the reader.
    pub unread_since: Option<Instant>,
    /// Where the reader went on after it had last stopped.
    pub went_on_at: u64,
    /// One past the highest offset seen in a segment: the peer has numbered everything below.
    top: u64,
    /// Bytes that have been counted against the session's credit.
    pub(super) counted: u64,
    pub end: Option<u64>,
    pub reset: Option<u32>,
    /// The application has stopped reading: arriving bytes are counted and discarded.
    pub stopped: bool,
    /// The application has seen the end.
    pub done: bool,
    /// The application was told that it can read, and has not found the stream empty since.
    pub notified: bool,
}

impl RecvStream {
    /// Bytes of the record of a piece that waits.
    pub const PIECE: usize = size_of::<(u64, Held)>();

    /// `limit`: the initial credit, which is the least window, too. `most`: the largest window.
    pub fn new(limit: u64, most: u64) -> Self {
        Self {
            ready: VecDeque::new(),
            gathered: BytesMut::new(),
            ahead: BTreeMap::new(),
            next: 0,
            arrived: NumberSet::default(),
            consumed: 0,
            limit,
            told: 0,
            window: Bound::new(limit, limit, most),
            committed: 0,
            unread_since: None,
            went_on_at: 0,
            top: 0,
            counted: 0,
            end: None,
            reset: None,
            stopped: false,
            done: false,
            notified: false,
        }
    }

    /// Whether bytes in order wait for the reader.
    pub fn is_unread(&self) -> bool {
        !self.ready.is_empty() || !self.gathered.is_empty()
    }

    /// Whether the stream has been read, up to its last byte in order.
    fn keeps_up(&self) -> bool {
        self.told > 0 && !self.is_unread()
    }

    /// Whether the peer has used up half of the window and waits, and not for the reader: everything that has arrived
    /// is read or waits for earlier bytes.
    pub fn waits_for_order(&self) -> bool {
        !self.is_unread() && self.waiting() > 0 && self.top + self.window.limit / 2 > self.limit
    }

    /// Bytes that the session has to hold for the stream, now or when the peer uses the credit it was told of: at least
    /// `least` while more may come. The initial credit counts only as far as it was used.
    pub fn commits(&self, least: u64) -> u64 {
        if self.stopped || self.reset.is_some() {
            return 0;
        }
        let ahead = |until: u64| until.max(self.counted).saturating_sub(self.consumed);
        self.end.map_or_else(|| ahead(self.told).max(least), |end| ahead(self.told.min(end)))
    }

    /// Takes payload at `offset`. The caller has checked it against the credit; pieces kept without a copy are
    /// counted in `pins`.
    pub fn insert(&mut self, offset: u64, piece: Bytes, pins: &mut Pins) -> Incoming {
        let before = self.next;
        let mut new = 0;
        let end = offset + piece.len() as u64;
        let start = offset.max(self.next);
        let part = |from: u64, to: u64| piece.slice((from - offset) as usize..(to - offset) as usize);
        if start >= end {
            // All of it has arrived before.
        } else if start == self.next && self.ahead.first_key_value().is_none_or(|(&first, _)| first >= end) {
            new = (end - start) as usize;
            self.put_in_order(part(start, end), pins);
        } else {
            for (from, to) in self.gaps(start, end) {
                let part = part(from, to);
                new += part.len();
                let pin = if part.len() < COPY_BELOW { None } else { pins.hold(self.keeps_up()) };
                let bytes = if pin.is_some() { part } else { Bytes::copy_from_slice(&part) };
                self.ahead.insert(from, Held { bytes, pin });
            }
        }
        while let Some(first) = self.ahead.first_entry()
            && *first.key() == self.next
        {
            step();
            let held = first.remove();
            self.next += held.bytes.len() as u64;
            if held.bytes.len() < COPY_BELOW {
                self.gather(&held.bytes);
            } else {
                self.close_gathered();
                self.ready.push_back(held);
            }
        }
        self.counted += new as u64;
        Incoming { new, readable: self.next > before }
    }

    /// The parts of `start..end` that no held piece ahead has.
    fn gaps(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let below = self.ahead.range(..start).next_back().map(|(o, held)| o + held.bytes.len() as u64);
        let mut at = below.unwrap_or_default().max(start);
        let mut gaps = Vec::new();
        for (&offset, held) in self.ahead.range(start..end) {
            step();
            if offset > at {
                gaps.push((at, offset));
            }
            at = offset + held.bytes.len() as u64;
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// Appends the piece at `next`. A small piece after others is copied, so that unread small pieces cost neither a
    /// block nor an entry each.
    fn put_in_order(&mut self, piece: Bytes, pins: &mut Pins) {
        self.next += piece.len() as u64;
        let pin = self.pin(&piece, pins);
        if pin.is_some() {
            self.close_gathered();
            self.ready.push_back(Held { bytes: piece, pin });
        } else {
            self.gather(&piece);
        }
    }

    /// Pins the block of a piece that can be read; `None` if it must be copied.
    fn pin(&self, piece: &Bytes, pins: &mut Pins) -> Option<Pin> {
        let behind = self.is_unread();
        if behind && piece.len() < COPY_BELOW { None } else { pins.hold(self.keeps_up()) }
    }

    /// Holds a piece in its block, or a copy of it.
    pub(super) fn hold(&self, piece: Bytes, pins: &mut Pins) -> Held {
        let pin = self.pin(&piece, pins);
        let bytes = if pin.is_some() { piece } else { Bytes::copy_from_slice(&piece) };
        Held { bytes, pin }
    }

    /// Copies in-order bytes into the gathered chunk.
    fn gather(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHERED {
            self.close_gathered();
        }
    }

    /// Moves the gathered chunk to `ready`.
    fn close_gathered(&mut self) {
        if !self.gathered.is_empty() {
            let bytes = core::mem::take(&mut self.gathered).freeze();
            self.ready.push_back(Held { bytes, pin: None });
        }
    }

    /// Next chunk in order, or its first `most` bytes.
    pub fn read(&mut self, pins: &mut Pins, most: usize) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.close_gathered();
        }
        let Held { mut bytes, pin } = self.ready.pop_front()?;
        if bytes.len() > most {
            let part = bytes.split_to(most);
            self.ready.push_front(Held { bytes, pin });
            self.consumed += most as u64;
            return Some(part);
        }
        if let Some(pin) = pin {
            pins.release(pin);
        }
        self.consumed += bytes.len() as u64;
        Some(bytes)
    }

    /// A segment up to the offset `end` was seen, perhaps only its head; with `fin` the stream ends there. Returns
    /// false when that contradicts earlier segments.
    pub fn sees(&mut self, end: u64, fin: bool) -> bool {
        let moved = self.end.is_some_and(|known| end > known || (fin && end != known));
        if moved || (fin && end < self.top) {
            return false;
        }
        self.top = self.top.max(end);
        if fin {
            self.end = Some(end);
        }
        true
    }

    /// Counts all bytes that the peer has numbered of a stream whose bytes are discarded, including those that
    /// arrived in part or will arrive again. Returns how many bytes were not counted before.
    pub fn settle(&mut self) -> u64 {
        let counted = std::mem::replace(&mut self.counted, self.top);
        self.top.saturating_sub(counted)
    }

    /// Everything up to the end has been read.
    pub fn at_end(&self) -> bool {
        self.end == Some(self.next) && !self.is_unread()
    }

    /// Whether nothing more has to arrive: the peer has reset the stream, all bytes have arrived, or the
    /// end is known and the application has stopped reading.
    pub fn complete(&self) -> bool {
        self.reset.is_some() || self.end.is_some_and(|end| self.stopped || end == self.next)
    }

    /// Discards all held bytes and returns their number.
    pub fn discard(&mut self, pins: &mut Pins) -> u64 {
        let mut bytes = self.gathered.len();
        self.gathered = BytesMut::new();
        self.arrived = NumberSet::default();
        let ahead = std::mem::take(&mut self.ahead).into_values();
        for held in self.ready.drain(..).chain(ahead) {
            bytes += held.bytes.len();
            if let Some(pin) = held.pin {
                pins.release(pin);
            }
        }
        bytes as u64
    }

    /// Bytes that have arrived, in any order; repeated ones count once. Zero once the bytes are discarded.
    pub fn arrived(&self) -> u64 {
        if self.stopped || self.reset.is_some() { 0 } else { self.counted }
    }

    /// Bytes that have arrived and wait for earlier ones. Zero once the bytes are discarded.
    pub fn waiting(&self) -> u64 {
        if self.stopped || self.reset.is_some() { 0 } else { self.counted.saturating_sub(self.next) }
    }

    /// Pieces held ahead of order, and gaps between datagrams.
    pub fn ahead(&self) -> usize {
        self.ahead.len() + self.arrived.gaps()
    }
}
