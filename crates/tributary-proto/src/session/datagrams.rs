//! Flows of datagrams: opened, sent on and received from by the application, and segments that arrive on them.

use bytes::Bytes;
use tributary_types::{Bitrate, Instant, StreamId, SubflowId};

use super::application::{OpenStreamError, ReadError};
use super::writers::WRITES_AGAIN;
use super::{Life, ProtocolError, Session};
use crate::event::Event;
use crate::flow::{
    BOUND, Datagram, FlowConfig, FlowStats, Form, KEY_BOUND, SendDatagramError, Sent, Traffic, Verdict,
};
use crate::receive::Segment;
use crate::scheduler::carried_rate;
use crate::send::{FlowQueue, SendStream};
use crate::wire::{Ecn, FIRST_FLOW, MAX_DATAGRAM, SegmentHead, SegmentKind, are_datagrams};

impl Session {
    // ---- the application

    /// Opens a flow of datagrams in both directions. The peer sees it with the first datagram. Flows count as streams in the
    /// peer's limit; [`Self::finish`], [`Self::reset`] and [`Self::stop`] end them as they end streams.
    ///
    /// `config` is for what this side sends and is not transmitted.
    ///
    /// # Errors
    /// [`OpenStreamError`].
    pub fn open_flow(&mut self, now: Instant, config: FlowConfig) -> Result<StreamId, OpenStreamError> {
        let opened = u32::try_from((self.next_own_flow - u64::from(FIRST_FLOW)) / 2).unwrap_or(u32::MAX);
        self.may_open(self.config.stream_numbers.saturating_sub(opened))?;
        let id = StreamId(u32::try_from(self.next_own_flow).expect("a flow is left"));
        self.next_own_flow += 2;
        self.open_own += 1;
        self.insert_flow(now, id, config);
        Ok(id)
    }

    /// The peer opens its next flow.
    pub(super) fn accept_flow(&mut self) {
        let id = StreamId(self.next_peer_flow as u32);
        self.next_peer_flow += 2;
        self.insert_flow(self.clock, id, FlowConfig::default());
        self.events.push_back(Event::FlowOpened(id));
    }

    fn insert_flow(&mut self, now: Instant, id: StreamId, config: FlowConfig) {
        let queue = FlowQueue::new(now, config);
        self.insert(id, SendStream::flow(self.peer.stream_credit, queue));
    }

    /// Changes how this side sends on a flow, also on one that the peer opened.
    pub fn configure_flow(&mut self, id: StreamId, config: FlowConfig) {
        if let Some(flow) = self.send.streams.get_mut(&id).and_then(|stream| stream.flow.as_mut()) {
            flow.configure(config);
            self.treat(id);
        }
    }

    /// Counters of a flow; `None` once it has ended.
    #[must_use]
    pub fn flow_stats(&self, id: StreamId) -> Option<FlowStats> {
        Some(self.send.streams.get(&id)?.flow.as_ref()?.stats)
    }

    /// What kind of traffic this side sends on a flow; `None` once it has ended.
    #[must_use]
    pub fn flow_traffic(&self, id: StreamId) -> Option<Traffic> {
        Some(self.send.streams.get(&id)?.flow.as_ref()?.classifier.traffic())
    }

    /// Sends a datagram of at most [`MAX_DATAGRAM`] bytes, which are copied; it may be empty. Never waits: a full queue drops datagrams.
    /// Nothing of it is sent after the flow's lifetime, and it arrives once or not at all. The first one of a flow, if it arrives, is received
    /// before all others.
    ///
    /// # Errors
    /// [`SendDatagramError`].
    pub fn send_datagram(
        &mut self,
        now: Instant,
        id: StreamId,
        datagram: &[u8],
        ecn: Ecn,
    ) -> Result<Sent, SendDatagramError> {
        if datagram.len() > MAX_DATAGRAM {
            return Err(SendDatagramError::TooLong(datagram.len()));
        }
        if self.life != Life::Open {
            return Err(SendDatagramError::Closed);
        }
        let (carried, possible) = (carried_rate(&self.views), self.possible_rate(now));
        let part = Bitrate::from_bps(carried.as_bps() / self.send.waiting_streams());
        // What subflows take at once is no queue: many datagrams may come together.
        let room: usize = self.views.iter().filter(|view| !view.silent).map(|view| view.room).sum();
        let stream = self.send.streams.get_mut(&id).ok_or(SendDatagramError::NotOpen)?;
        if let Some(code) = stream.stopped {
            return Err(SendDatagramError::Stopped(code));
        }
        let Some(flow) = stream.flow.as_mut().filter(|_| !stream.fin_wanted) else {
            return Err(SendDatagramError::NotOpen);
        };
        let is_key = flow.is_key(datagram);
        let ahead = stream.unsent_before(is_key).saturating_sub(room);
        let flow = stream.flow.as_mut().expect("it was just used");
        flow.stats.offered += 1;
        let before = flow.classifier.traffic();
        let traffic = flow.classifier.observe(now, datagram.len(), possible);
        let bound = if is_key { KEY_BOUND } else { BOUND };
        let verdict = flow.gate.verdict(now, (datagram.len(), ahead), part, bound);
        if traffic != before {
            self.treat(id);
        }
        let sent = self.admit(id, (datagram.len(), is_key), ecn, verdict);
        if sent != Sent::Dropped {
            let ecn = if sent == Sent::Marked { Ecn::Congested } else { ecn };
            let lifetime = self.send.flow(id).map(|flow| flow.treatment.lifetime_of(is_key));
            let deadline = now + lifetime.unwrap_or_default();
            self.send.push_datagram(id, (datagram, ecn), (is_key, deadline));
        }
        if traffic == Traffic::Bulk {
            // An empty queue is not the end of the data.
            self.expecting_until = Some(now + WRITES_AGAIN);
        }
        self.starved = false;
        Ok(sent)
    }

    /// What becomes of a datagram. The counters of those that are marked and dropped.
    fn admit(&mut self, id: StreamId, (bytes, is_key): (usize, bool), ecn: Ecn, verdict: Verdict) -> Sent {
        let free = self.send.streams.get(&id).map_or(0, |stream| self.send.free_in_session(stream));
        let Some(flow) = self.send.flow(id) else { return Sent::Dropped };
        let full = verdict == Verdict::Full || free < bytes + FlowQueue::OVERHEAD;
        match verdict {
            Verdict::Signal if !full && ecn.is_capable() => {
                flow.classifier.met_congestion();
                flow.stats.marked += 1;
                Sent::Marked
            }
            // Without ECN the bound is the only signal: a slower path helps only while there is a queue that is longer than its
            // way, and early losses would keep the queue shorter than that.
            Verdict::Signal | Verdict::Queue if !full => Sent::Queued,
            _ => {
                flow.classifier.met_congestion();
                // Media rather loses what is old; for one packet of a key frame, several others.
                let most = match flow.treatment.form {
                    Form::InOrder => 0,
                    Form::AsTheyArrive if is_key => usize::MAX,
                    Form::AsTheyArrive => 1,
                };
                let (mut freed, mut dropped) = (0, 0);
                while freed <= bytes && dropped < most {
                    let more = self.send.drop_datagram(id, is_key);
                    if more == 0 {
                        break;
                    }
                    (freed, dropped) = (freed + more, dropped + 1);
                }
                let sent = if freed > bytes { Sent::Queued } else { Sent::Dropped };
                let all = dropped as u64 + u64::from(sent == Sent::Dropped);
                self.send.flow(id).into_iter().for_each(|flow| flow.stats.dropped += all);
                sent
            }
        }
    }

    /// Brings a flow's treatment up to date with its traffic.
    fn treat(&mut self, id: StreamId) {
        let Some(flow) = self.send.flow(id) else { return };
        flow.treatment = flow.config.treat(flow.classifier.traffic());
        let redundant = flow.treatment.redundant;
        self.send.reprioritise(id);
        self.send.set_redundant(id, redundant);
    }

    /// What all subflows that are not silent could carry.
    fn possible_rate(&self, now: Instant) -> Bitrate {
        let rates = self.subflows.values().filter(|s| !s.silent).filter_map(|s| s.possible_rate(now));
        Bitrate::from_bps(rates.map(Bitrate::as_bps).sum())
    }

    /// The next datagram of a flow; `Ok(None)` once the peer has ended it and all were received.
    ///
    /// # Errors
    /// [`ReadError`]. After [`ReadError::Blocked`], [`Event::StreamReadable`] will tell; the other errors are final.
    pub fn recv_datagram(&mut self, id: StreamId) -> Result<Option<Datagram>, ReadError> {
        let mut one = Vec::with_capacity(1);
        self.recv_datagrams(id, 1, &mut one)?;
        Ok(one.pop())
    }

    /// The same for up to `most` datagrams, which are added to `out`; returns their number, 0 at the end of the flow.
    ///
    /// # Errors
    /// As [`Self::recv_datagram`].
    pub fn recv_datagrams(
        &mut self,
        id: StreamId,
        most: usize,
        out: &mut Vec<Datagram>,
    ) -> Result<usize, ReadError> {
        if !crate::wire::is_flow(id) {
            return Err(ReadError::NotOpen);
        }
        let read = self.read_with(id, |stream, pins| {
            let (mut count, mut bytes) = (0, 0);
            while count < most
                && let Some((datagram, took)) = stream.read_datagram(pins)
            {
                out.push(datagram);
                count += 1;
                bytes += took;
            }
            (count > 0).then_some((count, bytes))
        });
        Ok(read?.unwrap_or(0))
    }

    // ---- segments

    /// A piece of a segment that only flows have.
    pub(super) fn flow_segment(
        &mut self,
        on: SubflowId,
        head: SegmentHead,
        (at, piece, last): (u32, Bytes, bool),
    ) -> Result<(), ProtocolError> {
        let id = head.stream;
        let (SegmentKind::Datagrams { offset, length, .. } | SegmentKind::Skip { offset, length }) =
            head.kind
        else {
            return Ok(());
        };
        if !self.takes_payload(id, at, (offset + u64::from(length), false))? {
            return Ok(());
        }
        let Some(stream) = self.receive.get_mut(&id) else { return Ok(()) };
        let before = stream.ahead();
        let readable = if let SegmentKind::Datagrams { in_order, .. } = head.kind {
            let Some(subflow) = self.subflows.get_mut(&on) else { return Ok(()) };
            let Some((bytes, copied)) = subflow.assemble((at, length), piece, last) else { return Ok(()) };
            if length == 0 || !are_datagrams(&bytes) {
                return Err(ProtocolError::NoDatagrams(id));
            }
            stream.insert_datagrams(Segment { offset, bytes, in_order, copied }, &mut self.pins)
        } else {
            stream.skip(offset, length)
        };
        let readable = readable.ok_or(ProtocolError::DatagramsOverlap(id))?;
        self.ahead = self.ahead + stream.ahead() - before;
        let ended = stream.at_end();
        self.took(id, u64::from(length), readable || ended)?;
        if matches!(head.kind, SegmentKind::Skip { .. }) {
            self.consumed(u64::from(length));
            self.was_read(id);
        }
        Ok(())
    }
}
