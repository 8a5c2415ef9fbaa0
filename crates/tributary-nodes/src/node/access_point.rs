//! The access point's runtime: sockets towards the gateway and the device, and the node between them.

use super::admitted::Allowed;
use super::intake::Intake;
use super::peer::Peer;
use super::{Role, Work, clock, stamp_base};
use crate::config::AccessPointConfig;
use crate::error::NodeError;
use crate::hop::Hop;
use crate::keys::Neighbour;
use crate::status::{InnerStatus, Status};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;
use tributary_cotag::{AccessPointNode, HopEnd, HopMessage, Offer};
use tributary_net::Key;
use tributary_tun::UdpSocket;
use tributary_types::Instant;

const UP: u64 = 1;
const DOWN: u64 = 2;

impl Role for AccessPointConfig {
    fn own_key(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    fn neighbours(&self) -> Vec<Neighbour<'_>> {
        vec![
            Neighbour::reached_as("gateway_key", "gateway", &self.gateway_key),
            Neighbour::known_as("device_key", "device", &self.device_key),
        ]
    }

    fn work(&self) -> Result<Box<dyn Work>, NodeError> {
        Ok(Box::new(AccessPoint::new(self)?))
    }
}

struct AccessPoint {
    began: Instant,
    sockets: [Rc<UdpSocket>; 2],
    intake: Intake,
    /// One peer each, as slices, because other nodes have several.
    up: [Peer; 1],
    down: [Peer; 1],
    node: AccessPointNode,
    /// The session of the gateway's hop for which the node's state is valid.
    session: u64,
    mtu: usize,
    /// Sources of the device's packets, if this node checks them, and how many packets had others.
    allowed: Option<Allowed>,
    forbidden: u64,
}

impl AccessPoint {
    fn new(config: &AccessPointConfig) -> Result<Self, NodeError> {
        let keys = config.hop_keys()?;
        let [gateway_key, device_key] =
            <[Key; 2]>::try_from(keys).expect("an access point has two neighbours");
        let bind = |address: SocketAddr| {
            UdpSocket::bind(address).map(Rc::new).map_err(|source| NodeError::Bind { address, source })
        };
        let any = SocketAddr::new(if config.gateway.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 0);
        let sockets = [bind(any)?, bind(config.listen)?];
        let (gateway, device) = (Hop::initiator(gateway_key, stamp_base()), Hop::responder(device_key, 0));
        let up = Peer::new("gateway", gateway, false, sockets[0].clone(), Some(config.gateway));
        let down = Peer::new("device", device, true, sockets[1].clone(), None);
        let machine = config.coding.machine();
        Ok(Self {
            began: clock(),
            sockets,
            intake: Intake::new(clock()),
            up: [up],
            down: [down],
            node: AccessPointNode::new(machine, config.number, config.coding.link_mtu),
            session: 0,
            mtu: config.coding.inner_mtu(),
            allowed: Some(config.allowed.clone())
                .filter(|networks| !networks.is_empty())
                .map(|networks| Allowed::new(networks, Vec::new())),
            forbidden: 0,
        })
    }

    fn receive_up(&mut self, now: Instant) -> bool {
        let node = &mut self.node;
        let mut each = |_: usize, peers: &mut [Peer], message: HopMessage<'_>| {
            if !node.handle_message(now, &message) {
                peers[0].count_unknown();
            }
        };
        let is_empty = self.intake.receive(now, &mut self.up, &mut each);
        // After a restart of the gateway, held packets are useless.
        if core::mem::replace(&mut self.session, self.up[0].hop.sessions()) != self.session {
            self.node.restart();
        }
        is_empty
    }

    fn receive_down(&mut self, now: Instant) -> bool {
        let (node, up) = (&mut self.node, &mut self.up[0]);
        let (allowed, forbidden) = (&mut self.allowed, &mut self.forbidden);
        let mut each = |_: usize, peers: &mut [Peer], message: HopMessage<'_>| {
            match message {
                HopMessage::Coded(report) => node.handle_report(report),
                HopMessage::Numbered(_, _, packet) => {
                    if allowed.as_mut().is_some_and(|allowed| !allowed.permits(now, packet)) {
                        *forbidden += 1;
                        return;
                    }
                }
                _ => return peers[0].count_unknown(),
            }
            up.send(now, &message, false);
        };
        self.intake.receive(now, &mut self.down, &mut each)
    }
}

impl Work for AccessPoint {
    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        self.sockets.iter().map(|socket| socket.as_fd()).collect()
    }

    fn turn(&mut self, now: Instant, ready: &mut u64) {
        if *ready & UP != 0 && self.receive_up(now) {
            *ready &= !UP;
        }
        if *ready & DOWN != 0 && self.receive_down(now) {
            *ready &= !DOWN;
        }
        let ([up], [down]) = (&mut self.up, &mut self.down);
        self.node.handle_timeout(now, down);
        if *ready & DOWN == 0 {
            // Every answer of the device has been read.
            self.node.give_back(now, up, down);
        }
        self.node.transmit(now, down);
        up.tick(now, self.node.offer(down));
        // Data from the device is forwarded at once, so the room is unlimited.
        down.tick(now, Offer::UNLIMITED);
        up.flush();
        down.flush();
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        let peers = self.up[0].poll_timeout(now).min(self.down[0].poll_timeout(now));
        self.node.poll_timeout().map_or(peers, |at| at.min(peers))
    }

    fn status(&self, now: Instant) -> Status {
        let passed = self.node.passed();
        Status {
            role: "access-point",
            uptime: now.saturating_since(self.began).as_secs_f64(),
            mtu: self.mtu,
            links: vec![self.up[0].status(now), self.down[0].status(now)],
            coding: self.node.counters(),
            inner: InnerStatus {
                packets_in: passed.packets_in,
                bytes_in: passed.bytes_in,
                packets_out: passed.packets_out,
                bytes_out: passed.bytes_out,
                full: passed.full,
                returned: passed.returned,
                forbidden: self.forbidden,
                ..InnerStatus::default()
            },
        }
    }
}
