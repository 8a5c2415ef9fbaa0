//! A gateway without coding that sends each packet over one access point: alternately, or over the one whose
//! radio finishes it first, with exact knowledge of the radios.

use std::collections::BTreeMap;

use tributary_types::Instant;

use super::airtime::Airtime;
use crate::host::{Host, Outbox};
use crate::id::RouteId;
use crate::packet::Packet;

/// The host.
#[derive(Debug)]
pub(super) struct Spray {
    /// For the route on which packets arrive: the routes onward, one over each access point.
    ways: BTreeMap<RouteId, Vec<RouteId>>,
    next: usize,
    /// The radios; empty when packets alternate.
    radios: Vec<Airtime>,
    /// Most packets queued in front of a radio.
    queue: u64,
}

impl Spray {
    /// Alternates when `radios` is empty.
    pub fn new(radios: Vec<Airtime>, queue: u64) -> Self {
        Self { ways: BTreeMap::new(), next: 0, radios, queue }
    }

    /// Packets that arrive on `from` are sent on one of `ways`.
    pub fn carry(&mut self, from: RouteId, ways: Vec<RouteId>) {
        self.ways.insert(from, ways);
    }
}

impl Host for Spray {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        let Some(ways) = self.ways.get(&packet.route) else { return };
        let mut at = self.next % ways.len();
        self.next += 1;
        if let Some(freest) = (0..self.radios.len()).min_by_key(|at| self.radios[*at].free()) {
            at = freest;
            // Beyond the queue's limit the radio drops the packet.
            if self.radios[at].backlog(now) <= u64::from(packet.size) * self.queue {
                self.radios[at].occupy(now, packet.size);
            }
        }
        out.send(Packet { route: ways[at], ..packet });
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Outbox) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
