//! UDP with many datagrams in one system call: UDP_SEGMENT when sending, UDP_GRO and recvmmsg when receiving.
//! The system calls are quinn-udp's. Datagrams are not fragmented unless the socket's owner wants it.

use crate::fd;
use core::time::Duration;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Requested kernel buffers: 8 MB are 30 ms at 2 Gbit/s.
const KERNEL_BUFFER: usize = 8 << 20;
/// Largest payload of one system call.
pub const MOST_BYTES: usize = 65_000;
/// One receive buffer.
const RECEIVE: usize = 65_536;
/// Maximum wait for room in a full send buffer.
const PATIENCE: Duration = Duration::from_millis(2);

/// A UDP socket that does not block; `S` owns it.
#[derive(Debug)]
pub struct UdpSocket<S = std::net::UdpSocket> {
    socket: S,
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
        Self::new(socket)
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl<S: AsFd> UdpSocket<S> {
    /// Takes a socket, whose kernel buffers stay as they are.
    ///
    /// # Errors
    /// The system's.
    pub fn new(socket: S) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self { socket, state })
    }

    /// The socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Sends datagrams that are longer than the MTU in fragments from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn fragment(&self) -> io::Result<()> {
        fd::fragment_datagrams(self.socket.as_fd())
    }

    /// Sends and receives only on the interface with this index from now on. A second call needs CAP_NET_RAW.
    ///
    /// # Errors
    /// The system's.
    pub fn bind_to_interface(&self, index: u32) -> io::Result<()> {
        fd::bind_to_interface(self.socket.as_fd(), index)
    }

    /// Fills the batch with waiting datagrams, up to its room, in place of what it held.
    ///
    /// # Errors
    /// The system's: `WouldBlock` when none is waiting. The batch is empty then.
    pub fn fill(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        batch.messages.clear();
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices = batch.buffers.chunks_exact_mut(RECEIVE).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; ReceiveBatch::BUFFERS] =
            core::array::from_fn(|_| slices.next().expect("the batch has so many buffers"));
        let count = self.state.recv(UdpSockRef::from(&self.socket), &mut slices, &mut metas)?;
        batch.messages.extend(metas[..count].iter().enumerate().map(|(at, meta)| Message {
            from: meta.addr,
            begin: at * RECEIVE,
            length: meta.len,
            each: meta.stride,
            ecn: meta.ecn.map_or(0, |ecn| ecn as u8),
        }));
        Ok(())
    }

    /// As [`fill`](Self::fill), and calls `each` with every datagram and its sender. Returns their number; zero when none is waiting.
    ///
    /// # Errors
    /// The system's error. An ICMP error caused by an earlier datagram is ignored.
    pub fn receive(
        &self,
        batch: &mut ReceiveBatch,
        each: &mut impl FnMut(SocketAddr, &mut [u8]),
    ) -> io::Result<usize> {
        match self.fill(batch) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(0),
            Err(error) => return Err(error),
        }
        let mut count = 0;
        for message in &batch.messages {
            for datagram in message.datagrams() {
                each(message.from, &mut batch.buffers[datagram]);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Most datagrams that [`try_send`](Self::try_send) takes at once.
    pub fn most(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends datagrams without waiting: all have `each` bytes, but the last may have fewer. They have [`MOST_BYTES`] together at most.
    /// `ecn` is their codepoint (RFC 3168 §5).
    ///
    /// # Errors
    /// The system's. Datagrams longer than the MTU, and interfaces without segmentation, are refused when there are several.
    pub fn try_send(&self, destination: SocketAddr, contents: &[u8], each: usize, ecn: u8) -> io::Result<()> {
        let segment_size = (each < contents.len()).then_some(each);
        let ecn = EcnCodepoint::from_bits(ecn);
        let transmit = Transmit { destination, ecn, contents, segment_size, src_ip: None };
        self.state.try_send(UdpSockRef::from(&self.socket), &transmit)
    }

    /// Sends one datagram. Waits a moment for room in the kernel's buffer.
    ///
    /// # Errors
    /// The system's.
    pub fn send(&self, destination: SocketAddr, datagram: &[u8]) -> io::Result<()> {
        self.send_patiently(destination, datagram, datagram.len())
    }

    fn send_patiently(&self, destination: SocketAddr, contents: &[u8], each: usize) -> io::Result<()> {
        match self.try_send(destination, contents, each, 0) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = fd::wait_writable(self.socket.as_fd(), PATIENCE);
                self.try_send(destination, contents, each, 0)
            }
            other => other,
        }
    }
}

impl<S: AsFd> AsFd for UdpSocket<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<S: AsRawFd> AsRawFd for UdpSocket<S> {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// What one call of the system gave at once: one datagram, or several of the same length, the last perhaps shorter.
#[derive(Clone, Copy, Debug)]
struct Message {
    from: SocketAddr,
    begin: usize,
    length: usize,
    each: usize,
    ecn: u8,
}

impl Message {
    /// Where each datagram is in the batch's buffers.
    fn datagrams(self) -> impl Iterator<Item = Range<usize>> + Clone {
        let end = self.begin + self.length;
        // A datagram without payload has a stride of zero.
        let count = self.length.div_ceil(self.each.max(1)).max(1);
        (0..count).map(move |index| {
            let begin = self.begin + index * self.each;
            begin..end.min(begin + self.each)
        })
    }
}

/// Buffers to receive into, and what was received.
#[derive(Debug)]
pub struct ReceiveBatch {
    buffers: Vec<u8>,
    messages: Vec<Message>,
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        let messages = Vec::with_capacity(Self::BUFFERS);
        Self { buffers: vec![0; Self::BUFFERS * RECEIVE], messages }
    }
}

impl ReceiveBatch {
    /// System-level messages of one call; each may hold many datagrams.
    const BUFFERS: usize = 8;

    /// Runs of datagrams from one sender, in the order of their arrival, each with its ECN codepoint.
    pub fn runs(&self) -> impl Iterator<Item = (SocketAddr, impl Iterator<Item = (&[u8], u8)> + Clone)> {
        self.messages.chunk_by(|a, b| a.from == b.from).map(|run| {
            let datagrams =
                run.iter().flat_map(|message| message.datagrams().map(|range| (range, message.ecn)));
            (run[0].from, datagrams.map(|(range, ecn)| (&self.buffers[range], ecn)))
        })
    }
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
        Self { destination, bytes: Vec::with_capacity(MOST_BYTES + RECEIVE), segment: 0, count: 0 }
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
        let most = socket.most();
        if length < self.segment || self.count >= most || self.bytes.len() + self.segment > MOST_BYTES {
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
        if socket.most() >= self.count {
            match socket.send_patiently(self.destination, bytes, self.segment) {
                Ok(()) => return Lost::default(),
                // This has waited already; another wait per datagram would delay all links.
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
            match socket.send_patiently(self.destination, datagram, datagram.len()) {
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
    fn runs_are_the_datagrams_of_one_sender_those_without_payload_included() {
        let [here, other, there] =
            [(); 3].map(|()| UdpSocket::bind(([127, 0, 0, 1], 0).into()).expect("a port"));
        let to = there.local_addr().expect("bound");
        for (socket, contents, each) in [
            (&here, &[1; 2500][..], 1000),
            (&here, &[], 0),
            (&here, &[2], 1),
            (&other, &[], 0),
            (&here, &[3; 9], 9),
        ] {
            socket.try_send(to, contents, each, 0).expect("the loopback interface works");
        }
        let mut batch = ReceiveBatch::default();
        there.fill(&mut batch).expect("all have arrived");
        let runs: Vec<(SocketAddr, Vec<usize>)> = batch
            .runs()
            .map(|(from, datagrams)| (from, datagrams.map(|(it, _)| it.len()).collect()))
            .collect();
        let [here, other] = [here, other].map(|socket| socket.local_addr().expect("bound"));
        assert_eq!(runs, [(here, vec![1000, 1000, 500, 0, 1]), (other, vec![0]), (here, vec![9])]);
        let empty = there.fill(&mut batch).expect_err("nothing waits");
        assert_eq!((empty.kind(), batch.runs().count()), (io::ErrorKind::WouldBlock, 0));
    }

    #[test]
    fn the_codepoints_of_both_families_arrive() {
        let addresses: [SocketAddr; 2] =
            ["127.0.0.1:0", "[::1]:0"].map(|address| address.parse().expect("valid"));
        for address in addresses {
            let [here, there] = [(); 2].map(|()| UdpSocket::bind(address).expect("a port"));
            let to = there.local_addr().expect("bound");
            for ecn in 0..4 {
                here.try_send(to, &[ecn; 20], 10, ecn).expect("the loopback interface works");
            }
            let (mut batch, mut arrived) = (ReceiveBatch::default(), Vec::new());
            while arrived.len() < 8 {
                there.fill(&mut batch).expect("all have arrived");
                let all = batch.runs().flat_map(|(_, datagrams)| datagrams);
                arrived.extend(all.map(|(datagram, ecn)| (datagram[0], ecn)));
            }
            assert_eq!(arrived, [0, 0, 1, 1, 2, 2, 3, 3].map(|ecn| (ecn, ecn)), "{address}");
        }
    }

    #[test]
    fn a_datagram_above_the_mtu_is_counted_and_the_others_are_sent() {
        let (arrived, lost) = through(&[100, 65_535, 100]);
        assert_eq!(arrived, [(0, 100), (2, 100)]);
        assert_eq!(lost, Lost { oversize: 1, refused: 0 });
    }
}
