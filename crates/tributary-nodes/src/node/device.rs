//! The device's runtime: coded messages of all access points become packets of the TUN device. Packets of
//! applications go to the gateway uncoded: small ones over every access point, others over one. Of two access
//! points that both send, one is enough for an acknowledgement, because the next acknowledgement replaces it.

use super::inside::Inside;
use super::peer::{Peer, receive};
use super::{Running, Work, clock, key};
use crate::config::{DeviceConfig, Settings};
use crate::error::NodeError;
use crate::hop::Hop;
use crate::inner::{flow, is_bare_acknowledgement};
use crate::status::Status;
use aws_lc_rs::rand::SecureRandom;
use core::time::Duration;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use tributary_cotag as cotag;
use tributary_cotag::{HopMessage, Offer, PacketBuffer};
use tributary_net::{Key, KeyError};
use tributary_tun::{ReceiveBatch, UdpSocket};
use tributary_types::Instant;

/// Packets up to this length are sent over every access point, so that a failed one delays no
/// acknowledgement.
const SMALL: usize = 256;
/// An access point heard within this time certainly works.
const FRESH: Duration = Duration::from_millis(5);
const TUN: u64 = 1;

impl DeviceConfig {
    /// Starts a device in this network namespace.
    ///
    /// # Errors
    /// [`NodeError`] names what is missing.
    pub fn start(&self) -> Result<Running, NodeError> {
        self.check()?;
        let config = self.clone();
        Running::start(self.metrics, move || Device::new(&config))
    }
}

struct Device {
    began: Instant,
    inside: Inside,
    sockets: Vec<Rc<UdpSocket>>,
    room: ReceiveBatch,
    peers: Vec<Peer>,
    machine: cotag::Device,
    buffer: PacketBuffer,
    report_every: Duration,
    reported: Instant,
    /// Whether something has arrived since the last report.
    has_news: bool,
    start: u32,
    number: u64,
    mtu: usize,
}

impl Device {
    fn new(config: &DeviceConfig) -> Result<Self, NodeError> {
        let coefficients = Key::load(&config.key)?;
        let (mut sockets, mut peers) = (Vec::new(), Vec::new());
        for point in &config.access_point {
            let any = if point.address.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
            let local = SocketAddr::new(point.local.unwrap_or(any), 0);
            let bound = UdpSocket::bind(local).map_err(|source| NodeError::Bind { address: local, source });
            let socket = Rc::new(bound?);
            let hop = Hop::initiator(key(&point.key)?);
            peers.push(Peer::new(&point.name, hop, false, socket.clone(), Some(point.address)));
            sockets.push(socket);
        }
        let mut start = [0; 4];
        let random = aws_lc_rs::rand::SystemRandom::new();
        random.fill(&mut start).map_err(|_| KeyError::NoEntropy)?;
        let mtu = config.coding.inner_mtu();
        let machine = config.coding.machine(&coefficients);
        Ok(Self {
            began: clock(),
            inside: Inside::create(&config.inner, mtu)?,
            room: ReceiveBatch::default(),
            report_every: machine.interval / 2,
            machine: cotag::Device::new(machine, peers.len()),
            buffer: PacketBuffer::default(),
            sockets,
            peers,
            reported: Instant::ZERO,
            has_news: false,
            start: u32::from_be_bytes(start),
            number: 0,
            mtu,
        })
    }

    /// Receives messages of access point `at`. Returns whether its socket has been read empty.
    fn receive(&mut self, now: Instant, at: usize) -> bool {
        let (machine, inside, has_news) = (&mut self.machine, &mut self.inside, &mut self.has_news);
        let buffer = &mut self.buffer;
        let mut each = |_: usize, peers: &mut [Peer], message: HopMessage<'_>| match message {
            HopMessage::Coded(packet) => {
                *has_news = true;
                machine.handle_packet(now, at, &buffer.copy(packet));
            }
            HopMessage::Plain(packet) => inside.write(packet),
            _ => peers[0].count_unknown(),
        };
        receive(now, &mut self.room, &mut self.peers[at..=at], &mut each)
    }

    fn deliver(&mut self) {
        while let Some(packet) = self.machine.poll_delivery() {
            self.inside.write(&packet);
        }
        self.inside.flush();
    }

    fn read_inside(&mut self, now: Instant) -> bool {
        let lively: Vec<usize> = (0..self.peers.len()).filter(|at| self.peers[*at].is_lively(now)).collect();
        let is_fresh = |at: &Instant| now.saturating_since(*at) < FRESH;
        let heard = |at: usize| self.peers[at].heard().filter(is_fresh).map(|heard| (heard, at));
        let newest = (0..self.peers.len()).filter_map(heard).max();
        let (peers, number, start) = (&mut self.peers, &mut self.number, self.start);
        self.inside.read(&mut |_, packet| {
            let message = HopMessage::Numbered(start, *number, packet);
            *number += 1;
            let of_flow = lively.get(flow(packet) as usize % lively.len().max(1));
            match (newest, of_flow) {
                (Some((_, at)), _) if is_bare_acknowledgement(packet) => {
                    _ = peers[at].send(now, &message, false);
                }
                (_, Some(one)) if packet.len() > SMALL => _ = peers[*one].send(now, &message, false),
                _ => peers.iter_mut().for_each(|peer| _ = peer.send(now, &message, false)),
            }
        })
    }

    fn report(&mut self, now: Instant) {
        if !self.has_news || now < self.reported + self.report_every {
            return;
        }
        (self.has_news, self.reported) = (false, now);
        if let Some(report) = self.machine.poll_report() {
            self.peers.iter_mut().for_each(|peer| _ = peer.send(now, &HopMessage::Coded(&report), false));
        }
    }
}

impl Work for Device {
    fn sources(&self) -> Vec<BorrowedFd<'_>> {
        let sockets = self.sockets.iter().map(|socket| socket.as_fd());
        core::iter::once(self.inside.as_fd()).chain(sockets).collect()
    }

    fn turn(&mut self, now: Instant, ready: &mut u64) {
        for at in 0..self.peers.len() {
            let bit = TUN << (at + 1);
            if *ready & bit != 0 && self.receive(now, at) {
                *ready &= !bit;
            }
        }
        self.machine.handle_timeout(now);
        self.deliver();
        if *ready & TUN != 0 && self.read_inside(now) {
            *ready &= !TUN;
        }
        self.report(now);
        for peer in &mut self.peers {
            peer.tick(now, Offer::UNLIMITED);
            peer.flush();
        }
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        let peers = self.peers.iter().map(|peer| peer.poll_timeout(now)).min().unwrap_or(now);
        let report = if self.has_news { self.reported + self.report_every } else { peers };
        self.machine.poll_timeout().map_or(peers, |at| at.min(peers)).min(report)
    }

    fn status(&self, now: Instant) -> Status {
        Status {
            role: "device",
            uptime: now.saturating_since(self.began).as_secs_f64(),
            mtu: self.mtu,
            links: self.peers.iter().map(|peer| peer.status(now)).collect(),
            coding: self.machine.counters(),
            inner: self.inside.status,
        }
    }
}
