//! One stream's reassembly: in-order chunks ready to read, and what arrived ahead of them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// A slice below this is copied before it is kept ahead of order: it may pin a block many times
/// its size. When many are held already, so is every other.
const COPY_BELOW: usize = 4 * 1024;
/// Copies of in-order pieces are gathered in chunks of about this size.
const GATHERED: usize = 64 * 1024;

/// Slices of receive blocks that a stream holds: each may pin a whole block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Ahead of order.
    pub ahead: usize,
    /// In order, not yet read.
    pub ready: usize,
}

impl Pieces {
    /// All of them.
    pub fn all(self) -> usize {
        self.ahead + self.ready
    }

    /// Of the session, after one stream went from `before` to `after`.
    pub fn replace(&mut self, before: Self, after: Self) {
        self.ahead = self.ahead + after.ahead - before.ahead;
        self.ready = self.ready + after.ready - before.ready;
    }
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
    ready: VecDeque<Bytes>,
    /// In-order bytes behind `ready`, copied together.
    gathered: BytesMut,
    /// Pieces ahead of `next`: ascending, apart.
    ahead: VecDeque<(u64, Bytes)>,
    /// First byte offset not yet in order.
    next: u64,
    /// Bytes the application has taken.
    pub consumed: u64,
    /// First offset the peer may not send.
    pub limit: u64,
    pub end: Option<u64>,
    pub reset: Option<u32>,
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

    /// Takes payload that belongs at `offset`. The caller has checked it against the credit, and says
    /// whether many pieces are held in the session.
    pub fn insert(&mut self, offset: u64, piece: Bytes, crowded: bool) -> Incoming {
        let copy_below = if crowded { usize::MAX } else { COPY_BELOW };
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
                self.put_in_order(rest, crowded);
                break;
            }
            let at = self.ahead.partition_point(|(o, p)| o + p.len() as u64 <= start);
            match self.ahead.get(at) {
                Some((o, p)) if *o <= start => {
                    let known = (o + p.len() as u64 - start).min(rest.len() as u64);
                    drop(rest.split_to(known as usize));
                    start += known;
                }
                held => {
                    let gap = held.map_or(rest.len() as u64, |(o, _)| (o - start).min(rest.len() as u64));
                    let part = rest.split_to(gap as usize);
                    new += part.len();
                    let part = if part.len() < copy_below { Bytes::copy_from_slice(&part) } else { part };
                    self.ahead.insert(at, (start, part));
                    start += gap;
                }
            }
        }
        while let Some((o, _)) = self.ahead.front()
            && *o == self.next
        {
            let (_, piece) = self.ahead.pop_front().expect("front was just seen");
            self.put_in_order(piece, crowded);
        }
        Incoming { new, readable: self.next > before }
    }

    /// Puts the piece at `next`. While many are held it is copied behind others: neither a block nor an
    /// allocation of its own for each crumb.
    fn put_in_order(&mut self, piece: Bytes, crowded: bool) {
        self.next += piece.len() as u64;
        if crowded {
            self.gathered.extend_from_slice(&piece);
            if self.gathered.len() >= GATHERED {
                self.settle();
            }
        } else {
            self.settle();
            self.ready.push_back(piece);
        }
    }

    /// Moves what was gathered to `ready`.
    fn settle(&mut self) {
        if !self.gathered.is_empty() {
            self.ready.push_back(core::mem::take(&mut self.gathered).freeze());
        }
    }

    /// Next chunk in order.
    pub fn read(&mut self) -> Option<Bytes> {
        if self.ready.is_empty() {
            self.settle();
        }
        let chunk = self.ready.pop_front()?;
        self.consumed += chunk.len() as u64;
        Some(chunk)
    }

    /// Everything up to the end has been read.
    pub fn at_end(&self) -> bool {
        self.end == Some(self.next) && self.ready.is_empty() && self.gathered.is_empty()
    }

    /// All bytes are here, read or not.
    pub fn complete(&self) -> bool {
        self.reset.is_some() || self.end == Some(self.next)
    }

    /// Throws away what is held and returns how many bytes that was.
    pub fn discard(&mut self) -> u64 {
        let held: usize = self.ready.iter().map(Bytes::len).sum::<usize>()
            + self.gathered.len()
            + self.ahead.iter().map(|(_, p)| p.len()).sum::<usize>();
        self.ready.clear();
        self.gathered = BytesMut::new();
        self.ahead.clear();
        held as u64
    }

    /// Slices held.
    pub fn pieces(&self) -> Pieces {
        Pieces { ahead: self.ahead.len(), ready: self.ready.len() }
    }
}
