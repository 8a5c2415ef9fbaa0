//! A run whose one client plays a DASH title in place of the run's workloads.

mod bandwidth;
mod probe;
mod steer;

use core::ops::ControlFlow;
use core::time::Duration;

use tributary_player::abr;
use tributary_player::dash::play::{Event, Qoe};
use tributary_player::engine::Decided;
use tributary_types::{Instant, Rng};

use super::assembly::{Assembly, Blueprint};
use super::topology::Topology;
use super::{RunError, SimRun, TransportName, background, least_budget, stoppable};
use crate::id::HostId;
use crate::own::Own;
use crate::transport::Endpoint;
use crate::workload::dash::{Connection, Control, DashClient, DashServer, DashSpec, Download, Requests};
use crate::world::World;
use steer::Steer;

/// Interval at which a run checks its client; a controller is asked once in [`LOOKS`] intervals.
const STEP: Duration = Duration::from_millis(100);
const LOOKS: u32 = 10;
/// Connections that are kept for the client to take: it may give up one within a step.
const SPARES: usize = 2;

/// Result of a DASH playback.
#[derive(Clone, Debug, PartialEq)]
pub struct DashOutcome {
    /// Record of the playback; `None` when the manifest did not arrive. Its start-up counts from asking for the manifest.
    pub qoe: Option<Qoe>,
    /// From asking for the first segment to the first picture.
    pub start_up: Option<Duration>,
    /// Why playback was given up.
    pub given_up: Option<String>,
    /// What happened to the player.
    pub events: Vec<(Instant, Event)>,
    /// Downloads of segments over time.
    pub downloads: Vec<Download>,
    /// Decisions of the engine.
    pub decisions: Vec<Decided>,
    /// Paths taken out of use or into it, by the engine or by the threshold of bandwidth.
    pub path_changes: u32,
    /// Connections that took the place of one that was given up.
    pub reconnects: u32,
    /// Hash of the event log: the same for the same run and playback on every machine.
    pub hash: u64,
    /// Events that happened.
    pub events_total: u64,
}

/// Settings of connections.
#[derive(Clone, Debug)]
struct Kind {
    transport: TransportName,
    congestion: String,
}

/// A run in progress.
struct Playback<'a> {
    run: &'a SimRun,
    own: &'a Own,
    world: World,
    topology: Topology,
    client: HostId,
    /// Kind of the connection in use.
    kind: Kind,
    /// Connections made so far.
    made: u32,
}

impl SimRun {
    /// Lets a viewer watch a DASH title on this run's transport, for this scenario's duration.
    ///
    /// # Errors
    /// [`RunError`]; a transport that merely performs badly is an outcome.
    pub fn run_dash(&self, spec: &DashSpec) -> Result<DashOutcome, RunError> {
        self.run_dash_own(spec, &Own::default(), &mut |_| ControlFlow::Continue(()))
    }

    /// As [`SimRun::run_dash`], with algorithms of the caller's own; calls `watch` with the completed share of virtual time, 0 to 1,
    /// every 100 ms of it. `watch` can stop the run.
    ///
    /// # Errors
    /// [`RunError`]; a transport that merely performs badly is an outcome.
    pub fn run_dash_own(
        &self,
        spec: &DashSpec,
        own: &Own,
        watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<DashOutcome, RunError> {
        self.check_own(own)?;
        self.check_dash(spec)?;
        let rule = match &own.rule {
            Some(make) => make(),
            None => abr::rule(&spec.rule).map_err(|unknown| refused("rule", unknown.to_string()))?,
        };
        let mut world = World::new(self.options.budget.unwrap_or_else(|| least_budget(self)));
        let topology = Topology::build(&self.scenario, &mut world);
        background::place(&self.scenario, &topology, &mut world);
        let client = world.reserve_host();
        let player = DashClient::new(spec.settings, spec.title.clone(), rule);
        world.place_host(client, Box::new(player));
        let kind = Kind { transport: self.transport.clone(), congestion: self.congestion.clone() };
        let mut playback = Playback { run: self, own, world, topology, client, kind, made: 0 };
        let mut steer = Steer::new(spec, &mut playback);
        playback.play(spec, &mut steer, watch)?;
        Ok(playback.outcome(steer))
    }

    fn check_dash(&self, spec: &DashSpec) -> Result<(), RunError> {
        if spec.control != Control::None && !matches!(self.transport, TransportName::Mptcp { .. }) {
            let problem = format!("`{}` has no paths that are controlled: take mptcp", self.transport.name());
            return Err(refused("control", problem));
        }
        if !self.scenario.link_events().is_empty() {
            let problem = "paths that leave visibly are not modelled for DASH: take `dead` times instead";
            return Err(refused("absent", problem.to_owned()));
        }
        Ok(())
    }
}

fn refused(field: &'static str, problem: String) -> RunError {
    RunError::Option { field, problem }
}

impl Playback<'_> {
    fn play(
        &mut self,
        spec: &DashSpec,
        steer: &mut Steer,
        watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<(), RunError> {
        let end = Instant::ZERO + self.run.scenario.duration;
        let mut now = spec.from.min(end);
        self.world.run_until(now)?;
        let connections = steer.begin(now, self)?;
        self.world.act(self.client, |client: &mut DashClient, now, out| client.begin(now, connections, out));
        let mut looks = 0;
        while now < end {
            self.refill()?;
            now = (now + STEP).min(end);
            self.world.run_until(now)?;
            stoppable(now, watch(now.as_secs_f64() / end.as_secs_f64()))?;
            looks += 1;
            if looks % LOOKS == 0 {
                steer.look(now, self)?;
            }
        }
        Ok(())
    }

    /// A connection, with its server in place.
    fn connection(&mut self, kind: &Kind) -> Result<Connection, RunError> {
        let Self { run, own, world, topology, client, .. } = self;
        let server = world.reserve_host();
        let used = kind.transport.paths(&run.scenario.path_names());
        let paths: Vec<_> = used
            .into_iter()
            .map(|path| topology.ways(&run.scenario, path, world, (*client, server)))
            .collect();
        let seed = Rng::new(run.scenario.seed).child("connections").child(&self.made.to_string()).next_u64();
        self.made += 1;
        let blueprint = Blueprint {
            choice: &kind.transport,
            congestion: &kind.congestion,
            own,
            options: &run.options,
            seed,
            early: false,
            paths: paths.clone(),
        };
        let ends: Assembly = blueprint.build()?;
        let per_request = matches!(kind.transport, TransportName::Quic(_));
        let requests = Requests::default();
        let app = DashServer::new(requests.clone(), per_request);
        world.place_host(server, Box::new(Endpoint::new(ends.server, Box::new(app))));
        Ok(Connection::new(ends.client, requests, (paths, server), per_request))
    }

    /// Makes connections for the client to take.
    fn refill(&mut self) -> Result<(), RunError> {
        while self.client().spares() < SPARES {
            let connection = self.connection(&self.kind.clone())?;
            self.world
                .act(self.client, |client: &mut DashClient, now, out| client.supply(now, connection, out));
        }
        Ok(())
    }

    fn client(&self) -> &DashClient {
        self.world.host(self.client).expect("it was placed")
    }

    /// The server's end of the connection in use.
    fn server(&self) -> Option<&Endpoint> {
        self.world.host(self.client().server()?)
    }

    /// Takes a path into use or out of it, at both ends.
    fn set_path(&mut self, path: u8, used: bool) {
        let server = self.client().server();
        for host in [Some(self.client), server].into_iter().flatten() {
            self.world.path_changed(host, path, used);
        }
    }

    fn outcome(self, steer: Steer) -> DashOutcome {
        let now = self.world.now();
        let client = self.client();
        let qoe = client.qoe(now);
        let start_up = qoe.as_ref().and_then(|qoe| qoe.start_up_s).and_then(|whole| {
            let (began, first) = client.asked();
            let before = first?.saturating_since(began?);
            Some(Duration::from_secs_f64(whole).saturating_sub(before))
        });
        DashOutcome {
            start_up,
            qoe,
            given_up: client.given_up(),
            events: client.events().to_vec(),
            downloads: client.downloads().to_vec(),
            reconnects: client.reconnects(),
            path_changes: steer.path_changes(),
            decisions: steer.into_decisions(),
            hash: self.world.log().hash(),
            events_total: self.world.events(),
        }
    }
}

#[cfg(test)]
mod tests;
