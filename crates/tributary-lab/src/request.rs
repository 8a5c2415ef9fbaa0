//! What the user chooses of a run: the settings not given come from the scenario's `run` table, else from the defaults. Each
//! world resolves it into its own run: [`Request::emulated`] and [`Request::simulated`].

use crate::cell::Queue;
use crate::transport::SessionSettings;
use core::time::Duration;
use thiserror::Error;
use tributary_link::{RunSpec, Scenario, ScenarioError};
use tributary_proto::transport::UnknownName;
use tributary_sim::run::RunError;

/// Length of a run if neither the user nor a `run` table sets it.
const LENGTH: Duration = Duration::from_secs(10);

/// Valid names in `run.metrics`. Every result contains all of them.
const METRICS: [&str; 6] = ["goodput", "silences", "links", "flows", "retransmissions", "duplicates"];

/// The user's choice; `None` leaves a setting to the scenario. The scenario's scheduler and number of subflows are
/// meant for the scenario's own transport. If the user names another transport, they apply only if it supports them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Transport, as [`tributary_proto::transport::TransportName::find`] names it.
    pub transport: Option<String>,
    /// Scheduler of `session`, in the simulator also of `mptcp`.
    pub scheduler: Option<String>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// Workload; its length is taken from `seconds` or the scenario.
    pub workload: Option<Asked>,
    /// Length in seconds.
    pub seconds: Option<u32>,
    /// Seed.
    pub seed: Option<u64>,
    /// Base RTT.
    pub rtt: Option<Duration>,
    /// Queue of every path's link.
    pub queue: Queue,
    /// How a session is set up.
    pub session: SessionSettings,
    /// Simulator: events after which the run is stopped.
    pub budget: Option<u64>,
}

/// A workload without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// As many bytes as arrive.
    Bulk,
    /// Objects: bytes of each, number of objects, pause between two in milliseconds.
    Object(u64, u32, u64),
    /// Live video this many milliseconds behind the live edge.
    Live(u64),
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
    /// A value is out of range.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The transport or the world does not support an option.
    #[error("{option}: {problem}")]
    Option {
        /// The option.
        option: String,
        /// What is wrong, and what to do instead.
        problem: String,
    },
}

impl RequestError {
    pub(crate) fn option(option: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Option { option: option.into(), problem: problem.into() }
    }
}

impl Request {
    /// The scenario with the requested seed, base RTT and length. A scenario with a `run` table also sets the length of the run.
    pub(crate) fn conditions(&self, scenario: &Scenario) -> Scenario {
        let mut scenario = scenario.clone();
        if let Some(seed) = self.seed {
            scenario = scenario.with_seed(seed);
        }
        if let Some(rtt) = self.rtt {
            scenario = scenario.with_rtt(rtt);
        }
        match self.seconds {
            Some(seconds) => scenario.with_duration(Duration::from_secs(seconds.into())),
            None if !scenario.run.is_empty() => scenario,
            None => scenario.with_duration(LENGTH),
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
