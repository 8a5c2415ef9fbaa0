//! A connected kernel socket, and its reading and writing halves. Not here: connecting and accepting (`kernel.rs`).

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::{Protocol, SockRef};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::stats::{PathStats, TransportStats};
use crate::places::Held;
use crate::sockopt;

/// State of a connection whose handshake is done (`TCP_ESTABLISHED`).
const ESTABLISHED: u8 = 1;

/// A connected socket. At a server it also holds one of the places for connections.
#[derive(Debug)]
pub(super) struct Socket {
    pub stream: TcpStream,
    pub _slot: Option<Held>,
}

/// Reads from a connection.
#[derive(Debug)]
pub(super) struct Reader(pub Arc<Socket>);

/// Writes to a connection.
#[derive(Debug)]
pub(super) struct Writer(pub Arc<Socket>);

impl Socket {
    /// The connection ends with a reset when both halves have been dropped.
    fn abandon(&self) {
        // A connection that has already ended needs no reset.
        let _ = sockopt::set_abort_on_drop(self.stream.as_fd());
    }

    /// A socket that has ended has no paths.
    pub(super) fn stats(&self, stats: &mut TransportStats) {
        let fd = self.stream.as_fd();
        let name = |local: SocketAddr, peer: SocketAddr| format!("{}={peer}", local.ip());
        match sockopt::mptcp_subflows(fd) {
            Ok(subflows) if !subflows.is_empty() => {
                // A subflow that is still connecting is listed, too.
                for (tcp, addresses) in subflows.into_iter().filter(|(tcp, _)| tcp.state == ESTABLISHED) {
                    let name =
                        addresses.map_or_else(|| "subflow".to_owned(), |(local, peer)| name(local, peer));
                    stats.paths.push(PathStats::of_tcp(name, &tcp));
                }
                return;
            }
            _ => {
                stats.fallback |=
                    SockRef::from(&self.stream).protocol().ok().flatten() == Some(Protocol::MPTCP)
            }
        }
        let addresses = self.stream.local_addr().and_then(|local| Ok((local, self.stream.peer_addr()?)));
        if let (Ok(tcp), Ok((local, peer))) = (sockopt::tcp_info(fd), addresses) {
            stats.paths.push(PathStats::of_tcp(name(local, peer), &tcp));
        }
    }
}

impl Reader {
    pub(super) fn abandon(&self) {
        self.0.abandon();
    }
}

impl Writer {
    pub(super) fn abandon(&self) {
        self.0.abandon();
    }

    /// Makes a system call that writes to the socket, once the socket takes data and again while it would block.
    pub(super) fn poll_call<T>(
        &self,
        cx: &mut Context<'_>,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let stream = &self.0.stream;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_io(Interest::WRITABLE, || call(stream.as_fd())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncRead for Reader {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = &self.0.stream;
        let room = buf.remaining();
        loop {
            ready!(stream.poll_read_ready(cx))?;
            let mut count = 0;
            let read = stream.try_io(Interest::READABLE, || {
                count = stream.try_read_buf(buf)?;
                // A short read has emptied the socket. Returning `WouldBlock` clears its readiness, which saves a
                // read that would return nothing.
                if count > 0 && count < room { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match read {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(error)),
                Err(_) if count == 0 => {}
                _ => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let stream = &self.0.stream;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_write(data) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = &self.0.stream;
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_write_vectored(pieces) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the kernel sends written data without a flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match SockRef::from(&self.0.stream).shutdown(Shutdown::Write) {
            // The peer has already closed.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            result => Poll::Ready(result),
        }
    }
}
