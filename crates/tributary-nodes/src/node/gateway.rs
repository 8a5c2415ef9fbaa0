//! The gateway's runtime: packets from the TUN device become coded messages to the access points; packets of
//! the device go into the TUN device.

use super::inside::Inside;
use super::peer::{Peer, receive};
use super::{Running, Work, clock, key};
use crate::config::{GatewayConfig, Mode, Settings};
use crate::error::NodeError;
use crate::hop::{Hop, ReplayWindow};
use crate::inner::flow;
use crate::status::{InnerStatus, Status};
use bytes::Bytes;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::SystemTime;
use tributary_cotag as cotag;
use tributary_cotag::{FlowTable, HopMessage, Offer, PacketBuffer, in_time};
use tributary_tun::{ReceiveBatch, UdpSocket};
use tributary_types::Instant;

/// Limit of queued packets, as time at the links' measured rate, within bounds.
const QUEUE: Duration = Duration::from_millis(30);
const LEAST_QUEUE: usize = 256;
const MOST_QUEUE: usize = 4096;
/// Number of device starts whose packet numbers are remembered.
const STARTS: usize = 4;
const TUN: u64 = 1;
const SOCKET: u64 = 2;

impl GatewayConfig {
    /// Starts a gateway in this network namespace.
    ///
    /// # Errors
    /// [`NodeError`] names what is missing.
    pub fn start(&self) -> Result<Running, NodeError> {
        self.check()?;
        let config = self.clone();
        Running::start(self.metrics, move || Gateway::new(&config))
    }
}

struct Gateway {
    began: Instant,
    inside: Inside,
    socket: Rc<UdpSocket>,
    room: ReceiveBatch,
    peers: Vec<Peer>,
    machine: cotag::Gateway,
    is_coded: bool,
    link_mtu: u64,
    mtu: usize,
    /// Coded packets that access points gave back, each with the time until which the device waits for it.
    returned: VecDeque<(Instant, Bytes)>,
    /// How long the device waits for a packet.
    patience: Duration,
    /// Packets that are not coded, by access point, and the access point of each flow.
    plain: Vec<VecDeque<Bytes>>,
    buffer: PacketBuffer,
    flows: FlowTable,
    seen: VecDeque<(u32, ReplayWindow)>,
}

/// Wall clock in units of 4 ms: increases with each start, for 97 days, unless the clock is set back. The
/// nodes recover from both, see `docs/models/cotag.md`.
fn epoch() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() >> 2) as u32
}

impl Gateway {
    fn new(config: &GatewayConfig) -> Result<Self, NodeError> {
        let coefficients = tributary_net::Key::load(&config.key)?;
        let bound = UdpSocket::bind(config.listen);
        let socket = Rc::new(bound.map_err(|source| NodeError::Bind { address: config.listen, source })?);
        let mut peers = Vec::new();
        for point in &config.access_point {
            peers.push(Peer::new(&point.name, Hop::responder(key(&point.key)?), false, socket.clone(), None));
        }
        let mtu = config.coding.inner_mtu();
        Ok(Self {
            began: clock(),
            inside: Inside::create(&config.inner, mtu)?,
            socket,
            room: ReceiveBatch::default(),
            returned: VecDeque::new(),
            patience: Duration::from_millis(config.coding.patience_ms),
            plain: peers.iter().map(|_| VecDeque::new()).collect(),
            buffer: PacketBuffer::default(),
            flows: FlowTable::default(),
            peers,
            machine: cotag::Gateway::new(config.coding.machine(&coefficients), epoch()),
            is_coded: config.coding.mode != Mode::Off,
            link_mtu: config.coding.link_mtu as u64,
            mtu,
            seen: VecDeque::new(),
        })
    }

    /// Receives messages of the access points. Returns whether the socket has been read empty.
    fn receive(&mut self, now: Instant) -> bool {
        let (machine, inside, seen) = (&mut self.machine, &mut self.inside, &mut self.seen);
        let (returned, buffer, over) = (&mut self.returned, &mut self.buffer, now + self.patience);
        let mut each = |at: usize, peers: &mut [Peer], message: HopMessage<'_>| match message {
            HopMessage::Coded(report) => machine.handle_report(&Bytes::copy_from_slice(report)),
            HopMessage::Returned(packet) if returned.len() < MOST_QUEUE => {
                inside.status.returned += 1;
                returned.push_back((over, buffer.copy(packet)));
            }
            HopMessage::Numbered(start, number, packet) => {
                if is_first(seen, start, number) {
                    inside.write(packet);
                } else {
                    inside.status.duplicate += 1;
                }
            }
            _ => peers[at].count_unknown(),
        };
        let is_empty = receive(now, &mut self.room, &mut self.peers, &mut each);
        self.inside.flush();
        is_empty
    }

    /// Most packets that may wait.
    fn queue(&self) -> usize {
        let rate: u64 = self.peers.iter().map(|peer| peer.pace().rate()).sum();
        let packets = in_time(rate, QUEUE) / self.link_mtu;
        (packets as usize).clamp(LEAST_QUEUE, MOST_QUEUE)
    }

    fn read_inside(&mut self, now: Instant) -> bool {
        let limit = self.queue();
        let ups: Vec<usize> = (0..self.peers.len()).filter(|at| self.peers[*at].is_lively(now)).collect();
        let (machine, plain, is_coded) = (&mut self.machine, &mut self.plain, self.is_coded);
        let (flows, buffer, waiting) = (&mut self.flows, &mut self.buffer, self.returned.len());
        self.inside.read(&mut |status: &mut InnerStatus, packet| {
            let flow = flow(packet);
            if is_coded {
                if waiting + machine.waiting() < limit {
                    machine.handle_packet(now, flow, packet);
                } else {
                    status.full += 1;
                }
                return;
            }
            match flows.route(now, flow, &ups) {
                Some(up) if plain[up].len() < limit => plain[up].push_back(buffer.copy(packet)),
                _ => status.full += 1,
            }
        })
    }

    fn transmit(&mut self, now: Instant) {
        for (peer, plain) in self.peers.iter_mut().zip(&mut self.plain) {
            while peer.pace().space() >= self.link_mtu
                && let Some(packet) = plain.pop_front()
            {
                peer.send(now, &HopMessage::Plain(&packet), true);
            }
        }
        if !self.is_coded {
            return;
        }
        self.returned.retain(|(over, _)| now < *over);
        while let Some(flush) = self.machine.poll_flush() {
            self.peers.iter_mut().for_each(|peer| _ = peer.send(now, &HopMessage::Coded(&flush), true));
        }
        loop {
            let open = |peer: &Peer| peer.hop.is_established() && peer.pace().space() >= self.link_mtu;
            let ready = self.peers.iter_mut().filter(|peer| open(peer));
            let Some(best) = ready.max_by_key(|peer| peer.pace().ease()) else { return };
            // These are late, so they are sent before later packets.
            if let Some((_, bytes)) = self.returned.pop_front() {
                best.send(now, &HopMessage::Coded(&bytes), true);
                continue;
            }
            // The machine returns redundant packets last, and only if less than half of the access point's room
            // is in flight.
            let Some(bytes) = self.machine.poll_transmit(best.pace().is_spare()) else { return };
            best.send(now, &HopMessage::Coded(&bytes), true);
        }
    }
}

/// Whether this packet number of this start is new: it may already have arrived over another access point.
fn is_first(seen: &mut VecDeque<(u32, ReplayWindow)>, start: u32, number: u64) -> bool {
    if let Some((_, window)) = seen.iter_mut().find(|(known, _)| *known == start) {
        return window.accept(number);
    }
    if seen.len() == STARTS {
        seen.pop_front();
    }
    let mut window = ReplayWindow::new();
    let is_first = window.accept(number);
    seen.push_back((start, window));
    is_first
}

impl Work for Gateway {
    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.inside.as_fd(), self.socket.as_fd()]
    }

    fn turn(&mut self, now: Instant, ready: &mut u64) {
        if *ready & SOCKET != 0 && self.receive(now) {
            *ready &= !SOCKET;
        }
        let lively = self.peers.iter().filter(|peer| peer.is_lively(now));
        self.machine.expect_losses(lively.map(|peer| peer.pace().loss()));
        self.machine.handle_timeout(now);
        if *ready & TUN != 0 && self.read_inside(now) {
            *ready &= !TUN;
        }
        self.transmit(now);
        for peer in &mut self.peers {
            // Data from the device goes into the TUN device at once, so the room is unlimited.
            peer.tick(now, Offer::UNLIMITED);
            peer.flush();
        }
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        let peers = self.peers.iter().map(|peer| peer.poll_timeout(now)).min().unwrap_or(now);
        self.machine.poll_timeout().map_or(peers, |at| at.min(peers))
    }

    fn status(&self, now: Instant) -> Status {
        Status {
            role: "gateway",
            uptime: now.saturating_since(self.began).as_secs_f64(),
            mtu: self.mtu,
            links: self.peers.iter().map(|peer| peer.status(now)).collect(),
            coding: self.machine.counters(),
            inner: self.inside.status,
        }
    }
}
