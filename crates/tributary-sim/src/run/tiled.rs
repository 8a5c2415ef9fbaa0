//! A run whose connections carry tiled viewings instead of the run's workloads: of one viewer, or of several at the same time.

use tributary_player::tiled::{PushCounters, SESSION_UNSENT, TiledRecord};
use tributary_types::{Instant, Rng};
use tributary_video::allocation::Sharing;

use super::assembly::Assembly;
use super::topology::{RouteMap, Topology};
use super::{Pair, RunError, SimRun, Wiring, background, least_budget};
use crate::own::Own;
use crate::transport::{Counters, Endpoint};
use crate::workload::tiled::{self, Group, TiledClient, TiledServer, TiledSpec};
use crate::world::World;

/// Result of a tiled viewing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TiledOutcome {
    /// When the viewer requested the start; `None` if the connection never came up.
    pub started: Option<Instant>,
    /// Planned and arrived tiles.
    pub record: TiledRecord,
    /// The server's counts.
    pub pushed: PushCounters,
    /// Counters of the server's end of the transport.
    pub server: Counters,
    /// Hash of the event log: the same for the same run and viewings on every machine.
    pub hash: u64,
    /// Events that happened.
    pub events: u64,
}

/// What several viewers share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Viewers {
    /// Whether each has links of its own, all with the scenario's rates and seed; else all cross the same links.
    pub own_links: bool,
    /// The objective of plans that are made together; `None`: each viewer plans for itself.
    pub sharing: Option<Sharing>,
}

impl SimRun {
    /// Simulates a viewing: one connection of this run's transport for the duration of the scenario, with
    /// the product's player and pusher in place of the workloads.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is an outcome, not an error.
    pub fn run_tiled(&self, spec: TiledSpec) -> Result<TiledOutcome, RunError> {
        Ok(self.run_viewers(vec![spec], Viewers::default())?.swap_remove(0))
    }

    /// Simulates viewings of one server at the same time, each over a connection of its own.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is an outcome, not an error.
    pub fn run_viewers(
        &self,
        specs: Vec<TiledSpec>,
        viewers: Viewers,
    ) -> Result<Vec<TiledOutcome>, RunError> {
        let mut run = self.clone();
        run.options.unsent = Some(SESSION_UNSENT);
        run.check()?;
        let budget = least_budget(&run).saturating_mul(specs.len() as u64);
        let mut world = World::new(run.options.budget.unwrap_or(budget));
        let networks = if viewers.own_links { specs.len() } else { 1 };
        let topologies: Vec<Topology> =
            (0..networks).map(|_| Topology::build(&run.scenario, &mut world)).collect();
        let (mut routes, own) = (RouteMap::default(), Own::default());
        let seed = Rng::new(run.scenario.seed).child("connections");
        let group = Group::new(viewers.sharing);
        let mut pairs = Vec::new();
        for (number, spec) in specs.into_iter().enumerate() {
            let pair = Pair { client: world.reserve_host(), server: world.reserve_host() };
            // As in `stream play`, the first request is sent right after the hello.
            let (topology, early) = (&topologies[number % networks], true);
            let wiring =
                Wiring { world: &mut world, topology, routes: &mut routes, own: &own, number, early };
            let Assembly { client, server } = run.assemble(wiring, pair, &seed.child(&number.to_string()))?;
            let (viewer, pusher) = tiled::tiled(spec, group.clone());
            world.place_host(pair.client, Box::new(Endpoint::new(client, Box::new(viewer))));
            world.place_host(pair.server, Box::new(Endpoint::new(server, Box::new(pusher))));
            pairs.push(pair);
        }
        for topology in &topologies {
            background::place(&run.scenario, topology, &mut world);
        }
        run.pass_time(&mut world, &pairs, &mut |_: &World, _: &[Pair], _: Instant| Ok(()))?;
        pairs.iter().map(|pair| outcome(&world, *pair)).collect()
    }
}

fn outcome(world: &World, pair: Pair) -> Result<TiledOutcome, RunError> {
    let counters = world.host::<Endpoint>(pair.server).map(|end| end.transport().counters());
    let mut outcome = TiledOutcome {
        server: counters.unwrap_or_default(),
        hash: world.log().hash(),
        events: world.events(),
        ..TiledOutcome::default()
    };
    if let Some(client) = world.host::<Endpoint>(pair.client).and_then(Endpoint::application::<TiledClient>) {
        outcome.started = client.started();
        outcome.record = client.record().map_err(RunError::Viewing)?;
    }
    if let Some(server) = world.host::<Endpoint>(pair.server).and_then(Endpoint::application::<TiledServer>) {
        outcome.pushed = server.counters().map_err(RunError::Viewing)?;
    }
    Ok(outcome)
}
