//! A scheduler of the caller's own in the cells of a plan: those whose transport is one of [`OWN`]. Not here: what such a scheduler may do
//! ([`tributary_sim::own`]).

use super::matrix::{Cell, CellError, failed};
use crate::result::World;
use core::fmt::Debug;
use core::ops::ControlFlow;
use tributary_proto::transport::{MPTCP_DEFAULT, SESSION_DEFAULT, TransportName};
use tributary_sim::own::Own;
use tributary_sim::run::{RunError, SimRun};

/// Names of the transports in a plan that use the scheduler: MPTCP and a session.
pub const OWN: [&str; 2] = [MPTCP, SESSION];
const MPTCP: &str = "mptcp/own";
const SESSION: &str = "session/own";

/// Is called with the completed share of a run, and can stop it.
pub type Watch<'a> = &'a mut dyn FnMut(f64) -> ControlFlow<()>;

/// A scheduler of the caller's own.
pub trait OwnScheduler: Debug + Send + Sync {
    /// Its name, for results.
    fn name(&self) -> &str;

    /// Everything that decides what it does, as text. Runs with the same text have the same result.
    fn identity(&self) -> &str;

    /// Calls `run` once with the scheduler. `title` names the run.
    ///
    /// # Errors
    /// Why the scheduler failed; the run then has no result.
    fn around(&self, title: &str, run: &mut (dyn FnMut(&Own, Watch<'_>) + Send)) -> Result<(), String>;
}

/// The scheduler that the caller gave, if any.
pub type Given<'a> = Option<&'a dyn OwnScheduler>;

/// The transport of a cell over these paths.
///
/// # Errors
/// [`CellError`] names the unknown transport, or says that a scheduler of the caller's own is missing.
pub fn transport(given: Given<'_>, cell: &Cell, paths: &[&str]) -> Result<TransportName, CellError> {
    let name = cell.label("transport");
    if !OWN.contains(&name) {
        return TransportName::find(name, cell.scheduler(), paths).map_err(failed);
    }
    match (given, cell.world) {
        (_, World::Emu) => {
            Err(cell
                .refused("transport", "a transport by name, because sockets take no scheduler of your own"))
        }
        (Some(own), World::Sim) => {
            let scheduler = format!("own:{}", own.name());
            let session = name == SESSION;
            Ok(if session {
                TransportName::Session { scheduler }
            } else {
                TransportName::Mptcp { scheduler }
            })
        }
        (None, World::Sim) => Err(cell.refused(
            "transport",
            "a scheduler of your own, which only Python can give: tributary.sweep(..., scheduler=CLASS)",
        )),
    }
}

/// Checks whether a cell's run is possible.
///
/// # Errors
/// [`CellError`] names what is not possible.
pub fn check(given: Given<'_>, cell: &Cell, run: &SimRun) -> Result<(), CellError> {
    if used(given, cell).is_none() {
        return run.check().map_err(failed);
    }
    // The caller's scheduler is in no registry, so another takes its place.
    let named = match &run.transport {
        TransportName::Session { .. } => TransportName::session(SESSION_DEFAULT),
        _ => TransportName::Mptcp { scheduler: MPTCP_DEFAULT.to_owned() },
    };
    SimRun { transport: named, ..run.clone() }.check().map_err(failed)
}

/// The scheduler's part of a cell's identity; empty without one.
#[must_use]
pub fn identity(given: Given<'_>, cell: &Cell) -> String {
    used(given, cell).map_or_else(String::new, |own| format!(" {}", own.identity()))
}

/// Makes a cell's run, with the caller's scheduler if the cell uses it.
///
/// # Errors
/// [`CellError`]: the run's, or the scheduler's.
pub fn simulate<T: Send>(
    given: Given<'_>,
    cell: &Cell,
    mut run: impl FnMut(&Own, Watch<'_>) -> Result<T, RunError> + Send,
) -> Result<T, CellError> {
    let Some(own) = used(given, cell) else {
        return run(&Own::default(), &mut |_| ControlFlow::Continue(())).map_err(failed);
    };
    let mut result = None;
    own.around(&super::title(cell), &mut |own, watch| result = Some(run(own, watch))).map_err(failed)?;
    result.expect("a scheduler that did not fail was run").map_err(failed)
}

fn used<'a>(given: Given<'a>, cell: &Cell) -> Given<'a> {
    given.filter(|_| OWN.contains(&cell.label("transport")))
}

#[cfg(test)]
mod tests;
