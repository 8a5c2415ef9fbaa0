//! Every transport over the user's own network, ranked: the network is a scenario or measured traces, the runs are those of
//! the one runner ([`crate::reproduce::measure`] with [`crate::reproduce::comparison`]).
//!
//! [`Source`] reads what the user has, [`Choice::plan`] says what is run, [`Ranking`] orders the results and judges each
//! transport against the best single path and against MPTCP, and [`Page`] prints that.

mod capture;
mod page;
mod ranking;
mod source;

pub use page::Page;
pub use ranking::{Against, Ranked, Ranking, Verdict};
pub use source::{Source, SourceError, one as trace, path_name};

use crate::demo::Progress;
use crate::reproduce::comparison::{Comparison, Workload};
use crate::reproduce::own::{Given, OWN};
use crate::reproduce::{Outcome, Paper, PaperError, ReproduceError, Settings, experiments_with, measure};
use crate::sweep::tables::{self, TablesError};
use std::fmt::Write as _;
use std::io;
use thiserror::Error;
use tributary_link::Scenario;
use tributary_proto::scheduler;

/// Default number of seeds.
pub const SEEDS: u32 = 10;
/// Bounds of the default length of a run in seconds: shorter runs mostly show the start, longer ones take long.
const SECONDS: (u32, u32) = (15, 30);
/// Schedulers of MPTCP: the kernel's, and those that kernels have had.
const MPTCP: [&str; 6] =
    ["mptcp", "mptcp/min-rtt", "mptcp/blest", "mptcp/ecf", "mptcp/round-robin", "mptcp/redundant"];
/// Priorities in front of the product's scheduler, which differ from it for messages.
const PRIORITIES: &str = "session/avira+fbdt";

/// Why transports cannot be compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// The plan or the network cannot be written into the directory.
    #[error("cannot write {path}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// The plan is not valid, for example because a transport is unknown.
    #[error(transparent)]
    Plan(#[from] PaperError),
    /// The runs cannot be made.
    #[error(transparent)]
    Runs(#[from] ReproduceError),
    /// The tables of the runs cannot be written.
    #[error(transparent)]
    Tables(#[from] TablesError),
}

/// Makes the runs that are missing in the directory of `settings`, also with the caller's `own` scheduler if there is one. Writes into it the plan, the network if it was made from traces, and the
/// tables of the runs.
///
/// # Errors
/// [`CompareError`]; a run that fails is part of the result.
pub fn run(
    choice: &Choice,
    source: &Source,
    own: Given<'_>,
    settings: &Settings,
    progress: Progress<'_>,
) -> Result<Outcome, CompareError> {
    let directory = &settings.directory;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        let failed = |source| CompareError::Io { path: path.display().to_string(), source };
        std::fs::write(&path, text).map_err(failed)?;
        Ok::<_, CompareError>(path)
    };
    if let Some(text) = source.text() {
        write(source.name(), text)?;
    }
    let plan = write("plan.toml", &choice.plan(source, own.is_some()))?;
    let paper = Paper::find(&plan.display().to_string())?;
    let outcome = measure(&paper, &experiments_with(&[&Comparison { own }]), settings, progress)?;
    tables::write(&outcome, directory)?;
    Ok(outcome)
}

/// What is compared.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What is sent.
    pub workload: Workload,
    /// Number of seeds.
    pub seeds: u32,
    /// Seconds of each run; `None`: from the network's length and the number of seeds.
    pub seconds: Option<u32>,
    /// Congestion control of every subflow.
    pub congestion: String,
    /// Transports by name; empty: all of [`transports`].
    pub transports: Vec<String>,
}

impl Choice {
    /// The plan of the runs, in the form of a paper, over `source`. A scheduler of the caller's `own` runs beside the others on MPTCP and
    /// on a session, unless `transports` already names one of the two.
    #[must_use]
    pub fn plan(&self, source: &Source, own: bool) -> String {
        let (scenario, seconds) = (source.scenario(), self.seconds(source.scenario()));
        let mut transports =
            if self.transports.is_empty() { transports(scenario) } else { self.transports.clone() };
        if own && !transports.iter().any(|name| OWN.contains(&name.as_str())) {
            transports.extend(OWN.map(str::to_owned));
        }
        let list = |values: &[String]| {
            let quoted = values.iter().map(|value| toml::Value::from(value.as_str()).to_string());
            quoted.collect::<Vec<_>>().join(", ")
        };
        let mut text = String::new();
        let _ = write!(
            text,
            "name = \"compare-{workload}\"\ntitle = \"{workload} over {name}\"\nworld = \"sim\"\n\n\
             [[matrix]]\nworld = \"sim\"\nexperiment = \"comparison\"\nscenarios = [{file}]\n\
             transports = [{transports}]\ncongestion = [{congestion}]\nseeds = {seeds}\nseconds = {seconds}\n\
             axes = {{ workload = [\"{workload}\"], within = [\"{within} s\"] }}\n",
            workload = self.workload,
            name = scenario.name.replace(['"', '\\'], "").replace(|c: char| c.is_control(), " "),
            file = list(&[source.name().to_owned()]),
            transports = list(&transports),
            congestion = list(std::slice::from_ref(&self.congestion)),
            seeds = self.seeds,
            within = scenario.duration.as_secs_f64(),
        );
        text
    }

    /// Seconds of each run. By default the runs of all seeds together are as long as the network.
    #[must_use]
    pub fn seconds(&self, scenario: &Scenario) -> u32 {
        let share = scenario.duration.as_secs() / u64::from(self.seeds.max(1));
        let (least, most) = self.workload.seconds();
        let share = u32::try_from(share).unwrap_or(u32::MAX).clamp(SECONDS.0, SECONDS.1);
        self.seconds.unwrap_or(share.clamp(least, most))
    }
}

/// Every transport for this network: TCP and QUIC on each path alone, MPTCP and multipath QUIC, and a session with every scheduler.
#[must_use]
pub fn transports(scenario: &Scenario) -> Vec<String> {
    let paths = scenario.path_names();
    let alone = paths.iter().flat_map(|path| [format!("tcp:{path}"), format!("quic:{path}")]);
    let own = |name: &&str| !name.contains("avira");
    let sessions = scheduler::names().into_iter().filter(own).map(|name| format!("session/{name}"));
    let several = MPTCP.into_iter().chain(["mpquic", PRIORITIES]).map(str::to_owned);
    alone.chain(several).chain(sessions).collect()
}

#[cfg(test)]
mod tests;
