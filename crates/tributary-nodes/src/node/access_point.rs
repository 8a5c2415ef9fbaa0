//! The access point's runtime: passes the gateway's messages through the machine to the device, and reports
//! and packets of the device to the gateway. When its radio is silent it gives the originals that the radio has not
//! delivered back to the gateway, which sends them over another access point. Does not inspect inner packets.

use super::peer::{Peer, receive};
use super::{Running, Work, clock, key};
use crate::config::{AccessPointConfig, Settings};
use crate::error::NodeError;
use crate::hop::Hop;
use crate::status::{InnerStatus, Status};
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use tributary_cotag::{AccessPoint as Machine, Config, HopMessage, Mode, Offer, PacketBuffer, is_original};
use tributary_net::Key;
use tributary_tun::{ReceiveBatch, UdpSocket};
use tributary_types::Instant;

/// Most uncoded packets that wait.
const PLAIN: usize = 1024;
/// Most originals that are kept until the device has answered.
const KEPT: usize = 8192;
const UP: u64 = 1;
const DOWN: u64 = 2;

impl AccessPointConfig {
    /// Starts an access point in this network namespace.
    ///
    /// # Errors
    /// [`NodeError`] names what is missing.
    pub fn start(&self) -> Result<Running, NodeError> {
        self.check()?;
        let config = self.clone();
        Running::start(self.metrics, move || AccessPoint::new(&config))
    }
}

struct AccessPoint {
    began: Instant,
    sockets: [Rc<UdpSocket>; 2],
    room: ReceiveBatch,
    /// One peer each, as slices, because other nodes have several.
    up: [Peer; 1],
    down: [Peer; 1],
    config: Config,
    number: u8,
    machine: Machine,
    /// The session of the gateway's hop for which the machine's state is valid.
    session: u64,
    plain: VecDeque<Bytes>,
    /// Originals sent to the device and not answered, with the numbers of their datagrams. In paper mode none is kept,
    /// because every packet is a combination.
    unanswered: VecDeque<(u64, Bytes)>,
    buffer: PacketBuffer,
    link_mtu: u64,
    mtu: usize,
    status: InnerStatus,
}

impl AccessPoint {
    fn new(config: &AccessPointConfig) -> Result<Self, NodeError> {
        let coefficients = Key::load(&config.key)?;
        let (gateway_key, device_key) = (key(&config.gateway_key)?, key(&config.device_key)?);
        let bind = |address: SocketAddr| {
            UdpSocket::bind(address).map(Rc::new).map_err(|source| NodeError::Bind { address, source })
        };
        let any = SocketAddr::new(if config.gateway.is_ipv4() { [0; 4].into() } else { [0; 16].into() }, 0);
        let sockets = [bind(any)?, bind(config.listen)?];
        let (gateway, device) = (Hop::initiator(gateway_key), Hop::responder(device_key));
        let up = Peer::new("gateway", gateway, false, sockets[0].clone(), Some(config.gateway));
        let down = Peer::new("device", device, true, sockets[1].clone(), None);
        let machine_config = config.coding.machine(&coefficients);
        Ok(Self {
            began: clock(),
            sockets,
            room: ReceiveBatch::default(),
            up: [up],
            down: [down],
            machine: Machine::new(machine_config.clone(), config.number, 1),
            config: machine_config,
            number: config.number,
            session: 0,
            plain: VecDeque::new(),
            unanswered: VecDeque::new(),
            buffer: PacketBuffer::default(),
            link_mtu: config.coding.link_mtu as u64,
            mtu: config.coding.inner_mtu(),
            status: InnerStatus::default(),
        })
    }

    fn receive_up(&mut self, now: Instant) -> bool {
        let (machine, plain, status) = (&mut self.machine, &mut self.plain, &mut self.status);
        let buffer = &mut self.buffer;
        let mut each = |_: usize, peers: &mut [Peer], message: HopMessage<'_>| match message {
            HopMessage::Coded(packet) => machine.handle_packet(now, 0, buffer.copy(packet)),
            HopMessage::Plain(packet) if plain.len() < PLAIN => {
                status.packets_in += 1;
                status.bytes_in += packet.len() as u64;
                plain.push_back(buffer.copy(packet));
            }
            HopMessage::Plain(_) => status.full += 1,
            _ => peers[0].count_unknown(),
        };
        let is_empty = receive(now, &mut self.room, &mut self.up, &mut each);
        // After a restart of the gateway, held packets are useless.
        if core::mem::replace(&mut self.session, self.up[0].hop.sessions()) != self.session {
            self.machine = Machine::new(self.config.clone(), self.number, 1);
            self.plain.clear();
            self.unanswered.clear();
        }
        is_empty
    }

    fn receive_down(&mut self, now: Instant) -> bool {
        let (machine, up) = (&mut self.machine, &mut self.up[0]);
        let mut each = |_: usize, peers: &mut [Peer], message: HopMessage<'_>| {
            match message {
                HopMessage::Coded(report) => machine.handle_report(&Bytes::copy_from_slice(report)),
                HopMessage::Numbered(..) => {}
                _ => return peers[0].count_unknown(),
            }
            up.send(now, &message, false);
        };
        receive(now, &mut self.room, &mut self.down, &mut each)
    }

    /// Gives what a silent radio has not delivered back to the gateway. `is_read`: no answer of the device waits.
    fn give_back(&mut self, now: Instant, is_read: bool) {
        let pace = self.down[0].pace();
        let Some(newest) = pace.newest() else {
            // A new session counts its datagrams from zero.
            self.unanswered.clear();
            return;
        };
        while self.unanswered.front().is_some_and(|(number, _)| *number <= newest) {
            self.unanswered.pop_front();
        }
        if !is_read || !pace.is_quiet() || self.config.mode != Mode::Systematic {
            return;
        }
        let sent = self.unanswered.drain(..).map(|(_, packet)| packet);
        let waiting = core::iter::from_fn(|| self.machine.poll_transmit(false));
        for packet in sent.chain(waiting) {
            self.status.returned += 1;
            self.up[0].send(now, &HopMessage::Returned(&packet), false);
        }
    }

    fn transmit(&mut self, now: Instant) {
        let down = &mut self.down[0];
        while down.hop.is_established() && down.pace().space() >= self.link_mtu {
            if let Some(packet) = self.plain.pop_front() {
                self.status.packets_out += 1;
                self.status.bytes_out += packet.len() as u64;
                down.send(now, &HopMessage::Plain(&packet), true);
                continue;
            }
            // The machine returns redundant packets last, and only if the radio's queue is short.
            let Some(packet) = self.machine.poll_transmit(down.pace().is_spare()) else { return };
            let number = down.send(now, &HopMessage::Coded(&packet), true);
            if let Some(number) = number.filter(|_| is_original(&packet) && self.unanswered.len() < KEPT) {
                self.unanswered.push_back((number, packet));
            }
        }
    }

    /// Room for data from the gateway.
    fn offer(&self) -> Offer {
        let waiting = (self.machine.waiting() + self.plain.len()) as u64;
        let (room, capacity) = self.down[0].pace().offer(waiting * self.link_mtu);
        Offer { room, capacity, loss: self.down[0].pace().loss() }
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
        self.machine.handle_timeout(now);
        self.machine.expect_loss(self.down[0].pace().loss());
        self.give_back(now, *ready & DOWN == 0);
        self.transmit(now);
        let offer = self.offer();
        self.up[0].tick(now, offer);
        // Data from the device is forwarded at once, so the room is unlimited.
        self.down[0].tick(now, Offer::UNLIMITED);
        self.up[0].flush();
        self.down[0].flush();
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        let peers = self.up[0].poll_timeout(now).min(self.down[0].poll_timeout(now));
        self.machine.poll_timeout().map_or(peers, |at| at.min(peers))
    }

    fn status(&self, now: Instant) -> Status {
        Status {
            role: "access-point",
            uptime: now.saturating_since(self.began).as_secs_f64(),
            mtu: self.mtu,
            links: vec![self.up[0].status(now), self.down[0].status(now)],
            coding: self.machine.counters(),
            inner: self.status,
        }
    }
}
