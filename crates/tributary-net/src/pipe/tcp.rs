//! A TCP socket below a subflow.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;
use tributary_proto::room::{Room, TransportInfo};
use tributary_types::{Bitrate, Instant};

use crate::sockopt::{self, TcpInfo};

/// Bytes that are read from a refused client at most. It cannot have sent more by then.
const REFUSED_READ_BYTES: usize = 2 << 20;

pub(crate) struct Tcp(pub TcpStream);

impl Tcp {
    pub(super) fn peer(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    pub(super) fn set_mark(&self, mark: u32) -> io::Result<()> {
        SockRef::from(&self.0).set_mark(mark)
    }

    pub(super) fn reader(&mut self) -> &mut TcpStream {
        &mut self.0
    }

    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read_ready(cx)
    }

    pub(super) fn poll_read_buf(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        // After a short read the runtime waits for the next event, without a system call that finds the socket empty.
        poll_read_buf(Pin::new(&mut self.0), cx, into)
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match self.0.try_write_vectored(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }

    /// The kernel reports the socket writable when less than half of the target is unsent.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>, rule: &Room) -> io::Result<usize> {
        loop {
            let room = rule.bytes(sockopt::unsent(self.0.as_fd())? as u64);
            if room > 0 {
                return Ok(room);
            }
            let asked = self.0.try_io(Interest::WRITABLE, || {
                if sockopt::poll_writable(self.0.as_fd())? {
                    Ok(())
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            });
            match asked {
                // Half of the target has become free since the wake-up was registered.
                Ok(()) => return Ok(rule.bytes(rule.target() / 2 - 1)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.0.poll_write_ready(cx) {
                        Poll::Pending => return Ok(0),
                        Poll::Ready(ready) => ready?,
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn set_unsent_target(&mut self, bytes: u64) -> io::Result<()> {
        SockRef::from(&self.0).set_tcp_notsent_lowat(bytes as u32)
    }

    pub(super) fn set_least_input(&self, bytes: usize) -> io::Result<()> {
        sockopt::set_receive_lowat(self.0.as_fd(), bytes)
    }

    pub(super) fn info(&mut self, now: Instant, held: u64) -> io::Result<(TransportInfo, TcpInfo)> {
        let info = sockopt::tcp_info(self.0.as_fd())?;
        let seen = TransportInfo {
            srtt: info.rtt,
            rttvar: info.rttvar,
            min_rtt: info.min_rtt.unwrap_or(info.rtt),
            cwnd: info.cwnd_bytes(),
            in_flight: info.in_flight(),
            unsent: u64::from(info.notsent_bytes) + held,
            delivery_rate: Bitrate::from_bps(info.delivery_rate.saturating_mul(8)),
            app_limited: info.app_limited,
            mss: info.snd_mss,
            delivered: u64::from(info.delivered),
            heard_at: now - info.last_ack_recv,
        };
        Ok((seen, info))
    }

    /// With RST.
    pub(super) fn abort(&mut self) {
        let _ = sockopt::set_abort_on_drop(self.0.as_fd());
    }

    pub(super) fn finish_writing(&mut self) -> io::Result<()> {
        SockRef::from(&self.0).shutdown(Shutdown::Write)
    }

    /// What the client has sent is read and discarded, because unread input would turn the close into a reset. Time and bytes
    /// are limited.
    pub(super) async fn let_go(mut self, within: Duration) {
        let _ = tokio::time::timeout(within, async {
            self.0.shutdown().await?;
            let mut thrown_away = [0; 4096];
            let mut left = REFUSED_READ_BYTES;
            while left > 0 {
                match self.0.read(&mut thrown_away).await? {
                    0 => break,
                    count => left = left.saturating_sub(count),
                }
            }
            io::Result::Ok(())
        })
        .await;
    }
}
