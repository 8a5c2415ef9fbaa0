//! Settings of an emulated run: the user's choice, else the scenario's `run` table, else the defaults.
//! [`crate::simulate::Request`] does the same for the simulator. Not here: the run itself.

use crate::cell::{Queue, Run};
use crate::simulate::check_metrics;
use crate::transport::{SessionSettings, is_on_sockets};
use crate::workload::Workload;
use core::time::Duration;
use thiserror::Error;
use tributary_link::{Name, RunSpec, Scenario, ScenarioError, WorkloadSpec};
use tributary_proto::transport::{TransportName, UnknownName};

/// Length of a run in seconds if neither the user nor a `run` table sets it.
const SECONDS: f64 = 10.0;
/// Default transport. Its scheduler may be given separately.
const SESSION: &str = "session";

/// The user's choice; `None` leaves a setting to the scenario. The scenario's scheduler and number of subflows are
/// meant for the scenario's own transport. If the user names another transport, they apply only if it supports them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Transport, as [`TransportName::find`] names it.
    pub transport: Option<String>,
    /// Scheduler of `session`.
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
    /// The transport is unknown.
    #[error(transparent)]
    Transport(#[from] UnknownName),
    /// The transport or the emulator does not support an option.
    #[error("{option}: {problem}")]
    Option {
        /// The option.
        option: String,
        /// What is wrong, and what to do instead.
        problem: String,
    },
}

impl Request {
    /// The run of `scenario` with these settings.
    ///
    /// # Errors
    /// [`RequestError`], with file, line and field when the scenario's file uses something that only the simulator
    /// supports.
    pub fn resolve(&self, scenario: &Scenario) -> Result<Run, RequestError> {
        let run = &scenario.run;
        check_metrics(run)?;
        if let Some(problem) = scenario.needs_simulator() {
            return Err(RequestError::Option { option: "--world emu".to_owned(), problem });
        }
        if run.connections.is_some_and(|n| n > 1) {
            return Err(simulator_only(run, "run.connections", "several connections at once"));
        }
        if self.transport.is_none() && run.subflows.is_some_and(|n| n > 1) {
            return Err(simulator_only(run, "run.subflows", "several subflows on a path"));
        }
        let transport = self.transport(scenario)?;
        self.check_settings(&transport)?;
        let (seconds, workload) = (self.seconds(scenario), self.workload(run)?);
        let workload = match workload {
            Asked::Bulk => Workload::Bulk { seconds },
            Asked::Object(size, count, pause_ms) => {
                Workload::Object { size, count, pause_ms, limit: seconds }
            }
            Asked::Live(start_up_ms) => Workload::Live { gops: seconds.ceil() as u32, start_up_ms },
        };
        let mut network = scenario.clone();
        if let Some(seed) = self.seed {
            network = network.with_seed(seed);
        }
        if let Some(rtt) = self.rtt {
            network = network.with_rtt(rtt);
        }
        let congestion = self.congestion.as_deref().or(run.congestion.as_ref().map(Name::as_str));
        let cell = Run::new(&network, &transport, congestion.unwrap_or("cubic"), &workload);
        Ok(Run { session: self.session.clone(), ..cell.with_queue(self.queue) })
    }

    fn seconds(&self, scenario: &Scenario) -> f64 {
        match self.seconds {
            Some(seconds) => seconds.into(),
            // A scenario with a `run` table also sets the length of the run.
            None if !scenario.run.is_empty() => scenario.duration.as_secs_f64(),
            None => SECONDS,
        }
    }

    fn workload(&self, run: &RunSpec) -> Result<Asked, RequestError> {
        let simulated = |what| Err(simulator_only(run, "run.workload", what));
        match (self.workload, run.workloads.as_slice()) {
            (Some(asked), _) => Ok(asked),
            (None, [] | [WorkloadSpec::Bulk { size: None }]) => Ok(Asked::Bulk),
            (None, [WorkloadSpec::Object { pause, .. }]) if pause.subsec_nanos() % 1_000_000 != 0 => {
                simulated("a pause that is not a whole number of milliseconds")
            }
            (None, [WorkloadSpec::Object { size, count, pause }]) => {
                let count = u32::try_from(*count).unwrap_or(u32::MAX);
                Ok(Asked::Object(size.as_bytes(), count, pause.as_millis() as u64))
            }
            (None, [WorkloadSpec::Bulk { .. }]) => simulated("a bulk transfer of a given size"),
            (None, [_]) => simulated("this kind of workload"),
            (None, _) => simulated("several workloads at once"),
        }
    }

    fn transport(&self, scenario: &Scenario) -> Result<TransportName, RequestError> {
        let run = &scenario.run;
        let (asked, written) = (self.transport.as_deref(), run.transport.as_ref());
        // The file's scheduler applies to its own transport, and to a session that the user names.
        let own = run.scheduler.as_ref().filter(|_| asked.is_none_or(|name| name == SESSION));
        let scheduler = self.scheduler.as_deref().or(own.map(Name::as_str));
        let name = asked.or(written.map(Name::as_str)).unwrap_or(SESSION);
        let in_file = own.filter(|_| self.scheduler.is_none());
        let found = match TransportName::find(name, scheduler, &scenario.path_names()) {
            Ok(found) => found,
            Err(unknown) => {
                let place = if unknown.what == "scheduler" { in_file } else { written };
                return Err(match place.filter(|_| asked.is_none() || in_file.is_some()) {
                    Some(place) => place.refuse(&unknown.to_string()).into(),
                    None => unknown.into(),
                });
            }
        };
        let unused = scheduler.filter(|name| !found.is_scheduled_by(name));
        let Some(scheduler) = unused.or(found.scheduler().filter(|_| !is_on_sockets(&found))) else {
            return Ok(found);
        };
        let transport = found.kind();
        let problem = format!(
            "`{transport}` does not support it on real sockets: leave it out, take --transport session, or --world sim"
        );
        Err(match in_file {
            Some(place) => place.refuse(&problem).into(),
            None => RequestError::Option { option: format!("--scheduler {scheduler}"), problem },
        })
    }

    /// Refuses settings of a session when the transport is not a session.
    fn check_settings(&self, transport: &TransportName) -> Result<(), RequestError> {
        if matches!(transport, TransportName::Session { .. }) || self.session.is_default() {
            return Ok(());
        }
        let option = "--plaintext, --window and --rto-max".to_owned();
        let problem = format!("are settings of a session; `{}` is not a session", transport.name());
        Err(RequestError::Option { option, problem })
    }
}

fn simulator_only(run: &RunSpec, field: &str, what: &str) -> RequestError {
    run.refuse(field, &format!("{what}: only the simulator supports this; add --world sim, or leave it out"))
        .into()
}

#[cfg(test)]
mod tests;
