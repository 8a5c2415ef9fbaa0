//! One stream's reassembly: in-order chunks ready to read, and what arrived ahead of them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::pins::{Pin, Pins};

/// A slice below this is copied before it is kept: it is little to copy, and costs as much to keep.
const COPY_BELOW: usize = 4 * 1024;
/// Copies of in-order pieces are gathered in chunks of about this size.
const GATHERED: usize = 64 * 1024;

/// A piece of payload that waits, and the block it pins if it is no copy.
#[derive(Debug)]
struct Held {
    bytes: Bytes,
    pin: Option<Pin>,
}

/// What a piece of payload did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// Bytes that were new.
    pub new: usize,
    /// The application can read more than before.
    pub readable: bool,
}

/// The receiving half of one stream.
#[derive(Debug, Default)]
pub(crate) struct RecvStream {
    ready: VecDeque<Held>,
    /// In-order bytes behind `ready`, copied together.
    gathered: BytesMut,
    /// Pieces ahead of `next`: ascending, apart.
    ahead: VecDeque<(u64, Held)>,
    /// First byte offset not yet in order.
    next: u64,
    /// Bytes the application has taken.
    pub consumed: u64,
    /// First offset the peer may not send.
    pub limit: u64,
    /// First offset that no segment has named yet: the peer has numbered everything below.
    top: u64,
    /// Bytes that have been counted against the session's credit.
    counted: u64,
    pub end: Option<u64>,
    pub reset: Option<u32>,
    /// The application reads no more: what arrives is counted and thrown away.
    pub stopped: bool,
    /// The application has seen the end.
    pub done: bool,
    /// The application was told that it can read and has not been refused since.
    pub notified: bool,
}

impl RecvStream {
    pub fn new(limit: u64) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Takes payload that belongs at `offset`. The caller has checked it against the credit; what is kept
    /// without a copy is counted in `pins`.
    pub fn insert(&mut self, offset: u64, piece: Bytes, pins: &mut Pins) -> Incoming {
        let before = self.next;
        let mut new = 0;
        let mut start = offset;
        let mut rest = piece;
        if start < self.next {
            let known = (self.next - start).min(rest.len() as u64);
            drop(rest.split_to(known as usize));
            start += known;
        }
        // Walk over the pieces already held and fill the gaps between them.
        while !rest.is_empty() {
            if start == self.next && self.ahead.front().is_none_or(|&(o, _)| o >= start + rest.len() as u64) {
                new += rest.len();
                self.put_in_order(rest, pins);
                break;
            }
            let at = self.ahead.partition_point(|(o, p)| o + p.bytes.len() as u64 <= start);
            match self.ahead.get(at) {
                Some((o, p)) if *o <= start => {
                    let known = (o + p.bytes.len() as u64 - start).min(rest.len() as u64);
                    drop(rest.split_to(known as usize));
                    start += known;
                }
                held => {
                    let gap = held.map_or(rest.len() as u64, |(o, _)| (o - start).min(rest.len() as u64));
                    let part = rest.split_to(gap as usize);
                    new += part.len();
                    let pin = if part.len() < COPY_BELOW { None } else { pins.hold() };
                    let bytes = if pin.is_some() { part } else { Bytes::copy_from_slice(&part) };
                    self.ahead.insert(at, (start, Held { bytes, pin }));
                    start += gap;
                }
            }
        }
        while let Some((o, _)) = self.ahead.front()
            && *o == self.next
        {
            let (_, held) = self.ahead.pop_front().expect("front was just seen");
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

    /// Puts the piece at `next`. A crumb behind others is copied, so that what is not read costs neither a
    /// block nor an entry for each.
    fn put_in_order(&mut self, piece: Bytes, pins: &mut Pins) {
        self.next += piece.len() as u64;
        let behind = !self.ready.is_empty() || !self.gathered.is_empty();
        let pin = if behind && piece.len() < COPY_BELOW { None } else { pins.hold() };
        if pin.is_some() {
            self.close_gathered();
            self.ready.push_back(Held { bytes: piece, pin });
        } else {
            self.gather(&piece);
        }
    }

    /// Copies in-order bytes behind one another.
    fn gather(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHERED {
            self.close_gathered();
        }
    }

    /// Moves what was gathered to `ready`.
    fn close_gathered(&mut self) {
        if !self.gathered.is_empty() {
            let bytes = core::mem::take(&mut self.gathered).freeze();
            self.ready.push_back(Held { bytes, pin: None });
        }
    }

    /// Next chunk in order.
    pub fn read(&mut self, pins: &mut Pins) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.close_gathered();
        }
        let Held { bytes, pin } = self.ready.pop_front()?;
        if let Some(pin) = pin {
            pins.release(pin);
        }
        self.consumed += bytes.len() as u64;
        Some(bytes)
    }

    /// A segment up to the offset `end` was seen, perhaps only its head; with `fin` the stream ends there. False
    /// when that contradicts what was seen before.
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

    /// Counts, once, everything that the peer has numbered of a stream whose bytes are thrown away: those that
    /// arrived in part, or will arrive again, are among them. Returns how many bytes were not counted before.
    pub fn settle(&mut self) -> u64 {
        let counted = std::mem::replace(&mut self.counted, self.top);
        self.top.saturating_sub(counted)
    }

    /// Everything up to the end has been read.
    pub fn at_end(&self) -> bool {
        self.end == Some(self.next) && self.ready.is_empty() && self.gathered.is_empty()
    }

    /// Nothing more is waited for: the peer has abandoned the stream, or all bytes are here, read or not, or the
    /// end is known and nobody reads.
    pub fn complete(&self) -> bool {
        self.reset.is_some() || self.end.is_some_and(|end| self.stopped || end == self.next)
    }

    /// Throws away what is held and returns how many bytes that was.
    pub fn discard(&mut self, pins: &mut Pins) -> u64 {
        let mut bytes = self.gathered.len();
        self.gathered = BytesMut::new();
        let ahead = self.ahead.drain(..).map(|(_, held)| held);
        for held in self.ready.drain(..).chain(ahead) {
            bytes += held.bytes.len();
            if let Some(pin) = held.pin {
                pins.release(pin);
            }
        }
        bytes as u64
    }

    /// Pieces held ahead of order.
    pub fn ahead(&self) -> usize {
        self.ahead.len()
    }
}
