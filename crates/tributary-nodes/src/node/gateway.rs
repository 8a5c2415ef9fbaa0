//! The gateway's runtime: packets from the TUN device become coded messages to the access points; packets of
//! the device go into the TUN device.

use super::admitted::{Allowed, LoopGuard};
use super::intake::Intake;
use super::peer::Peer;
use super::routes;
use super::tun::TunEnd;
use super::{Role, Work, clock};
use crate::config::{GatewayConfig, Mode};
use crate::error::NodeError;
use crate::hop::{Hop, ReplayWindow};
use crate::keys::Neighbour;
use crate::packet::flow;
use crate::status::{InnerStatus, Status};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;
use tributary_cotag::{GatewayNode, HopMessage, Offer};
use tributary_tun::UdpSocket;
use tributary_types::Instant;

/// Number of device starts whose packet numbers are remembered.
const STARTS: usize = 4;
const TUN: u64 = 1;
const SOCKET: u64 = 2;

impl Role for GatewayConfig {
    fn own_key(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    fn neighbours(&self) -> Vec<Neighbour<'_>> {
        let points = self.access_point.iter();
        points.map(|point| Neighbour::known_as("access_point", &point.name, &point.key)).collect()
    }

    fn work(&self) -> Result<Box<dyn Work>, NodeError> {
        Ok(Box::new(Gateway::new(self)?))
    }
}

struct Gateway {
    began: Instant,
    tun: TunEnd,
    socket: Rc<UdpSocket>,
    intake: Intake,
    peers: Vec<Peer>,
    node: GatewayNode,
    mtu: usize,
    seen: VecDeque<(u32, ReplayWindow)>,
    allowed: Allowed,
    loops: LoopGuard,
}

/// Wall clock in units of 4 ms: increases with each start, for 97 days, unless the clock is set back. The
/// nodes recover from both, see `docs/models/cotag.md`.
fn epoch() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() >> 2) as u32
}

/// What is routed to the device may come from it, unless the settings say otherwise; but the gateway's own addresses
/// are its own.
fn allowed(config: &GatewayConfig) -> Allowed {
    let routed = || routes::networks(&config.inner);
    let networks = Some(config.allowed.clone()).filter(|networks| !networks.is_empty());
    let own = config.inner.address.iter().map(|prefix| prefix.address).collect();
    Allowed::new(networks.unwrap_or_else(routed), own)
}

impl Gateway {
    fn new(config: &GatewayConfig) -> Result<Self, NodeError> {
        let keys = config.hop_keys()?;
        let bound = UdpSocket::bind(config.listen);
        let socket = Rc::new(bound.map_err(|source| NodeError::Bind { address: config.listen, source })?);
        let mut peers = Vec::new();
        for ((slot, point), key) in (0..).zip(&config.access_point).zip(keys) {
            let hop = Hop::responder(key, slot);
            peers.push(Peer::new(&point.name, hop, false, socket.clone(), None));
        }
        let mtu = config.coding.inner_mtu();
        let machine = config.coding.machine();
        let node = GatewayNode::new(machine, epoch(), peers.len(), config.coding.link_mtu);
        Ok(Self {
            began: clock(),
            tun: TunEnd::create(&config.inner, mtu)?,
            socket,
            intake: Intake::new(clock()),
            peers,
            node: if config.coding.mode == Mode::Off { node.without_coding() } else { node },
            mtu,
            seen: VecDeque::new(),
            allowed: allowed(config),
            loops: LoopGuard::default(),
        })
    }

    /// Receives messages of the access points. Returns whether the socket has been read empty.
    fn receive(&mut self, now: Instant) -> bool {
        let (node, tun, seen) = (&mut self.node, &mut self.tun, &mut self.seen);
        let allowed = &mut self.allowed;
        let mut each = |at: usize, peers: &mut [Peer], message: HopMessage<'_>| match message {
            HopMessage::Numbered(start, number, packet) => {
                if !is_first(seen, start, number) {
                    tun.status.duplicate += 1;
                } else if allowed.permits(now, packet) {
                    tun.write(packet);
                } else {
                    tun.status.forbidden += 1;
                }
            }
            _ if node.handle_message(now, &message) => {}
            _ => peers[at].count_unknown(),
        };
        let is_empty = self.intake.receive(now, &mut self.peers, &mut each);
        self.tun.flush();
        is_empty
    }

    fn read_inside(&mut self, now: Instant) -> bool {
        let (node, peers, loops) = (&mut self.node, &self.peers, &mut self.loops);
        self.tun.read(&mut |status: &mut InnerStatus, packet| {
            if loops.is_own(now, packet, peers.iter().filter_map(Peer::remote)) {
                status.looped += 1;
                return;
            }
            status.full += u64::from(!node.handle_packet(now, flow(packet), packet, peers));
        })
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
        vec![self.tun.as_fd(), self.socket.as_fd()]
    }

    fn turn(&mut self, now: Instant, ready: &mut u64) {
        if *ready & SOCKET != 0 && self.receive(now) {
            *ready &= !SOCKET;
        }
        self.node.handle_timeout(now, &self.peers);
        if *ready & TUN != 0 && self.read_inside(now) {
            *ready &= !TUN;
        }
        self.node.transmit(now, &mut self.peers);
        for peer in &mut self.peers {
            // Data from the device goes into the TUN device at once, so the room is unlimited.
            peer.tick(now, Offer::UNLIMITED);
            peer.flush();
        }
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        let peers = self.peers.iter().map(|peer| peer.poll_timeout(now)).min().unwrap_or(now);
        self.node.poll_timeout().map_or(peers, |at| at.min(peers))
    }

    fn forget(&mut self, names: &[String]) {
        self.peers.iter_mut().filter(|peer| names.contains(&peer.name)).for_each(Peer::close);
    }

    fn status(&self, now: Instant) -> Status {
        Status {
            role: "gateway",
            uptime: now.saturating_since(self.began).as_secs_f64(),
            mtu: self.mtu,
            links: self.peers.iter().map(|peer| peer.status(now)).collect(),
            coding: self.node.counters(),
            inner: InnerStatus { returned: self.node.returns(), ..self.tun.status },
        }
    }
}
