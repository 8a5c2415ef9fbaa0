//! An access point as a host. It gives its radio a packet when the previous one has left; the others wait in
//! the machine, where they can still be dropped or overtaken.

use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use tributary_cotag::{AccessPoint, Counters, LossMeter};
use tributary_types::Instant;

use super::airtime::Airtime;
use super::contents::Contents;
use super::feedback::{Feedback, numbered, unnumbered};
use crate::host::{Host, Outbox};
use crate::id::RouteId;
use crate::packet::{Body, Packet};

/// Shortest interval between two feedbacks to the gateway.
const FEEDBACK: Duration = Duration::from_micros(500);
/// Bytes of headers (IPv4, UDP, envelope) of a datagram to the gateway; an upper bound.
const ENVELOPE: u32 = 100;

/// The routes of an access point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routes {
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
    routes: Routes,
    /// Packets received from the gateway.
    received: u64,
    /// Loss on the link from the gateway.
    meter: LossMeter,
    /// Packets sent to the device.
    sent: u64,
    /// Loss of the radio, as the device measures it.
    radio_loss: Option<f64>,
    /// The radio is busy, and there may be more to send.
    blocked: bool,
    /// Something has changed since the last feedback, and when the next may be sent.
    news: bool,
    next_feedback: Instant,
}

impl AccessPointNode {
    pub fn new(machine: AccessPoint, air: Airtime, contents: Rc<RefCell<Contents>>, routes: Routes) -> Self {
        Self {
            machine,
            air,
            contents,
            routes,
            received: 0,
            meter: LossMeter::default(),
            sent: 0,
            radio_loss: None,
            blocked: false,
            news: false,
            next_feedback: Instant::ZERO,
        }
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
            let datagram = numbered(self.sent, &bytes);
            self.sent += 1;
            out.send(Packet::new(self.routes.to_device, size, Body::Datagram(datagram)));
            self.news = true;
        }
        if self.news && self.next_feedback <= now {
            self.news = false;
            self.next_feedback = now + FEEDBACK;
            let (received, waiting) = (self.received, self.machine.waiting() as u32);
            let loss = self.meter.share_with(self.radio_loss);
            let feedback = Feedback { received, waiting, rate: self.air.rate(now), loss };
            self.tell_gateway(feedback.encode(), out);
        }
    }

    fn tell_gateway(&self, bytes: Bytes, out: &mut Outbox) {
        out.send(Packet::new(self.routes.to_gateway, ENVELOPE + bytes.len() as u32, Body::Datagram(bytes)));
    }
}

impl Host for AccessPointNode {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        let Body::Datagram(bytes) = packet.body else { return };
        if packet.route == self.routes.from_gateway {
            let Some((number, bytes)) = unnumbered(&bytes) else { return };
            self.meter.on_received(number);
            self.received += 1;
            self.news = true;
            self.machine.handle_packet(now, 0, bytes);
        } else if let Some(feedback) = Feedback::decode(&bytes) {
            self.radio_loss = feedback.loss;
            self.machine.expect_loss(feedback.loss);
        } else {
            self.machine.handle_report(&bytes);
            self.tell_gateway(bytes, out);
        }
        self.drain(now, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.machine.handle_timeout(now);
        self.drain(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let radio = self.blocked.then(|| self.air.free());
        let feedback = self.news.then_some(self.next_feedback);
        radio.into_iter().chain(feedback).chain(self.machine.poll_timeout()).min()
    }
}
