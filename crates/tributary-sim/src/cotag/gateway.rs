//! The gateway as a host: inner packets of the servers enter the node.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tributary_cotag::{GatewayNode, Offer};
use tributary_types::Instant;

use super::contents::Contents;
use super::hop::Hop;
use super::turns::Work;
use crate::host::Outbox;
use crate::id::RouteId;
use crate::packet::{Body, Packet};

/// The host.
#[derive(Debug)]
pub(super) struct GatewayHost {
    node: GatewayNode,
    contents: Rc<RefCell<Contents>>,
    /// For the route of inner packets: their route after the device and the flow's number.
    inner: BTreeMap<RouteId, (RouteId, u64)>,
    /// For the route of an access point's datagrams: its index in `hops`.
    points: BTreeMap<RouteId, usize>,
    hops: Vec<Hop>,
    /// Inner packets for which there was no place.
    pub refused: u64,
}

impl GatewayHost {
    pub fn new(node: GatewayNode, contents: Rc<RefCell<Contents>>) -> Self {
        let (inner, points, hops) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Self { node, contents, inner, points, hops, refused: 0 }
    }

    /// Packets that arrive on `from` belong to `flow` and leave the device on `to`.
    pub fn carry(&mut self, from: RouteId, to: RouteId, flow: u64) {
        self.inner.insert(from, (to, flow));
    }

    /// An access point is reached on `to` and answers on `from`.
    pub fn join(&mut self, to: RouteId, from: RouteId) {
        self.points.insert(from, self.hops.len());
        self.hops.push(Hop::new(to, false, self.contents.clone()));
    }

    fn take_inner(&mut self, now: Instant, (route, flow): (RouteId, u64), packet: Packet) {
        // First end a cohort whose time is over, so that the packet's label is known.
        self.node.handle_timeout(now, &self.hops);
        let packet = Packet { route, ..packet };
        let number = self.contents.borrow_mut().put(now, self.node.label(), packet);
        if !self.node.handle_packet(now, flow, &number, &self.hops) {
            self.refused += 1;
            self.contents.borrow_mut().take(&number);
        }
    }
}

impl Work for GatewayHost {
    fn take(&mut self, now: Instant, packet: Packet) {
        if let Some(&inner) = self.inner.get(&packet.route) {
            self.take_inner(now, inner, packet);
        } else if let (Some(at), Body::Datagram(datagram)) = (self.points.get(&packet.route), &packet.body)
            && let Some(message) = self.hops[*at].receive(now, datagram)
        {
            self.node.handle_message(now, &message);
        }
    }

    fn drain(&mut self, now: Instant, out: &mut Outbox) {
        self.node.handle_timeout(now, &self.hops);
        self.node.transmit(now, &mut self.hops);
        self.hops.iter_mut().for_each(|hop| hop.flush(now, Offer::UNLIMITED, out));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.hops.iter().filter_map(Hop::poll_timeout).chain(self.node.poll_timeout()).min()
    }
}
