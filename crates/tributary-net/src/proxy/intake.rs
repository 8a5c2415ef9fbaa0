//! Limits how much of an application's data waits in sockets in front of the session.
//!
//! The session limits the data that it holds. In front of it are the receive buffer of the proxy's socket and the
//! send buffer of the application's socket. Linux sizes the send buffer by the largest segment: on the loopback
//! interface, with segments of 64 KiB, an application could write 2.6 MB at once, which is one second at 20 Mbit/s.
//! So the proxy limits segments to Ethernet's size, keeps its receive buffer small, and reads only as much as the
//! session accepts at once. The kernel sizes the receive buffer only if the session is fast, the application is far
//! away, and the session has taken some megabytes. All sockets of the machine share the kernel's memory for TCP
//! (`tcp_mem`), and above its second value every connection slows down. Large buffers of stalled connections would
//! therefore slow down the others.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;
use tributary_types::Bitrate;

use crate::dial;
use crate::sockopt;
use crate::stream::Stream;

/// Largest segment of TCP over IPv4 and Ethernet.
const SEGMENT: u32 = 1460;
/// Divisor: the receive buffer has the bytes that the session sends in its hold time divided by this, plus those of
/// two round trips. The kernel doubles the buffer and lets the application's send buffer grow to several times that
/// size, so sockets hold up to half of `--buffer`.
const BUFFER_PART: u32 = 24;
/// Smallest receive buffer, and the largest that is set. Above that the kernel chooses the size.
const BUFFER: (u64, u64) = (8 << 10, 128 << 10);
/// The kernel may choose the size after the session has taken this many bytes of the connection. A session takes
/// fewer if its client does not read.
const STEADY: u64 = 4 << 20;
/// Divisor: one read takes at most the bytes that the session sends in its hold time divided by this.
const PIECE_PART: u32 = 6;
/// Smallest and largest number of bytes that are read at once.
const PIECE: (u64, u64) = (4 << 10, MOST as u64);
/// Maximum number of bytes that are read at once.
pub(super) const MOST: usize = 64 << 10;
/// Minimum time between two queries of the rate.
const LOOK: Duration = Duration::from_millis(20);

/// The part of `--buffer` that the session may hold: three eighths. Half is for the sockets in front of it, and one
/// eighth for the error of the measured rate. Example: with 200 ms, the session holds 75 ms and the sockets 100 ms.
pub(super) fn of_the_session(buffer: Option<Duration>) -> Option<Duration> {
    buffer.map(|buffer| buffer / 8 * 3)
}

/// Makes the peers of accepted connections keep their send buffers small, by limiting the segment size.
pub(super) fn limit_segments(listener: BorrowedFd<'_>) -> io::Result<()> {
    SockRef::from(&listener).set_tcp_mss(SEGMENT)
}

/// Connects to the first of a name's addresses that answers. Segments are limited as in [`limit_segments`].
pub(super) async fn connect(name: (String, u16)) -> io::Result<TcpStream> {
    connect_to(tokio::net::lookup_host(name).await?).await
}

/// Connects to the first of these addresses that answers.
pub(super) async fn connect_to(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let outcome = dial::race(dial::in_turn(addresses), |address| async move {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        limit_segments(socket.as_fd())?;
        socket.connect(address).await
    });
    outcome.await.unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
}

/// The size of a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Bytes(u64),
    /// The kernel's choice.
    Kernel,
}

/// The receive buffer for a session of this rate that holds data for the time `hold`. The window is at least twice
/// the bandwidth–delay product of the connection to the application, so it never limits the rate. Example: at 1
/// Gbit/s the largest fixed size is enough for an application on the same machine; for an application 10 ms away the
/// kernel chooses the size.
fn size(rate: Bitrate, hold: Duration, round_trip: Duration) -> Size {
    if rate.size_in(round_trip * 2).as_bytes() > BUFFER.1 {
        return Size::Kernel;
    }
    Size::Bytes(rate.size_in(hold / BUFFER_PART + round_trip * 2).as_bytes().clamp(BUFFER.0, BUFFER.1))
}

impl Size {
    /// Whether it differs from another by a quarter or more.
    fn differs(self, other: Self) -> bool {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(other)) => one.abs_diff(other) * 4 >= other,
            (one, other) => one != other,
        }
    }
}

/// Bytes that are read at once.
fn piece(rate: Bitrate, hold: Duration) -> usize {
    rate.size_in(hold / PIECE_PART).as_bytes().clamp(PIECE.0, PIECE.1) as usize
}

/// The intake of one connection.
#[derive(Debug, Default)]
pub(super) struct Intake {
    looked: Option<Instant>,
    set: Option<Size>,
    piece: usize,
    taken: u64,
}

impl Intake {
    /// How many bytes to read at once. Adapts the receive buffer to the session's rate at most every 20 ms.
    pub(super) fn piece(&mut self, tcp: &TcpStream, stream: &Stream) -> usize {
        let now = Instant::now();
        if self.looked.is_none_or(|looked| now >= looked + LOOK) {
            self.looked = Some(now);
            self.look(tcp, stream.pace());
        }
        self.piece
    }

    /// Counts bytes that the session has taken.
    pub(super) fn took(&mut self, bytes: usize) {
        self.taken += bytes as u64;
    }

    fn look(&mut self, tcp: &TcpStream, pace: Option<(Bitrate, Duration)>) {
        let wanted = match pace {
            None => {
                self.piece = MOST;
                Size::Kernel
            }
            Some((rate, hold)) => {
                self.piece = piece(rate, hold);
                let round_trip = sockopt::tcp_info(tcp.as_fd()).ok().and_then(|info| info.min_rtt);
                size(rate, hold, round_trip.unwrap_or_default())
            }
        };
        let wanted =
            if wanted == Size::Kernel && self.taken < STEADY { Size::Bytes(BUFFER.1) } else { wanted };
        if self.set.is_some_and(|set| !wanted.differs(set)) {
            return;
        }
        self.set = Some(wanted);
        let outcome = match wanted {
            Size::Bytes(bytes) => sockopt::set_receive_buffer(tcp.as_fd(), bytes as usize),
            Size::Kernel => sockopt::free_receive_buffer(tcp.as_fd(), BUFFER.1 as usize),
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "receive buffer of a proxied connection");
        }
    }
}

#[cfg(test)]
mod tests;
