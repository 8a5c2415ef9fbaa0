//! An emulated run from a [`Request`]. Not here: the run itself.

use crate::cell::Run;
use crate::request::{Asked, Request, RequestError, check_metrics};
use crate::transport::is_on_sockets;
use crate::workload::Workload;
use tributary_link::{Name, RunSpec, Scenario, WorkloadSpec};
use tributary_proto::transport::TransportName;

/// Default transport. Its scheduler may be given separately.
const SESSION: &str = "session";

impl Request {
    /// The run of `scenario` on real sockets with these settings.
    ///
    /// # Errors
    /// [`RequestError`], with file, line and field when the scenario's file uses something that only the simulator
    /// supports.
    pub fn emulated(&self, scenario: &Scenario) -> Result<Run, RequestError> {
        let run = &scenario.run;
        check_metrics(run)?;
        if let Some(problem) = scenario.needs_simulator() {
            return Err(RequestError::option("--world emu", problem));
        }
        if run.connections.is_some_and(|n| n > 1) {
            return Err(simulator_only(run, "run.connections", "several connections at once"));
        }
        if self.transport.is_none() && run.subflows.is_some_and(|n| n > 1) {
            return Err(simulator_only(run, "run.subflows", "several subflows on a path"));
        }
        let transport = self.transport(scenario)?;
        self.check_settings(&transport)?;
        if self.budget.is_some() {
            return Err(RequestError::option("--budget", "add --world sim, or leave it out"));
        }
        let network = self.conditions(scenario);
        let seconds = network.duration.as_secs_f64();
        let workload = match self.workload(run)? {
            Asked::Bulk => Workload::Bulk { seconds },
            Asked::Object(size, count, pause_ms) => {
                Workload::Object { size, count, pause_ms, limit: seconds }
            }
            Asked::Live(start_up_ms) => Workload::Live { gops: seconds.ceil() as u32, start_up_ms },
        };
        let congestion = self.congestion.as_deref().or(run.congestion.as_ref().map(Name::as_str));
        let cell = Run::new(&network, &transport, congestion.unwrap_or("cubic"), &workload);
        Ok(Run { session: self.session.clone(), ..cell.with_queue(self.queue) })
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
            None => RequestError::option(format!("--scheduler {scheduler}"), problem),
        })
    }

    /// Refuses settings of a session when the transport is not a session.
    fn check_settings(&self, transport: &TransportName) -> Result<(), RequestError> {
        if matches!(transport, TransportName::Session { .. }) || self.session.is_default() {
            return Ok(());
        }
        let problem = format!("are settings of a session; `{}` is not a session", transport.name());
        Err(RequestError::option("--plaintext, --quic, --window and --rto-max", problem))
    }
}

fn simulator_only(run: &RunSpec, field: &str, what: &str) -> RequestError {
    run.refuse(field, &format!("{what}: only the simulator supports this; add --world sim, or leave it out"))
        .into()
}

#[cfg(test)]
mod tests;
