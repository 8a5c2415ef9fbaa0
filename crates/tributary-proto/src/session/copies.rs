//! Redundant streams and flows: a segment that was sent on one subflow is sent on the others, too.
//!
//! A copy waits for room on its subflow, ahead of what the scheduler sends there, and is dropped when the peer has the segment or its
//! datagrams are too late. So a slow subflow carries what it can of the newest data and never a queue of old copies. Not here: the
//! receiver's end, which drops a number that it has, whatever the reason for the copy.

use std::collections::VecDeque;

use tributary_types::{DataSeq, Instant, SubflowId};

use super::Session;
use crate::event::Transmit;

/// Most copies that wait, over all subflows; the oldest are dropped first.
pub(super) const MOST_WAITING: usize = 64;

/// The copies that wait for room, oldest first.
#[derive(Debug, Default)]
pub(super) struct Copies(VecDeque<(DataSeq, SubflowId)>);

impl Copies {
    /// Adds the newest one.
    pub fn push(&mut self, seq: DataSeq, onto: SubflowId) {
        if self.0.len() >= MOST_WAITING {
            self.0.pop_front();
        }
        self.0.push_back((seq, onto));
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Session {
    /// A segment of a redundant stream goes onto this subflow for the first time: its copies go onto the others that get data.
    pub(super) fn plan_copies(&mut self, seq: DataSeq, onto: SubflowId) {
        let others = self.views.iter().filter(|view| view.id != onto && !view.silent);
        others.for_each(|other| self.copies.push(seq, other.id));
    }

    /// The oldest copy whose subflow has room.
    pub(super) fn next_copy(&mut self, now: Instant) -> Option<Transmit> {
        if self.copies.0.is_empty() {
            return None;
        }
        let Self { copies, send, subflows, .. } = self;
        copies.0.retain(|(seq, onto)| {
            let open = send.segment(*seq).filter(|segment| !segment.acknowledged && !segment.is_late(now));
            open.is_some_and(|segment| !segment.is_on(*onto)) && subflows.contains_key(onto)
        });
        let can = |onto: SubflowId| self.views.iter().any(|view| view.id == onto && view.room > 0);
        let at = self.copies.0.iter().position(|(_, onto)| can(*onto))?;
        let (seq, onto) = self.copies.0.remove(at)?;
        Some(self.transmit(now, seq, onto, true))
    }
}
