//! A numbered segment and the copies of it that are under way.

use bytes::Bytes;
use tributary_types::{Instant, SubflowId};

use crate::wire::SegmentHead;

/// Copies remembered; an older one is forgotten first.
const COPIES: usize = 3;

/// A numbered segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub head: SegmentHead,
    pub payload: Bytes,
    pub acknowledged: bool,
    /// Times it was sent.
    pub sends: u16,
    copies: [Option<(SubflowId, Instant)>; COPIES],
}

impl Segment {
    pub fn new(head: SegmentHead, payload: Bytes) -> Self {
        Self { head, payload, acknowledged: false, sends: 0, copies: [None; COPIES] }
    }

    pub fn sent(&mut self, subflow: SubflowId, now: Instant) {
        self.sends = self.sends.saturating_add(1);
        self.copies.rotate_right(1);
        self.copies[0] = Some((subflow, now));
    }

    /// The copies under way, newest first.
    pub fn copies(&self) -> impl Iterator<Item = (SubflowId, Instant)> + '_ {
        self.copies.iter().flatten().copied()
    }

    /// A subflow is gone and its copy with it. True when no copy is left.
    pub fn forget(&mut self, subflow: SubflowId) -> bool {
        for copy in &mut self.copies {
            if copy.is_some_and(|(id, _)| id == subflow) {
                *copy = None;
            }
        }
        self.copies.iter().all(Option::is_none)
    }
}
