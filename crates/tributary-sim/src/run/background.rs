//! Background traffic of a scenario: packet generators, and long TCP transfers. Not part of any result.

use core::time::Duration;
use tributary_link::{
    Background, BackgroundKind, BackgroundSpec, DelaySpec, LinkConfig, LinkSpec, MAX_RATE, Scenario,
    WorkloadSpec,
};
use tributary_types::{Instant, Rng};

use super::TcpEra;
use super::assembly::tcp_pair;
use super::topology::Topology;
use crate::host::{Host, Outbox};
use crate::id::{LinkId, RouteId};
use crate::own::Own;
use crate::packet::{Body, Packet};
use crate::transport::Endpoint;
use crate::workload::{self, Terms};
use crate::world::World;

/// Sends the packets of a generator.
#[derive(Debug)]
struct Source {
    generator: Background,
    route: RouteId,
}

/// Adds the scenario's background traffic.
pub(super) fn place(scenario: &Scenario, topology: &Topology, world: &mut World) {
    for (index, spec) in scenario.background.iter().enumerate() {
        let Some(owner) = scenario.link_owner(&spec.on) else { continue };
        let link = topology.link(owner, spec.direction);
        match (&spec.kind, scenario.background(index)) {
            (BackgroundKind::Tcp { .. }, _) => flows(scenario, (index, spec), link, world),
            (_, Some(generator)) => generate(generator, link, world),
            (_, None) => {}
        }
    }
}

fn generate(generator: Background, link: LinkId, world: &mut World) {
    // Nothing is at the sink.
    let (source, sink) = (world.reserve_host(), world.reserve_host());
    let route = world.add_route(&[link], sink);
    world.place_host(source, Box::new(Source { generator, route }));
}

/// Long transfers over one link, each with its own return link that only delays.
fn flows(scenario: &Scenario, (index, spec): (usize, &BackgroundSpec), link: LinkId, world: &mut World) {
    let BackgroundKind::Tcp { flows, congestion, rtt } = &spec.kind else { return };
    let own = Own::default();
    let back = world.add_link(delay_only(rtt.unwrap_or(scenario.rtt)));
    let seed = Rng::new(scenario.seed).child("background flows").child(&index.to_string());
    let (from, to) = (spec.from.resolve(scenario.duration), spec.to.resolve(scenario.duration));
    for flow in 0..*flows {
        let (client, server) = (world.reserve_host(), world.reserve_host());
        let up = world.add_route(&[back], server);
        let down = world.add_route(&[link], client);
        let rng = seed.child(&flow.to_string());
        let terms = Terms { from, to, rng: rng.child("workload") };
        let (asks, answers) = workload::pair(&[WorkloadSpec::Bulk { size: None }], &terms);
        let kind = (congestion.as_str(), &own, TcpEra::Today);
        let transports = tcp_pair(kind, rng.child("transport").next_u64(), up, down);
        world.place_host(client, Box::new(Endpoint::new(transports.client, Box::new(asks))));
        world.place_host(server, Box::new(Endpoint::new(transports.server, Box::new(answers))));
    }
}

fn delay_only(delay: Duration) -> LinkConfig {
    let mut spec = LinkSpec::constant(MAX_RATE);
    spec.delay = DelaySpec::fixed(delay);
    LinkConfig::new(spec, 0)
}

impl Host for Source {
    fn handle_packet(&mut self, _: Instant, _: Packet, _: &mut Outbox) {}

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(size) = self.generator.poll(now) {
            out.send(Packet::new(self.route, size, Body::Filler));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.generator.poll_timeout()
    }
}
