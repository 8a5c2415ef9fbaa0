//! UDP with many datagrams in one system call: UDP_SEGMENT when sending, UDP_GRO and recvmmsg when receiving.
//! The system calls are quinn-udp's. Datagrams are never fragmented.

use crate::fd;
use core::time::Duration;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Requested kernel buffers: 8 MB are 30 ms at 2 Gbit/s.
const KERNEL_BUFFER: usize = 8 << 20;
/// Largest payload of one system call.
const MOST: usize = 65_000;
/// One receive buffer.
const RECEIVE: usize = 65_536;
/// Maximum wait for room in a full send buffer.
const PATIENCE: Duration = Duration::from_millis(2);

/// A UDP socket that does not block.
#[derive(Debug)]
pub struct UdpSocket {
    socket: std::net::UdpSocket,
    state: UdpSocketState,
}

impl UdpSocket {
    /// Binds a socket.
    ///
    /// # Errors
    /// The system's: the address is not this host's, or in use.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(address)?;
        fd::set_socket_buffers(socket.as_fd(), KERNEL_BUFFER);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self { socket, state })
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends and receives only on the interface with this index from now on. A second call needs CAP_NET_RAW.
    ///
    /// # Errors
    /// The system's.
    pub fn bind_to_interface(&self, index: u32) -> io::Result<()> {
        fd::bind_to_interface(self.socket.as_fd(), index)
    }

    /// Receives the waiting datagrams, up to the batch's room, and calls `each` with every datagram and its
    /// sender.
    /// Returns their number; zero when none is waiting.
    ///
    /// # Errors
    /// The system's error. An ICMP error caused by an earlier datagram is ignored.
    pub fn receive(
        &self,
        batch: &mut ReceiveBatch,
        each: &mut impl FnMut(SocketAddr, &mut [u8]),
    ) -> io::Result<usize> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices = batch.buffers.chunks_exact_mut(RECEIVE).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; ReceiveBatch::BUFFERS] =
            core::array::from_fn(|_| slices.next().expect("the batch has so many buffers"));
        let received = self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas);
        let messages = match received {
            Ok(messages) => messages,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut count = 0;
        for (slice, meta) in slices.iter_mut().zip(&metas[..messages]) {
            // A datagram without payload has stride zero.
            for datagram in slice[..meta.len].chunks_mut(meta.stride.max(1)) {
                each(meta.addr, datagram);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Sends one datagram.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&self, destination: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        self.send_now(destination, datagram, datagram.len())
    }

    fn send_now(&self, destination: SocketAddr, contents: &[u8], segment: usize) -> io::Result<()> {
        let segment_size = (segment < contents.len()).then_some(segment);
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        let socket = UdpSockRef::from(&self.socket);
        match self.state.try_send(socket, &transmit) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = fd::wait_writable(self.socket.as_fd(), PATIENCE);
                self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
            }
            other => other,
        }
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Buffers to receive into.
#[derive(Debug)]
pub struct ReceiveBatch {
    buffers: Vec<u8>,
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self { buffers: vec![0; Self::BUFFERS * RECEIVE] }
    }
}

impl ReceiveBatch {
    /// System-level messages of one call; each may hold many datagrams.
    const BUFFERS: usize = 8;
}

/// Datagrams to one destination that are sent together. Those of one system call have the same length, except
/// the last, which may be shorter.
#[derive(Debug)]
pub struct SendBatch {
    destination: SocketAddr,
    bytes: Vec<u8>,
    segment: usize,
    count: usize,
}

impl SendBatch {
    /// An empty batch for a destination.
    #[must_use]
    pub fn new(destination: SocketAddr) -> Self {
        Self { destination, bytes: Vec::with_capacity(MOST + RECEIVE), segment: 0, count: 0 }
    }

    /// The destination.
    #[must_use]
    pub fn destination(&self) -> SocketAddr {
        self.destination
    }

    /// Sends the held datagrams and continues with another destination. Returns as [`flush`](Self::flush).
    pub fn redirect(&mut self, destination: SocketAddr, socket: &UdpSocket) -> Lost {
        let lost = self.flush(socket);
        self.destination = destination;
        lost
    }

    /// Adds the datagram that `write` appends to the buffer (it must not change earlier bytes), and sends
    /// every
    /// complete batch. Returns as [`flush`](Self::flush).
    pub fn add(&mut self, socket: &UdpSocket, write: impl FnOnce(&mut Vec<u8>)) -> Lost {
        let begin = self.bytes.len();
        write(&mut self.bytes);
        let length = self.bytes.len() - begin;
        if length == 0 {
            return Lost::default();
        }
        let mut lost = Lost::default();
        if self.count > 0 && length > self.segment {
            lost = self.send(socket, begin);
        }
        self.segment = if self.count == 0 { length } else { self.segment };
        self.count += 1;
        let most = socket.state.max_gso_segments();
        if length < self.segment || self.count >= most || self.bytes.len() + self.segment > MOST {
            lost += self.flush(socket);
        }
        lost
    }

    /// Sends everything held.
    pub fn flush(&mut self, socket: &UdpSocket) -> Lost {
        if self.count == 0 {
            return Lost::default();
        }
        self.send(socket, self.bytes.len())
    }

    /// Sends the datagrams before byte `end` and keeps the rest as the start of the next batch.
    fn send(&mut self, socket: &UdpSocket, end: usize) -> Lost {
        let lost = self.try_send(socket, end);
        self.bytes.copy_within(end.., 0);
        self.bytes.truncate(self.bytes.len() - end);
        (self.segment, self.count) = (0, 0);
        lost
    }

    fn try_send(&self, socket: &UdpSocket, end: usize) -> Lost {
        let bytes = &self.bytes[..end];
        if socket.state.max_gso_segments() >= self.count {
            match socket.send_now(self.destination, bytes, self.segment) {
                Ok(()) => return Lost::default(),
                // `send` has waited already; another wait per datagram would delay all links.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Lost { refused: self.count as u64, ..Lost::default() };
                }
                Err(_) => {}
            }
        }
        // Interfaces without segmentation refuse the whole batch; single datagrams succeed or fail one by
        // one.
        let mut lost = Lost::default();
        for datagram in bytes.chunks(self.segment) {
            match socket.send_now(self.destination, datagram, datagram.len()) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => lost.oversize += 1,
                Err(_) => lost.refused += 1,
            }
        }
        lost
    }
}

/// Datagrams that could not be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Larger than the MTU of the path.
    pub oversize: u64,
    /// Refused for another reason, for example no route, a full buffer or a firewall.
    pub refused: u64,
}

impl core::ops::AddAssign for Lost {
    fn add_assign(&mut self, other: Self) {
        self.oversize += other.oversize;
        self.refused += other.refused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends datagrams of these lengths and returns those that arrive, first byte and length.
    fn through(lengths: &[usize]) -> (Vec<(u8, usize)>, Lost) {
        let [here, there] = [(); 2].map(|()| UdpSocket::bind(([127, 0, 0, 1], 0).into()).expect("a port"));
        let to = there.local_addr().expect("bound");
        let (mut batch, mut lost) = (SendBatch::new(to), Lost::default());
        for (number, length) in lengths.iter().enumerate() {
            lost += batch.add(&here, |bytes| bytes.resize(bytes.len() + length, number as u8));
        }
        lost += batch.flush(&here);
        let (mut room, mut arrived) = (ReceiveBatch::default(), Vec::new());
        let from = here.local_addr().expect("bound");
        let wanted = lengths.iter().filter(|length| **length > 0 && **length < 65_508).count();
        while arrived.len() < wanted {
            let mut each = |sender, datagram: &mut [u8]| {
                assert_eq!(sender, from);
                assert!(datagram.iter().all(|byte| *byte == datagram[0]));
                arrived.push((datagram[0], datagram.len()));
            };
            there.receive(&mut room, &mut each).expect("the loopback interface works");
        }
        (arrived, lost)
    }

    #[test]
    fn datagrams_of_any_sizes_arrive_in_order() {
        let lengths = [1000, 1000, 1000, 400, 1000, 1200, 1200, 30, 40, 0, 1200, 9000, 9000, 1];
        let (arrived, lost) = through(&lengths);
        let sent: Vec<(u8, usize)> =
            lengths.iter().enumerate().map(|(i, l)| (i as u8, *l)).filter(|(_, l)| *l > 0).collect();
        assert_eq!((arrived, lost), (sent, Lost::default()));
    }

    #[test]
    fn more_datagrams_than_fit_one_system_call_arrive_in_order() {
        let (arrived, _) = through(&[1400; 200]);
        assert!(arrived.iter().enumerate().all(|(i, got)| *got == (i as u8, 1400)));
    }

    #[test]
    fn a_datagram_above_the_mtu_is_counted_and_the_others_are_sent() {
        let (arrived, lost) = through(&[100, 65_535, 100]);
        assert_eq!(arrived, [(0, 100), (2, 100)]);
        assert_eq!(lost, Lost { oversize: 1, refused: 0 });
    }
}
