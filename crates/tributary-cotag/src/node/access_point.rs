//! The access point: passes the gateway's messages through its machine to the device, and reports and packets of the
//! device to the gateway. When its radio is silent it gives the originals that the radio has not delivered back to the
//! gateway, which sends them over another access point. Does not inspect inner packets.

use super::HopEnd;
use crate::access_point::AccessPoint;
use crate::buffer::PacketBuffer;
use crate::hop::Offer;
use crate::message::HopMessage;
use crate::packet::is_original;
use crate::{Config, Counters, Mode};
use bytes::Bytes;
use std::collections::VecDeque;
use tributary_types::Instant;

/// Most uncoded packets that wait.
const PLAIN: usize = 1024;
/// Most originals that are kept until the device has answered.
const KEPT: usize = 8192;

/// Counters of uncoded packets, and of packets given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets from the gateway.
    pub packets_in: u64,
    /// Bytes of them.
    pub bytes_in: u64,
    /// Packets to the device.
    pub packets_out: u64,
    /// Bytes of them.
    pub bytes_out: u64,
    /// Dropped because too many waited.
    pub full: u64,
    /// Coded packets given back to the gateway.
    pub returned: u64,
}

/// The access point's state machine. Its hops are `up` to the gateway and `down`, the radio, to the device.
#[derive(Debug)]
pub struct AccessPointNode {
    config: Config,
    number: u8,
    machine: AccessPoint,
    plain: VecDeque<Bytes>,
    /// Originals sent to the device and not answered, with the numbers of their datagrams. In paper mode none is kept,
    /// because every packet is a combination.
    unanswered: VecDeque<(u64, Bytes)>,
    buffer: PacketBuffer,
    link_mtu: u64,
    passed: Passed,
}

impl AccessPointNode {
    /// Access point `number`, unique among the access points. A datagram has up to `link_mtu` bytes.
    #[must_use]
    pub fn new(config: Config, number: u8, link_mtu: usize) -> Self {
        Self {
            machine: AccessPoint::new(config.clone(), number, 1),
            config,
            number,
            plain: VecDeque::new(),
            unanswered: VecDeque::new(),
            buffer: PacketBuffer::default(),
            link_mtu: link_mtu as u64,
            passed: Passed::default(),
        }
    }

    /// The counters of the coding.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.machine.counters()
    }

    /// The counters of uncoded packets.
    #[must_use]
    pub fn passed(&self) -> Passed {
        self.passed
    }

    /// A session with the gateway has begun: after a restart of it, held packets are useless.
    pub fn restart(&mut self) {
        self.machine = AccessPoint::new(self.config.clone(), self.number, 1);
        self.plain.clear();
        self.unanswered.clear();
    }

    /// Takes a message of the gateway. Returns false for one that is not for this machine.
    pub fn handle_message(&mut self, now: Instant, message: &HopMessage<'_>) -> bool {
        match message {
            HopMessage::Coded(packet) => self.machine.handle_packet(now, 0, self.buffer.copy(packet)),
            HopMessage::Plain(packet) if self.plain.len() < PLAIN => {
                self.passed.packets_in += 1;
                self.passed.bytes_in += packet.len() as u64;
                self.plain.push_back(self.buffer.copy(packet));
            }
            HopMessage::Plain(_) => self.passed.full += 1,
            _ => return false,
        }
        true
    }

    /// Reads a report of the device, which the driver passes on to the gateway.
    pub fn handle_report(&mut self, report: &[u8]) {
        self.machine.handle_report(&Bytes::copy_from_slice(report));
    }

    /// Releases labels that have waited long enough, and drops what only a device that is gone could take.
    pub fn handle_timeout(&mut self, now: Instant, down: &impl HopEnd) {
        self.machine.expect_loss(down.control().pace().loss());
        self.machine.handle_timeout(now);
        if down.control().is_gone(now) {
            self.plain.clear();
        }
    }

    /// Gives what a silent radio has not delivered back to the gateway. To be called when no answer of the device waits to
    /// be read.
    pub fn give_back(&mut self, now: Instant, up: &mut impl HopEnd, down: &impl HopEnd) {
        let pace = down.control().pace();
        let Some(newest) = pace.newest() else {
            // A new session counts its datagrams from zero.
            self.unanswered.clear();
            return;
        };
        while self.unanswered.front().is_some_and(|(number, _)| *number <= newest) {
            self.unanswered.pop_front();
        }
        if !pace.is_quiet() || self.config.mode != Mode::Systematic {
            return;
        }
        let sent = self.unanswered.drain(..).map(|(_, packet)| packet);
        let waiting = core::iter::from_fn(|| self.machine.poll_transmit(false));
        for packet in sent.chain(waiting) {
            self.passed.returned += 1;
            up.send(now, &HopMessage::Returned(&packet), false);
        }
    }

    /// Sends what the radio may take, and gives up what later cohorts have overtaken.
    pub fn transmit(&mut self, now: Instant, down: &mut impl HopEnd) {
        self.fill(now, down);
        self.machine.give();
    }

    fn fill(&mut self, now: Instant, down: &mut impl HopEnd) {
        while down.control().has_room(self.link_mtu) {
            if let Some(packet) = self.plain.pop_front() {
                self.passed.packets_out += 1;
                self.passed.bytes_out += packet.len() as u64;
                down.send(now, &HopMessage::Plain(&packet), true);
                continue;
            }
            // The machine returns redundant packets last, and only if the radio's queue is short.
            let is_spare = down.control().pace().is_spare();
            let Some(packet) = self.machine.poll_transmit(is_spare) else {
                return down.control_mut().on_pause(self.link_mtu);
            };
            let number = down.send(now, &HopMessage::Coded(&packet), true);
            if let Some(number) = number.filter(|_| is_original(&packet) && self.unanswered.len() < KEPT) {
                self.unanswered.push_back((number, packet));
            }
        }
    }

    /// Room for data from the gateway.
    #[must_use]
    pub fn offer(&self, down: &impl HopEnd) -> Offer {
        let waiting = (self.machine.waiting() + self.plain.len()) as u64;
        let pace = down.control().pace();
        let (room, capacity) = pace.offer(waiting * self.link_mtu);
        Offer { room, capacity, loss: pace.loss() }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }
}
