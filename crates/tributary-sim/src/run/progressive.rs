//! A run with one connection that carries a progressive video instead of the run's workloads.

use tributary_link::{Direction, LinkOwner};
use tributary_player::progressive::Record;
use tributary_types::{Instant, Rng};

use super::assembly::Assembly;
use super::topology::{RouteMap, Topology};
use super::{LINK_SAMPLE, Pair, RunError, SimRun, Wiring, background, least_budget};
use crate::id::LinkId;
use crate::own::Own;
use crate::transport::{Counters, Endpoint};
use crate::workload::ArrivalSeries;
use crate::workload::progressive::{ProgressiveClient, ProgressiveSpec, progressive};
use crate::world::World;

/// What one path carried to the client, in steps of [`LINK_SAMPLE`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRecord {
    /// Bytes that its link delivered in each step, headers included.
    pub delivered: Vec<u64>,
    /// Payload bytes that the server retransmitted on it in each step.
    pub retransmitted: Vec<u64>,
}

/// Result of a progressive playback.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgressiveOutcome {
    /// The viewer's record; `None` if the connection never came up.
    pub record: Option<Record>,
    /// When bytes were read, and how long the player waited for bytes.
    pub arrivals: ArrivalSeries,
    /// Every path of the scenario.
    pub paths: Vec<PathRecord>,
    /// Counters of the server's end of the transport.
    pub server: Counters,
    /// Hash of the event log: the same for the same run and playback on every machine.
    pub hash: u64,
    /// Events that happened.
    pub events: u64,
}

/// Looks at the paths of a run.
struct Watch {
    links: Vec<LinkId>,
    paths: Vec<PathRecord>,
    /// Bytes delivered and retransmitted on each path at the last look.
    last: Vec<(u64, u64)>,
    /// The path of transports with only one; they do not know its index.
    only: Option<u8>,
}

impl SimRun {
    /// Simulates a playback: one connection of this run's transport for the duration of the scenario, with a
    /// progressive video in place of the workloads.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is an outcome, not an error.
    pub fn run_progressive(&self, spec: &ProgressiveSpec) -> Result<ProgressiveOutcome, RunError> {
        self.check()?;
        let mut world = World::new(self.options.budget.unwrap_or_else(|| least_budget(self)));
        let topology = Topology::build(&self.scenario, &mut world);
        let mut routes = RouteMap::default();
        let pair = Pair { client: world.reserve_host(), server: world.reserve_host() };
        let rng = Rng::new(self.scenario.seed).child("connections").child("0");
        let (topology, routes, own) = (&topology, &mut routes, Own::default());
        let wiring = Wiring { world: &mut world, topology, routes, own: &own, number: 0, early: false };
        let Assembly { client, server } = self.assemble(wiring, pair, &rng)?;
        let (viewer, file) = progressive(*spec);
        world.place_host(pair.client, Box::new(Endpoint::new(client, Box::new(viewer))));
        world.place_host(pair.server, Box::new(Endpoint::new(server, Box::new(file))));
        background::place(&self.scenario, topology, &mut world);
        let mut watch = Watch::new(self, topology);
        let mut next = Instant::ZERO + LINK_SAMPLE;
        self.pass_time(&mut world, &[pair], &mut |world, _, now| {
            if now >= next {
                next += LINK_SAMPLE;
                watch.look(world, pair);
            }
            Ok(())
        })?;
        let end = world.now();
        let server = world.host::<Endpoint>(pair.server).map(|end| end.transport().counters());
        let viewer = world.host::<Endpoint>(pair.client).and_then(Endpoint::application::<ProgressiveClient>);
        Ok(ProgressiveOutcome {
            record: viewer.and_then(|viewer| viewer.record(end)),
            arrivals: viewer.map(|viewer| viewer.arrivals(end)).unwrap_or_default(),
            paths: watch.paths,
            server: server.unwrap_or_default(),
            hash: world.log().hash(),
            events: world.events(),
        })
    }
}

impl Watch {
    fn new(run: &SimRun, topology: &Topology) -> Self {
        let count = run.scenario.paths.len();
        let link = |path| topology.link(LinkOwner::Path(path), Direction::Down);
        let only = match run.transport.paths(&run.scenario.path_names())[..] {
            [path] => Some(path as u8),
            _ => None,
        };
        Self {
            links: (0..count).map(link).collect(),
            paths: vec![PathRecord::default(); count],
            last: vec![(0, 0); count],
            only,
        }
    }

    fn look(&mut self, world: &World, pair: Pair) {
        let mut samples = Vec::new();
        if let Some(server) = world.host::<Endpoint>(pair.server) {
            server.transport().sample(&mut samples);
        }
        for (path, record) in self.paths.iter_mut().enumerate() {
            let delivered = world.link_stats(self.links[path]).delivered.bytes;
            let on = samples.iter().filter(|sample| usize::from(self.only.unwrap_or(sample.path)) == path);
            let retransmitted = on.map(|sample| sample.retransmitted).sum::<u64>();
            let (delivered_before, retransmitted_before) = self.last[path];
            record.delivered.push(delivered - delivered_before);
            // A new subflow in the place of a lost one counts from zero.
            let begun = retransmitted < retransmitted_before;
            let before = if begun { 0 } else { retransmitted_before };
            record.retransmitted.push(retransmitted - before);
            self.last[path] = (delivered, retransmitted);
        }
    }
}

#[cfg(test)]
mod tests;
