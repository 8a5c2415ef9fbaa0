//! Settings of a simulated run: the user's choice, else the scenario's `run` table, else the defaults.

use super::Simulation;
use crate::cell::Queue;
use core::time::Duration;
use thiserror::Error;
use tributary_link::{Name, RunSpec, Scenario, ScenarioError, WorkloadSpec};
use tributary_sim::run::{Options, RunError, TransportName, UnknownName, check_congestion, check_scheduler};

/// Default transport.
const TRANSPORT: &str = "fbdt";
/// Default congestion control.
const CONGESTION: &str = "cubic";
/// Length of a run in seconds if neither the user nor a `run` table sets it.
pub const SECONDS: u32 = 10;

/// Valid names in `run.metrics`. Every result contains all of them.
pub const METRICS: [&str; 6] = ["goodput", "silences", "links", "flows", "retransmissions", "duplicates"];

/// The user's choice; `None` leaves a setting to the scenario. The scenario's scheduler and number of subflows are
/// meant for the scenario's own transport. If the user names another transport, they apply only if it supports them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Transport, as [`TransportName::find`] names it.
    pub transport: Option<String>,
    /// Scheduler of `mptcp` or `session`.
    pub scheduler: Option<String>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// Workload.
    pub workload: Option<WorkloadSpec>,
    /// Length in seconds.
    pub seconds: Option<u32>,
    /// Seed.
    pub seed: Option<u64>,
    /// Base RTT.
    pub rtt: Option<Duration>,
    /// Queue of every path's link.
    pub queue: Queue,
    /// Largest transmission window of a session in bytes.
    pub window: Option<usize>,
    /// Events after which a run is stopped.
    pub budget: Option<u64>,
    /// Whether to record windows and round-trip times over time.
    pub trace: bool,
}

/// Why a request is refused.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A name or a value in the scenario's file is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A name in the user's choice is unknown.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// An option is out of range.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A scheduler was given for a transport that has none, or that names its own.
    #[error(
        "--scheduler {scheduler}: `{transport}` has none to choose; leave it out, or take --transport mptcp \
         or session"
    )]
    Scheduler {
        /// The scheduler.
        scheduler: String,
        /// The transport.
        transport: String,
    },
}

impl Request {
    /// The simulation of `scenario` with these settings.
    ///
    /// # Errors
    /// [`RequestError`]: unknown names with file, line and field when the scenario's file has them.
    pub fn resolve(&self, scenario: &Scenario) -> Result<Simulation, RequestError> {
        let (scenario, run) = (self.conditions(scenario), &scenario.run);
        let scheduler = named(&self.scheduler, &run.scheduler, check_scheduler)?;
        let find = |name: &str| TransportName::find(name, scheduler.as_deref(), &scenario.path_names());
        let transport = match (&self.transport, &run.transport) {
            (Some(name), _) => find(name)?,
            (None, Some(name)) => find(name.as_str()).map_err(|e| name.refuse(&e.to_string()))?,
            (None, None) => find(scheduler.as_deref().unwrap_or(TRANSPORT))?,
        };
        self.check_scheduler_of(&transport, &scenario)?;
        check_metrics(run)?;
        if self.transport.is_none() && run.subflows.is_some_and(|n| n > 1) && !transport.is_multipath() {
            let problem =
                format!("`{}` has only one: leave it out, or take mptcp or session", transport.name());
            return Err(run.refuse("run.subflows", &problem).into());
        }
        let subflows = run.subflows.filter(|_| transport.is_multipath()).unwrap_or(1);
        let congestion = named(&self.congestion, &run.congestion, check_congestion)?;
        let workloads = match &self.workload {
            Some(workload) => vec![workload.clone()],
            None if run.workloads.is_empty() => vec![WorkloadSpec::Bulk { size: None }],
            None => run.workloads.clone(),
        };
        let options = Options {
            connections: run.connections.unwrap_or(1),
            subflows,
            budget: self.budget,
            trace: self.trace,
            window: self.window,
            ..Options::default()
        };
        let simulation = Simulation {
            scenario,
            queue: self.queue,
            transport,
            congestion: congestion.unwrap_or_else(|| CONGESTION.to_owned()),
            workloads,
            options,
        };
        simulation.cell().check()?;
        Ok(simulation)
    }

    /// Refuses a scheduler that the transport does not support, unless the file gives it for another transport.
    fn check_scheduler_of(&self, transport: &TransportName, scenario: &Scenario) -> Result<(), RequestError> {
        match (&self.scheduler, &scenario.run.scheduler) {
            (Some(name), _) if !transport.is_scheduled_by(name) => {
                Err(RequestError::Scheduler { scheduler: name.clone(), transport: transport.name() })
            }
            (None, Some(name)) if self.transport.is_none() && !transport.is_scheduled_by(name.as_str()) => {
                let transport = transport.name();
                let problem = format!("transport `{transport}` has none to choose; take mptcp or session");
                Err(name.refuse(&problem).into())
            }
            _ => Ok(()),
        }
    }

    /// The scenario with the requested seed, base RTT and length.
    fn conditions(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        if let Some(seed) = self.seed {
            scenario = scenario.with_seed(seed);
        }
        if let Some(rtt) = self.rtt {
            scenario = scenario.with_rtt(rtt);
        }
        match self.seconds {
            Some(seconds) => scenario.with_duration(Duration::from_secs(seconds.into())),
            // A scenario with a `run` table also sets the length of the run.
            None if !scenario.run.is_empty() => scenario,
            None => scenario.with_duration(Duration::from_secs(SECONDS.into())),
        }
    }
}

/// Refuses names in `run.metrics` that no result has.
pub(crate) fn check_metrics(run: &RunSpec) -> Result<(), ScenarioError> {
    match run.metrics.iter().find(|name| !METRICS.contains(&name.as_str())) {
        Some(name) => Err(name.refuse(&format!("unknown metric; known: {}", METRICS.join(", ")))),
        None => Ok(()),
    }
}

/// The user's name, else the scenario's. An unknown name is refused, with file and line if it comes from the
/// scenario.
fn named(
    asked: &Option<String>,
    written: &Option<Name>,
    check: fn(&str) -> Result<(), UnknownName>,
) -> Result<Option<String>, RequestError> {
    match (asked, written) {
        (Some(name), _) => {
            check(name)?;
            Ok(Some(name.clone()))
        }
        (None, Some(name)) => {
            check(name.as_str()).map_err(|e| name.refuse(&e.to_string()))?;
            Ok(Some(name.as_str().to_owned()))
        }
        (None, None) => Ok(None),
    }
}
