//! Abandoned streams: nothing of them is sent any more, and their numbers stay in use.
//!
//! A segment keeps its number, because the peer acknowledges numbers without gaps, but its payload is dropped: when its
//! turn comes, or when its subflow is lost, a head of a few bytes is sent instead. The peer counts the stream's bytes
//! against its credit by the offset in the reset.

use tributary_types::StreamId;

use super::SendBuffer;
use crate::wire::SegmentKind;
use crate::work::step;

impl SendBuffer {
    /// Abandons a stream, also one whose end is numbered, unless the peer has acknowledged all of it: drops its payload and
    /// sends the peer a reset. What subflows have taken still arrives.
    pub fn reset(&mut self, id: StreamId, code: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.abandoned || stream.finished() {
            return;
        }
        self.unnumbered -= stream.clear();
        (stream.abandoned, stream.fin_wanted, stream.fin_numbered) = (true, true, true);
        self.untaken -= std::mem::take(&mut stream.untaken);
        let (end, mut open, mut at) = (stream.offset, stream.unacknowledged, stream.newest);
        let mut dropped = 0;
        while open > 0
            && let Some(segment) = at.and_then(|seq| self.segment_mut(seq))
        {
            step();
            at = segment.previous;
            if !segment.acknowledged {
                dropped += segment.abandon();
                open -= 1;
            }
        }
        self.settle(id);
        self.unacknowledged -= dropped;
        self.abandoned += dropped as u64;
        self.number_control(id, SegmentKind::Reset { code, end });
    }
}
