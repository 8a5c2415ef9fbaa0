//! Parts of files that the kernel sends from its page cache, without a copy through this process (`sendfile(2)`).
//!
//! `hyper` only writes bodies that are in memory. So a part of a file passes through it as a *stand-in*: bytes of
//! one fixed memory region, as many as the part has, which are never read. [`FileSender`], between `hyper` and the
//! socket, recognises this region by its address and has the kernel send the file instead. Example: `hyper` writes
//! a response as [headers, stand-in of 300 kB]; the headers are sent with `MSG_MORE`, then 300 kB of the file.
//! Only for HTTP/1.1 over kernel sockets, because HTTP/2 frames and TLS change the bytes of a body.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use rustix::net::SendFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tributary_net::transport::TransportStream;

use super::files::Opened;

/// Most bytes of a file at once.
pub(super) const MOST: u64 = 8 << 20;

/// The memory region of stand-ins. Zeroed memory that is never read or written uses no physical memory.
static REGION: LazyLock<Bytes> = LazyLock::new(|| vec![0; MOST as usize].into());

/// A stand-in for `length` bytes of a file, at most [`MOST`].
pub(super) fn stand_in(length: u64) -> Bytes {
    REGION.slice(..length.min(MOST) as usize)
}

fn is_stand_in(bytes: &[u8]) -> bool {
    !bytes.is_empty() && REGION.as_ptr_range().contains(&bytes.as_ptr())
}

/// The parts of files whose stand-ins were given to `hyper` and that have not been sent yet, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Outgoing(Arc<Mutex<VecDeque<Part>>>);

/// Bytes of a file.
type Part = (Arc<Opened>, Range<u64>);

impl Outgoing {
    pub(super) fn push(&self, opened: Arc<Opened>, part: Range<u64>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((opened, part));
    }
}

/// A connection that sends a part of a file for each stand-in that is written to it.
pub(super) struct FileSender {
    stream: TransportStream,
    outgoing: Outgoing,
}

impl FileSender {
    pub(super) fn new(stream: TransportStream) -> Self {
        Self { stream, outgoing: Outgoing::default() }
    }

    /// The queue for parts of files; `None` over a transport without a kernel socket.
    pub(super) fn outgoing(&self) -> Option<Outgoing> {
        self.stream.send.is_kernel().then(|| self.outgoing.clone())
    }

    /// Sends up to `most` bytes of the first part.
    fn poll_file(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<usize>> {
        let mut outgoing = self.outgoing.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((opened, part)) = outgoing.front_mut() else {
            return Poll::Ready(Err(io::Error::other("a stand-in without a file")));
        };
        let most = most.min((part.end - part.start) as usize);
        let polled = self.stream.send.poll_call(cx, |socket| {
            let mut from = part.start;
            Ok(rustix::fs::sendfile(socket, &opened.file, Some(&mut from), most)?)
        });
        if let Poll::Ready(Ok(sent)) = polled {
            if sent == 0 {
                // The file has become shorter. The error ends the connection.
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            part.start += sent as u64;
            if part.is_empty() {
                outgoing.pop_front();
            }
        }
        polled
    }

    /// Sends bytes before a part of a file. Short ones go into the same packet as the beginning of the file.
    fn poll_before_file(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let flags = SendFlags::MORE | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        self.stream.send.poll_call(cx, |socket| Ok(rustix::net::send(socket, bytes, flags)?))
    }
}

impl AsyncRead for FileSender {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for FileSender {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(data)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut filled = pieces.iter().filter(|piece| !piece.is_empty());
        match (filled.next(), filled.next()) {
            (Some(first), _) if is_stand_in(first) => self.poll_file(cx, first.len()),
            (Some(first), Some(second)) if is_stand_in(second) => self.poll_before_file(cx, first),
            _ => {
                let until = pieces.iter().position(|piece| is_stand_in(piece)).unwrap_or(pieces.len());
                Pin::new(&mut self.stream).poll_write_vectored(cx, &pieces[..until])
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
