//! A stream of any transport: two halves, each `AsyncRead` or `AsyncWrite`, with reset and messages.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout_at};
#[cfg(feature = "quic")]
use tokio_util::task::TaskTracker;

use super::pace::Pace;
use super::socket::{Reader, Writer};
use crate::clients::{Throttle, Way};
use crate::stream::{Arrivals, Stream, StreamError};

/// Maximum size of a chunk read from a kernel socket or QUIC.
const CHUNK: usize = 64 << 10;

/// A bidirectional stream. Dropping it before it was shut down resets it.
#[derive(Debug)]
pub struct TransportStream {
    /// Data from the peer.
    pub recv: RecvHalf,
    /// Data to the peer.
    pub send: SendHalf,
}

/// The receiving direction.
#[derive(Debug)]
pub struct RecvHalf {
    kind: Recv,
    pace: Pace,
}

/// The sending direction.
#[derive(Debug)]
pub struct SendHalf {
    kind: Send,
    pace: Pace,
    finished: bool,
    /// Waits for the acknowledgement of finished QUIC streams.
    #[cfg(feature = "quic")]
    finishing: Option<TaskTracker>,
}

#[derive(Debug)]
pub(super) enum Recv {
    Session(Stream),
    Kernel(Reader),
    #[cfg(feature = "quic")]
    Quic(quinn::RecvStream),
    #[cfg(feature = "quic")]
    Mpquic(noq::RecvStream),
}

#[derive(Debug)]
pub(super) enum Send {
    Session(Stream),
    Kernel(Writer),
    #[cfg(feature = "quic")]
    Quic(quinn::SendStream),
    #[cfg(feature = "quic")]
    Mpquic(noq::SendStream),
}

/// Result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was queued; a session may still drop it as a whole at its deadline.
    Taken,
    /// Its deadline passed before there was room.
    Expired,
}

/// Calls `$poll` on the stream of the transport in use.
macro_rules! each {
    ($kind:ident, $half:expr, $stream:ident => $poll:expr) => {
        match $half {
            $kind::Session($stream) => $poll,
            $kind::Kernel($stream) => $poll,
            #[cfg(feature = "quic")]
            $kind::Quic($stream) => $poll,
            #[cfg(feature = "quic")]
            $kind::Mpquic($stream) => $poll,
        }
    };
}

impl TransportStream {
    pub(super) fn of_session(stream: Stream) -> Self {
        let (recv, send) = stream.into_split();
        Self { recv, send }
    }

    /// Server: below the rate of the stream's client.
    pub(super) fn paced(mut self, throttle: Option<&Arc<Throttle>>) -> Self {
        if let Some(throttle) = throttle {
            self.recv.pace = Pace::new(throttle.clone(), Way::FromClient);
            self.send.pace = Pace::new(throttle.clone(), Way::ToClient);
        }
        self
    }

    /// Splits the stream into its two directions.
    #[must_use]
    pub fn into_split(self) -> (RecvHalf, SendHalf) {
        (self.recv, self.send)
    }

    /// Resets both directions with an application code. TCP cannot transmit the code.
    pub fn reset(mut self, code: u32) {
        self.send.reset(code);
        self.recv.stop(code);
    }
}

impl Stream {
    /// Splits the stream into its two directions. A half that is dropped unfinished abandons only its own direction.
    #[must_use]
    pub fn into_split(self) -> (RecvHalf, SendHalf) {
        let (recv, send) = self.into_halves();
        (RecvHalf::new(Recv::Session(recv)), SendHalf::new(Send::Session(send)))
    }
}

impl RecvHalf {
    pub(super) fn new(kind: Recv) -> Self {
        Self { kind, pace: Pace::default() }
    }

    /// The next bytes that arrived; `None` at the end. A session and QUIC return their own buffers without
    /// copying.
    ///
    /// Cancellation: dropping the future loses no bytes.
    ///
    /// # Errors
    /// The transport's.
    pub async fn read_chunk(&mut self) -> io::Result<Option<Bytes>> {
        self.pace.wait().await;
        let chunk = match &mut self.kind {
            Recv::Session(stream) => stream.read_chunk().await?,
            Recv::Kernel(reader) => {
                let mut chunk = BytesMut::with_capacity(CHUNK);
                let count = reader.read_buf(&mut chunk).await?;
                (count > 0).then(|| chunk.freeze())
            }
            #[cfg(feature = "quic")]
            Recv::Quic(stream) => stream.read_chunk(CHUNK, true).await?.map(|chunk| chunk.bytes),
            #[cfg(feature = "quic")]
            Recv::Mpquic(stream) => stream.read_chunk(CHUNK).await?,
        };
        self.pace.carried(chunk.as_ref().map_or(0, Bytes::len));
        Ok(chunk)
    }

    /// A counter of the bytes that have arrived, in any order. `None` for kernel sockets and QUIC, which do not
    /// report those after a gap.
    #[must_use]
    pub fn arrivals(&self) -> Option<Arrivals> {
        match &self.kind {
            Recv::Session(stream) => Some(stream.arrivals()),
            _ => None,
        }
    }

    /// Asks the peer to stop sending, with an application code. TCP has no such message: there the
    /// connection is reset when the other half is dropped as well.
    pub fn stop(&mut self, code: u32) {
        match &mut self.kind {
            Recv::Session(stream) => stream.reset(code),
            Recv::Kernel(reader) => reader.abandon(),
            // A stream that has ended already needs no stop.
            #[cfg(feature = "quic")]
            Recv::Quic(stream) => {
                let _ = stream.stop(code.into());
            }
            #[cfg(feature = "quic")]
            Recv::Mpquic(stream) => {
                let _ = stream.stop(code.into());
            }
        }
    }
}

impl SendHalf {
    pub(super) fn new(kind: Send) -> Self {
        Self {
            kind,
            pace: Pace::default(),
            finished: false,
            #[cfg(feature = "quic")]
            finishing: None,
        }
    }

    /// The sending half of a QUIC stream. When it is finished, `finishing` gets a task that ends once the peer has
    /// acknowledged everything or has stopped reading.
    #[cfg(feature = "quic")]
    pub(super) fn tracked(kind: Send, finishing: TaskTracker) -> Self {
        let mut half = Self::new(kind);
        half.finishing = Some(finishing);
        half
    }

    #[cfg(feature = "quic")]
    fn track(&self) {
        let Some(finishing) = &self.finishing else { return };
        match &self.kind {
            Send::Quic(stream) => drop(finishing.spawn(stream.stopped())),
            Send::Mpquic(stream) => drop(finishing.spawn(stream.stopped())),
            Send::Session(_) | Send::Kernel(_) => {}
        }
    }

    /// Writes all of it. A session and QUIC keep `chunk` instead of copying it.
    ///
    /// Cancellation: when the future is dropped, any part of it may have been written; reset the stream then.
    ///
    /// # Errors
    /// The transport's.
    pub async fn write_chunk(&mut self, chunk: Bytes) -> io::Result<()> {
        self.pace.wait().await;
        let bytes = chunk.len();
        match &mut self.kind {
            Send::Session(stream) => stream.write_chunk(chunk).await?,
            Send::Kernel(writer) => writer.write_all(&chunk).await?,
            #[cfg(feature = "quic")]
            Send::Quic(stream) => stream.write_chunk(chunk).await?,
            #[cfg(feature = "quic")]
            Send::Mpquic(stream) => stream.write_chunk(chunk).await?,
        }
        self.pace.carried(bytes);
        Ok(())
    }

    /// Whether the bytes go unchanged to a kernel socket, so that [`SendHalf::poll_call`] works.
    #[must_use]
    pub fn is_kernel(&self) -> bool {
        matches!(self.kind, Send::Kernel(_))
    }

    /// Makes a system call that writes to the kernel's socket, such as `sendfile`, once the socket takes data. The call
    /// must not block; it is repeated after `WouldBlock`.
    ///
    /// # Errors
    /// Those of the call; `Unsupported` over other transports than TCP and MPTCP.
    pub fn poll_call<T>(
        &mut self,
        cx: &mut Context<'_>,
        call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        match &self.kind {
            Send::Kernel(writer) => writer.poll_call(cx, call),
            _ => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// Sends a message once there is room for it. If nothing of it has been sent after `within`, a session drops
    /// it as a whole; other transports drop it only if the socket has taken none of it.
    ///
    /// Cancellation: when the future is dropped, a session has taken all of it or none; other transports may have taken a
    /// part, so reset the stream then.
    ///
    /// # Errors
    /// The transport's.
    pub async fn write_message(&mut self, message: Bytes, within: Option<Duration>) -> io::Result<Sent> {
        if let Send::Session(stream) = &mut self.kind {
            let (bytes, until) = (message.len(), within.map(|within| Instant::now() + within));
            if let Some(until) = until
                && timeout_at(until, self.pace.wait()).await.is_err()
            {
                return Ok(Sent::Expired);
            }
            self.pace.wait().await;
            let within = until.map(|until| until.saturating_duration_since(Instant::now()));
            return match stream.write_message(message, within).await {
                Ok(()) => {
                    self.pace.carried(bytes);
                    Ok(Sent::Taken)
                }
                Err(StreamError::DeadlinePassed) => Ok(Sent::Expired),
                Err(error) => Err(error.into()),
            };
        }
        let first = self.write(&message);
        let taken = match within {
            None => first.await?,
            Some(within) => match tokio::time::timeout(within, first).await {
                Ok(taken) => taken?,
                Err(_) => return Ok(Sent::Expired),
            },
        };
        self.write_all(&message[taken..]).await?;
        Ok(Sent::Taken)
    }

    /// Sets the priority of everything written after this call. Higher goes first; zero is bulk. Kernel
    /// sockets ignore it.
    pub fn set_priority(&self, priority: u8) {
        match &self.kind {
            Send::Session(stream) => stream.set_priority(priority),
            Send::Kernel(_) => {}
            // A stream that has ended needs no priority.
            #[cfg(feature = "quic")]
            Send::Quic(stream) => {
                let _ = stream.set_priority(priority.into());
            }
            #[cfg(feature = "quic")]
            Send::Mpquic(stream) => {
                let _ = stream.set_priority(priority.into());
            }
        }
    }

    /// Abandons this direction with an application code.
    pub fn reset(&mut self, code: u32) {
        match &mut self.kind {
            Send::Session(stream) => stream.reset(code),
            Send::Kernel(writer) => writer.abandon(),
            // A stream that has ended already needs no reset.
            #[cfg(feature = "quic")]
            Send::Quic(stream) => {
                let _ = stream.reset(code.into());
            }
            #[cfg(feature = "quic")]
            Send::Mpquic(stream) => {
                let _ = stream.reset(code.into());
            }
        }
    }
}

impl Drop for SendHalf {
    /// Without this, QUIC and TCP would finish a dropped stream normally, and an incomplete stream would look
    /// complete.
    fn drop(&mut self) {
        if !self.finished {
            self.reset(0);
        }
    }
}

impl AsyncRead for RecvHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.pace.poll(cx));
        let before = buf.filled().len();
        ready!(each!(Recv, &mut this.kind, stream => AsyncRead::poll_read(Pin::new(stream), cx, buf)))?;
        this.pace.carried(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SendHalf {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.pace.poll(cx));
        let written =
            each!(Send, &mut this.kind, stream => AsyncWrite::poll_write(Pin::new(stream), cx, data));
        let bytes = ready!(written)?;
        this.pace.carried(bytes);
        Poll::Ready(Ok(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        ready!(this.pace.poll(cx));
        let written = each!(Send, &mut this.kind, stream => AsyncWrite::poll_write_vectored(Pin::new(stream), cx, pieces));
        let bytes = ready!(written)?;
        this.pace.carried(bytes);
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        each!(Send, &self.kind, stream => AsyncWrite::is_write_vectored(stream))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(Send, &mut self.kind, stream => AsyncWrite::poll_flush(Pin::new(stream), cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = each!(Send, &mut self.kind, stream => AsyncWrite::poll_shutdown(Pin::new(stream), cx));
        if matches!(shut, Poll::Ready(Ok(()))) && !std::mem::replace(&mut self.finished, true) {
            #[cfg(feature = "quic")]
            self.track();
        }
        shut
    }
}

impl AsyncRead for TransportStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.recv).poll_read(cx, buf)
    }
}

impl AsyncWrite for TransportStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.send.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(cx)
    }
}
