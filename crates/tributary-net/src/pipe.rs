//! The connection below a subflow: TCP, with our own TLS records above it, or QUIC, which has its own encryption.
//!
//! All calls are non-blocking; those that take a context register a wake-up when they return `Pending` or zero. Not here: the
//! handshake, and what is sent.

#[cfg(feature = "quic")]
pub(crate) mod quic;
mod tcp;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tributary_proto::room::{Room, TransportInfo};
use tributary_types::Instant;

use crate::sockopt::TcpInfo;
#[cfg(feature = "quic")]
use quic::Quic;
use tcp::Tcp;

/// Most bytes of frames that overtake together.
#[cfg(feature = "quic")]
pub(crate) use quic::MOST_OVERTAKING;
#[cfg(not(feature = "quic"))]
pub(crate) const MOST_OVERTAKING: usize = 0;

/// Which connection carries a subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SubflowProtocol {
    /// TCP, with TLS unless in plaintext mode.
    #[default]
    Tcp,
    /// QUIC (RFC 9000).
    Quic,
}

/// The connection of a subflow.
pub(crate) enum Pipe {
    Tcp(Tcp),
    #[cfg(feature = "quic")]
    Quic(Box<Quic>),
}

impl From<TcpStream> for Pipe {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(Tcp(stream))
    }
}

#[cfg(feature = "quic")]
impl From<Quic> for Pipe {
    fn from(quic: Quic) -> Self {
        Self::Quic(Box::new(quic))
    }
}

/// Calls the same method of the connection.
macro_rules! delegate {
    ($self:expr, $connection:ident => $call:expr) => {
        match $self {
            Self::Tcp($connection) => $call,
            #[cfg(feature = "quic")]
            Self::Quic($connection) => $call,
        }
    };
}

impl Pipe {
    pub(crate) fn protocol(&self) -> SubflowProtocol {
        match self {
            Self::Tcp(_) => SubflowProtocol::Tcp,
            #[cfg(feature = "quic")]
            Self::Quic(_) => SubflowProtocol::Quic,
        }
    }

    /// The peer's hello was checked, or its reply is awaited: the connection becomes a subflow.
    pub(crate) fn admit(&mut self) {
        match self {
            Self::Tcp(_) => {}
            #[cfg(feature = "quic")]
            Self::Quic(quic) => quic.admit(),
        }
    }

    /// The peer's address at the moment.
    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        delegate!(self, connection => connection.peer())
    }

    /// Sets the mark of a TCP socket. QUIC has no congestion control that a mark could couple.
    pub(crate) fn set_mark(&self, mark: u32) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.set_mark(mark),
            #[cfg(feature = "quic")]
            Self::Quic(_) => Ok(()),
        }
    }

    /// Whether there may be something to read.
    pub(crate) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(tcp) => tcp.poll_readable(cx),
            #[cfg(feature = "quic")]
            Self::Quic(_) => Poll::Ready(Ok(())),
        }
    }

    /// Appends what has arrived in order; zero bytes at the end.
    pub(crate) fn poll_read_buf(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        delegate!(self, connection => connection.poll_read_buf(cx, into))
    }

    /// The next whole frames that may overtake others. TCP has none.
    #[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "of QUIC only"))]
    pub(crate) fn poll_overtaking(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        match self {
            Self::Tcp(_) => Poll::Pending,
            #[cfg(feature = "quic")]
            Self::Quic(quic) => quic.poll_overtaking(cx),
        }
    }

    /// Takes frames that may overtake those that were written in order; returns whether it did. If not, they must be
    /// written in order.
    #[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "of QUIC only"))]
    pub(crate) fn overtake(&mut self, frames: &mut BytesMut) -> bool {
        match self {
            Self::Tcp(_) => false,
            #[cfg(feature = "quic")]
            Self::Quic(quic) => quic.overtake(frames),
        }
    }

    /// Bytes of overtaking frames that the connection has not taken yet.
    pub(crate) fn held(&self) -> usize {
        match self {
            Self::Tcp(_) => 0,
            #[cfg(feature = "quic")]
            Self::Quic(quic) => quic.held(),
        }
    }

    /// Waits until the connection has taken them.
    #[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "of QUIC only"))]
    pub(crate) fn poll_finish_overtaking(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) => Poll::Ready(Ok(())),
            #[cfg(feature = "quic")]
            Self::Quic(quic) => quic.poll_finish_overtaking(cx),
        }
    }

    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self, connection => connection.poll_write(cx, slices))
    }

    /// Bytes that the path can take soon, by the rule; nothing is held back by the caller. When zero, a wake-up is registered.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>, rule: &Room) -> io::Result<usize> {
        delegate!(self, connection => connection.poll_room(cx, rule))
    }

    /// The connection should hold at most so many unsent bytes.
    pub(crate) fn set_unsent_target(&mut self, bytes: u64) -> io::Result<()> {
        delegate!(self, connection => connection.set_unsent_target(bytes))
    }

    /// Input is reported only when so many bytes have arrived. QUIC ignores it: its packets are decrypted as they come.
    pub(crate) fn set_least_input(&self, bytes: usize) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.set_least_input(bytes),
            #[cfg(feature = "quic")]
            Self::Quic(_) => Ok(()),
        }
    }

    /// The connection's state; `held`: bytes that the caller holds back.
    pub(crate) fn info(&mut self, now: Instant, held: u64) -> io::Result<(TransportInfo, TcpInfo)> {
        delegate!(self, connection => connection.info(now, held))
    }

    /// Ends the connection at once when it is dropped, without what is unsent.
    pub(crate) fn abort(&mut self) {
        delegate!(self, connection => connection.abort());
    }

    /// Says that nothing more will be written.
    pub(crate) fn finish_writing(&mut self) -> io::Result<()> {
        delegate!(self, connection => connection.finish_writing())
    }

    /// After the end of writing: waits until dropping the connection loses nothing. The kernel goes on without the program.
    pub(crate) async fn delivered(&mut self) {
        match self {
            Self::Tcp(_) => {}
            #[cfg(feature = "quic")]
            Self::Quic(quic) => quic.delivered().await,
        }
    }

    /// Ends the connection of a refused peer so that the refusal arrives.
    pub(crate) async fn let_go(self, within: Duration) {
        match self {
            Self::Tcp(tcp) => tcp.let_go(within).await,
            #[cfg(feature = "quic")]
            Self::Quic(quic) => quic.let_go(within).await,
        }
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), connection => Pin::new(connection.reader()).poll_read(cx, into))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pipe::poll_write(self.get_mut(), cx, &[IoSlice::new(bytes)])
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.get_mut().finish_writing())
    }
}
