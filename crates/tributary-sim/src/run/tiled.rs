//! A run with one connection that carries a tiled viewing instead of the run's workloads.

use tributary_player::tiled::{PushCounters, SESSION_UNSENT, TiledRecord};
use tributary_types::{Instant, Rng};

use super::assembly::Assembly;
use super::topology::{RouteMap, Topology};
use super::{Pair, RunError, SimRun, Wiring, background, least_budget};
use crate::own::Own;
use crate::transport::{Counters, Endpoint};
use crate::workload::tiled::{self, TiledClient, TiledServer, TiledSpec};
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
    /// Hash of the event log: the same for the same run and viewing on every machine.
    pub hash: u64,
    /// Events that happened.
    pub events: u64,
}

impl SimRun {
    /// Simulates a viewing: one connection of this run's transport for the duration of the scenario, with
    /// the product's player and pusher in place of the workloads.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is an outcome, not an error.
    pub fn run_tiled(&self, spec: TiledSpec) -> Result<TiledOutcome, RunError> {
        let mut run = self.clone();
        run.options.unsent = Some(SESSION_UNSENT);
        run.check()?;
        let mut world = World::new(run.options.budget.unwrap_or_else(|| least_budget(&run)));
        let topology = Topology::build(&run.scenario, &mut world);
        let mut routes = RouteMap::default();
        let pair = Pair { client: world.reserve_host(), server: world.reserve_host() };
        let rng = Rng::new(run.scenario.seed).child("connections").child("0");
        // As in `stream play`, the first request is sent right after the hello.
        let (topology, routes, own) = (&topology, &mut routes, Own::default());
        let wiring = Wiring { world: &mut world, topology, routes, own: &own, number: 0, early: true };
        let Assembly { client, server } = run.assemble(wiring, pair, &rng)?;
        let (viewer, pusher) = tiled::tiled(spec);
        world.place_host(pair.client, Box::new(Endpoint::new(client, Box::new(viewer))));
        world.place_host(pair.server, Box::new(Endpoint::new(server, Box::new(pusher))));
        background::place(&run.scenario, topology, &mut world);
        run.pass_time(&mut world, &[pair], &mut |_: &World, _: &[Pair], _: Instant| Ok(()))?;
        let (hash, events) = (world.log().hash(), world.events());
        let counters = world.host::<Endpoint>(pair.server).map(|end| end.transport().counters());
        let mut outcome =
            TiledOutcome { server: counters.unwrap_or_default(), hash, events, ..TiledOutcome::default() };
        if let Some(client) =
            world.host::<Endpoint>(pair.client).and_then(Endpoint::application::<TiledClient>)
        {
            outcome.started = client.started();
            outcome.record = client.record().map_err(RunError::Viewing)?;
        }
        if let Some(server) =
            world.host::<Endpoint>(pair.server).and_then(Endpoint::application::<TiledServer>)
        {
            outcome.pushed = server.counters().map_err(RunError::Viewing)?;
        }
        Ok(outcome)
    }
}
