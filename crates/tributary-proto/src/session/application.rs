//! Calls of the application: open, write, read, finish, close.

use core::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tributary_types::{Instant, StreamId};

use super::writers::WRITES_AGAIN;
use super::{Life, Session};
use crate::content::ContentClass;
use crate::event::Event;
use crate::receive::{Pins, RecvStream};
use crate::send::SendStream;
use crate::wire::{SegmentKind, is_flow};

/// A write shorter than this, in bytes, is copied, together with those before and after it; a longer chunk is kept as it
/// is.
pub const GATHER_BELOW: usize = 16 * 1024;
/// Why a stream cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenStreamError {
    /// The peer's limit of open streams is reached; try again when one has ended.
    #[error("the peer allows {0} streams at once; finish one first")]
    TooMany(u32),
    /// Every identifier of a stream was used; none is used twice.
    #[error("the session has opened its last stream; open a new session")]
    UsedUp,
    /// The session is closing or closed.
    #[error("the session is closed")]
    Closed,
}

/// Why a write was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// No room now; [`Event::StreamWritable`] will tell.
    #[error("no room now")]
    Blocked,
    /// The peer no longer reads; its code.
    #[error("the peer stopped reading with code {0}")]
    Stopped(u32),
    /// This side finished or reset the stream, or never opened it.
    #[error("the stream is not open for writing")]
    NotOpen,
    /// The session is over.
    #[error("the session is closed")]
    Closed,
    /// The deadline of a message is zero or has passed.
    #[error("the deadline has passed already; give one later than now")]
    DeadlinePassed,
    /// A message is longer than the send buffer allows.
    #[error("the message has {bytes} bytes; at most {most} are allowed")]
    MessageTooLong {
        /// Its length.
        bytes: usize,
        /// The most.
        most: usize,
    },
}

/// Longest message, bytes, or a quarter of the send buffer if that is less.
const MOST_MESSAGE: usize = 1 << 20;

/// Why a read returned no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// Nothing in order yet; [`Event::StreamReadable`] will tell.
    #[error("nothing to read now")]
    Blocked,
    /// The peer abandoned the stream with this code.
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    /// The stream is unknown or was read to its end.
    #[error("the stream is not open for reading")]
    NotOpen,
    /// The session ended before the stream did.
    #[error("the session closed before the stream ended")]
    Closed,
}

impl Session {
    /// Opens a bidirectional stream. Higher `priority` goes first; zero is bulk. Waiting bulk gets at least a
    /// quarter of the rate.
    ///
    /// A priority orders what this side sends and is not transmitted. Streams that the peer opens are bulk on this side
    /// until [`Self::set_priority`] is called, so a peer cannot raise its own priority.
    ///
    /// # Errors
    /// [`OpenStreamError`].
    pub fn open_stream(&mut self, priority: u8) -> Result<StreamId, OpenStreamError> {
        self.may_open(self.streams_left())?;
        let id = StreamId(u32::try_from(self.next_own_stream).expect("a stream is left"));
        self.next_own_stream += 2;
        self.open_own += 1;
        self.insert_stream(id, priority);
        Ok(id)
    }

    /// Whether this side may open another stream or flow, of which `left` are left.
    pub(super) fn may_open(&self, left: u32) -> Result<(), OpenStreamError> {
        if self.life != Life::Open {
            return Err(OpenStreamError::Closed);
        }
        if left == 0 {
            return Err(OpenStreamError::UsedUp);
        }
        if self.open_own >= self.peer.max_streams {
            return Err(OpenStreamError::TooMany(self.peer.max_streams));
        }
        Ok(())
    }

    /// Streams that this side can still open before every identifier is used.
    #[must_use]
    pub fn streams_left(&self) -> u32 {
        let opened = u32::try_from(self.next_own_stream / 2).unwrap_or(u32::MAX);
        self.config.stream_numbers.saturating_sub(opened)
    }

    /// Streams that the peer lets this side have open at once.
    #[must_use]
    pub fn most_streams(&self) -> u32 {
        self.peer.max_streams
    }

    /// Announces a stream to the peer before anything is written on it, for protocols in which the peer sends
    /// first. Without it the peer sees a stream only with its first byte or its end.
    pub fn announce(&mut self, id: StreamId) {
        if self.life == Life::Open
            && let Some(stream) = self.receive.get(&id)
        {
            // Repeats what the peer was told: it opens the stream and changes nothing else.
            let limit = stream.told;
            self.send.number_control(id, SegmentKind::Credit { limit });
        }
    }

    pub(super) fn insert_stream(&mut self, id: StreamId, priority: u8) {
        self.insert(id, SendStream::unsolicited(priority, self.peer.stream_credit));
    }

    pub(super) fn insert(&mut self, id: StreamId, sending: SendStream) {
        self.send.open(id, sending);
        let credit = self.granted.settings.stream_credit;
        self.receive.insert(id, RecvStream::new(credit, self.config.receive_credit));
        self.commit(id);
    }

    /// Bytes that a write accepts now, at least one. For a writer that reads its data from elsewhere and must not
    /// read more than the session accepts.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn writable(&mut self, id: StreamId) -> Result<usize, WriteError> {
        if self.life != Life::Open {
            return Err(WriteError::Closed);
        }
        let stream = self.send.streams.get(&id).ok_or(WriteError::NotOpen)?;
        match stream.stopped {
            Some(code) => Err(WriteError::Stopped(code)),
            None if stream.fin_wanted || stream.flow.is_some() => Err(WriteError::NotOpen),
            None => match self.buffer_left(stream) {
                0 => {
                    self.block(id, 1);
                    Err(WriteError::Blocked)
                }
                free => Ok(free),
            },
        }
    }

    /// Bytes that a stream accepts now. While a subflow has nothing to send, the limit may be exceeded.
    fn buffer_left(&self, stream: &SendStream) -> usize {
        let unsent = self.send.free_unsent(stream).max(if self.starved { GATHER_BELOW } else { 0 });
        self.send.free_to_write(stream).min(unsent)
    }

    /// Takes a prefix of `data` without copying; returns its length, at least one.
    ///
    /// # Errors
    /// [`WriteError`]. After [`WriteError::Blocked`] the write can be tried again; the other errors are final.
    pub fn write(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        let take = self.writable(id)?.min(data.len());
        let chunk = data.split_to(take);
        self.starved = false;
        if take < GATHER_BELOW {
            self.send.push_slice(id, &chunk);
        } else {
            self.send.push(id, chunk);
        }
        Ok(take)
    }

    /// Copies a prefix of `data`; returns its length, at least one.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_slice(&mut self, id: StreamId, data: &[u8]) -> Result<usize, WriteError> {
        let take = self.writable(id)?.min(data.len());
        self.starved = false;
        self.send.push_slice(id, &data[..take]);
        Ok(take)
    }

    /// Writes all of `data` as a message, or nothing. If it has not begun to be numbered after `within`, it is
    /// dropped as a whole, with [`Event::MessageExpired`]. The peer then reads the next message directly after the
    /// previous one, so the application must frame its messages. A message that has begun is sent completely.
    ///
    /// # Errors
    /// [`WriteError`]; [`WriteError::DeadlinePassed`] when `within` is zero.
    pub fn write_message(
        &mut self,
        now: Instant,
        id: StreamId,
        data: Bytes,
        within: Option<Duration>,
    ) -> Result<(), WriteError> {
        let (bytes, most) = (data.len(), MOST_MESSAGE.min(self.config.send_buffer / 4));
        if bytes > most {
            return Err(WriteError::MessageTooLong { bytes, most });
        }
        if within.is_some_and(|within| within.is_zero()) {
            return Err(WriteError::DeadlinePassed);
        }
        // A message is written as a whole, so it may exceed the limit on bytes that no subflow has taken.
        self.writable(id)?;
        if self.send.streams.get(&id).is_some_and(|stream| !self.send.fits_message(stream, bytes)) {
            self.block(id, bytes);
            return Err(WriteError::Blocked);
        }
        self.starved = false;
        if self.expecting_until.is_some() {
            self.expecting_until = Some(now + WRITES_AGAIN);
        }
        match within {
            _ if bytes == 0 => {}
            Some(within) => self.send.push_until(id, data, now + within),
            None if bytes < GATHER_BELOW => self.send.push_slice(id, &data),
            None => self.send.push(id, data),
        }
        Ok(())
    }

    /// Changes a stream's priority, also of one that the peer opened. Numbered segments keep theirs.
    pub fn set_priority(&mut self, id: StreamId, priority: u8) {
        self.send.set_priority(id, priority);
    }

    /// Changes what a stream with a priority needs of its subflow (AVIRA §III-B), for schedulers that forecast. Numbered
    /// segments keep theirs.
    pub fn set_content(&mut self, id: StreamId, content: ContentClass) {
        self.send.set_content(id, content);
    }

    /// Sends what is written to a stream from now on, on every subflow that is not silent, or on one. The first copy counts, and the
    /// others are dropped by the receiver. For little and urgent data: it costs its rate on every path.
    pub fn set_redundant(&mut self, id: StreamId, redundant: bool) {
        self.send.set_redundant(id, redundant);
    }

    /// Drops messages whose deadline has come.
    pub(super) fn expire_messages(&mut self, now: Instant) {
        let mut expired = Vec::new();
        self.send.expire(now, |stream, messages, bytes| expired.push((stream, messages, bytes)));
        for &(stream, messages, bytes) in &expired {
            self.events.push_back(Event::MessageExpired { stream, messages, bytes });
            self.wake_writer(now, stream);
        }
        if !expired.is_empty() {
            self.wake_writers(now);
        }
    }

    /// Whether the application has more to write: a writer waits, or was just woken.
    pub(super) fn expects_more(&self, now: Instant) -> bool {
        self.writers.are_some_active() || self.expecting_until.is_some_and(|until| now < until)
    }

    /// Half-close: ends the stream after the bytes written so far.
    ///
    /// # Errors
    /// [`WriteError`] as for a write, but never `Blocked`.
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        let flow = self.send.streams.get(&id).is_some_and(SendStream::takes_datagrams);
        match if flow && self.life == Life::Open { Ok(0) } else { self.writable(id) } {
            Ok(_) | Err(WriteError::Blocked) => {
                self.send.finish(id);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Resets the sending direction, also after [`Self::finish`]: data that no subflow has taken yet is not sent, and
    /// nothing is sent again. Without effect once the peer has acknowledged everything up to the end.
    pub fn reset(&mut self, id: StreamId, code: u32) {
        self.send.reset(id, code);
    }

    /// Stops reading: tells the peer, and discards what arrives.
    pub fn stop(&mut self, id: StreamId, code: u32) {
        let Some(stream) = self.receive.get_mut(&id) else { return };
        if stream.stopped || stream.done {
            return;
        }
        // The end may arrive before the rest: the peer is told unless it has nothing more to send.
        let tell = !stream.complete();
        stream.stopped = true;
        self.discard(id);
        if tell {
            self.send.number_control(id, SegmentKind::Stop { code });
        }
        self.collect(id);
    }

    /// The next bytes of a stream in order, as they arrived; `Ok(None)` at its end.
    ///
    /// # Errors
    /// [`ReadError`]. After [`ReadError::Blocked`] the read can be tried again; the other errors are final.
    pub fn read(&mut self, id: StreamId) -> Result<Option<Bytes>, ReadError> {
        self.read_most(id, usize::MAX)
    }

    /// As [`Self::read`], but at most `most` bytes, at least one. The rest of a longer piece stays in the session
    /// and counts as held.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_most(&mut self, id: StreamId, most: usize) -> Result<Option<Bytes>, ReadError> {
        if is_flow(id) {
            return Err(ReadError::NotOpen);
        }
        self.read_with(id, |stream, pins| {
            let chunk = stream.read(pins, most)?;
            let bytes = chunk.len() as u64;
            Some((chunk, bytes))
        })
    }

    /// As [`Self::read`]; `read` takes something from the stream and says how many of its bytes that was.
    pub(super) fn read_with<T>(
        &mut self,
        id: StreamId,
        read: impl FnOnce(&mut RecvStream, &mut Pins) -> Option<(T, u64)>,
    ) -> Result<Option<T>, ReadError> {
        let closed = self.life == Life::Closed;
        let stream = self.receive.get_mut(&id).ok_or(ReadError::NotOpen)?;
        if let Some(code) = stream.reset {
            stream.done = true;
            self.collect(id);
            return Err(ReadError::Reset(code));
        }
        if let Some((taken, bytes)) = read(stream, &mut self.pins) {
            self.consumed(bytes);
            self.was_read(id);
            return Ok(Some(taken));
        }
        if stream.at_end() {
            stream.done = true;
            self.collect(id);
            return Ok(None);
        }
        stream.notified = false;
        Err(if stream.stopped {
            ReadError::NotOpen
        } else if closed {
            ReadError::Closed
        } else {
            ReadError::Blocked
        })
    }

    /// Bytes of a stream that have arrived, in any order, whether read or not. Zero once the stream has ended.
    #[must_use]
    pub fn arrived(&self, id: StreamId) -> u64 {
        self.receive.get(&id).map_or(0, RecvStream::arrived)
    }

    /// Bytes of a stream that have arrived and cannot be read yet, because earlier ones are missing.
    #[must_use]
    pub fn out_of_order(&self, id: StreamId) -> u64 {
        self.receive.get(&id).map_or(0, RecvStream::waiting)
    }

    /// Ends the session once everything written has been acknowledged. A stream that was not finished is incomplete:
    /// its reader gets what was written, and then [`ReadError::Closed`].
    pub fn close(&mut self, now: Instant, code: u32, reason: &str) {
        if self.life != Life::Open {
            return;
        }
        reason.clone_into(&mut self.close_reason);
        self.life = Life::Closing(code);
        self.ack_at.get_or_insert(now);
    }

    /// Ends the session at once; data in flight is lost.
    pub fn abort(&mut self, code: u32, reason: &str) {
        self.end(code, reason.to_owned(), false);
    }

    /// Forgets a stream that both sides have ended.
    pub(super) fn collect(&mut self, id: StreamId) {
        let sent = self.send.streams.get(&id).is_none_or(crate::send::SendStream::finished);
        let received = self.receive.get(&id).is_none_or(|s| s.done || (s.stopped && s.complete()));
        if !sent || !received || !self.send.streams.contains_key(&id) {
            return;
        }
        if let Some(number) = self.send.streams.remove(&id).and_then(|stream| stream.blocked) {
            self.writers.remove(number);
            self.events.push_back(Event::StreamWritable(id));
        }
        self.forget_receiver(id);
        let own = id.0 % 2 == self.side.parity();
        let open = if own { &mut self.open_own } else { &mut self.open_peer };
        *open = open.saturating_sub(1);
    }
}
