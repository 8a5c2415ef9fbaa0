//! Flows of datagrams in the send buffer: queued, sent first if they are not bulk, and not sent when they are late.
//!
//! Not here: one flow's queue ([`super::FlowQueue`]).

use tributary_types::{DataSeq, Instant, StreamId};

use super::{FlowQueue, SendBuffer, SendStream, stream_priority};
use crate::wire::{Ecn, MAX_SEGMENT};

impl SendBuffer {
    /// What is sent of a flow; `None` for a stream of bytes.
    pub fn flow(&mut self, id: StreamId) -> Option<&mut FlowQueue> {
        self.streams.get_mut(&id)?.flow.as_deref_mut()
    }

    /// Queues a datagram of a flow.
    pub fn push_datagram(
        &mut self,
        id: StreamId,
        datagram: (&[u8], Ecn),
        (is_key, deadline): (bool, Instant),
    ) {
        let stream = self.streams.get_mut(&id).expect("the caller looked the stream up");
        let before = stream.expires();
        self.unnumbered += stream.push_datagram(datagram, is_key, deadline);
        let first = stream.expires();
        self.expires_first(id, before, first);
        self.settle(id);
        self.reprioritise(id);
    }

    /// Drops the first datagram of a flow that is not numbered, one of a key frame only `for_key`; returns its bytes, 0 if there is
    /// none.
    pub fn drop_datagram(&mut self, id: StreamId, for_key: bool) -> usize {
        let bytes = self.streams.get_mut(&id).map_or(0, |stream| stream.drop_datagram(for_key));
        self.unnumbered -= bytes;
        self.settle(id);
        self.reprioritise(id);
        bytes
    }

    /// Brings a flow's priority up to date with its treatment and with what is queued.
    pub fn reprioritise(&mut self, id: StreamId) {
        let open = self.open_credit();
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let before = stream.priority;
        stream.reprioritise();
        if stream.priority != before {
            self.has_priorities |= stream.priority > 0;
            self.ready.requeue(id, stream, open);
        }
    }

    /// Streams with bytes to number, at least one.
    pub fn waiting_streams(&self) -> u64 {
        self.ready.waiting().max(1)
    }

    /// The flow of datagrams whose turn is next, if it goes before bulk now.
    pub fn next_urgent_flow(&self) -> Option<StreamId> {
        let id = self.ready.first().filter(|_| self.available_prioritised() > 0)?;
        let stream = self.streams.get(&id)?;
        (stream.flow.is_some() && stream.priority > 0 && stream.first_datagram() as u64 <= self.credit())
            .then_some(id)
    }

    /// Numbers a segment of that flow and queues it in front of everything else. False if the flow lacks credit now.
    pub fn number_urgently(&mut self, id: StreamId) -> bool {
        // What a flow may use of its initial credit may be less now than when it was queued.
        self.settle(id);
        if !self.streams.get(&id).is_some_and(SendStream::is_queued) {
            return false;
        }
        let priority = stream_priority(&self.streams, id);
        self.urgent.push_back(self.end());
        let bytes = self.number(id, MAX_SEGMENT);
        self.share(priority, bytes);
        true
    }

    /// Drops the payload of a segment of datagrams if their deadline has passed.
    pub fn skip_late(&mut self, seq: DataSeq, now: Instant) {
        let Some(segment) = self.segment_mut(seq).filter(|segment| segment.is_late(now)) else { return };
        let (bytes, first, id) = (segment.skip(), segment.sends == 0, segment.head.stream);
        self.unacknowledged -= bytes;
        self.abandoned += bytes as u64;
        if first {
            self.taken(id, bytes);
        }
    }
}
