//! An access point as a host. It gives its radio a packet when the previous one has left; the others wait in
//! the machine, where they can still be dropped or overtaken.

use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use tributary_coding::cotag::{AccessPoint, Counters};
use tributary_types::Instant;

use super::airtime::Airtime;
use super::contents::Contents;
use super::room::Room;
use crate::host::{Host, Outbox};
use crate::id::RouteId;
use crate::packet::{Body, Packet};

/// Interval between two reports to the gateway.
const WORDS: Duration = Duration::from_micros(500);
/// IPv4, UDP and the envelope of a report.
const WORD_SIZE: u32 = 100;

/// The four routes of an access point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
    pub from_gateway: RouteId,
    pub to_gateway: RouteId,
    pub to_device: RouteId,
}

/// The host.
#[derive(Debug)]
pub(super) struct AccessPointNode {
    machine: AccessPoint,
    air: Airtime,
    contents: Rc<RefCell<Contents>>,
    ways: Ways,
    received: u64,
    /// The radio is busy, and there may be more to send.
    blocked: bool,
    /// Something has changed since the last report, and when the next report may be sent.
    news: bool,
    next_word: Instant,
}

impl AccessPointNode {
    pub fn new(machine: AccessPoint, air: Airtime, contents: Rc<RefCell<Contents>>, ways: Ways) -> Self {
        let (received, blocked, news, next_word) = (0, false, false, Instant::ZERO);
        Self { machine, air, contents, ways, received, blocked, news, next_word }
    }

    pub fn counters(&self) -> Counters {
        self.machine.counters()
    }

    fn drain(&mut self, now: Instant, out: &mut Outbox) {
        self.blocked = false;
        loop {
            if self.air.free() > now {
                self.blocked = true;
                break;
            }
            let Some(bytes) = self.machine.poll_transmit(true) else { break };
            let size = self.contents.borrow().wire_size(&bytes);
            self.air.occupy(now, size);
            out.send(Packet::new(self.ways.to_device, size, Body::Datagram(bytes)));
            self.news = true;
        }
        if self.news && self.next_word <= now {
            self.news = false;
            self.next_word = now + WORDS;
            let (received, waiting) = (self.received, self.machine.waiting() as u32);
            let word = Room { received, waiting, rate: self.air.rate(now) }.encode();
            self.tell_gateway(word, out);
        }
    }

    fn tell_gateway(&self, bytes: Bytes, out: &mut Outbox) {
        out.send(Packet::new(self.ways.to_gateway, WORD_SIZE + bytes.len() as u32, Body::Datagram(bytes)));
    }
}

impl Host for AccessPointNode {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        let Body::Datagram(bytes) = packet.body else { return };
        if packet.route == self.ways.from_gateway {
            self.received += 1;
            self.news = true;
            self.machine.handle_packet(0, bytes);
        } else {
            self.machine.handle_report(&bytes);
            self.tell_gateway(bytes, out);
        }
        self.drain(now, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.drain(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let radio = self.blocked.then(|| self.air.free());
        let word = self.news.then_some(self.next_word);
        radio.into_iter().chain(word).min()
    }
}
