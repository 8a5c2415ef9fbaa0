//! What to simulate: what a user asked for, else what the scenario's `run` table says, else the
//! customary.

use super::Simulation;
use crate::run::Queue;
use core::time::Duration;
use thiserror::Error;
use tributary_link::{Name, Scenario, ScenarioError, WorkloadSpec};
use tributary_sim::run::{Choice, Options, RunError, UnknownName, check_congestion, check_scheduler};

/// Transport where nobody names one.
const TRANSPORT: &str = "fbdt";
/// Congestion control where nobody names one.
const CONGESTION: &str = "cubic";
/// Length of a run where neither the user nor a `run` table decides.
pub const SECONDS: u32 = 10;

/// What a user asked for; `None` leaves it to the scenario.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Transport, as [`Choice::find`] names it.
    pub transport: Option<String>,
    /// Scheduler of `mptcp`, `mpquic` or `session`.
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
    /// Windows and round-trip times over time.
    pub trace: bool,
}

/// Why a request is refused.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A name or a value of the scenario's file.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A name of the request.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// An option is out of range.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Request {
    /// The simulation of `scenario` that is asked for.
    ///
    /// # Errors
    /// [`RequestError`]: unknown names with file, line and field when the scenario's file has them.
    pub fn resolve(&self, scenario: &Scenario) -> Result<Simulation, RequestError> {
        let (scenario, run) = (self.conditions(scenario), &scenario.run);
        let scheduler = named(&self.scheduler, &run.scheduler, check_scheduler)?;
        let find = |name: &str| Choice::find(name, scheduler.as_deref(), &scenario);
        let transport = match (&self.transport, &run.transport) {
            (Some(name), _) => find(name)?,
            (None, Some(name)) => find(name.as_str()).map_err(|e| name.refuse(&e.to_string()))?,
            (None, None) => find(scheduler.as_deref().unwrap_or(TRANSPORT))?,
        };
        let congestion = named(&self.congestion, &run.congestion, check_congestion)?;
        let workloads = match &self.workload {
            Some(workload) => vec![workload.clone()],
            None if run.workloads.is_empty() => vec![WorkloadSpec::Bulk { size: None }],
            None => run.workloads.clone(),
        };
        let options = Options {
            connections: run.connections.unwrap_or(1),
            subflows: run.subflows.unwrap_or(1),
            budget: self.budget,
            trace: self.trace,
            window: self.window,
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
            // A scenario that says what to run also says for how long.
            None if !scenario.run.is_empty() => scenario,
            None => scenario.with_duration(Duration::from_secs(SECONDS.into())),
        }
    }
}

/// The user's name, else the scenario's; refused where it stands when it is not known.
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
