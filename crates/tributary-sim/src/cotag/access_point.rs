//! An access point as a host: between the gateway and its radio.

use std::cell::RefCell;
use std::rc::Rc;

use tributary_cotag::{AccessPointNode, Counters, HopEnd, HopMessage, Offer};
use tributary_types::Instant;

use super::contents::Contents;
use super::hop::Hop;
use super::turns::Work;
use crate::host::Outbox;
use crate::id::RouteId;
use crate::packet::{Body, Packet};

/// The routes of an access point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routes {
    pub from_gateway: RouteId,
    pub to_gateway: RouteId,
    pub to_device: RouteId,
}

/// The host.
#[derive(Debug)]
pub(super) struct AccessPointHost {
    node: AccessPointNode,
    from_gateway: RouteId,
    up: Hop,
    down: Hop,
}

impl AccessPointHost {
    pub fn new(node: AccessPointNode, routes: Routes, contents: &Rc<RefCell<Contents>>) -> Self {
        let up = Hop::new(routes.to_gateway, false, contents.clone());
        let down = Hop::new(routes.to_device, true, contents.clone());
        Self { node, from_gateway: routes.from_gateway, up, down }
    }

    pub fn counters(&self) -> Counters {
        self.node.counters()
    }
}

impl Work for AccessPointHost {
    fn take(&mut self, now: Instant, packet: Packet) {
        let Body::Datagram(datagram) = packet.body else { return };
        if packet.route == self.from_gateway {
            if let Some(message) = self.up.receive(now, &datagram) {
                self.node.handle_message(now, &message);
            }
        } else if let Some(message @ HopMessage::Coded(report)) = self.down.receive(now, &datagram) {
            self.node.handle_report(report);
            self.up.send(now, &message, false);
        }
    }

    fn drain(&mut self, now: Instant, out: &mut Outbox) {
        self.node.handle_timeout(now, &self.down);
        self.node.give_back(now, &mut self.up, &self.down);
        self.node.transmit(now, &mut self.down);
        self.up.flush(now, self.node.offer(&self.down), out);
        self.down.flush(now, Offer::UNLIMITED, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let hops = [&self.up, &self.down].into_iter().filter_map(Hop::poll_timeout);
        hops.chain(self.node.poll_timeout()).min()
    }
}
