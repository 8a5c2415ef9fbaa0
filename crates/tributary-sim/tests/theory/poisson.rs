//! One link with equal packets at random times: M/D/1.

use core::time::Duration;

use tributary_link::{LinkConfig, LinkSpec, LinkStats, QueueSpec};
use tributary_sim::{Body, Host, Outbox, Packet, RouteId, World};
use tributary_types::{Bitrate, DataSize, Instant, Rng};

const PACKET: u32 = 1500;
const RATE: Bitrate = Bitrate::from_mbps(12);

/// Sends `left` packets; gaps are exponential with a generator, otherwise equal.
#[derive(Debug)]
struct Source {
    route: RouteId,
    left: u32,
    gap: f64,
    rng: Option<Rng>,
    next: Instant,
    sent: Vec<Instant>,
}

impl Source {
    fn plan_next(&mut self) {
        let gap = self.rng.as_mut().map_or(self.gap, |rng| rng.exponential(self.gap));
        self.next += Duration::from_nanos(gap.round() as u64);
    }
}

impl Host for Source {
    fn handle_packet(&mut self, _: Instant, _: Packet, _: &mut Outbox) {}
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        out.send(Packet::new(self.route, PACKET, Body::Filler));
        self.sent.push(now);
        self.left -= 1;
        self.plan_next();
    }
    fn poll_timeout(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next)
    }
}

/// Records when each packet arrived.
#[derive(Debug, Default)]
struct Sink {
    arrivals: Vec<(u64, Instant)>,
}

impl Host for Sink {
    fn handle_packet(&mut self, now: Instant, packet: Packet, _: &mut Outbox) {
        self.arrivals.push((packet.number(), now));
    }
    fn handle_timeout(&mut self, _: Instant, _: &mut Outbox) {}
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// The result of one run.
pub struct Queue {
    /// Transmission time of a packet.
    pub service: Duration,
    /// The link's counters at the end.
    pub link: LinkStats,
    sojourns: Vec<Duration>,
    span: Duration,
    /// Packets in the link summed over all samples, and the number of samples.
    seen: (u64, u64),
}

impl Queue {
    /// Poisson arrivals at `load`, with an unlimited queue.
    pub fn run(load: f64, packets: u32, seed: u64) -> Self {
        Self::simulate(load, packets, 1 << 20, Some(Rng::new(seed)))
    }

    /// The same load with regular arrivals.
    pub fn run_regular(load: f64, packets: u32) -> Self {
        Self::simulate(load, packets, 1 << 20, None)
    }

    /// Poisson arrivals, with room for `room` packets including the one in service.
    pub fn run_with_room(load: f64, packets: u32, room: u64, seed: u64) -> Self {
        Self::simulate(load, packets, room, Some(Rng::new(seed)))
    }

    fn simulate(load: f64, packets: u32, room: u64, rng: Option<Rng>) -> Self {
        let service = RATE.time_for(DataSize::from_bytes(u64::from(PACKET))).expect("the rate is not zero");
        let mut world = World::new(u64::from(packets) * 20);
        let mut spec = LinkSpec::constant(RATE);
        spec.queue = QueueSpec::Packets(room);
        let link = world.add_link(LinkConfig::new(spec, 1));
        let (from, to) = (world.reserve_host(), world.reserve_host());
        let route = world.add_route(&[link], to);
        world.place_host(to, Box::new(Sink::default()));
        let gap = service.as_nanos() as f64 / load;
        let mut source = Source { route, left: packets, gap, rng, next: Instant::ZERO, sent: Vec::new() };
        source.plan_next();
        world.place_host(from, Box::new(source));
        // Samples at regular times that are not synchronised with the packets give time averages.
        let mut seen = (0, 0);
        let look = Duration::from_nanos(7_654_321);
        let mut until = Instant::ZERO + look;
        while world.host::<Source>(from).expect("placed above").left > 0 {
            world.run_until(until).expect("the budget is twenty events a packet");
            seen.0 += world.link_stats(link).queued.packets;
            seen.1 += 1;
            until += look;
        }
        world.run_until(until + service * packets.min(100_000)).expect("the budget suffices");
        let sent = &world.host::<Source>(from).expect("placed above").sent;
        let arrivals = &world.host::<Sink>(to).expect("placed above").arrivals;
        let sojourns =
            arrivals.iter().map(|(number, at)| at.saturating_since(sent[*number as usize - 1])).collect();
        let span = sent.last().expect("packets were sent").saturating_since(sent[0]);
        Self { service, link: *world.link_stats(link), sojourns, span, seen }
    }

    fn waits(&self) -> impl Iterator<Item = Duration> {
        // Transmissions end within a nanosecond of the exact moment.
        let rounding = Duration::from_nanos(2);
        let service = self.service + rounding;
        self.sojourns.iter().map(move |sojourn| sojourn.saturating_sub(service))
    }

    pub fn mean_wait_in_services(&self) -> f64 {
        let sum: Duration = self.waits().sum();
        sum.as_secs_f64() / self.service.as_secs_f64() / self.sojourns.len() as f64
    }

    pub fn share_that_waited(&self) -> f64 {
        self.waits().filter(|wait| !wait.is_zero()).count() as f64 / self.sojourns.len() as f64
    }

    pub fn share_lost(&self) -> f64 {
        self.link.overflowed.packets as f64 / self.link.offered.packets as f64
    }

    pub fn longest_sojourn(&self) -> Duration {
        self.sojourns.iter().copied().max().unwrap_or_default()
    }

    pub fn mean_sojourn(&self) -> f64 {
        self.sojourns.iter().map(Duration::as_secs_f64).sum::<f64>() / self.sojourns.len() as f64
    }

    pub fn arrival_rate(&self) -> f64 {
        self.link.offered.packets as f64 / self.span.as_secs_f64()
    }

    pub fn mean_in_system(&self) -> f64 {
        self.seen.0 as f64 / self.seen.1 as f64
    }
}
