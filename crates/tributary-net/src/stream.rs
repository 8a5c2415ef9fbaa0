//! One stream of a session: `AsyncRead` and `AsyncWrite`, and methods that do not copy.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tributary_proto::{ContentClass, ReadError, WriteError};
use tributary_types::{Bitrate, Instant, StreamId};

use crate::shared::{Handle, Shared};

/// Code of a stream that its application dropped without finishing it.
const CODE_DROPPED: u32 = 0;

/// Why an operation on a stream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer reset the stream or stopped reading it, with this code.
    #[error("the peer abandoned the stream with code {0}")]
    Abandoned(u32),
    /// The session ended before the stream did.
    #[error("the session ended before the stream did")]
    SessionClosed,
    /// This side has finished it.
    #[error("the stream was finished on this side")]
    Finished,
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

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> Self {
        let kind = match error {
            StreamError::Abandoned(_) => io::ErrorKind::ConnectionReset,
            StreamError::SessionClosed => io::ErrorKind::ConnectionAborted,
            StreamError::Finished => io::ErrorKind::BrokenPipe,
            StreamError::DeadlinePassed => io::ErrorKind::TimedOut,
            StreamError::MessageTooLong { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

/// An ordered stream of bytes in both directions. `shutdown` finishes this side's direction; dropping a
/// stream that was not finished resets it and discards unread data.
pub struct Stream {
    handle: Handle,
    id: StreamId,
    read_done: bool,
    write_done: bool,
    /// Which directions this handle has, reading and writing. After a split, the other handle has the other
    /// direction.
    has: (bool, bool),
}

impl Stream {
    pub(crate) fn new(handle: Handle, id: StreamId) -> Self {
        let (read_done, write_done) = (false, false);
        Self { handle, id, read_done, write_done, has: (true, true) }
    }

    /// A reading and a writing handle. One that is dropped unfinished abandons only its own direction.
    pub(crate) fn into_halves(mut self) -> (Self, Self) {
        let (handle, id, has) = (self.handle.clone(), self.id, self.has);
        let (read_done, write_done) = (self.read_done, self.write_done);
        // Dropping the rest of `self` must not reset anything.
        (self.read_done, self.write_done, self.has) = (true, true, (false, false));
        let read = Self { handle: handle.clone(), id, read_done, write_done: true, has: (has.0, false) };
        let write = Self { handle, id, read_done: true, write_done, has: (false, has.1) };
        (read, write)
    }

    /// Its identifier, the same on both sides.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Announces the stream to the peer before anything is written on it, for protocols in which the peer sends
    /// first.
    pub fn announce(&self) {
        self.handle.0.change(|state, _| state.session.announce(self.id));
    }

    /// The next bytes as they arrived, without copying; `None` at the end.
    ///
    /// Cancellation: dropping the future loses no bytes.
    ///
    /// # Errors
    /// [`StreamError`].
    pub async fn read_chunk(&mut self) -> Result<Option<Bytes>, StreamError> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// As [`Self::read_chunk`], for hand-written futures.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamError>> {
        self.poll_most(cx, usize::MAX)
    }

    /// As [`Self::read_chunk`], at most `most` bytes. The rest of a longer piece stays in the session and counts towards
    /// its receive window.
    pub(crate) async fn read_most(&mut self, most: usize) -> Result<Option<Bytes>, StreamError> {
        poll_fn(|cx| self.poll_most(cx, most)).await
    }

    fn poll_most(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Result<Option<Bytes>, StreamError>> {
        if self.read_done {
            return Poll::Ready(Ok(None));
        }
        let id = self.id;
        let shared = &self.handle.0;
        let mut state = shared.lock();
        let result = state.session.read_most(id, most);
        if let Err(ReadError::Blocked) = result {
            state.readers.insert(id, cx.waker().clone());
        }
        // The session decides when enough has been read to send the peer more credit.
        let driver = if state.session.is_urgent() { state.driver.take() } else { None };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Poll::Ready(match result {
            Ok(Some(chunk)) => Ok(Some(chunk)),
            Ok(None) => {
                self.read_done = true;
                Ok(None)
            }
            Err(ReadError::Blocked) => return Poll::Pending,
            Err(ReadError::Reset(code)) => {
                self.read_done = true;
                Err(StreamError::Abandoned(code))
            }
            Err(ReadError::NotOpen) => Err(StreamError::Finished),
            Err(ReadError::Closed) => Err(StreamError::SessionClosed),
        })
    }

    /// Writes all of `chunk` without copying it; waits for room as often as needed.
    ///
    /// Cancellation: when the future is dropped, any part of it may have been written; reset the stream then.
    ///
    /// # Errors
    /// [`StreamError`].
    pub async fn write_chunk(&mut self, mut chunk: Bytes) -> Result<(), StreamError> {
        while chunk.has_remaining() {
            poll_fn(|cx| self.poll_write_with(cx, |session, id| session.write(id, &mut chunk))).await?;
        }
        Ok(())
    }

    /// Writes all of `message`, once there is room for it. With a deadline `within`, a message of which nothing has
    /// been sent by then is dropped as a whole. The peer then reads the next message directly after the previous one,
    /// so the application must frame its messages. A message is sent completely once its first byte has been sent.
    ///
    /// The deadline counts from the call and includes the wait for room.
    ///
    /// Cancellation: when the future is dropped, all of the message was taken or none.
    ///
    /// # Errors
    /// [`StreamError`]; [`StreamError::DeadlinePassed`] when `within` is zero or has passed before there was room.
    pub async fn write_message(
        &mut self,
        message: Bytes,
        within: Option<Duration>,
    ) -> Result<(), StreamError> {
        let until = within.map(|within| self.handle.0.now() + within);
        let write = poll_fn(|cx| {
            self.poll_write_at(cx, |session, id, now| {
                let within = until.map(|until| until.saturating_since(now));
                session.write_message(now, id, message.clone(), within).map(|()| message.len())
            })
        });
        match within {
            Some(within) => {
                tokio::time::timeout(within, write).await.map_err(|_| StreamError::DeadlinePassed)?
            }
            None => write.await,
        }
        .map(|_| ())
    }

    /// Sets the priority of everything written after this call. Higher goes first; zero, the default, is bulk.
    /// The priority orders what this side sends and is not transmitted to the peer.
    pub fn set_priority(&self, priority: u8) {
        self.handle.0.change(|state, _| state.session.set_priority(self.id, priority));
    }

    /// Sets what everything written after this call needs of a subflow, for a stream with a priority and a scheduler that
    /// forecasts.
    pub fn set_content(&self, content: ContentClass) {
        self.handle.0.change(|state, _| state.session.set_content(self.id, content));
    }

    /// Sends everything that is written after this call, over every path or over one. The first copy counts. For little and urgent data: it
    /// costs its rate on every path.
    pub fn set_redundant(&self, redundant: bool) {
        self.handle.0.change(|state, _| state.session.set_redundant(self.id, redundant));
    }

    /// The session's send rate, and the limit on a stream's bytes queued but not yet given to a subflow, as time at
    /// that rate. `None` when only the session's send buffer limits them.
    pub(crate) fn pace(&self) -> Option<(Bitrate, Duration)> {
        let state = self.handle.0.lock();
        Some((state.session.send_rate(), state.session.unsent_time()?))
    }

    /// Takes memory for this stream's connection to a target. `None` when the session has no memory left for it.
    pub(crate) fn carried_on(&self) -> Option<CarriedOn> {
        CarriedOn::take(&self.handle)
    }

    /// A counter of the bytes that have arrived.
    pub(crate) fn arrivals(&self) -> Arrivals {
        Arrivals { shared: self.handle.0.clone(), id: self.id }
    }

    /// A watch for the end of the session.
    pub(crate) fn session_ended(&self) -> SessionEnded {
        SessionEnded(self.handle.0.clone())
    }

    /// Waits until the stream accepts bytes. Returns how many. The driver is woken only if there is no room: then the
    /// session may need memory.
    ///
    /// # Errors
    /// [`StreamError`].
    pub(crate) async fn writable(&mut self) -> Result<usize, StreamError> {
        poll_fn(|cx| {
            let mut state = self.handle.0.lock();
            let result = state.session.writable(self.id);
            let Err(WriteError::Blocked) = result else { return Poll::Ready(result.map_err(write_error)) };
            state.writers.insert(self.id, cx.waker().clone());
            let driver = state.driver.take();
            drop(state);
            if let Some(driver) = driver {
                driver.wake();
            }
            Poll::Pending
        })
        .await
    }

    fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut tributary_proto::Session, StreamId) -> Result<usize, WriteError>,
    ) -> Poll<Result<usize, StreamError>> {
        self.poll_write_at(cx, |session, id, _| write(session, id))
    }

    fn poll_write_at(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut tributary_proto::Session, StreamId, Instant) -> Result<usize, WriteError>,
    ) -> Poll<Result<usize, StreamError>> {
        let id = self.id;
        let result = self.handle.0.change(|state, now| {
            let result = write(&mut state.session, id, now);
            if let Err(WriteError::Blocked) = result {
                state.writers.insert(id, cx.waker().clone());
            }
            result
        });
        Poll::Ready(match result {
            Ok(n) => Ok(n),
            Err(WriteError::Blocked) => return Poll::Pending,
            Err(error) => Err(write_error(error)),
        })
    }

    /// Finishes this side's direction: the peer reads the end of the stream after everything that was written.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn finish(&mut self) -> Result<(), StreamError> {
        if self.write_done {
            return Ok(());
        }
        self.write_done = true;
        let id = self.id;
        self.handle.0.change(|state, _| state.session.finish(id)).map_err(write_error)
    }

    /// Abandons both directions with an application code.
    pub fn reset(&mut self, code: u32) {
        let id = self.id;
        let (read_done, write_done) = (self.read_done, self.write_done);
        self.read_done = true;
        self.write_done = true;
        if read_done && write_done {
            return;
        }
        self.handle.0.change(|state, _| {
            if !write_done {
                state.session.reset(id, code);
            }
            if !read_done {
                state.session.stop(id, code);
            }
        });
    }
}

/// Memory of a stream's or flow's connection to a target, given back when it is dropped.
pub(crate) struct CarriedOn(Arc<Shared>);

impl CarriedOn {
    /// `None` when the session has no memory left for it.
    pub(crate) fn take(handle: &Handle) -> Option<Self> {
        let shared = handle.0.clone();
        let taken = shared.lock().takes_connection();
        taken.then(|| Self(shared))
    }
}

impl Drop for CarriedOn {
    fn drop(&mut self) {
        self.0.lock().connections -= 1;
    }
}

/// Counts the bytes of a stream that have arrived, in any order, whether they have been read or not. It does not keep
/// the session open.
#[derive(Clone)]
pub struct Arrivals {
    shared: Arc<Shared>,
    id: StreamId,
}

impl Arrivals {
    /// Their number since the stream began; zero once the stream has ended.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.lock().session.arrived(self.id)
    }
}

impl std::fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Arrivals").field(&self.id).finish()
    }
}

/// Watches for the end of a session without keeping the session open.
pub(crate) struct SessionEnded(Arc<Shared>);

impl SessionEnded {
    /// Whether the session has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.0.lock().closed.is_some()
    }

    /// Notes that the server is ending and accepts no more streams, so that the session gets a successor.
    pub(crate) fn note_leaving(&self) {
        let mut state = self.0.lock();
        state.leaving = true;
        state.wake_waiting();
    }

    /// Whether the session ended because its memory is needed, so that nothing more is delivered.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.lock().given_up
    }

    /// Waits until the session ends because its memory is needed; never returns after another end.
    pub(crate) async fn given_up(&self) {
        self.wait().await;
        if !self.is_given_up() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the end; the task is not woken before it.
    pub(crate) async fn wait(&self) {
        let ended = self.0.lock().ended.clone();
        let mut notified = std::pin::pin!(ended.notified());
        notified.as_mut().enable();
        if !self.is_over() {
            notified.await;
        }
    }
}

fn write_error(error: WriteError) -> StreamError {
    match error {
        WriteError::Stopped(code) => StreamError::Abandoned(code),
        WriteError::NotOpen | WriteError::Blocked => StreamError::Finished,
        WriteError::Closed => StreamError::SessionClosed,
        WriteError::DeadlinePassed => StreamError::DeadlinePassed,
        WriteError::MessageTooLong { bytes, most } => StreamError::MessageTooLong { bytes, most },
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if out.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let chunk = match self.poll_most(cx, out.remaining()) {
            Poll::Ready(Ok(Some(chunk))) => chunk,
            Poll::Ready(Ok(None)) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            Poll::Pending => return Poll::Pending,
        };
        out.put_slice(&chunk);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.poll_write_with(cx, |session, id| session.write_slice(id, data)).map_err(Into::into)
    }

    /// Does nothing: written data is sent without a flush.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.finish().map_err(Into::into))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reset(CODE_DROPPED);
        let mut state = self.handle.0.lock();
        if self.has.0 {
            state.readers.remove(&self.id);
        }
        if self.has.1 {
            state.writers.remove(&self.id);
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).finish_non_exhaustive()
    }
}
