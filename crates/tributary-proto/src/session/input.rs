//! Input: frames of the subflows.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::{Instant, PathId, StreamId, SubflowId, printable};

use super::{CODE_PROTOCOL, Life, ProtocolError, Session, Side};
use crate::event::Event;
use crate::path::PathAction;
use crate::scheduler::SchedulerEvent;
use crate::send::SendStream;
use crate::wire::{
    Ack, Control, DeclaredLimits, Decoder, Item, MAX_AHEAD, SegmentHead, SegmentKind, is_flow,
};
use crate::work::step;

/// Acknowledgements are delayed by this time.
const ACK_DELAY: Duration = Duration::from_millis(1);
/// Time in which a new connection may replace one that still delivers.
const REPLACEABLE: Duration = Duration::from_secs(1);
/// Factor by which the peer may exceed its limit of streams while their ends are in flight.
const STREAM_SLACK: u32 = 2;

/// Frames that [`Session::handle_part`] handles at most. Together they take less than a millisecond, whatever they are
/// (`docs/wire-cost.md`).
pub const PART: usize = 128;
/// Times that a peer may raise its settings, the first ones included.
const MOST_RAISES: u32 = 8;

/// State of a stream identifier from the peer.
enum Known {
    Open,
    /// It was open and both sides have ended it; all its bytes were counted against the credit.
    Gone,
    /// It is refused, because this side is closing.
    Refused,
}

impl Session {
    /// Takes bytes that arrived on a subflow, in order, in pieces of any size. They count as a separate receive
    /// block: see [`Session::handle_block`].
    ///
    /// # Errors
    /// [`ProtocolError`]; the session is over then, the driver drains it and aborts the subflow.
    pub fn handle_input(&mut self, now: Instant, id: SubflowId, data: Bytes) -> Result<(), ProtocolError> {
        self.handle_block(now, id, data, true)
    }

    /// The same for a driver that reads into large blocks: `begins` says whether `data` is in a different
    /// block than the previous input of this subflow. Waiting payload is kept without a copy as
    /// long as it does not pin too many blocks.
    ///
    /// # Errors
    /// As [`Session::handle_input`].
    pub fn handle_block(
        &mut self,
        now: Instant,
        id: SubflowId,
        mut data: Bytes,
        begins: bool,
    ) -> Result<(), ProtocolError> {
        self.handle_part(now, id, &mut data, begins)?;
        // A frame may have ended the subflow.
        while !data.is_empty() && self.subflows.contains_key(&id) {
            self.handle_part(now, id, &mut data, false)?;
        }
        Ok(())
    }

    /// The same for a driver that limits the time for which it works without a pause: handles [`PART`] frames at most and
    /// leaves the rest in `data`, which the driver passes with the next call for this subflow.
    ///
    /// # Errors
    /// As [`Session::handle_input`].
    pub fn handle_part(
        &mut self,
        now: Instant,
        id: SubflowId,
        data: &mut Bytes,
        begins: bool,
    ) -> Result<(), ProtocolError> {
        self.heard(now, id)?;
        let subflow = self.subflows.get_mut(&id).ok_or(ProtocolError::UnknownSubflow(id))?;
        let mut decoder = std::mem::take(&mut subflow.decoder);
        match subflow.block {
            Some(block) if !begins => self.pins.go_on(block),
            _ => subflow.block = Some(self.pins.begin()),
        }
        let outcome = self.frames(now, id, &mut decoder, data);
        if let Some(subflow) = self.subflows.get_mut(&id) {
            subflow.decoder = decoder;
        }
        self.judged(outcome)
    }

    /// Frames that arrived on the subflow outside its order, as [`Transmit::may_overtake`](crate::Transmit::may_overtake) allows. `data` holds whole frames,
    /// and is a receive block of its own. Otherwise as [`Self::handle_part`].
    ///
    /// # Errors
    /// As [`Session::handle_input`], and [`ProtocolError::CutFrame`].
    pub fn handle_overtaking(
        &mut self,
        now: Instant,
        id: SubflowId,
        data: &mut Bytes,
    ) -> Result<(), ProtocolError> {
        self.heard(now, id)?;
        let _ = self.pins.begin();
        let mut decoder = Decoder::default();
        let outcome = self.frames(now, id, &mut decoder, data);
        let whole = |()| if decoder.is_within_frame() { Err(ProtocolError::CutFrame) } else { Ok(()) };
        self.judged(outcome.and_then(whole))
    }

    /// Notes that the peer was heard on the subflow.
    fn heard(&mut self, now: Instant, id: SubflowId) -> Result<(), ProtocolError> {
        let subflow = self.subflows.get_mut(&id).ok_or(ProtocolError::UnknownSubflow(id))?;
        subflow.last_heard = now;
        self.last_heard = now;
        self.clock = now;
        let path = subflow.path;
        if subflow.listening.heard() && !subflow.silent {
            self.events.push_back(Event::PathBack { path });
            let actions = self.paths.heard(path);
            actions.into_iter().for_each(|action| self.act(action));
        }
        Ok(())
    }

    /// Handles [`PART`] frames at most.
    fn frames(
        &mut self,
        now: Instant,
        id: SubflowId,
        decoder: &mut Decoder,
        data: &mut Bytes,
    ) -> Result<(), ProtocolError> {
        for _ in 0..PART {
            if self.life == Life::Closed {
                data.clear();
                break;
            }
            match decoder.next_item(data)? {
                Some(Item::Control(control)) => self.control(now, id, control)?,
                Some(Item::Segment { head, at, piece, last }) => {
                    self.segment(now, id, (head, at, piece, last))?;
                }
                None => break,
            }
        }
        Ok(())
    }

    /// A session whose peer breaks the protocol ends.
    fn judged(&mut self, outcome: Result<(), ProtocolError>) -> Result<(), ProtocolError> {
        if let Err(error) = &outcome {
            self.end(CODE_PROTOCOL, error.to_string(), false);
        }
        outcome
    }

    fn control(&mut self, now: Instant, id: SubflowId, control: Control) -> Result<(), ProtocolError> {
        match control {
            Control::Ack(ack) => self.acknowledged(now, &ack)?,
            Control::Settings(settings) => self.settings(settings)?,
            Control::Ping(number) => {
                if let Some(subflow) = self.subflows.get_mut(&id) {
                    subflow.pong_due = Some(number);
                }
                // The sender waits for it.
                self.ack_at = self.ack_at.map(|at| at.min(now));
            }
            Control::Pong(_) => {}
            Control::Refresh(path) => {
                if self.side == Side::Client {
                    self.paths.silent(now, path, true);
                    self.judge_segments(path, false);
                    self.drive_paths(now);
                }
            }
            Control::Replace(path) => {
                if self.side == Side::Client {
                    self.replace_subflow(now, path);
                }
            }
            Control::Cap(cap) => {
                if self.side == Side::Server {
                    self.asked_for_cap(now, id, cap);
                }
            }
            Control::Apart { subflow, count } => {
                self.views_stale = true;
                self.progressed(now, subflow, count, true);
            }
            Control::Gone(gone) => {
                if self.side == Side::Server {
                    self.handle_gone(now, gone);
                }
            }
            Control::Close { code, reason } => {
                self.end(code, printable(&String::from_utf8_lossy(&reason)), true);
            }
        }
        Ok(())
    }

    /// Each limit of the peer counts as the highest value that it has declared, so equal and lower ones change nothing.
    /// Only a raised stream credit looks at the streams, so the number of raises is limited.
    fn settings(&mut self, settings: DeclaredLimits) -> Result<(), ProtocolError> {
        let known = self.peer;
        // The first ones replace the limits that apply before them.
        let first = self.raised == 0;
        let higher = |known: u64, declared: u64| if first { declared } else { known.max(declared) };
        self.peer = DeclaredLimits {
            max_data: higher(known.max_data, settings.max_data),
            stream_credit: higher(known.stream_credit, settings.stream_credit),
            max_streams: if first {
                settings.max_streams
            } else {
                known.max_streams.max(settings.max_streams)
            },
        };
        if self.peer == known && !first {
            return Ok(());
        }
        self.raised += 1;
        if self.raised > MOST_RAISES {
            return Err(ProtocolError::TooManySettings);
        }
        self.send.allow_unsolicited(self.peer);
        Ok(())
    }

    // ---- acknowledgements

    fn acknowledged(&mut self, now: Instant, ack: &Ack) -> Result<(), ProtocolError> {
        self.send.allow_data(ack.max_data);
        let mut ended = Vec::new();
        let mut on_stream = |stream: StreamId| {
            if ended.last() != Some(&stream) {
                ended.push(stream);
            }
        };
        let first = self.send.first();
        let below = [(first, ack.next)];
        for &(start, end) in below.iter().chain(&ack.ranges) {
            if !self.send.acknowledge(start, end, &mut on_stream) {
                return Err(ProtocolError::AckUnsent);
            }
        }
        self.views_stale = true;
        for &(id, total) in &ack.progress {
            self.progressed(now, id, total, false);
        }
        for id in ended {
            if self.send.streams.get(&id).is_some_and(SendStream::finished) {
                self.events.push_back(Event::StreamFinished(id));
                self.collect(id);
            } else {
                self.judge_writer(id);
            }
        }
        self.scheduler.on_event(now, SchedulerEvent::Acknowledged { first: self.send.first() });
        self.wake_writers(now);
        Ok(())
    }

    fn progressed(&mut self, now: Instant, id: SubflowId, total: u64, apart: bool) {
        let Some(subflow) = self.subflows.get_mut(&id) else { return };
        let Some(lateness) = subflow.progress(now, total, apart) else { return };
        let path = subflow.path;
        self.paths.delivered(now, path, lateness);
        subflow.usual_blockage = self.paths.usual_blockage(now, path);
        let slow = subflow.watch_speed(now);
        if subflow.wake(now) {
            self.events.push_back(Event::PathBack { path });
        }
        if slow {
            self.replace_subflow(now, path);
        }
        let actions = self.paths.moving(path, true);
        actions.into_iter().for_each(|action: PathAction| self.act(action));
    }

    /// The path's connection is far too slow: lets a new one replace it although it delivers. A congestion controller
    /// that mistook a blockage for the path's capacity may need seconds to recover (BBR's long-term estimate does).
    fn replace_subflow(&mut self, now: Instant, path: PathId) {
        for subflow in self.subflows.values_mut() {
            if subflow.path == path {
                subflow.replaceable_until = Some(now + REPLACEABLE);
            }
            if self.side == Side::Server {
                subflow.replace_due = Some(path);
            }
        }
        if self.side == Side::Client {
            self.paths.replace(now, path);
            self.drive_paths(now);
        }
    }

    // ---- segments

    fn segment(
        &mut self,
        now: Instant,
        id: SubflowId,
        (head, at, piece, last): (SegmentHead, u32, Bytes, bool),
    ) -> Result<(), ProtocolError> {
        if !self.arrivals.allows(head.seq) {
            return Err(ProtocolError::TooFarAhead);
        }
        let length = piece.len() as u64;
        let copy = self.arrivals.contains(head.seq);
        if copy {
            self.stats.duplicates += length;
        } else {
            self.fresh_segment(id, (head, at, piece, last))?;
        }
        let unfinished = self.receive.get(&head.stream).is_some_and(|stream| !stream.complete());
        if let Some(subflow) = self.subflows.get_mut(&id) {
            subflow.stats.received += length;
            if self.side == Side::Client && length > 0 {
                subflow.listening.data(now, length, unfinished.then_some(head.stream), &subflow.info);
            }
            if last {
                let counts_apart = subflow.counts_apart(head.kind);
                *(if counts_apart { &mut subflow.arrived_apart } else { &mut subflow.arrived }) += 1;
                let path = subflow.path;
                let actions = self.paths.moving(path, false);
                actions.into_iter().for_each(|action| self.act(action));
            }
        }
        if matches!(head.kind, SegmentKind::Credit { .. }) {
            self.wake_writer(now, head.stream);
            self.judge_writer(head.stream);
        }
        if last {
            self.arrivals.insert(head.seq);
            let due = now + ACK_DELAY;
            self.ack_at = Some(self.ack_at.map_or(due, |at| at.min(due)));
        }
        Ok(())
    }

    fn fresh_segment(
        &mut self,
        on: SubflowId,
        (head, at, piece, last): (SegmentHead, u32, Bytes, bool),
    ) -> Result<(), ProtocolError> {
        let id = head.stream;
        let known = self.stream_from_peer(id)?;
        match (head.kind, known) {
            // Count the whole segment, so that pieces that arrive again on another subflow count once.
            (
                SegmentKind::Data { length, .. }
                | SegmentKind::Datagrams { length, .. }
                | SegmentKind::Skip { length, .. }
                | SegmentKind::Void { length },
                Known::Refused,
            ) if last => self.throw_away(u64::from(length)),
            (SegmentKind::Data { length: 1.., .. }, Known::Open) if is_flow(id) => {
                return Err(ProtocolError::BytesOnFlow(id));
            }
            (SegmentKind::Datagrams { .. } | SegmentKind::Skip { .. }, Known::Open) => {
                self.flow_segment(on, head, (at, piece, last))?;
            }
            (SegmentKind::Data { offset, length, fin }, Known::Open) => {
                self.stream_data(id, (offset, length, fin), at, piece)?;
            }
            (_, Known::Gone | Known::Refused) => {}
            // The stream's reset counts all of its bytes.
            (SegmentKind::Void { .. }, Known::Open) => {}
            (SegmentKind::Reset { code, end }, Known::Open) => self.reset_by_peer(id, code, end)?,
            (SegmentKind::Stop { code }, Known::Open) => self.stopped_by_peer(id, code),
            (SegmentKind::Credit { limit }, Known::Open) => self.send.allow_stream(id, limit),
        }
        debug_assert!(last || head.kind.payload() > 0, "only payload comes in pieces");
        if self.granted.used > self.granted.max_data {
            return Err(ProtocolError::CreditExceeded(id));
        }
        Ok(())
    }

    fn stream_data(
        &mut self,
        id: StreamId,
        (offset, length, fin): (u64, u32, bool),
        at: u32,
        piece: Bytes,
    ) -> Result<(), ProtocolError> {
        if !self.takes_payload(id, at, (offset + u64::from(length), fin))? {
            return Ok(());
        }
        let Some(stream) = self.receive.get_mut(&id) else { return Ok(()) };
        let before = stream.ahead();
        let incoming = stream.insert(offset + u64::from(at), piece.clone(), &mut self.pins);
        self.ahead = self.ahead + stream.ahead() - before;
        let ended = stream.at_end();
        self.stats.duplicates += (piece.len() - incoming.new) as u64;
        self.took(id, incoming.new as u64, incoming.readable || ended)
    }

    /// Whether a stream takes the piece that begins `at` bytes into a segment. With the first piece its credit and its end are
    /// checked against the segment's `end`, which is the stream's with `fin`. If nobody reads the stream, the segment counts as
    /// used and read.
    pub(super) fn takes_payload(
        &mut self,
        id: StreamId,
        at: u32,
        (end, fin): (u64, bool),
    ) -> Result<bool, ProtocolError> {
        let Some(stream) = self.receive.get_mut(&id) else { return Ok(false) };
        if at == 0 && end > stream.limit {
            return Err(ProtocolError::CreditExceeded(id));
        }
        if at == 0 && !stream.sees(end, fin) {
            return Err(ProtocolError::EndMoved(id));
        }
        let reads = !stream.stopped && stream.reset.is_none();
        if !reads {
            let numbered = stream.settle();
            self.throw_away(numbered);
            self.collect(id);
        }
        Ok(reads)
    }

    /// A stream has taken this many new bytes.
    pub(super) fn took(&mut self, id: StreamId, new: u64, readable: bool) -> Result<(), ProtocolError> {
        // A correct sender numbers a stream in order, so the missing bytes are in flight on another subflow.
        if self.ahead as u64 > MAX_AHEAD * 2 {
            return Err(ProtocolError::TooFarAhead);
        }
        self.granted.used += new;
        self.stats.received += new;
        let held = self.granted.used.saturating_sub(self.granted.consumed);
        self.stats.receive_held_most = self.stats.receive_held_most.max(held);
        self.has_arrived(id);
        if readable {
            self.notify_readable(id);
        }
        Ok(())
    }

    pub(super) fn notify_readable(&mut self, id: StreamId) {
        if let Some(stream) = self.receive.get_mut(&id)
            && !std::mem::replace(&mut stream.notified, true)
        {
            self.events.push_back(Event::StreamReadable(id));
        }
    }

    /// The peer resets the stream, of which it has numbered `end` bytes.
    fn reset_by_peer(&mut self, id: StreamId, code: u32, end: u64) -> Result<(), ProtocolError> {
        let Some(stream) = self.receive.get_mut(&id) else { return Ok(()) };
        if end > stream.limit {
            return Err(ProtocolError::CreditExceeded(id));
        }
        let whole = stream.complete();
        if !stream.sees(end, true) {
            return Err(ProtocolError::EndMoved(id));
        }
        if !whole {
            stream.reset = Some(code);
            self.discard(id);
            self.notify_readable(id);
        }
        self.collect(id);
        Ok(())
    }

    /// Discards a stream's held bytes. Everything that the peer has numbered of it counts as used and read.
    pub(super) fn discard(&mut self, id: StreamId) {
        let Some(stream) = self.receive.get_mut(&id) else { return };
        self.ahead -= stream.ahead();
        let held = stream.discard(&mut self.pins);
        let numbered = stream.settle();
        self.commit(id);
        self.consumed(held);
        self.throw_away(numbered);
    }

    fn stopped_by_peer(&mut self, id: StreamId, code: u32) {
        let Some(stream) = self.send.streams.get_mut(&id) else { return };
        if stream.stopped.is_none() && !stream.finished() {
            stream.stopped = Some(code);
            self.send.reset(id, code);
            self.events.push_back(Event::StreamStopped(id, code));
        }
    }

    /// Payload for a stream that nobody reads: counts as used and read at once.
    pub(super) fn throw_away(&mut self, bytes: u64) {
        self.granted.used += bytes;
        self.consumed(bytes);
    }

    /// Finds the stream a segment names, opening those of the peer up to it.
    fn stream_from_peer(&mut self, id: StreamId) -> Result<Known, ProtocolError> {
        if self.receive.contains_key(&id) {
            return Ok(Known::Open);
        }
        let (own, peers) = if is_flow(id) {
            (self.next_own_flow, self.next_peer_flow)
        } else {
            (self.next_own_stream, self.next_peer_stream)
        };
        if id.0 % 2 == self.side.parity() {
            return if u64::from(id.0) < own {
                Ok(Known::Gone)
            } else {
                Err(ProtocolError::UnknownStream(id))
            };
        }
        if u64::from(id.0) < peers {
            return Ok(Known::Gone);
        }
        let opened = ((u64::from(id.0) - peers) / 2 + 1) as u32;
        let most = self.granted.settings.max_streams;
        if self.life != Life::Open {
            return Ok(Known::Refused);
        }
        if self.open_peer.saturating_add(opened) > most.saturating_mul(STREAM_SLACK) {
            return Err(ProtocolError::TooManyStreams(most));
        }
        for _ in 0..opened {
            step();
            self.open_peer += 1;
            if is_flow(id) {
                self.accept_flow();
                continue;
            }
            let next = StreamId(self.next_peer_stream as u32);
            self.next_peer_stream += 2;
            self.insert_stream(next, 0);
            self.events.push_back(Event::StreamOpened(next));
        }
        Ok(Known::Open)
    }
}
