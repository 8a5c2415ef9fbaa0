//! What to emulate: what a user asked for, else what the scenario's `run` table says, else the customary; as
//! [`crate::simulate::Request`] does it for the simulator. Runs nothing.

use crate::contestant::{Contestant, SessionSettings, UnknownContestant};
use crate::run::{Cell, Queue};
use crate::simulate::check_metrics;
use crate::workload::Workload;
use core::time::Duration;
use thiserror::Error;
use tributary_link::{Name, RunSpec, Scenario, ScenarioError, WorkloadSpec};

/// Length of a run in seconds where neither the user nor a `run` table decides.
const SECONDS: f64 = 10.0;
/// A session with the scheduler that is named beside it.
const SESSION: &str = "session";
/// Default scheduler of a session and of a run.
const DEFAULT: &str = "fbdt";
/// The scheduler of the kernel's MPTCP.
const KERNEL: &str = "linux-default";

/// What a user asked for; `None` leaves it to the scenario. The scenario's scheduler and subflows are those
/// of its own transport: where a user names another, they count as far as that can have them.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Transport: as [`Contestant::find`] names it, `tcp` (on the first path), or `session`.
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
    /// How a session is set up, its scheduler aside.
    pub session: SessionSettings,
}

/// A workload without its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// As many bytes as arrive.
    Bulk,
    /// Objects: bytes of each, how many, milliseconds between two.
    Object(u64, u32, u64),
    /// Live video this many milliseconds behind the live edge.
    Live(u64),
}

/// Why a request is refused.
#[derive(Debug, Error)]
pub enum RequestError {
    /// A name or a value of the scenario's file.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The transport.
    #[error(transparent)]
    Transport(#[from] UnknownContestant),
    /// An option that the transport or the emulator has no use for.
    #[error("{option}: {problem}")]
    Option {
        /// The option.
        option: String,
        /// What is wrong and the way out.
        problem: String,
    },
}

impl Request {
    /// The run of `scenario` that is asked for.
    ///
    /// # Errors
    /// [`RequestError`]: with file, line and field when the scenario's file asks for what only the simulator
    /// has.
    pub fn resolve(&self, scenario: &Scenario) -> Result<Cell, RequestError> {
        let run = &scenario.run;
        check_metrics(run)?;
        if let Some(problem) = scenario.needs_simulator() {
            return Err(RequestError::Option { option: "--world emu".to_owned(), problem });
        }
        if run.connections.is_some_and(|n| n > 1) {
            return Err(simulator_only(run, "run.connections", "several connections side by side"));
        }
        if self.transport.is_none() && run.subflows.is_some_and(|n| n > 1) {
            return Err(simulator_only(run, "run.subflows", "several subflows on a path"));
        }
        let contestant = self.contestant(scenario)?;
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
        let cell = Cell::new(&network, &contestant, congestion.unwrap_or("cubic"), &workload);
        Ok(cell.with_queue(self.queue))
    }

    fn seconds(&self, scenario: &Scenario) -> f64 {
        match self.seconds {
            Some(seconds) => seconds.into(),
            // A scenario that says what to run also says for how long.
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
                simulated("a pause that is no whole number of milliseconds")
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

    fn contestant(&self, scenario: &Scenario) -> Result<Contestant, RequestError> {
        let run = &scenario.run;
        let (asked, written) = (self.transport.as_deref(), run.transport.as_ref());
        let own = run.scheduler.as_ref().filter(|_| asked.is_none_or(|name| name == SESSION));
        let scheduler = self.scheduler.as_deref().or(own.map(Name::as_str));
        let name = asked.or(written.map(Name::as_str)).unwrap_or(SESSION);
        let first = scenario.paths.first().map_or("", |path| path.name.as_str());
        let found = match name {
            SESSION => Contestant::find(scheduler.unwrap_or(DEFAULT), scenario),
            "tcp" => Contestant::find(first, scenario),
            name => Contestant::find(name, scenario),
        };
        let place = if name == SESSION && self.scheduler.is_none() { own.or(written) } else { written };
        let mut contestant = match (found, place) {
            (Ok(found), _) => found,
            (Err(error), Some(place)) if asked.is_none() => {
                return Err(place.refuse(&error.to_string()).into());
            }
            (Err(error), _) => return Err(error.into()),
        };
        if let Some(scheduler) = scheduler.filter(|name| !runs(&contestant, name)) {
            let transport = contestant.name();
            let problem = format!(
                "`{transport}` does not run it here: leave it out, take transport session, or --world sim"
            );
            return Err(match own.filter(|_| self.scheduler.is_none()) {
                Some(place) => place.refuse(&problem).into(),
                None => RequestError::Option { option: format!("--scheduler {scheduler}"), problem },
            });
        }
        self.set_up(&mut contestant)?;
        Ok(contestant)
    }

    fn set_up(&self, contestant: &mut Contestant) -> Result<(), RequestError> {
        let asked = &self.session;
        if let Contestant::Tributary(settings) = contestant {
            *settings = SessionSettings { scheduler: settings.scheduler.clone(), ..asked.clone() };
        } else if asked.plaintext || asked.window.is_some() || asked.rto_max_ms.is_some() {
            let option = "--plaintext, --window and --rto-max".to_owned();
            let problem = format!("are settings of a session; `{}` is none", contestant.name());
            return Err(RequestError::Option { option, problem });
        }
        Ok(())
    }
}

/// Whether the contestant's scheduler is this one.
fn runs(contestant: &Contestant, scheduler: &str) -> bool {
    match contestant {
        Contestant::SinglePath(_) => false,
        Contestant::Mptcp => scheduler == KERNEL,
        Contestant::Tributary(settings) => settings.scheduler == scheduler,
    }
}

fn simulator_only(run: &RunSpec, field: &str, what: &str) -> RequestError {
    run.refuse(field, &format!("{what} runs in the simulator only: add --world sim, or leave it out")).into()
}

#[cfg(test)]
mod tests;
