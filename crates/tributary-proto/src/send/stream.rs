//! One stream's bytes that are written and not numbered yet.

use core::cmp::Reverse;
use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use tributary_types::{DataSeq, Instant};

use super::datagrams::FlowQueue;
use crate::content::ContentClass;
use crate::flow::Treatment;
use crate::wire::{Ecn, SegmentKind};

/// Blocks writes are gathered in, and those of a stream with little to send. Many streams that send a little now and then
/// would otherwise hold a large block each.
const BLOCK: usize = 256 * 1024;
const SMALL_BLOCK: usize = 16 * 1024;

/// Bytes of one write, or of several small ones.
#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    /// Deadline of a message. `None` once a part of it was numbered.
    deadline: Option<Instant>,
}

/// A segment that a stream has cut.
#[derive(Debug)]
pub(crate) struct Numbered {
    pub kind: SegmentKind,
    pub payload: Bytes,
    /// When its datagrams are too late.
    pub deadline: Option<Instant>,
}

/// A stream's place in the queue of streams with bytes to number: its priority, the highest first, and a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub key: (Reverse<u8>, u64),
    /// Its bytes in the sums of the queue.
    pub bytes: u64,
}

/// The sending half of one stream.
#[derive(Debug)]
pub(crate) struct SendStream {
    /// Higher goes first; zero is bulk.
    pub priority: u8,
    /// What it needs of a subflow, if it has a priority.
    pub content: ContentClass,
    /// It is sent on every subflow.
    pub redundant: bool,
    /// Offset of the next byte to number.
    pub offset: u64,
    /// First offset beyond the credit that the peer gave to this stream; 0 until then.
    pub limit: u64,
    /// Credit that every stream has without being given any.
    pub unsolicited: u64,
    pub fin_wanted: bool,
    pub fin_numbered: bool,
    /// Nothing more of the stream is sent.
    pub abandoned: bool,
    /// The peer's code, if it has stopped reading.
    pub stopped: Option<u32>,
    /// Segments of this stream that are not acknowledged.
    pub unacknowledged: u32,
    /// Numbered payload that no subflow has taken yet.
    pub untaken: usize,
    /// The application waits until it may write; its number among those that do.
    pub blocked: Option<u64>,
    /// Unnumbered bytes that may stay for ever, because there is no credit for them.
    pub untrusted: usize,
    /// Its place in the queue of streams with bytes to number, and in that of streams with only an end.
    pub(super) queued: Option<Queued>,
    pub end_queued: Option<u64>,
    /// Its segment that was numbered last.
    pub newest: Option<DataSeq>,
    /// All blocks of small writes have one size, so that segments do not depend on the sizes of the writes.
    pub equal_blocks: bool,
    /// The datagrams, if it is a flow; nothing else is written to it then.
    pub flow: Option<Box<FlowQueue>>,
    chunks: VecDeque<Chunk>,
    /// No message expires before this.
    expires: Option<Instant>,
    tail: BytesMut,
    unnumbered: usize,
}

impl SendStream {
    pub fn new(priority: u8, limit: u64) -> Self {
        Self {
            priority,
            content: ContentClass::default(),
            redundant: false,
            offset: 0,
            limit,
            unsolicited: 0,
            fin_wanted: false,
            fin_numbered: false,
            abandoned: false,
            stopped: None,
            unacknowledged: 0,
            untaken: 0,
            blocked: None,
            untrusted: 0,
            queued: None,
            end_queued: None,
            newest: None,
            equal_blocks: false,
            flow: None,
            chunks: VecDeque::new(),
            expires: None,
            tail: BytesMut::new(),
            unnumbered: 0,
        }
    }

    /// A stream that the peer has given no credit of its own.
    pub fn unsolicited(priority: u8, credit: u64) -> Self {
        Self { unsolicited: credit, ..Self::new(priority, 0) }
    }

    /// Whether the peer has given the stream credit of its own: its application reads it.
    pub fn is_granted(&self) -> bool {
        self.limit > 0
    }

    /// Bytes that the stream's own credit allows to number.
    fn credit(&self) -> usize {
        usize::try_from(self.limit.saturating_sub(self.offset)).unwrap_or(usize::MAX)
    }

    /// Whether it has bytes that may be numbered.
    pub fn is_queued(&self) -> bool {
        self.queued.is_some()
    }

    /// Bytes that may be written and numbered within the stream's own credit.
    pub fn credit_left(&self) -> usize {
        self.credit().saturating_sub(self.unnumbered)
    }

    /// Unnumbered bytes beyond the stream's own credit.
    pub fn without_credit(&self) -> usize {
        self.unnumbered.saturating_sub(self.credit())
    }

    pub fn unnumbered(&self) -> usize {
        self.unnumbered
    }

    /// Bytes that no subflow has taken, numbered or not.
    pub fn unsent(&self) -> usize {
        self.unnumbered + self.untaken
    }

    /// Takes a chunk as it is, without copying.
    pub fn push(&mut self, bytes: Bytes) {
        self.push_until(bytes, None);
    }

    /// The same for a message, which is dropped as a whole if it has not begun to be numbered by the deadline.
    pub fn push_until(&mut self, bytes: Bytes, deadline: Option<Instant>) {
        self.close_tail();
        self.unnumbered += bytes.len();
        self.expires = self.expires.into_iter().chain(deadline).min();
        self.chunks.push_back(Chunk { bytes, deadline });
    }

    /// The same for a flow of datagrams.
    pub fn flow(credit: u64, queue: FlowQueue) -> Self {
        let Treatment { priority, redundant, .. } = queue.treatment;
        Self { redundant, flow: Some(Box::new(queue)), ..Self::unsolicited(priority, credit) }
    }

    /// Whether it is a flow of datagrams that this side has not ended, and that the peer receives.
    pub fn takes_datagrams(&self) -> bool {
        self.flow.is_some() && !self.fin_wanted && self.stopped.is_none()
    }

    /// Queues a datagram; returns its bytes, with its length.
    pub fn push_datagram(&mut self, datagram: (&[u8], Ecn), is_key: bool, deadline: Instant) -> usize {
        let Some(flow) = &mut self.flow else { return 0 };
        let bytes = flow.push(datagram, is_key, deadline);
        self.unnumbered += bytes;
        self.expires = self.expires.into_iter().chain([deadline]).min();
        bytes
    }

    /// Bytes that no subflow has taken and that are sent before a datagram that is queued now.
    pub fn unsent_before(&self, is_key: bool) -> usize {
        let behind = self.flow.as_ref().filter(|_| is_key).map_or(0, |flow| flow.behind_keys());
        self.unsent() - behind
    }

    /// A flow's priority follows from its treatment and from what it has queued.
    pub fn reprioritise(&mut self) {
        if let Some(flow) = &self.flow {
            self.priority = flow.priority();
        }
    }

    /// Drops the first datagram that is not numbered, one of a key frame only `for_key`; returns its bytes, 0 if there is none.
    pub fn drop_datagram(&mut self, for_key: bool) -> usize {
        let bytes = self.flow.as_mut().map_or(0, |flow| flow.drop_first(for_key));
        self.unnumbered -= bytes;
        bytes
    }

    /// Bytes that the first datagram needs; 0 for a stream of bytes.
    pub fn first_datagram(&self) -> usize {
        self.flow.as_ref().map_or(0, |flow| flow.first())
    }

    /// When the next message may expire.
    pub fn expires(&self) -> Option<Instant> {
        self.expires
    }

    /// Drops the messages whose deadline has passed. Returns their number and their bytes.
    pub fn expire(&mut self, now: Instant) -> (u32, usize) {
        if let Some(flow) = &mut self.flow {
            let (datagrams, bytes) = flow.expire(now);
            self.unnumbered -= bytes;
            self.expires = flow.expires();
            return (datagrams, bytes);
        }
        let (mut messages, mut bytes) = (0, 0);
        self.chunks.retain(|chunk| {
            let expired = chunk.deadline.is_some_and(|deadline| deadline <= now);
            if expired {
                messages += 1;
                bytes += chunk.bytes.len();
            }
            !expired
        });
        self.unnumbered -= bytes;
        self.expires = self.chunks.iter().filter_map(|chunk| chunk.deadline).min();
        (messages, bytes)
    }

    /// Copies a small write behind the last one.
    pub fn push_slice(&mut self, bytes: &[u8]) {
        self.unnumbered += bytes.len();
        let block = if self.unnumbered < SMALL_BLOCK && !self.equal_blocks { SMALL_BLOCK } else { BLOCK };
        let undivided = if self.equal_blocks { 0 } else { SMALL_BLOCK };
        let mut rest = bytes;
        while !rest.is_empty() {
            let spare = self.tail.capacity() - self.tail.len();
            // The end of a block may be too small for a write, and each part of a divided write would be a segment.
            if spare == 0 || (self.tail.is_empty() && spare < rest.len().min(undivided)) {
                self.close_tail();
                self.tail = BytesMut::with_capacity(block);
            }
            let take = rest.len().min(self.tail.capacity() - self.tail.len());
            self.tail.extend_from_slice(&rest[..take]);
            rest = &rest[take..];
        }
    }

    /// Bytes of the block that small writes are gathered in.
    #[cfg(test)]
    pub fn block(&self) -> usize {
        self.tail.capacity()
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            let bytes = self.tail.split().freeze();
            self.chunks.push_back(Chunk { bytes, deadline: None });
        }
    }

    /// Bytes that may be numbered within the stream's credit. `open`: how far it may use its initial credit.
    pub fn sendable(&self, open: u64) -> u64 {
        let limit = self.limit.max(self.unsolicited.min(open)).saturating_sub(self.offset);
        // A datagram is not divided.
        if self.first_datagram() as u64 > limit { 0 } else { (self.unnumbered as u64).min(limit) }
    }

    /// Whether only the end of the stream is left to number.
    pub fn only_fin(&self) -> bool {
        self.fin_wanted && !self.fin_numbered && self.unnumbered == 0
    }

    /// Takes the next segment, of at most `most` bytes, or one datagram that is longer. `None` when nothing may be
    /// numbered.
    pub fn number(&mut self, most: usize, open: u64) -> Option<Numbered> {
        if self.only_fin() {
            self.fin_numbered = true;
            return Some(self.numbered(Bytes::new()));
        }
        let take = most.min(usize::try_from(self.sendable(open)).unwrap_or(usize::MAX));
        if take == 0 {
            return None;
        }
        if let Some(flow) = &mut self.flow {
            let in_order = flow.in_order();
            let (payload, deadline) = flow.take(take)?;
            let (offset, length) = (self.offset, payload.len() as u32);
            self.offset += u64::from(length);
            self.unnumbered -= payload.len();
            let kind = SegmentKind::Datagrams { offset, length, in_order };
            return Some(Numbered { kind, payload, deadline: Some(deadline) });
        }
        if self.chunks.is_empty() {
            let take = take.min(self.tail.len());
            let payload = self.tail.split_to(take).freeze();
            return Some(self.numbered(payload));
        }
        let front = self.chunks.front_mut().expect("checked just above");
        let payload = front.bytes.split_to(take.min(front.bytes.len()));
        front.deadline = None; // A message that has begun is sent completely.
        if front.bytes.is_empty() {
            self.chunks.pop_front();
        }
        Some(self.numbered(payload))
    }

    fn numbered(&mut self, payload: Bytes) -> Numbered {
        let (offset, length) = (self.offset, payload.len() as u32);
        self.offset += payload.len() as u64;
        self.unnumbered -= payload.len();
        let fin = self.fin_wanted && self.unnumbered == 0;
        self.fin_numbered |= fin;
        Numbered { kind: SegmentKind::Data { offset, length, fin }, payload, deadline: None }
    }

    /// Drops what is not numbered; returns the bytes.
    pub fn clear(&mut self) -> usize {
        self.chunks.clear();
        if let Some(flow) = &mut self.flow {
            flow.clear();
        }
        self.expires = None;
        self.tail = BytesMut::new();
        std::mem::take(&mut self.unnumbered)
    }

    /// Whether the end was numbered and everything is acknowledged.
    pub fn finished(&self) -> bool {
        self.fin_numbered && self.unacknowledged == 0
    }
}
