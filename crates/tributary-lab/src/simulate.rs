//! One run in the simulator: the same scenarios and names of transports as in the emulator, and the same result
//! fields for the same measurements.

mod files;
mod request;
mod result;
mod text;

pub use files::{Files, FilesError};
pub use result::{FlowSummary, Percentiles, SimResult, Virtual};
pub use text::summary;

use crate::cell::Queue;
use core::ops::ControlFlow;
use tributary_link::{BackgroundKind, Name, RunSpec, Scenario, WorkloadSpec};
use tributary_sim::own::Own;
use tributary_sim::run::{Outcome, RunError, SimRun, TransportName, model_version};

/// A run and the choice of its queues.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The run; its scenario has the queues.
    pub cell: SimRun,
    /// Queue of every path's link, for the result.
    pub queue: Queue,
}

impl Simulation {
    /// The run with this queue on every path's link.
    #[must_use]
    pub fn new(mut cell: SimRun, queue: Queue) -> Self {
        cell.scenario = queue.of(cell.scenario);
        Self { cell, queue }
    }

    /// One bulk transfer over the scenario as it is.
    #[must_use]
    pub fn bulk(scenario: &Scenario, transport: &TransportName, congestion: &str) -> Self {
        let bulk = WorkloadSpec::Bulk { size: None };
        Self::new(SimRun::new(scenario, transport, congestion, &bulk), Queue::Scenario)
    }

    /// All settings of the run as text, with the version of the models ([`model_version`]). Two runs with the same
    /// text have the same result. File names and descriptions are left out.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut cell = self.cell.clone();
        cell.scenario.description.clear();
        cell.scenario.run = RunSpec::default();
        for source in &mut cell.scenario.background {
            if let BackgroundKind::Tcp { congestion, .. } = &mut source.kind {
                *congestion = Name::new(congestion.as_str());
            }
        }
        format!("models {} {cell:?}", model_version(&cell.transport.to_string()))
    }

    /// Makes the run.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is a result, not an error.
    pub fn run(&self) -> Result<(SimResult, Outcome), RunError> {
        self.run_watched(&Own::default(), &mut |_| ControlFlow::Continue(()))
    }

    /// As [`Self::run`], with algorithms of the caller's own. `watch` is called with the completed share, 0 to 1, and can stop the run.
    ///
    /// # Errors
    /// [`RunError`]; bad performance is a result, not an error.
    pub fn run_watched(
        &self,
        own: &Own,
        watch: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<(SimResult, Outcome), RunError> {
        let outcome = self.cell.run_watched(own, |_| Vec::new(), watch)?;
        Ok((SimResult::new(self, &outcome), outcome))
    }
}

#[cfg(test)]
mod tests;
