//! A simulated run from a [`Request`].

use super::Simulation;
use crate::request::{Asked, Request, RequestError, check_metrics};
use core::time::Duration;
use tributary_link::{Name, Scenario, WorkloadSpec};
use tributary_sim::run::{Options, SimRun, TransportName, UnknownName, check_congestion, check_scheduler};
use tributary_types::DataSize;

/// Default transport.
const TRANSPORT: &str = "fbdt";
/// Default congestion control.
const CONGESTION: &str = "cubic";

impl Request {
    /// The simulation of `scenario` with these settings.
    ///
    /// # Errors
    /// [`RequestError`]: unknown names with file, line and field when the scenario's file has them.
    pub fn simulated(&self, scenario: &Scenario) -> Result<Simulation, RequestError> {
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
        let workloads = match self.workload {
            Some(asked) => vec![simulated(asked)?],
            None if run.workloads.is_empty() => vec![WorkloadSpec::Bulk { size: None }],
            None => run.workloads.clone(),
        };
        let on_sockets = [
            (self.session.plaintext, "--plaintext"),
            (self.session.quic, "--quic"),
            (self.session.rto_max_ms.is_some(), "--rto-max"),
        ];
        if let Some((_, option)) = on_sockets.iter().find(|(given, _)| *given) {
            return Err(RequestError::option(
                *option,
                "is a setting of real sockets: leave it out, or take --world emu",
            ));
        }
        let options = Options {
            connections: run.connections.unwrap_or(1),
            subflows,
            budget: self.budget,
            window: self.session.window,
            ..Options::default()
        };
        let congestion = congestion.unwrap_or_else(|| CONGESTION.to_owned());
        let cell = SimRun { scenario, transport, congestion, workloads, options };
        let simulation = Simulation::new(cell, self.queue);
        simulation.cell.check()?;
        Ok(simulation)
    }

    /// Refuses a scheduler that the transport does not support, unless the file gives it for another transport.
    fn check_scheduler_of(&self, transport: &TransportName, scenario: &Scenario) -> Result<(), RequestError> {
        match (&self.scheduler, &scenario.run.scheduler) {
            (Some(name), _) if !transport.is_scheduled_by(name) => {
                let problem = format!(
                    "`{}` has none to choose; leave it out, or take --transport mptcp or session",
                    transport.name()
                );
                Err(RequestError::option(format!("--scheduler {name}"), problem))
            }
            (None, Some(name)) if self.transport.is_none() && !transport.is_scheduled_by(name.as_str()) => {
                let transport = transport.name();
                let problem = format!("transport `{transport}` has none to choose; take mptcp or session");
                Err(name.refuse(&problem).into())
            }
            _ => Ok(()),
        }
    }
}

fn simulated(asked: Asked) -> Result<WorkloadSpec, RequestError> {
    Ok(match asked {
        Asked::Bulk => WorkloadSpec::Bulk { size: None },
        Asked::Object(size, count, pause_ms) => WorkloadSpec::Object {
            size: DataSize::from_bytes(size),
            count: count.into(),
            pause: Duration::from_millis(pause_ms),
        },
        Asked::Live(_) => {
            let problem = "runs on real sockets only: take --world emu, or another --workload";
            return Err(RequestError::option("--workload live", problem));
        }
    })
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
