//! Several UDP sockets as one: noq gives the source address of every packet, and the address selects the socket.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Poll};

use noq::udp::{RecvMeta, Transmit};
use noq::{AsyncUdpSocket, Runtime, TokioRuntime, UdpSender};

use super::super::super::{TransportError, system};
use super::super::{Route, path_socket};
use crate::config::Local;

/// A socket for each path, bound to its local address.
#[derive(Debug)]
pub(super) struct Sockets {
    sockets: Vec<(IpAddr, Box<dyn AsyncUdpSocket>)>,
    /// Socket to read first next time, so that a busy path does not starve the others.
    next: usize,
}

#[derive(Debug)]
struct Sender(Vec<(IpAddr, Pin<Box<dyn UdpSender>>)>);

/// The source address that a path's packets have.
pub(super) fn source_of(route: &Route) -> Result<IpAddr, TransportError> {
    match &route.path.local {
        Local::Address(address) if !address.is_unspecified() => Ok(*address),
        _ => Ok(path_socket(route)?.local_addr().map_err(system("asking for a socket's address"))?.ip()),
    }
}

impl Sockets {
    pub(super) fn of(routes: &[Route]) -> Result<Self, TransportError> {
        let mut sockets = Vec::new();
        for route in routes {
            let socket = path_socket(route)?;
            let local = socket.local_addr().map_err(system("asking for a socket's address"))?.ip();
            let socket = TokioRuntime.wrap_udp_socket(socket).map_err(system("registering a UDP socket"))?;
            sockets.push((local, socket));
        }
        Ok(Self { sockets, next: 0 })
    }
}

impl AsyncUdpSocket for Sockets {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        let senders = self.sockets.iter().map(|(local, socket)| (*local, socket.create_sender()));
        Box::pin(Sender(senders.collect()))
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        for _ in 0..self.sockets.len() {
            let (local, socket) = &mut self.sockets[self.next];
            let (local, received) = (*local, socket.poll_recv(cx, bufs, meta));
            self.next = (self.next + 1) % self.sockets.len();
            match received {
                Poll::Pending => {}
                Poll::Ready(Ok(count)) => {
                    meta[..count].iter_mut().for_each(|meta| meta.dst_ip = Some(local));
                    return Poll::Ready(Ok(count));
                }
                // An error of one socket does not affect the others. The socket is read again at the next packet
                // or timer.
                Poll::Ready(Err(error)) => tracing::debug!(%local, %error, "a path's socket cannot be read"),
            }
        }
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.sockets[0].1.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        let segments = self.sockets.iter().map(|(_, socket)| socket.max_receive_segments());
        segments.max().unwrap_or(NonZeroUsize::MIN)
    }

    fn may_fragment(&self) -> bool {
        self.sockets.iter().any(|(_, socket)| socket.may_fragment())
    }
}

impl UdpSender for Sender {
    fn poll_send(
        mut self: Pin<&mut Self>,
        transmit: &Transmit<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let position = self.0.iter().position(|(local, _)| Some(*local) == transmit.src_ip);
        self.0[position.unwrap_or(0)].1.as_mut().poll_send(transmit, cx)
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        let segments = self.0.iter().map(|(_, sender)| sender.max_transmit_segments());
        segments.min().unwrap_or(NonZeroUsize::MIN)
    }
}
