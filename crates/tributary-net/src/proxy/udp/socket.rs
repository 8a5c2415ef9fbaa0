//! A UDP socket of the relay: the kernel gives and takes many datagrams at once.
//!
//! A peer sends as many datagrams together as its window allows, so a socket must hold a burst, and must be read faster than one
//! datagram a system call. Not here: the system calls ([`tributary_tun::UdpSocket`]).

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tributary_tun::ReceiveBatch;
use tributary_tun::fd::set_receive_buffer;

use super::alike;
use crate::flow::Datagram;

/// Bytes that the kernel is asked to hold for a socket until they are read: 8 ms at 1 Gbit/s. It gives `net.core.rmem_max` at most.
const RECEIVE_BUFFER: usize = 1 << 20;

thread_local! {
    /// Room to receive into. It is empty again before another socket of the thread is read.
    static ROOM: RefCell<ReceiveBatch> = RefCell::default();
}

/// A socket that is registered with the runtime.
#[derive(Debug)]
pub(super) struct Socket(tributary_tun::UdpSocket<UdpSocket>);

impl Socket {
    /// Binds a socket.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address).await?;
        set_receive_buffer(socket.as_fd(), RECEIVE_BUFFER);
        let socket = tributary_tun::UdpSocket::new(socket)?;
        // As sockets of applications.
        socket.fragment()?;
        Ok(Self(socket))
    }

    /// The runtime's socket.
    pub(super) fn plain(&self) -> &UdpSocket {
        self.0.socket()
    }

    /// Receives what waits, up to the room of one call, and gives it to `take`. Does nothing when nothing waits.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn receive(&self, take: impl FnOnce(&ReceiveBatch)) -> io::Result<()> {
        ROOM.with_borrow_mut(|room| match self.plain().try_io(Interest::READABLE, || self.0.fill(room)) {
            Ok(()) => {
                take(room);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            error => error,
        })
    }

    /// Sends datagrams in their order, and waits for room in the socket's buffer.
    ///
    /// # Errors
    /// `ConnectionRefused` when nothing listens there. What the network refuses otherwise is lost.
    pub(super) async fn send(&self, to: SocketAddr, datagrams: &[Datagram]) -> io::Result<()> {
        let mut rest = self.send_some(to, datagrams)?;
        while !rest.is_empty() {
            self.plain().writable().await?;
            rest = self.send_some(to, rest)?;
        }
        Ok(())
    }

    /// Sends datagrams in their order. What a full socket buffer cannot hold is dropped, as the network does.
    pub(super) fn try_send(&self, to: SocketAddr, datagrams: &[Datagram]) {
        let _ = self.send_some(to, datagrams);
    }

    /// Sends until the socket's buffer is full; returns the rest.
    fn send_some<'a>(&self, to: SocketAddr, datagrams: &'a [Datagram]) -> io::Result<&'a [Datagram]> {
        let (mut rest, mut most) = (datagrams, self.0.most());
        while !rest.is_empty() {
            let (run, after) = rest.split_at(alike(rest, most));
            match self.send_alike(to, run) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(rest),
                // The answer to an earlier one.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
                // Longer than the MTU, or an interface that does not divide them.
                Err(_) if run.len() > 1 => {
                    most = 1;
                    continue;
                }
                Err(error) => tracing::debug!(%error, "a datagram to {to}"),
                Ok(()) => {}
            }
            rest = after;
        }
        Ok(rest)
    }

    fn send_alike(&self, to: SocketAddr, run: &[Datagram]) -> io::Result<()> {
        let (each, ecn) = (run[0].bytes.len(), run[0].ecn as u8);
        let send = |contents: &[u8]| {
            self.plain().try_io(Interest::WRITABLE, || self.0.try_send(to, contents, each, ecn))
        };
        if let [one] = run {
            return send(&one.bytes);
        }
        let mut contents = Vec::with_capacity(each * run.len());
        run.iter().for_each(|datagram| contents.extend_from_slice(&datagram.bytes));
        send(&contents)
    }
}
