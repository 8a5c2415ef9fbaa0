//! Ends of a stream of UDP datagrams with a window, as a transport over UDP has one: the receiver says which was the last, and the
//! sender has a limited number on the way. Both use segmentation and receive offload, as QUIC libraries do. Lost datagrams are not sent
//! again.

use super::{EndReply, EndResult, EndRole, EndTask, Meter, Outcome, reply};
use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Instant;
use tributary_tun::fd::Epoll;
use tributary_tun::{ReceiveBatch, SendBatch, UdpSocket};

/// Bytes of a datagram: what fits into Ethernet's packets with the headers of another tunnel.
pub(crate) const LENGTH: usize = 1400;
/// Datagrams on the way.
const WINDOW: u64 = 512;
/// Datagrams given to the socket between two looks for answers.
const TURN: u64 = 64;
/// After this time without an answer, everything on the way counts as lost.
const LOST: Duration = Duration::from_millis(20);
/// Time for the first datagram to arrive, and for the last one.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of the datagram that ends a transfer, and how often it is sent.
const END: u64 = u64::MAX;
const ENDS: u32 = 20;

/// Runs one end. With `back` the end that listens sends to the one that connects.
pub(super) fn run(task: &EndTask, back: bool) -> Outcome<EndResult> {
    let (local, peer) = match &task.role {
        EndRole::Sink(addresses) => (*addresses.first().ok_or("a sink needs an address")?, None),
        EndRole::Source(paths) => paths.first().map(|(local, to)| (*local, Some(*to))).ok_or("no path")?,
    };
    let end = End::bind(local, task)?;
    if peer.is_none() {
        reply(&EndReply::Ready(vec![end.socket.local_addr()?]));
    }
    if peer.is_none() == back { end.send(peer) } else { end.receive(peer) }
}

struct End {
    socket: UdpSocket,
    poller: Epoll,
    room: ReceiveBatch,
    meter: Meter,
}

impl End {
    fn bind(local: Ipv4Addr, task: &EndTask) -> Outcome<Self> {
        let (socket, poller) = (UdpSocket::bind((local, 0).into())?, Epoll::new()?);
        poller.watch(socket.as_fd(), 0)?;
        Ok(Self { socket, poller, room: ReceiveBatch::default(), meter: Meter::new(task.until) })
    }

    /// Waits at most this long. Whether something can be received.
    fn readable(&mut self, most: Duration) -> bool {
        self.poller.wait(Some(most)).count() > 0
    }

    /// Takes what has arrived: the sender, and the largest number of each length that is at least eight bytes.
    fn take(&mut self, each: &mut impl FnMut(SocketAddr, u64, usize)) -> std::io::Result<()> {
        let mut numbered = |from, datagram: &mut [u8]| {
            if let Some(number) = datagram.first_chunk() {
                each(from, u64::from_be_bytes(*number), datagram.len());
            }
        };
        while self.socket.receive(&mut self.room, &mut numbered)? > 0 {}
        Ok(())
    }

    fn send(mut self, peer: Option<SocketAddr>) -> Outcome<EndResult> {
        let mut peer = peer;
        if peer.is_none() && self.readable(PATIENCE) {
            self.take(&mut |from, _, _| peer = Some(from))?;
        }
        let peer = peer.ok_or("nobody asked for datagrams")?;
        let (mut batch, mut next, mut arrived) = (SendBatch::new(peer), 0_u64, 0_u64);
        self.meter.begin();
        while !self.meter.is_over() {
            for _ in 0..TURN.min((arrived + WINDOW).saturating_sub(next)) {
                batch.add(&self.socket, |bytes| {
                    bytes.extend_from_slice(&next.to_be_bytes());
                    bytes.resize(bytes.len() + LENGTH - 8, 1);
                });
                next += 1;
                self.meter.add(LENGTH);
            }
            batch.flush(&self.socket);
            if next >= arrived + WINDOW && !self.readable(LOST) {
                arrived = next;
            }
            self.take(&mut |_, number, _| arrived = arrived.max(number.min(next)))?;
        }
        let result = self.meter.finish(1);
        for _ in 0..ENDS {
            self.socket.send(peer, &END.to_be_bytes())?;
            std::thread::sleep(LOST / 2);
        }
        Ok(result)
    }

    fn receive(mut self, peer: Option<SocketAddr>) -> Outcome<EndResult> {
        let (mut peer, mut next, mut is_over) = (peer, 0_u64, false);
        let began = Instant::now();
        while !is_over {
            if let Some(peer) = peer {
                self.socket.send(peer, &next.to_be_bytes())?;
            }
            let wait = if next == 0 { LOST } else { PATIENCE };
            if !self.readable(wait) && (next > 0 || began.elapsed() > PATIENCE) {
                return Err("no datagram has arrived for too long".into());
            }
            let mut bytes = 0;
            self.take(&mut |from, number, length| {
                peer = Some(from);
                if number == END {
                    is_over = true;
                } else {
                    (next, bytes) = (next.max(number + 1), bytes + length);
                }
            })?;
            if bytes > 0 {
                self.meter.add(bytes);
            }
        }
        Ok(self.meter.finish(1))
    }
}
