//! A run whose one connection carries a tiled viewing in place of the cell's workloads.

use tributary_types::{Instant, Rng};

use super::assembly::Assembly;
use super::topology::{RouteMap, Topology};
use super::{Cell, Pair, Place, RunError, background, least_budget};
use crate::transport::{Counters, Endpoint};
use crate::workload::tiled::{self, TilePlanner, TiledClient, TiledRecord, TiledSpec};
use crate::world::World;

/// What came out of a tiled viewing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TiledOutcome {
    /// What was planned and arrived.
    pub record: TiledRecord,
    /// Counters of the server's end.
    pub server: Counters,
    /// Hash of the event log: the same for the same cell and planner on every machine.
    pub hash: u64,
    /// Events that happened.
    pub events: u64,
}

impl Cell {
    /// Lets a viewer watch: one connection of this cell's transport, this scenario's duration, `spec` and
    /// `planner` in place of the workloads.
    ///
    /// # Errors
    /// [`RunError`]; a transport that merely performs badly is an outcome.
    pub fn run_tiled(
        &self,
        spec: &TiledSpec,
        planner: Box<dyn TilePlanner>,
    ) -> Result<TiledOutcome, RunError> {
        self.check()?;
        let mut world = World::new(self.options.budget.unwrap_or_else(|| least_budget(self)));
        let topology = Topology::build(&self.scenario, &mut world);
        let mut routes = RouteMap::default();
        let pair = Pair { client: world.reserve_host(), server: world.reserve_host() };
        let rng = Rng::new(self.scenario.seed).child("connections").child("0");
        // As `stream play`: the first request goes behind the hello.
        let (topology, routes) = (&topology, &mut routes);
        let place = Place { world: &mut world, topology, routes, number: 0, early: true };
        let Assembly { client, server } = self.assemble(place, pair, &rng)?;
        let (asks, answers) = tiled::tiled(spec, planner);
        world.place_host(pair.client, Box::new(Endpoint::new(client, Box::new(asks))));
        world.place_host(pair.server, Box::new(Endpoint::new(server, Box::new(answers))));
        background::place(&self.scenario, topology, &mut world);
        self.pass_time(&mut world, &[pair], &mut |_: &World, _: &[Pair], _: Instant| ())?;
        let client = world.host::<Endpoint>(pair.client).and_then(Endpoint::application::<TiledClient>);
        let server = world.host::<Endpoint>(pair.server).map(|end| end.transport().counters());
        Ok(TiledOutcome {
            record: client.map(|client| client.record().clone()).unwrap_or_default(),
            server: server.unwrap_or_default(),
            hash: world.log().hash(),
            events: world.events(),
        })
    }
}
