//! What one stream has written and not numbered yet.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Blocks small writes are gathered in.
const BLOCK: usize = 256 * 1024;

/// The sending half of one stream.
#[derive(Debug)]
pub(crate) struct SendStream {
    /// Higher goes first; zero is bulk.
    pub priority: u8,
    /// Offset of the next byte to number.
    pub offset: u64,
    /// First offset that may not be numbered.
    pub limit: u64,
    pub fin_wanted: bool,
    pub fin_numbered: bool,
    /// The peer's code, when it stopped reading.
    pub stopped: Option<u32>,
    /// Segments of this stream that are not acknowledged.
    pub unacknowledged: u32,
    /// The application waits for room.
    pub blocked: bool,
    /// In the queue of streams that can number.
    pub queued: bool,
    chunks: VecDeque<Bytes>,
    tail: BytesMut,
    unnumbered: usize,
}

impl SendStream {
    pub fn new(priority: u8, limit: u64) -> Self {
        Self {
            priority,
            offset: 0,
            limit,
            fin_wanted: false,
            fin_numbered: false,
            stopped: None,
            unacknowledged: 0,
            blocked: false,
            queued: false,
            chunks: VecDeque::new(),
            tail: BytesMut::new(),
            unnumbered: 0,
        }
    }

    pub fn unnumbered(&self) -> usize {
        self.unnumbered
    }

    /// Takes a chunk as it is, without copying.
    pub fn push(&mut self, bytes: Bytes) {
        self.close_tail();
        self.unnumbered += bytes.len();
        self.chunks.push_back(bytes);
    }

    /// Copies a small write behind the last one.
    pub fn push_slice(&mut self, bytes: &[u8]) {
        self.unnumbered += bytes.len();
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.tail.len() == self.tail.capacity() {
                self.close_tail();
                self.tail.reserve(BLOCK);
            }
            let take = rest.len().min(self.tail.capacity() - self.tail.len());
            self.tail.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
        }
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            let chunk = self.tail.split().freeze();
            self.chunks.push_back(chunk);
        }
    }

    /// Bytes that stream credit lets be numbered.
    pub fn sendable(&self) -> u64 {
        (self.unnumbered as u64).min(self.limit.saturating_sub(self.offset))
    }

    /// Nothing but the end itself is left to number.
    pub fn only_fin(&self) -> bool {
        self.fin_wanted && !self.fin_numbered && self.unnumbered == 0
    }

    pub fn can_number(&self) -> bool {
        self.sendable() > 0 || self.only_fin()
    }

    /// Takes the payload of the next segment, at most `most` bytes, and whether the stream ends
    /// behind it. `None` when nothing may be numbered.
    pub fn number(&mut self, most: usize) -> Option<(Bytes, bool)> {
        if self.only_fin() {
            self.fin_numbered = true;
            return Some((Bytes::new(), true));
        }
        let take = most.min(usize::try_from(self.sendable()).unwrap_or(usize::MAX));
        if take == 0 {
            return None;
        }
        if self.chunks.is_empty() {
            let take = take.min(self.tail.len());
            let payload = self.tail.split_to(take).freeze();
            return Some(self.numbered(payload));
        }
        let front = self.chunks.front_mut().expect("checked just above");
        let payload = front.split_to(take.min(front.len()));
        if front.is_empty() {
            self.chunks.pop_front();
        }
        Some(self.numbered(payload))
    }

    fn numbered(&mut self, payload: Bytes) -> (Bytes, bool) {
        self.offset += payload.len() as u64;
        self.unnumbered -= payload.len();
        let fin = self.fin_wanted && self.unnumbered == 0;
        self.fin_numbered |= fin;
        (payload, fin)
    }

    /// Drops what is not numbered; returns the bytes.
    pub fn clear(&mut self) -> usize {
        self.chunks.clear();
        self.tail = BytesMut::new();
        std::mem::take(&mut self.unnumbered)
    }

    /// The end was numbered and everything is acknowledged.
    pub fn finished(&self) -> bool {
        self.fin_numbered && self.unacknowledged == 0
    }
}
