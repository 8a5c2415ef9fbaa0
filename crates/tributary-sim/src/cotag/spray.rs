//! A gateway without coding that sends each packet over one of the access points: in turn, or where it leaves
//! the radio the earliest, of which it has perfect knowledge.

use std::collections::BTreeMap;

use tributary_types::Instant;

use super::airtime::Airtime;
use crate::host::{Host, Outbox};
use crate::id::RouteId;
use crate::packet::Packet;

/// The host.
#[derive(Debug)]
pub(super) struct Spray {
    /// Route on which packets come, to the routes on, one over each access point.
    ways: BTreeMap<RouteId, Vec<RouteId>>,
    next: usize,
    /// The radios, when the choice is by them.
    radios: Vec<Airtime>,
    /// Packets that wait in front of a radio at most.
    queue: u64,
}

impl Spray {
    /// In turn when there are no `radios`.
    pub fn new(radios: Vec<Airtime>, queue: u64) -> Self {
        Self { ways: BTreeMap::new(), next: 0, radios, queue }
    }

    /// Packets that come on `from` go on one of `ways`.
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
            // Beyond the queue's limit the radio drops it.
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
