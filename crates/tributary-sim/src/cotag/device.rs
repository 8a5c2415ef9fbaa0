//! The device as a host: forwards decoded packets to the ends of the flows.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tributary_cotag::{Counters, DeviceNode, HopMessage, Offer};
use tributary_types::Instant;

use super::contents::Contents;
use super::hop::Hop;
use super::turns::Work;
use crate::host::Outbox;
use crate::id::RouteId;
use crate::packet::{Body, Packet};

/// The host.
#[derive(Debug)]
pub(super) struct DeviceHost {
    node: DeviceNode,
    contents: Rc<RefCell<Contents>>,
    /// Number of the access point, by the route its packets arrive on.
    points: BTreeMap<RouteId, usize>,
    hops: Vec<Hop>,
    /// Delay from the gateway to here, of every packet from `measured_from` on.
    pub delays: Vec<Duration>,
    measured_from: Instant,
    /// Deliveries without a known packet: zero unless a decoder is wrong.
    pub unknown: u64,
}

impl DeviceHost {
    pub fn new(node: DeviceNode, contents: Rc<RefCell<Contents>>, measured_from: Instant) -> Self {
        let (points, hops) = (BTreeMap::new(), Vec::new());
        Self { node, contents, points, hops, delays: Vec::new(), measured_from, unknown: 0 }
    }

    /// Adds an access point that sends on route `from` and receives on route `to`.
    pub fn join(&mut self, from: RouteId, to: RouteId) {
        self.points.insert(from, self.hops.len());
        self.hops.push(Hop::new(to, false, self.contents.clone()));
    }

    pub fn counters(&self) -> Counters {
        self.node.counters()
    }
}

impl Work for DeviceHost {
    fn take(&mut self, now: Instant, packet: Packet) {
        if let (Some(at), Body::Datagram(datagram)) = (self.points.get(&packet.route), &packet.body)
            && let Some(HopMessage::Coded(bytes)) = self.hops[*at].receive(now, datagram)
        {
            self.node.handle_packet(now, *at, bytes);
        }
    }

    fn drain(&mut self, now: Instant, out: &mut Outbox) {
        self.node.handle_timeout(now);
        while let Some(delivered) = self.node.poll_delivery() {
            let Some(inner) = self.contents.borrow_mut().take(&delivered) else {
                self.unknown += 1;
                continue;
            };
            if inner.entered >= self.measured_from {
                self.delays.push(now.saturating_since(inner.entered));
            }
            out.send(inner.packet);
        }
        self.node.transmit(now, &mut self.hops);
        self.hops.iter_mut().for_each(|hop| hop.flush(now, Offer::UNLIMITED, out));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.hops.iter().filter_map(Hop::poll_timeout).chain(self.node.poll_timeout()).min()
    }
}
