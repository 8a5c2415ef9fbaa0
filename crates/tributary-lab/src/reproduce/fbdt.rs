//! FBDT's two experiments at a tenth of the paper's rates (FBDT, section 6), on real sockets.
//!
//! First: line of sight, blocked line of sight, mobility, on/off blockage. Second: both radios normal, then
//! 5 % loss or 500 ms more delay on either. Besides, a radio that dies without notice.
//! Deviations from the paper: `docs/reproductions/fbdt.md`.

mod claims;
mod dead;
mod page;
mod paper;
mod tables;

use super::Runs;
use crate::contestant::{Contestant, UnknownContestant};
use crate::demo::Progress;
use crate::machine;
use crate::run::{Cell, LabError, Queue, run as measure};
use crate::workload::Workload;
use core::time::Duration;
pub use page::render;
pub use paper::{CONDITIONS, Condition, Experiment};
use serde::Serialize;
use std::time::Instant;
pub use tables::{detail, goodput, markdown};
use thiserror::Error;
use tributary_link::{Scenario, ScenarioError};
use tributary_report::{Reproduction, RunInfo};

/// A quick reproduction starts no run after this.
const QUICK_LIMIT: Duration = Duration::from_secs(555);
/// Time that a run takes beside its own.
const OVERHEAD: f64 = 1.0;

/// What to reproduce.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The most telling cells only, within ten minutes.
    pub quick: bool,
    /// Congestion controls for all conditions; `None` takes the customary ones.
    pub congestion: Option<Vec<String>>,
    /// The conditions to run.
    pub conditions: Vec<&'static Condition>,
    /// The transports to run beside each radio alone; empty takes the customary ones.
    pub transports: Vec<String>,
    /// How many seeds, from 1 up.
    pub seeds: u32,
    /// Length of each run in seconds.
    pub seconds: u32,
    /// Base RTT of every path.
    pub rtt: Duration,
    /// Queue of every link.
    pub queue: Queue,
    /// The command line, for the report.
    pub command: String,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Claims and how they were measured.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// Medians of every cell.
    pub cells: Vec<CellSummary>,
    /// Every run.
    #[serde(skip)]
    pub runs: Runs,
    /// What was planned: condition and congestion control.
    #[serde(skip)]
    pub planned: Vec<(&'static Condition, String)>,
}

/// Medians of one cell.
#[derive(Clone, Debug, Serialize)]
pub struct CellSummary {
    /// Scenario.
    pub scenario: String,
    /// Transport.
    pub transport: String,
    /// Congestion control.
    pub congestion: String,
    /// Runs it stands for.
    pub runs: usize,
    /// Mean goodput in Mbit/s.
    pub goodput_mbps: Option<f64>,
    /// Worst whole second in Mbit/s.
    pub worst_second_mbps: Option<f64>,
    /// Tenth percentile of the seconds in Mbit/s.
    pub p10_mbps: Option<f64>,
    /// Mean goodput over link capacity.
    pub share_of_capacity: Option<f64>,
    /// Longest in-order silence in milliseconds.
    pub longest_silence_ms: Option<f64>,
    /// Bytes sent again in per cent.
    pub duplicates_percent: Option<f64>,
    /// Processor seconds of both ends for each gigabyte.
    pub cpu_seconds_per_gb: Option<f64>,
    /// The paper's goodput in Mbit/s, a tenth of what it states.
    pub paper_mbps: Option<f64>,
}

/// Why there is no reproduction.
#[derive(Debug, Error)]
pub enum FbdtError {
    /// A scenario is missing.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A run failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// No condition has this name.
    #[error("unknown condition `{0}`; known: {known}", known = CONDITIONS.iter().map(|c| c.scenario).collect::<Vec<_>>().join(", "))]
    Condition(String),
    /// A scheduler is missing.
    #[error(transparent)]
    Contestant(#[from] UnknownContestant),
}

struct Planned {
    condition: &'static Condition,
    transport: String,
    congestion: String,
    seed: u64,
}

impl Settings {
    /// Conditions and congestion controls, most important first.
    fn conditions(&self) -> Vec<(&'static Condition, String)> {
        let all = |congestion: &str| {
            self.conditions.iter().map(|c| (*c, congestion.to_owned())).collect::<Vec<_>>()
        };
        match (&self.congestion, self.quick) {
            (Some(names), _) => names.iter().flat_map(|name| all(name)).collect(),
            (None, false) => ["cubic", "bbr"].into_iter().flat_map(all).collect(),
            (None, true) => {
                let telling = |c: &&&Condition| ["mobility", "blackout"].contains(&c.scenario);
                let bbr = self.conditions.iter().filter(telling).map(|c| (*c, "bbr".to_owned()));
                let (mut first, second): (Vec<_>, Vec<_>) =
                    all("cubic").into_iter().partition(|(c, _)| c.experiment != Experiment::Second);
                first.extend(bbr);
                first.extend(second);
                first
            }
        }
    }

    fn transports(&self, condition: &Condition, congestion: &str) -> Vec<String> {
        if !self.transports.is_empty() {
            let chosen =
                self.transports.iter().map(String::as_str).filter(|name| !["wifi", "wigig"].contains(name));
            return ["wifi", "wigig"].into_iter().chain(chosen).map(str::to_owned).collect();
        }
        let mut names = vec!["wifi", "wigig", "mptcp", "fbdt"];
        if !self.quick {
            names.extend(["fbdt-paper", "min-rtt", "round-robin"]);
        } else if condition.experiment == Experiment::First && congestion == "cubic" {
            names.push("fbdt-paper");
        }
        names.into_iter().map(str::to_owned).collect()
    }

    fn plan(&self) -> Vec<Planned> {
        let mut plan = Vec::new();
        for (condition, congestion) in self.conditions() {
            for seed in 1..=u64::from(self.seeds) {
                for transport in self.transports(condition, &congestion) {
                    plan.push(Planned { condition, transport, congestion: congestion.clone(), seed });
                }
            }
        }
        plan
    }

    fn cell(&self, planned: &Planned) -> Result<Cell, FbdtError> {
        let scenario = Scenario::builtin(planned.condition.scenario)?;
        let scenario = scenario.with_seed(planned.seed).with_rtt(self.rtt);
        let contestant = Contestant::find(&planned.transport, &scenario)?;
        let workload = Workload::Bulk { seconds: f64::from(self.seconds) };
        let mut cell =
            Cell::new(&scenario, &contestant, &planned.congestion, &workload).with_queue(self.queue);
        if self.quick {
            cell.attempts = 2;
        }
        Ok(cell)
    }

    /// How long all of it takes, roughly, in seconds.
    #[must_use]
    pub fn expected_seconds(&self) -> f64 {
        self.plan().len() as f64 * (f64::from(self.seconds) + OVERHEAD)
    }
}

/// The conditions called so; all when none is named.
///
/// # Errors
/// [`FbdtError::Condition`] names the one there is not, and those there are.
pub fn conditions(names: &[String]) -> Result<Vec<&'static Condition>, FbdtError> {
    if names.is_empty() {
        return Ok(CONDITIONS.iter().collect());
    }
    let find = |name: &String| {
        let found = CONDITIONS.iter().find(|condition| condition.scenario == name);
        found.ok_or_else(|| FbdtError::Condition(name.clone()))
    };
    names.iter().map(find).collect()
}

/// Runs all experiments and judges the claims.
///
/// # Errors
/// [`FbdtError`]; a claim that does not hold is a result.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Outcome, FbdtError> {
    let began = Instant::now();
    let plan = settings.plan();
    let mut runs = Runs::default();
    let mut skipped = 0;
    for (index, planned) in plan.iter().enumerate() {
        if settings.quick && began.elapsed() > QUICK_LIMIT {
            skipped += 1;
            continue;
        }
        let Planned { condition, transport, congestion, seed } = planned;
        let text = format!("{} · {transport} · {congestion} · seed {seed}", condition.scenario);
        progress(index as f64 / plan.len() as f64, &text);
        runs.0.push(measure(&settings.cell(planned)?)?);
    }
    progress(1.0, "judging the claims");
    let planned = settings.conditions();
    let mut info = describe(settings, &runs, skipped);
    info.seconds = Some(began.elapsed().as_secs_f64());
    let claims = claims::judge(&runs, &planned, settings);
    let reproduction = Reproduction { name: "fbdt".to_owned(), claims, run: info };
    Ok(Outcome { reproduction, cells: summaries(&runs, &plan), runs, planned })
}

fn describe(settings: &Settings, runs: &Runs, skipped: usize) -> RunInfo {
    let mut info = machine::run_info(&settings.command);
    info.seeds = (1..=u64::from(settings.seeds)).collect();
    let mut congestion: Vec<String> = Vec::new();
    for run in &runs.0 {
        if !congestion.contains(&run.congestion) {
            congestion.push(run.congestion.clone());
        }
    }
    info.congestion = format!("{}; asserted on both ends of every run", congestion.join(", "));
    info.audit = Some(machine::audit(runs.0.iter()));
    let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
    set("base RTT", format!("{} ms", settings.rtt.as_secs_f64() * 1e3));
    set("queue", settings.queue.to_string());
    set("each run", format!("{} s of bulk; the first second is left out of goodput", settings.seconds));
    if skipped > 0 {
        set("left out", format!("{skipped} of the planned runs, for want of time"));
    }
    info
}

fn summaries(runs: &Runs, plan: &[Planned]) -> Vec<CellSummary> {
    let of = |planned: &Planned| {
        let key = (planned.condition.scenario, planned.transport.as_str(), planned.congestion.as_str());
        let goodput = |number: fn(&crate::result::Goodput) -> f64| {
            runs.median(key, |run| run.goodput.as_ref().map(number))
        };
        CellSummary {
            scenario: key.0.to_owned(),
            transport: key.1.to_owned(),
            congestion: key.2.to_owned(),
            runs: runs.of(key).len(),
            goodput_mbps: goodput(|g| g.mean_mbps),
            worst_second_mbps: goodput(|g| g.worst_second_mbps),
            p10_mbps: goodput(|g| g.p10_mbps),
            share_of_capacity: goodput(|g| g.share_of_capacity),
            longest_silence_ms: runs.median(key, |run| run.longest_silence_ms),
            duplicates_percent: runs.median(key, |run| run.duplicates_percent),
            cpu_seconds_per_gb: runs.median(key, |run| Some(run.cpu.seconds_per_gb)),
            paper_mbps: planned.condition.paper(&planned.transport),
        }
    };
    plan.iter().filter(|planned| planned.seed == 1).map(of).collect()
}
