//! Links and the routes over them. Carries packets; decides nothing.
//!
//! A link carries packet numbers. The packets wait beside it in the order in which they entered, so that each
//! is moved once per link. A link keeps the order, so a number that it skips is a lost packet.

use std::collections::VecDeque;

use tributary_link::{Link, LinkConfig, LinkStats, Packet as LinkPacket};
use tributary_types::Instant;

use crate::event_log::{EventLog, LogRecord, What};
use crate::event_queue::{EventQueue, Target};
use crate::id::{HostId, LinkId, RouteId};
use crate::packet::Packet;

/// A route: a range of [`Network::hops`], then a host. Small and without its own heap allocation, because it
/// is read before each hop of a packet, and each connection has two.
#[derive(Debug)]
struct Route {
    first: u32,
    hops: u32,
    host: HostId,
}

#[derive(Debug)]
struct Slot {
    link: Link<u64>,
    /// Packets inside the link, including those lost since the last that came out.
    inside: VecDeque<Packet>,
    /// Number of the first packet in `inside`.
    first: u64,
    /// Dropped packets already written to the log.
    dropped: u64,
    /// The link's earliest event in the queue.
    wake: Instant,
}

/// All links and routes.
#[derive(Debug, Default)]
pub(crate) struct Network {
    links: Vec<Slot>,
    routes: Vec<Route>,
    /// The links of all routes, one route after the other.
    hops: Vec<LinkId>,
    sent: u64,
}

impl Network {
    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        let (link, inside) = (Link::new(config), VecDeque::new());
        self.links.push(Slot { link, inside, first: 0, dropped: 0, wake: Instant::MAX });
        LinkId(self.links.len() as u32 - 1)
    }

    pub fn add_route(&mut self, links: &[LinkId], host: HostId) -> RouteId {
        let first = self.hops.len() as u32;
        self.hops.extend_from_slice(links);
        self.routes.push(Route { first, hops: links.len() as u32, host });
        RouteId(self.routes.len() as u32 - 1)
    }

    pub fn link_count(&self) -> usize {
        self.links.len()
    }

    pub fn stats(&self, link: LinkId) -> &LinkStats {
        self.links[link.index()].link.stats()
    }

    /// Packets that hosts have sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Puts a packet on the first link of its route. Returned if the route has no links, which means it is
    /// delivered at once.
    pub fn send(
        &mut self,
        now: Instant,
        mut packet: Packet,
        queue: &mut EventQueue,
        log: &mut EventLog,
    ) -> Option<(HostId, Packet)> {
        self.sent += 1;
        packet.number = self.sent;
        packet.hop = 0;
        log.record(LogRecord { now, what: What::Sent, link: None, packet: Some(&packet), count: 1 });
        self.forward(now, packet, queue, log)
    }

    /// Puts the packet on the next link of its route, or delivers it to its host.
    fn forward(
        &mut self,
        now: Instant,
        packet: Packet,
        queue: &mut EventQueue,
        log: &mut EventLog,
    ) -> Option<(HostId, Packet)> {
        let route = &self.routes[packet.route.index()];
        if u32::from(packet.hop) >= route.hops {
            return Some((route.host, packet));
        }
        let id = self.hops[route.first as usize + usize::from(packet.hop)];
        let slot = &mut self.links[id.index()];
        if let Some(packet) = slot.push(now, packet) {
            slot.dropped += 1;
            let what = What::Overflowed;
            log.record(LogRecord { now, what, link: Some(id), packet: Some(&packet), count: 1 });
        }
        slot.tell_drops(now, id, log);
        slot.arm(id, queue);
        None
    }

    /// The next packet that has reached its host by `now` over `link`, or `None`. Packets with further links
    /// are forwarded.
    pub fn poll(
        &mut self,
        now: Instant,
        id: LinkId,
        queue: &mut EventQueue,
        log: &mut EventLog,
    ) -> Option<(HostId, Packet)> {
        loop {
            let slot = &mut self.links[id.index()];
            let packet = slot.poll(now);
            slot.tell_drops(now, id, log);
            let mut packet = packet?;
            packet.hop += 1;
            let what = What::Crossed;
            log.record(LogRecord { now, what, link: Some(id), packet: Some(&packet), count: 1 });
            if let Some(arrived) = self.forward(now, packet, queue, log) {
                return Some(arrived);
            }
        }
    }

    /// The queue's wake-up of `link` has been taken out.
    pub fn woken(&mut self, now: Instant, id: LinkId) {
        let slot = &mut self.links[id.index()];
        if slot.wake <= now {
            slot.wake = Instant::MAX;
        }
    }

    pub fn arm(&mut self, id: LinkId, queue: &mut EventQueue) {
        self.links[id.index()].arm(id, queue);
    }
}

impl Slot {
    /// Puts a packet into the link; returns it if the queue has no room.
    fn push(&mut self, now: Instant, packet: Packet) -> Option<Packet> {
        let number = self.first + self.inside.len() as u64;
        if self.link.push(now, LinkPacket::whole(packet.size, number)) > 0 {
            return Some(packet);
        }
        let stats = self.link.stats();
        if stats.queued.packets + stats.in_flight.packets == 0 {
            // Nothing is in the link: it was dead, or lost everything.
            self.first = number + 1;
            self.inside.clear();
        } else {
            self.inside.push_back(packet);
        }
        None
    }

    /// The next packet that has left the link.
    fn poll(&mut self, now: Instant) -> Option<Packet> {
        let number = self.link.poll(now)?.handle;
        self.inside.drain(..(number - self.first) as usize);
        self.first = number + 1;
        Some(self.inside.pop_front().expect("what comes out went in"))
    }

    /// Logs the packets that the link has dropped since the last call.
    fn tell_drops(&mut self, now: Instant, id: LinkId, log: &mut EventLog) {
        let LinkStats { overflowed, managed, lost, dead, .. } = self.link.stats();
        let dropped = overflowed.packets + managed.packets + lost.packets + dead.packets;
        let count = dropped - self.dropped;
        if count > 0 {
            self.dropped = dropped;
            log.record(LogRecord { now, what: What::Dropped, link: Some(id), packet: None, count });
        }
    }

    fn arm(&mut self, id: LinkId, queue: &mut EventQueue) {
        if let Some(at) = self.link.poll_timeout()
            && at < self.wake
        {
            self.wake = at;
            queue.push(at, Target::Link(id.0));
        }
    }
}
