//! Packets cross links in order and on time; the budget stops endless runs.

use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;

use tributary_link::{LinkConfig, LinkSpec, LossSpec, QueueSpec};
use tributary_types::{Bitrate, DataSize, Instant};

use super::*;
use crate::event_log::{LogRecord, LogSink};
use crate::packet::Body;

/// Sends `left` packets, one per `every`; records when packets arrived.
#[derive(Debug)]
struct Clockwork {
    route: Option<RouteId>,
    left: u32,
    next: Instant,
    every: Duration,
    arrivals: Vec<Instant>,
}

impl Clockwork {
    fn new(route: Option<RouteId>, left: u32, every: Duration) -> Self {
        Self { route, left, next: Instant::ZERO, every, arrivals: Vec::new() }
    }
}

impl Host for Clockwork {
    fn handle_packet(&mut self, now: Instant, _: Packet, _: &mut Outbox) {
        self.arrivals.push(now);
    }
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(route) = self.route {
            out.send(Packet::new(route, 1500, Body::Filler));
        }
        self.left -= 1;
        self.next = now + self.every;
    }
    fn poll_timeout(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }
}

fn link(mbps: u64, delay: u64) -> LinkConfig {
    let mut config = LinkConfig::new(LinkSpec::constant(Bitrate::from_mbps(mbps)), 1);
    config.extra_delay = Duration::from_millis(delay);
    config
}

/// Two links in a row, 12 Mbit/s (1 ms a packet) and 120 Mbit/s, 3 + 4 ms of delay.
fn line(packets: u32, every: Duration) -> (World, HostId, [LinkId; 2]) {
    let mut world = World::new(1_000_000);
    let links = [world.add_link(link(12, 3)), world.add_link(link(120, 4))];
    let (from, to) = (world.reserve_host(), world.reserve_host());
    let route = world.add_route(&links, to);
    world.place_host(to, Box::new(Clockwork::new(None, 0, every)));
    world.place_host(from, Box::new(Clockwork::new(Some(route), packets, every)));
    (world, to, links)
}

#[test]
fn a_packet_takes_its_transmissions_and_delays_and_the_bottleneck_spaces_them() {
    let (mut world, to, links) = line(3, Duration::from_micros(10));
    world.run_until(Instant::from_millis(100)).unwrap();
    let arrivals: Vec<u64> =
        world.host::<Clockwork>(to).unwrap().arrivals.iter().map(|at| at.as_nanos() / 1000).collect();
    assert_eq!(arrivals, [8_100, 9_100, 10_100]);
    assert!(links.iter().all(|link| world.link_stats(*link).is_conserved()));
    assert_eq!(world.log().events(), 3 * 4);
}

#[test]
fn the_same_world_has_the_same_hash_and_another_a_different_one() {
    let run = |packets, every| {
        let (mut world, ..) = line(packets, every);
        world.run_until(Instant::from_millis(100)).unwrap();
        world.log().hash()
    };
    let micros = Duration::from_micros;
    assert_eq!(run(50, micros(10)), run(50, micros(10)));
    assert_ne!(run(50, micros(10)), run(50, micros(11)));
    assert_ne!(run(50, micros(10)), run(49, micros(10)));
}

#[test]
fn a_run_that_does_not_end_is_stopped_with_a_diagnosis() {
    let (mut world, ..) = line(u32::MAX, Duration::from_nanos(1));
    let error = world.run_until(Instant::MAX).unwrap_err();
    assert!(error.to_string().contains("busiest: host 0"), "{error}");
}

/// Counts packets by outcome.
#[derive(Clone, Default)]
struct Fates(Rc<RefCell<[u64; 6]>>);

impl LogSink for Fates {
    fn record(&mut self, record: &LogRecord<'_>) {
        self.0.borrow_mut()[record.what as usize] += record.count;
    }
}

#[test]
fn every_sent_packet_is_logged_again_as_arrived_dropped_or_refused() {
    let mut world = World::new(1_000_000);
    let mut config = link(12, 3);
    config.spec.loss = LossSpec::Bernoulli(0.2);
    config.spec.queue = QueueSpec::Bytes(DataSize::from_bytes(15_000));
    let links = [world.add_link(config), world.add_link(link(120, 4))];
    let (from, to) = (world.reserve_host(), world.reserve_host());
    let route = world.add_route(&links, to);
    let every = Duration::from_micros(800);
    world.place_host(to, Box::new(Clockwork::new(None, 0, every)));
    world.place_host(from, Box::new(Clockwork::new(Some(route), 500, every)));
    let fates = Fates::default();
    world.log_mut().attach(Box::new(fates.clone()));
    world.run_until(Instant::from_millis(1000)).unwrap();
    let [_, sent, overflowed, _, arrived, dropped] = *fates.0.borrow();
    let stats = world.link_stats(links[0]);
    assert_eq!((sent, overflowed, dropped), (500, stats.overflowed.packets, stats.lost.packets));
    assert!(overflowed > 0 && dropped > 0, "{overflowed} {dropped}");
    assert_eq!(sent, overflowed + dropped + arrived);
}

/// Records the sizes that arrive, and forwards each packet at once if it has a route.
#[derive(Debug)]
struct Relay {
    on: Option<RouteId>,
    sizes: Vec<u32>,
}

impl Host for Relay {
    fn handle_packet(&mut self, _: Instant, packet: Packet, out: &mut Outbox) {
        self.sizes.push(packet.size);
        out.packets.extend(self.on.map(|route| Packet { route, ..packet }));
    }
    fn handle_timeout(&mut self, _: Instant, _: &mut Outbox) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

#[test]
fn routes_without_links_keep_the_order_and_need_no_depth_of_calls() {
    const PACKETS: u32 = 100_000;
    let mut world = World::new(1_000_000);
    let (from, middle, to) = (world.reserve_host(), world.reserve_host(), world.reserve_host());
    let (first, second) = (world.add_route(&[], middle), world.add_route(&[], to));
    world.place_host(from, Box::new(Relay { on: None, sizes: Vec::new() }));
    world.place_host(middle, Box::new(Relay { on: Some(second), sizes: Vec::new() }));
    world.place_host(to, Box::new(Relay { on: None, sizes: Vec::new() }));
    world.act::<Relay, _>(from, |_, _, out| {
        (1..=PACKETS).for_each(|size| out.send(Packet::new(first, size, Body::Filler)));
    });
    assert!(world.host::<Relay>(to).expect("it was placed").sizes.iter().copied().eq(1..=PACKETS));
}
