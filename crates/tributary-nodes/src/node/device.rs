//! The device's runtime: messages of all access points go through the node into the TUN device, packets of the TUN device to
//! the gateway.

use super::admitted::LoopGuard;
use super::intake::Intake;
use super::outer::Outer;
use super::peer::Peer;
use super::tun::TunEnd;
use super::{Role, Work, clock, stamp_base};
use crate::config::DeviceConfig;
use crate::error::NodeError;
use crate::hop::Hop;
use crate::keys::Neighbour;
use crate::packet::{flow, is_bare_acknowledgement};
use crate::status::Status;
use aws_lc_rs::rand::SecureRandom;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;
use tributary_cotag::{DeviceNode, HopMessage, Offer};
use tributary_net::KeyError;
use tributary_net::privileges::Needs;
use tributary_tun::{Network, UdpSocket};
use tributary_types::Instant;

const TUN: u64 = 1;
/// An action that may fail.
const READING: &str = "reading the network's configuration";

impl Role for DeviceConfig {
    fn own_key(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    fn neighbours(&self) -> Vec<Neighbour<'_>> {
        let points = self.access_point.iter();
        points.map(|point| Neighbour::reached_as("access_point", &point.name, &point.key)).collect()
    }

    fn work(&self) -> Result<Box<dyn Work>, NodeError> {
        Ok(Box::new(Device::new(self)?))
    }
}

struct Device {
    began: Instant,
    tun: TunEnd,
    sockets: Vec<Rc<UdpSocket>>,
    intake: Intake,
    peers: Vec<Peer>,
    outer: Outer,
    loops: LoopGuard,
    node: DeviceNode,
    mtu: usize,
}

impl Device {
    fn new(config: &DeviceConfig) -> Result<Self, NodeError> {
        let (mut sockets, mut peers) = (Vec::new(), Vec::new());
        let mut outer = Outer::new(&config.inner);
        let network = Network::read();
        let network = network.map_err(|source| NodeError::System { doing: READING, source })?;
        for (point, key) in config.access_point.iter().zip(config.hop_keys()?) {
            let any = if point.address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let local = SocketAddr::new(point.local.unwrap_or(any), 0);
            let bound = UdpSocket::bind(local).map_err(|source| NodeError::Bind { address: local, source });
            let socket = Rc::new(bound?);
            let peer = (peers.len(), socket.clone());
            outer.guard(&network, peer, (point.address, point.local))?;
            let hop = Hop::initiator(key, stamp_base());
            peers.push(Peer::new(&point.name, hop, false, socket.clone(), Some(point.address)));
            sockets.push(socket);
        }
        outer.check_filters(&network)?;
        let mut start = [0; 4];
        let random = aws_lc_rs::rand::SystemRandom::new();
        random.fill(&mut start).map_err(|_| KeyError::NoEntropy)?;
        let mtu = config.coding.inner_mtu();
        let machine = config.coding.machine();
        Ok(Self {
            began: clock(),
            tun: TunEnd::create(&config.inner, mtu)?,
            intake: Intake::new(clock()),
            node: DeviceNode::new(machine, u32::from_be_bytes(start), peers.len()),
            sockets,
            peers,
            outer,
            loops: LoopGuard::default(),
            mtu,
        })
    }

    /// Receives messages of access point `at`. Returns whether its socket has been read empty.
    fn receive(&mut self, now: Instant, at: usize) -> bool {
        let (node, tun) = (&mut self.node, &mut self.tun);
        let mut each = |_: usize, peers: &mut [Peer], message: HopMessage<'_>| match message {
            HopMessage::Coded(packet) => node.handle_packet(now, at, packet),
            HopMessage::Plain(packet) => tun.write(packet),
            _ => peers[0].count_unknown(),
        };
        self.intake.receive(now, &mut self.peers[at..=at], &mut each)
    }

    fn deliver(&mut self) {
        while let Some(packet) = self.node.poll_delivery() {
            self.tun.write(&packet);
        }
        self.tun.flush();
    }

    fn read_inside(&mut self, now: Instant) -> bool {
        let (node, peers, loops) = (&mut self.node, &mut self.peers, &mut self.loops);
        self.tun.read(&mut |status, packet| {
            if loops.is_own(now, packet, peers.iter().filter_map(Peer::remote)) {
                status.looped += 1;
                return;
            }
            node.send_packet(now, (flow(packet), is_bare_acknowledgement(packet)), packet, peers);
        })
    }
}

impl Work for Device {
    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let sockets = self.sockets.iter().map(|socket| socket.as_fd());
        core::iter::once(self.tun.as_fd()).chain(sockets).collect()
    }

    fn turn(&mut self, now: Instant, ready: &mut u64) {
        for at in 0..self.peers.len() {
            let bit = TUN << (at + 1);
            if *ready & bit != 0 && self.receive(now, at) {
                *ready &= !bit;
            }
        }
        self.node.handle_timeout(now);
        self.deliver();
        if *ready & TUN != 0 && self.read_inside(now) {
            *ready &= !TUN;
        }
        self.node.transmit(now, &mut self.peers);
        self.outer.follow(now, |at| self.peers[at].is_settled(now));
        for peer in &mut self.peers {
            peer.tick(now, Offer::UNLIMITED);
            peer.flush();
        }
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        let peers = self.peers.iter().map(|peer| peer.poll_timeout(now)).min().unwrap_or(now);
        let follow = self.outer.poll_timeout(|at| self.peers[at].is_settled(now));
        self.node.poll_timeout().into_iter().chain(follow).fold(peers, Instant::min)
    }

    fn needs(&self) -> Needs {
        Needs { raw: self.outer.is_needed(), ..Needs::default() }
    }

    fn forget(&mut self, names: &[String]) {
        self.peers.iter_mut().filter(|peer| names.contains(&peer.name)).for_each(Peer::close);
    }

    fn status(&self, now: Instant) -> Status {
        Status {
            role: "device",
            uptime: now.saturating_since(self.began).as_secs_f64(),
            mtu: self.mtu,
            links: self.peers.iter().map(|peer| peer.status(now)).collect(),
            coding: self.node.counters(),
            inner: self.tun.status,
        }
    }
}
