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
use tributary_link::{BackgroundKind, Name, RunSpec, Scenario, WorkloadSpec};
use tributary_sim::run::{Options, Outcome, RunError, SimRun, TransportName, model_version};

/// All settings of one run.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The network, with its duration, seed and base RTT.
    pub scenario: Scenario,
    /// Queue of every path's link.
    pub queue: Queue,
    /// The transport.
    pub transport: TransportName,
    /// Congestion control of every subflow.
    pub congestion: String,
    /// Workloads of each connection, all at the same time.
    pub workloads: Vec<WorkloadSpec>,
    /// Everything else.
    pub options: Options,
}

impl Simulation {
    /// One bulk transfer over the scenario as it is.
    #[must_use]
    pub fn bulk(scenario: &Scenario, transport: &TransportName, congestion: &str) -> Self {
        Self {
            scenario: scenario.clone(),
            queue: Queue::Scenario,
            transport: transport.clone(),
            congestion: congestion.to_owned(),
            workloads: vec![WorkloadSpec::Bulk { size: None }],
            options: Options::default(),
        }
    }

    /// The simulator's cell.
    #[must_use]
    pub fn cell(&self) -> SimRun {
        SimRun {
            scenario: self.queue.of(self.scenario.clone()),
            transport: self.transport.clone(),
            congestion: self.congestion.clone(),
            workloads: self.workloads.clone(),
            options: self.options.clone(),
        }
    }

    /// All settings of the run as text, with the version of the models ([`model_version`]). Two runs with the same
    /// text have the same result. File names and descriptions are left out.
    #[must_use]
    pub fn identity(&self) -> String {
        let mut cell = self.cell();
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
        let outcome = self.cell().run()?;
        Ok((SimResult::new(self, &outcome), outcome))
    }
}

#[cfg(test)]
mod tests;
