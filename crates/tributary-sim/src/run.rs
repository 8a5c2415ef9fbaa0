//! One run: a scenario, a transport, a congestion control, workloads and a seed give an [`Outcome`].
//!
//! Builds the world, runs it, and reads the results. Knows no wall clock: the caller measures how long a run
//! takes. Handshakes happen within the run, at its beginning.

mod assembly;
mod background;
mod budget;
mod choice;
mod dash;
mod outcome;
mod progressive;
mod tiled;
mod topology;
mod trace;

pub use budget::{expected_packets, least_budget};
pub use choice::{TransportName, UnknownName, check_congestion, check_scheduler};
pub use dash::DashOutcome;
pub use outcome::{ConnectionRecord, LinkReport, Outcome};
pub use progressive::{PathRecord, ProgressiveOutcome};
pub use tiled::{TiledOutcome, Viewers};
pub use topology::{RouteMap, RouteUse};
pub use trace::{LinkLosses, Trace, TraceSample};

use core::ops::ControlFlow;
use core::time::Duration;
use thiserror::Error;
use tributary_link::{LinkEvent, Scenario, ScenarioError, WorkloadSpec};
use tributary_types::{Instant, Rng};

use crate::event_log::LogSink;
use crate::host::Host;
use crate::id::HostId;
use crate::multipath::MultipathError;
use crate::own::Own;
use crate::quic::QuicError;
use crate::quic_in_session::InnerError;
use crate::transport::Endpoint;
use crate::workload::{self, Terms};
use crate::world::{World, WorldError};
use assembly::{Assembly, Blueprint};
use topology::Topology;
use trace::Recorder;

/// Sampling interval of links.
pub const LINK_SAMPLE: Duration = Duration::from_millis(100);
/// Sampling interval of transports with [`Options::trace`].
pub const TRACE_SAMPLE: Duration = Duration::from_millis(10);
/// Most connections at the same time.
pub const MOST_CONNECTIONS: u32 = tributary_link::MAX_CONNECTIONS;
/// Most subflows on each path.
pub const MOST_SUBFLOWS: u32 = tributary_link::MAX_SUBFLOWS;
/// Version of the models. Increased with every change after which the same settings give a different run; the
/// test of the golden hashes enforces this. Stores of finished runs compare it.
pub const MODEL_VERSION: u32 = 21;
/// The same without sessions, so that a change of the session leaves the runs of its rivals valid.
const RIVALS_VERSION: u32 = 14;

/// Version of the models in runs of the transport with this name.
#[must_use]
pub fn model_version(transport: &str) -> u32 {
    // A session's scheduler may be the caller's own, which is in no registry.
    let session =
        transport.starts_with("session/") || matches!(transport.parse(), Ok(TransportName::Session { .. }));
    // MPTCP with the session's scheduler, and names of an experiment's own.
    let ours = transport.contains(tributary_proto::transport::SESSION_DEFAULT);
    if session || ours { MODEL_VERSION } else { RIVALS_VERSION }
}

/// All settings of one run.
#[derive(Clone, Debug)]
pub struct SimRun {
    /// The network, with its duration, seed and base RTT.
    pub scenario: Scenario,
    /// The transport.
    pub transport: TransportName,
    /// Name of the congestion control of every subflow of both ends.
    pub congestion: String,
    /// The workloads of each connection, all at the same time.
    pub workloads: Vec<WorkloadSpec>,
    /// Everything else.
    pub options: Options,
}

/// Settings that usually keep their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of connections, each with all workloads.
    pub connections: u32,
    /// Subflows on each path.
    pub subflows: u32,
    /// Events after which the run is stopped; `None` derives it from rates and duration.
    pub budget: Option<u64>,
    /// Whether to record windows and round-trip times over time.
    pub trace: bool,
    /// Largest transmission window of a session in bytes.
    pub window: Option<usize>,
    /// Limit on a session's bytes not yet given to a subflow, as time at the paths' total rate; `None`: only
    /// its send buffer limits it.
    pub unsent: Option<Duration>,
    /// The kernel's TCP, also under MPTCP and sessions.
    pub tcp: TcpEra,
    /// Congestion control of a QUIC connection that carries the workloads in one flow of datagrams of the session; `None`: they
    /// use the session's streams.
    pub inner_quic: Option<String>,
    /// No workload begins before this time; transports connect at once. If it covers the handshakes,
    /// connections are up when the workload begins, as in the emulator.
    pub begin: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 1,
            subflows: 1,
            budget: None,
            trace: false,
            window: None,
            unsent: None,
            tcp: TcpEra::default(),
            inner_quic: None,
            begin: Duration::ZERO,
        }
    }
}

/// A kernel's TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpEra {
    /// Today's: RACK, tail-loss probes, ten initial segments.
    #[default]
    Today,
    /// An old one: NewReno (RFC 6582) without selective acknowledgements and tail-loss probes, three initial segments
    /// (RFC 3390).
    Then,
}

/// Why a run failed.
#[derive(Debug, Error)]
pub enum RunError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A name is unknown.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// Settings are invalid for a transport over several paths.
    #[error(transparent)]
    Multipath(#[from] MultipathError),
    /// Settings are invalid for QUIC.
    #[error(transparent)]
    Quic(#[from] QuicError),
    /// The player or the pusher of a tiled viewing failed.
    #[error("the tiled viewing: {0}")]
    Viewing(String),
    /// An option is out of range.
    #[error("{field}: {problem}")]
    Option {
        /// The option.
        field: &'static str,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// The run was stopped.
    #[error(transparent)]
    World(#[from] WorldError),
    /// Whoever watched the run stopped it.
    #[error("the run was stopped at {} s of virtual time", at.as_secs_f64())]
    Stopped {
        /// When, in virtual time.
        at: Instant,
    },
}

impl From<InnerError> for RunError {
    fn from(error: InnerError) -> Self {
        match error {
            InnerError::Session(error) => error.into(),
            InnerError::Quic(error) => error.into(),
        }
    }
}

/// What a new connection is wired into.
struct Wiring<'a> {
    world: &'a mut World,
    topology: &'a Topology,
    routes: &'a mut RouteMap,
    own: &'a Own,
    number: usize,
    early: bool,
}

/// Looks at a run at a time; an error ends the run.
type Look<'a> = &'a mut dyn FnMut(&World, &[Pair], Instant) -> Result<(), RunError>;

/// The two hosts of one connection.
#[derive(Clone, Copy, Debug)]
struct Pair {
    client: HostId,
    server: HostId,
}

impl SimRun {
    /// A run of one connection with default options.
    #[must_use]
    pub fn new(
        scenario: &Scenario,
        transport: &TransportName,
        congestion: &str,
        workload: &WorkloadSpec,
    ) -> Self {
        Self {
            scenario: scenario.clone(),
            transport: transport.clone(),
            congestion: congestion.to_owned(),
            workloads: vec![workload.clone()],
            options: Options::default(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// [`RunError`] names the field.
    pub fn check(&self) -> Result<(), RunError> {
        self.check_own(&Own::default())
    }

    /// As [`SimRun::check`], for a run with algorithms of the caller's own.
    ///
    /// # Errors
    /// [`RunError`] names the field.
    pub fn check_own(&self, own: &Own) -> Result<(), RunError> {
        let mut scenario = self.scenario.clone();
        scenario.run.workloads.clone_from(&self.workloads); // limited to the range that a file may use
        scenario.check()?;
        choice::check(&self.transport, &self.scenario, (&self.congestion, own))?;
        for source in &self.scenario.background {
            if let tributary_link::BackgroundKind::Tcp { congestion, .. } = &source.kind {
                choice::check_tcp_congestion(congestion.as_str())
                    .map_err(|unknown| congestion.refuse(&unknown.to_string()))?;
            }
        }
        let refuse = |field, problem: String| Err(RunError::Option { field, problem });
        if self.workloads.is_empty() {
            return refuse("workload", "at least one is needed".to_owned());
        }
        for (field, value, most) in [
            ("connections", self.options.connections, MOST_CONNECTIONS),
            ("subflows", self.options.subflows, MOST_SUBFLOWS),
        ] {
            if !(1..=most).contains(&value) {
                return refuse(field, format!("{value} is not from 1 to {most}"));
            }
        }
        let name = self.transport.name();
        if self.options.subflows > 1 && !self.transport.is_multipath() {
            return refuse(
                "subflows",
                format!("`{name}` has only one: leave it out, or take mptcp or session"),
            );
        }
        let of_sessions =
            [("window", self.options.window.is_some()), ("inner_quic", self.options.inner_quic.is_some())];
        for (field, _) in of_sessions.into_iter().filter(|(_, is_set)| *is_set) {
            if !matches!(self.transport, TransportName::Session { .. }) {
                let problem = format!(
                    "is a setting of sessions, and `{name}` is not a session: leave it out, or take session"
                );
                return refuse(field, problem);
            }
        }
        if let Some(inner) = &self.options.inner_quic {
            choice::check_quic_congestion(inner)?;
        }
        Ok(())
    }

    /// Makes the run.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is an outcome, not an error.
    pub fn run(&self) -> Result<Outcome, RunError> {
        self.run_with(|_| Vec::new())
    }

    /// As [`SimRun::run`], with sinks for the event log, made once the routes are known.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is an outcome, not an error.
    pub fn run_with(
        &self,
        sinks: impl FnOnce(&RouteMap) -> Vec<Box<dyn LogSink>>,
    ) -> Result<Outcome, RunError> {
        self.run_watched(&Own::default(), sinks, &mut |_| ControlFlow::Continue(()))
    }

    /// As [`SimRun::run_with`], with algorithms of the caller's own; calls `watch` with the completed share of virtual time, 0 to 1,
    /// every 100 ms of it. `watch` can stop the run.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is an outcome, not an error.
    pub fn run_watched(
        &self,
        own: &Own,
        sinks: impl FnOnce(&RouteMap) -> Vec<Box<dyn LogSink>>,
        watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Outcome, RunError> {
        self.check_own(own)?;
        let budget = self.options.budget.unwrap_or_else(|| least_budget(self));
        let mut world = World::new(budget);
        let topology = Topology::build(&self.scenario, &mut world);
        let mut routes = RouteMap::default();
        let pairs = self.connect(&mut world, &topology, (&mut routes, own))?;
        background::place(&self.scenario, &topology, &mut world);
        for sink in sinks(&routes) {
            world.log_mut().attach(sink);
        }
        let mut recorder = Recorder::new(self, &topology);
        self.pass_time(&mut world, &pairs, &mut |world, pairs, now| {
            recorder.look(world, pairs, now);
            stoppable(now, watch(now.as_secs_f64() / self.scenario.duration.as_secs_f64()))
        })?;
        Ok(Outcome::read(self, &world, &topology, &pairs, recorder))
    }

    /// Workloads of each connection: all on one if the transport has streams, else one on each.
    fn bundles(&self) -> Vec<Vec<WorkloadSpec>> {
        let once: Vec<Vec<WorkloadSpec>> = if self.transport.has_streams() {
            vec![self.workloads.clone()]
        } else {
            self.workloads.iter().map(|workload| vec![workload.clone()]).collect()
        };
        (0..self.options.connections).flat_map(|_| once.clone()).collect()
    }

    fn connect(
        &self,
        world: &mut World,
        topology: &Topology,
        (routes, own): (&mut RouteMap, &Own),
    ) -> Result<Vec<Pair>, RunError> {
        let seed = Rng::new(self.scenario.seed).child("connections");
        let mut pairs = Vec::new();
        for (number, workloads) in self.bundles().into_iter().enumerate() {
            let pair = Pair { client: world.reserve_host(), server: world.reserve_host() };
            let rng = seed.child(&number.to_string());
            let wiring =
                Wiring { world: &mut *world, topology, routes: &mut *routes, own, number, early: false };
            let Assembly { client, server } = self.assemble(wiring, pair, &rng)?;
            let from = Instant::ZERO + self.options.begin;
            let terms = Terms { from, ..Terms::always(rng.child("workload")) };
            let (asks, answers) = workload::pair(&workloads, &terms);
            world.place_host(pair.client, Box::new(Endpoint::new(client, Box::new(asks))) as Box<dyn Host>);
            world.place_host(pair.server, Box::new(Endpoint::new(server, Box::new(answers))));
            pairs.push(pair);
        }
        Ok(pairs)
    }

    /// Both ends of a connection's transport, with their own routes.
    fn assemble(&self, wiring: Wiring<'_>, pair: Pair, rng: &Rng) -> Result<Assembly, RunError> {
        let used = self.transport.paths(&self.scenario.path_names());
        let mut blueprint = Blueprint {
            choice: &self.transport,
            congestion: &self.congestion,
            own: wiring.own,
            options: &self.options,
            seed: rng.child("transport").next_u64(),
            early: wiring.early,
            paths: Vec::new(),
        };
        for path in used {
            let hosts = (pair.client, pair.server);
            let subflow = wiring.topology.ways(&self.scenario, path, wiring.world, hosts);
            wiring.routes.add(wiring.number as u32, subflow);
            // Subflows of a path share its routes.
            blueprint.paths.extend((0..self.options.subflows).map(|_| subflow));
        }
        blueprint.build()
    }

    /// Runs to the end, passing on link events; calls `look` during the run.
    fn pass_time(&self, world: &mut World, pairs: &[Pair], look: Look<'_>) -> Result<(), RunError> {
        let end = Instant::ZERO + self.scenario.duration;
        let mut events = self.scenario.link_events().into_iter().peekable();
        let step = if self.options.trace { TRACE_SAMPLE } else { LINK_SAMPLE };
        let mut next = Instant::ZERO + step;
        loop {
            let until = next.min(end);
            while let Some(event) = events.next_if(|event| event.at <= until) {
                world.run_until(event.at)?;
                tell(world, pairs, event);
            }
            world.run_until(until)?;
            look(world, pairs, until)?;
            if until >= end {
                return Ok(());
            }
            next += step;
        }
    }
}

/// The error of a run that its watcher stops.
fn stoppable(at: Instant, watched: ControlFlow<()>) -> Result<(), RunError> {
    if watched.is_break() { Err(RunError::Stopped { at }) } else { Ok(()) }
}

fn tell(world: &mut World, pairs: &[Pair], event: LinkEvent) {
    for pair in pairs {
        for host in [pair.client, pair.server] {
            world.path_changed(host, event.path as u8, event.up);
        }
    }
}
