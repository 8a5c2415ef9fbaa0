//! AVIRA's experiment in the simulator, and what it does not measure: the latency of prioritised messages
//! beside bulk on radios that change.
//! Deviations from the paper: `docs/reproductions/avira.md`.

mod claims;
mod emulated;
mod form;
mod messages;
mod network;
mod page;

use std::num::NonZeroUsize;
use std::time::Instant;

pub use emulated::{EmulatedOutcome, EmulatedRun, EmulatedSettings, emulated_table, run_emulated};
pub use form::{Compared, Form};
pub use messages::{Latencies, Messages};
pub use network::{Measured, PRIORITISED, Setting};
pub use page::{markdown, render, tables};
use serde::Serialize;
use thiserror::Error;
use tributary_link::ScenarioError;
use tributary_report::{Reproduction, RunInfo};
use tributary_sim::run::RunError;

use crate::contestant::UnknownContestant;
use crate::demo::Progress;
use crate::machine;
use crate::run::LabError;
use crate::side_by_side::side_by_side;

/// Congestion control of the first experiment, uncoupled as in the ns-3 model.
const CONGESTION: &str = "reno";

/// What to reproduce.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seeds of every run, from 1 up.
    pub seeds: u32,
    /// Seconds of the paper's experiment.
    pub seconds: u64,
    /// Seconds of the experiment with messages.
    pub message_seconds: u64,
    /// Runs at once; `None` is one a core.
    pub jobs: Option<NonZeroUsize>,
    /// The command line, for the report.
    pub command: String,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Claims and how they were measured.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// The paper's experiment, a row for each run.
    pub runs: Vec<Run>,
    /// Messages beside bulk, a row for each run.
    pub messages: Vec<Messages>,
}

/// A run of the paper's experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Reading of the paper.
    pub form: Form,
    /// Scheduler.
    pub scheduler: &'static str,
    /// Seed.
    pub seed: u64,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Why there is no reproduction.
#[derive(Debug, Error)]
pub enum AviraError {
    /// The simulator refuses.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A scenario is missing.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A network is not one of the experiment's.
    #[error("no network of this experiment is called {asked}; known: {known}")]
    Networks {
        /// What was asked for.
        asked: String,
        /// Those there are.
        known: String,
    },
    /// A scheduler is missing from the registry.
    #[error(transparent)]
    Contestant(#[from] UnknownContestant),
    /// A run on real sockets failed.
    #[error(transparent)]
    Lab(#[from] LabError),
}

/// One run of either experiment.
enum Job {
    Paper(Form, &'static str, u64),
    Messages(&'static str, &'static str, u64),
}

enum Done {
    Paper(Run),
    Messages(Messages),
}

impl Job {
    fn run(&self, settings: &Settings) -> Result<Done, AviraError> {
        match *self {
            Self::Paper(form, scheduler, seed) => {
                let (congestion, seconds) = (CONGESTION, settings.seconds);
                let setting = Setting { scheduler, congestion, form, seed, seconds };
                Ok(Done::Paper(Run { form, scheduler, seed, measured: network::simulate(&setting)? }))
            }
            Self::Messages(scenario, transport, seed) => {
                messages::simulate(scenario, transport, seed, settings.message_seconds).map(Done::Messages)
            }
        }
    }
}

/// Runs both experiments and judges the claims.
///
/// # Errors
/// [`AviraError`]; a claim that does not hold is a result.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Outcome, AviraError> {
    let began = Instant::now();
    let seeds = 1..=u64::from(settings.seeds);
    let mut jobs = Vec::new();
    for seed in seeds.clone() {
        for form in Form::ALL {
            jobs.extend(form.compared().iter().map(|compared| Job::Paper(form, compared.scheduler, seed)));
        }
        for scenario in messages::SCENARIOS {
            let transports = messages::TRANSPORTS.iter();
            jobs.extend(transports.map(|transport| Job::Messages(scenario, transport, seed)));
        }
    }
    let (mut runs, mut messages) = (Vec::new(), Vec::new());
    for done in side_by_side(settings.jobs, &jobs, |job| job.run(settings), ("avira", progress)) {
        match done? {
            Done::Paper(run) => runs.push(run),
            Done::Messages(run) => messages.push(run),
        }
    }
    runs.sort_by_key(|run| (run.form, run.scheduler, run.seed));
    messages.sort_by(|a, b| (&a.scenario, &a.transport, a.seed).cmp(&(&b.scenario, &b.transport, b.seed)));
    let mut info = describe(settings, seeds.collect());
    info.seconds = Some(began.elapsed().as_secs_f64());
    let claims = claims::judge(&runs, &messages);
    let reproduction = Reproduction { name: "avira".to_owned(), claims, run: info };
    Ok(Outcome { reproduction, runs, messages })
}

fn describe(settings: &Settings, seeds: Vec<u64>) -> RunInfo {
    let mut info = machine::run_info(&settings.command);
    info.seeds = seeds;
    info.congestion = CONGESTION.to_owned();
    let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
    set("world", "simulated: the same on every machine for the same seeds".to_owned());
    set("paper's experiment", format!("{} s, 8 subflows, 1 in {PRIORITISED} prioritised", settings.seconds));
    set("messages", format!("{} s of each network, {}", settings.message_seconds, messages::DESCRIPTION));
    info
}

#[cfg(test)]
mod tests;
