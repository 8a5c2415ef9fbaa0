//! A numbered segment and its copies in flight.

use bytes::Bytes;
use tributary_types::{DataSeq, Instant, SubflowId};

use crate::content::ContentClass;
use crate::wire::{SegmentHead, SegmentKind};

/// Most copies remembered; the oldest is forgotten first.
const COPIES: usize = 3;

/// A numbered segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub head: SegmentHead,
    pub payload: Bytes,
    /// The stream's priority when the segment was numbered.
    pub priority: u8,
    /// What the stream needed of a subflow then.
    pub content: ContentClass,
    /// It is sent on every subflow.
    pub redundant: bool,
    /// It got its priority after it was numbered.
    pub raised: bool,
    pub acknowledged: bool,
    /// Datagrams: nothing of them is sent from this time on.
    pub deadline: Option<Instant>,
    /// The segment of the same stream that was numbered before this one.
    pub previous: Option<DataSeq>,
    /// Times it was sent.
    pub sends: u16,
    copies: [Option<SegmentCopy>; COPIES],
}

/// A copy of a segment in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentCopy {
    /// The subflow that carries it.
    pub carrier: SubflowId,
    /// When it was handed over.
    pub at: Instant,
    /// Payload bytes handed to the carrier up to and with it.
    pub position: u64,
}

impl Segment {
    pub fn new(head: SegmentHead, payload: Bytes) -> Self {
        Self {
            head,
            payload,
            priority: 0,
            content: ContentClass::default(),
            redundant: false,
            raised: false,
            acknowledged: false,
            deadline: None,
            previous: None,
            sends: 0,
            copies: [None; COPIES],
        }
    }

    /// Whether no subflow has taken it, and the peer does not have it.
    pub fn is_unsent(&self) -> bool {
        self.sends == 0 && !self.acknowledged
    }

    /// Its stream is abandoned: data becomes a void of the same length. Returns the payload bytes that it held.
    pub fn abandon(&mut self) -> usize {
        if let SegmentKind::Data { length, .. } | SegmentKind::Datagrams { length, .. } = self.head.kind {
            self.head.kind = SegmentKind::Void { length };
        }
        std::mem::take(&mut self.payload).len()
    }

    /// Whether it holds datagrams that are too late.
    pub fn is_late(&self, now: Instant) -> bool {
        matches!(self.head.kind, SegmentKind::Datagrams { .. })
            && self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Its datagrams are too late. Returns the payload bytes that it held.
    pub fn skip(&mut self) -> usize {
        if let SegmentKind::Datagrams { offset, length, .. } = self.head.kind {
            self.head.kind = SegmentKind::Skip { offset, length };
        }
        std::mem::take(&mut self.payload).len()
    }

    pub fn sent(&mut self, carrier: SubflowId, at: Instant, position: u64) {
        self.sends = self.sends.saturating_add(1);
        self.copies.rotate_right(1);
        self.copies[0] = Some(SegmentCopy { carrier, at, position });
    }

    /// Whether a copy is on this subflow.
    pub fn is_on(&self, subflow: SubflowId) -> bool {
        self.copies().any(|copy| copy.carrier == subflow)
    }

    /// The copies in flight, newest first.
    pub fn copies(&self) -> impl Iterator<Item = SegmentCopy> + '_ {
        self.copies.iter().flatten().copied()
    }

    /// A subflow has ended, and its copy is lost. Returns true when no copy is left.
    pub fn forget(&mut self, subflow: SubflowId) -> bool {
        for copy in &mut self.copies {
            if copy.is_some_and(|copy| copy.carrier == subflow) {
                *copy = None;
            }
        }
        self.copies.iter().all(Option::is_none)
    }
}
