//! The world: time, and which event wakes whom. Connects the network, the hosts and the log.

use core::any::Any;
use std::collections::VecDeque;

use thiserror::Error;
use tributary_link::{LinkConfig, LinkStats};
use tributary_types::Instant;

use crate::event_log::EventLog;
use crate::event_queue::{EventQueue, MOST_TARGETS, Target};
use crate::host::{Host, Outbox};
use crate::id::{HostId, LinkId, RouteId};
use crate::network::Network;
use crate::packet::Packet;

/// Events at one time after which the world counts as looping.
const SAME_MOMENT: u64 = 10_000_000;

/// Why a run was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WorldError {
    /// The event budget is used up.
    #[error(
        "the run was stopped after {events} events at {at} of virtual time, {pending} still pending; \
         busiest: {busiest}; shorten it, lower its rates or raise the event budget"
    )]
    Budget {
        /// Events that happened.
        events: u64,
        /// Virtual time reached.
        at: Instant,
        /// Events in the queue.
        pending: usize,
        /// The host or link that was woken most often.
        busiest: String,
    },
    /// Time does not advance.
    #[error("virtual time does not advance: {events} events at {at}; busiest: {busiest}")]
    Standstill {
        /// The moment.
        at: Instant,
        /// Events in it.
        events: u64,
        /// The host or link that was woken most often.
        busiest: String,
    },
}

#[derive(Debug)]
struct Slot {
    host: Box<dyn Host>,
    /// Its earliest event in the queue.
    wake: Instant,
    wakes: u64,
}

/// A network, its hosts and its time.
#[derive(Debug)]
pub struct World {
    now: Instant,
    queue: EventQueue,
    network: Network,
    hosts: Vec<Slot>,
    log: EventLog,
    outbox: Outbox,
    /// Packets of routes without links: delivered in the order of sending, after the sender's call has ended.
    arrived: VecDeque<(HostId, Packet)>,
    delivering: bool,
    link_wakes: Vec<u64>,
    events: u64,
    budget: u64,
    moment_events: u64,
}

impl World {
    /// An empty world at time zero that stops after `budget` events.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        Self {
            now: Instant::ZERO,
            queue: EventQueue::default(),
            network: Network::default(),
            hosts: Vec::new(),
            log: EventLog::new(),
            outbox: Outbox::default(),
            arrived: VecDeque::new(),
            delivering: false,
            link_wakes: Vec::new(),
            events: 0,
            budget,
            moment_events: 0,
        }
    }

    // ---- building

    /// Adds a link.
    ///
    /// # Panics
    /// When there are more than eight million.
    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        assert!((self.network.link_count() as u32) < MOST_TARGETS, "a world has fewer links");
        self.link_wakes.push(0);
        self.network.add_link(config)
    }

    /// Reserves the place of a host, so that routes to it can be built before it. Packets to an empty place
    /// are discarded.
    ///
    /// # Panics
    /// When there are more than eight million.
    pub fn reserve_host(&mut self) -> HostId {
        assert!((self.hosts.len() as u32) < MOST_TARGETS, "a world has fewer hosts");
        self.hosts.push(Slot { host: Box::new(Nobody), wake: Instant::MAX, wakes: 0 });
        HostId(self.hosts.len() as u32 - 1)
    }

    /// A route over `links`, in order, to `host`. Any number of routes may share a link.
    pub fn add_route(&mut self, links: &[LinkId], host: HostId) -> RouteId {
        self.network.add_route(links, host)
    }

    /// Puts a host in its place and sets its first timeout.
    pub fn place_host(&mut self, id: HostId, host: Box<dyn Host>) {
        self.hosts[id.index()] = Slot { host, wake: Instant::MAX, wakes: 0 };
        self.arm(id);
    }

    // ---- running

    /// Processes all events up to and including `until`.
    ///
    /// # Errors
    /// [`WorldError`] when the event budget is used up or time does not advance.
    pub fn run_until(&mut self, until: Instant) -> Result<(), WorldError> {
        while let Some((at, target)) = self.queue.pop(until) {
            self.count(at)?;
            self.now = at;
            match target {
                Target::Link(index) => self.wake_link(LinkId(index)),
                Target::Host(index) => self.wake_host(HostId(index)),
            }
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// Calls a host's method now, and sends the resulting packets.
    pub fn act<H: Host, R>(
        &mut self,
        id: HostId,
        act: impl FnOnce(&mut H, Instant, &mut Outbox) -> R,
    ) -> Option<R> {
        let now = self.now;
        let host: &mut dyn Any = self.hosts[id.index()].host.as_mut();
        let result = act(host.downcast_mut::<H>()?, now, &mut self.outbox);
        self.flush(id);
        Some(result)
    }

    /// Tells a host that a path of the scenario went down or came back.
    pub fn path_changed(&mut self, id: HostId, path: u8, up: bool) {
        self.hosts[id.index()].host.handle_path(self.now, path, up, &mut self.outbox);
        self.flush(id);
    }

    fn count(&mut self, at: Instant) -> Result<(), WorldError> {
        self.events += 1;
        self.moment_events = if at > self.now { 0 } else { self.moment_events + 1 };
        if self.events > self.budget {
            let (events, pending, busiest) = (self.events - 1, self.queue.len() + 1, self.busiest());
            return Err(WorldError::Budget { events, at, pending, busiest });
        }
        if self.moment_events > SAME_MOMENT {
            let (events, busiest) = (self.moment_events, self.busiest());
            return Err(WorldError::Standstill { at, events, busiest });
        }
        Ok(())
    }

    fn busiest(&self) -> String {
        let host = self.hosts.iter().enumerate().max_by_key(|(_, slot)| slot.wakes);
        let link = self.link_wakes.iter().enumerate().max_by_key(|(_, wakes)| **wakes);
        match (host, link) {
            (Some((host, slot)), Some((link, wakes))) if slot.wakes < *wakes => {
                format!("link {link} ({wakes} events; host {host} had {})", slot.wakes)
            }
            (Some((host, slot)), _) => format!("host {host} ({} events)", slot.wakes),
            _ => "nobody".to_owned(),
        }
    }

    fn wake_link(&mut self, id: LinkId) {
        self.link_wakes[id.index()] += 1;
        self.network.woken(self.now, id);
        while let Some((host, packet)) = self.network.poll(self.now, id, &mut self.queue, &mut self.log) {
            self.deliver(host, packet);
        }
        self.network.arm(id, &mut self.queue);
    }

    fn wake_host(&mut self, id: HostId) {
        let slot = &mut self.hosts[id.index()];
        slot.wakes += 1;
        if slot.wake <= self.now {
            slot.wake = Instant::MAX;
        }
        if slot.host.poll_timeout().is_some_and(|at| at <= self.now) {
            slot.host.handle_timeout(self.now, &mut self.outbox);
        }
        self.flush(id);
    }

    fn deliver(&mut self, id: HostId, packet: Packet) {
        let now = self.now;
        self.log.record(crate::LogRecord {
            now,
            what: crate::What::Arrived,
            link: None,
            packet: Some(&packet),
            count: 1,
        });
        self.hosts[id.index()].host.handle_packet(now, packet, &mut self.outbox);
        self.flush(id);
    }

    /// Sends the packets that a host left in the outbox, and sets its timer.
    fn flush(&mut self, id: HostId) {
        let mut packets = core::mem::take(&mut self.outbox.packets);
        for packet in packets.drain(..) {
            let arrived = self.network.send(self.now, packet, &mut self.queue, &mut self.log);
            self.arrived.extend(arrived);
        }
        self.outbox.packets = packets;
        self.arm(id);
        // Packets sent by a receiver are queued here too, so that long chains cause no deep recursion.
        if !core::mem::replace(&mut self.delivering, true) {
            while let Some((host, packet)) = self.arrived.pop_front() {
                self.deliver(host, packet);
            }
            self.delivering = false;
        }
    }

    fn arm(&mut self, id: HostId) {
        let slot = &mut self.hosts[id.index()];
        if let Some(at) = slot.host.poll_timeout()
            && at < slot.wake
        {
            slot.wake = at.max(self.now);
            self.queue.push(slot.wake, Target::Host(id.0));
        }
    }

    // ---- reading

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The host, if it is of this type.
    #[must_use]
    pub fn host<H: Host>(&self, id: HostId) -> Option<&H> {
        let host: &dyn Any = self.hosts[id.index()].host.as_ref();
        host.downcast_ref()
    }

    /// The counters of a link.
    #[must_use]
    pub fn link_stats(&self, link: LinkId) -> &LinkStats {
        self.network.stats(link)
    }

    /// The event log.
    #[must_use]
    pub fn log(&self) -> &EventLog {
        &self.log
    }

    /// The event log, to attach a sink.
    pub fn log_mut(&mut self) -> &mut EventLog {
        &mut self.log
    }

    /// Events that happened.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Packets that hosts have sent.
    #[must_use]
    pub fn packets_sent(&self) -> u64 {
        self.network.sent()
    }
}

/// Fills a place until a host is put there; discards all packets.
#[derive(Debug)]
struct Nobody;

impl Host for Nobody {
    fn handle_packet(&mut self, _: Instant, _: Packet, _: &mut Outbox) {}
    fn handle_timeout(&mut self, _: Instant, _: &mut Outbox) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests;
