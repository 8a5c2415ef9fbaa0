//! The gateway as a host: gives inner packets to the machine, and sends its output to the access point with
//! the shortest wait.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use tributary_cotag::Gateway;
use tributary_types::Instant;

use super::contents::Contents;
use super::feedback::{Feedback, numbered};
use crate::host::{Host, Outbox};
use crate::id::RouteId;
use crate::packet::{Body, Packet};

/// A link has spare time when a packet would wait less than this.
const SPARE: Duration = Duration::from_micros(500);

/// The route to an access point.
#[derive(Debug)]
struct Downlink {
    route: RouteId,
    sent: u64,
    feedback: Feedback,
}

/// The host.
#[derive(Debug)]
pub(super) struct GatewayNode {
    machine: Gateway,
    contents: Rc<RefCell<Contents>>,
    /// For the route of inner packets: their route after the device and the flow's number.
    inner: BTreeMap<RouteId, (RouteId, u64)>,
    /// For the route of an access point's feedback: its index in `links`.
    points: BTreeMap<RouteId, usize>,
    links: Vec<Downlink>,
    /// Size of the last inner packet.
    typical: u32,
}

impl GatewayNode {
    pub fn new(machine: Gateway, contents: Rc<RefCell<Contents>>) -> Self {
        let (inner, points, links) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { machine, contents, inner, points, links, typical: 1500 }
    }

    /// Packets that arrive on `from` belong to `flow` and leave the device on `to`.
    pub fn carry(&mut self, from: RouteId, to: RouteId, flow: u64) {
        self.inner.insert(from, (to, flow));
    }

    /// An access point is reached on `to` and answers on `from`.
    pub fn join(&mut self, to: RouteId, from: RouteId) {
        self.points.insert(from, self.links.len());
        self.links.push(Downlink { route: to, sent: 0, feedback: Feedback::default() });
    }

    /// The access point with the shortest wait, and the wait.
    fn shortest(&self) -> Option<(usize, Duration)> {
        let wait = |link: &Downlink| link.feedback.wait(link.sent, self.typical);
        self.links.iter().map(wait).enumerate().min_by_key(|(_, wait)| *wait)
    }

    fn send(&mut self, at: usize, bytes: &Bytes, out: &mut Outbox) {
        let size = self.contents.borrow().wire_size(bytes);
        let link = &mut self.links[at];
        let datagram = numbered(link.sent, bytes);
        link.sent += 1;
        out.send(Packet::new(link.route, size, Body::Datagram(datagram)));
    }

    fn drain(&mut self, out: &mut Outbox) {
        while let Some(flush) = self.machine.poll_flush() {
            (0..self.links.len()).for_each(|at| self.send(at, &flush, out));
        }
        while let Some((at, wait)) = self.shortest() {
            let Some(bytes) = self.machine.poll_transmit(wait < SPARE) else { return };
            self.send(at, &bytes, out);
        }
    }
}

impl Host for GatewayNode {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        if let Some(&(route, flow)) = self.inner.get(&packet.route) {
            // First end a cohort whose time is over, so that the packet's label is known.
            self.machine.handle_timeout(now);
            self.typical = packet.size;
            let packet = Packet { route, ..packet };
            let number = self.contents.borrow_mut().put(now, self.machine.label(), packet);
            self.machine.handle_packet(now, flow, &number);
        } else if let (Some(at), Body::Datagram(bytes)) = (self.points.get(&packet.route), &packet.body) {
            match Feedback::decode(bytes) {
                Some(feedback) => {
                    self.links[*at].feedback = feedback;
                    self.machine.expect_losses(self.links.iter().map(|link| link.feedback.loss));
                }
                None => self.machine.handle_report(bytes),
            }
        }
        self.drain(out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.machine.handle_timeout(now);
        self.drain(out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.machine.poll_timeout()
    }
}
