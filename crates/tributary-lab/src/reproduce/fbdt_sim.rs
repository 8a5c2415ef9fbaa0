//! FBDT's two experiments at the paper's own rates (FBDT, section 6), in the simulator: every scheduler,
//! many seeds, distributions of every second and every silence.
//! Deviations from the paper: `docs/reproductions/fbdt-simulator.md`.

mod claims;
mod page;
mod scale;
mod tables;

use super::fbdt::{CONDITIONS, Condition};
use crate::demo::Progress;
use crate::machine;
use crate::run::Queue;
use crate::sweep::execute::{Effort, Report};
use crate::sweep::{Group, Plan, PlanError, Row, Seeds, Shard, Store, StoreError, execute};
use core::time::Duration;
pub use page::render;
pub use scale::{FACTOR, at_paper_rates};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;
pub use tables::{detail, goodput, markdown};
use thiserror::Error;
use tributary_link::{Scenario, ScenarioError};
use tributary_report::{Reproduction, RunInfo, stats};
use tributary_sim::run::RunError;

/// A quick reproduction starts no run after this.
const QUICK_LIMIT: Duration = Duration::from_secs(540);
/// Conditions of a quick reproduction.
const QUICK_CONDITIONS: [&str; 5] = ["los", "nlos", "mobility", "onoff", "blackout"];
/// Transports of a quick reproduction.
const QUICK_TRANSPORTS: [&str; 8] =
    ["wifi", "wigig", "mptcp", "fbdt", "fbdt-paper", "musher", "blest", "min-rtt"];

/// What to reproduce.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The most telling cells only, within ten minutes on two cores.
    pub quick: bool,
    /// Congestion controls.
    pub congestion: Vec<String>,
    /// How many seeds, from 1 up.
    pub seeds: u32,
    /// Length of each run in seconds.
    pub seconds: u32,
    /// Base RTT of every path.
    pub rtt: Duration,
    /// Queue of every link.
    pub queue: Queue,
    /// Where finished runs are kept.
    pub directory: PathBuf,
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
    /// Means of every cell.
    pub cells: Vec<CellSummary>,
    /// Every run.
    #[serde(skip)]
    pub rows: Vec<Row>,
    /// What was planned: condition and congestion control.
    #[serde(skip)]
    pub planned: Vec<(&'static Condition, String)>,
    /// What became of the runs.
    #[serde(skip)]
    pub report: Report,
}

/// Means of one cell over its seeds.
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
    /// Tenth percentile of all seconds of all seeds in Mbit/s.
    pub p10_mbps: Option<f64>,
    /// Mean of the worst whole seconds in Mbit/s.
    pub worst_second_mbps: Option<f64>,
    /// Mean goodput over link capacity.
    pub share_of_capacity: Option<f64>,
    /// Median of the longest in-order silences in milliseconds.
    pub longest_silence_ms: Option<f64>,
    /// Bytes sent again on another path in per cent.
    pub reinjected_percent: Option<f64>,
    /// The paper's goodput in Mbit/s.
    pub paper_mbps: Option<f64>,
}

/// Why there is no reproduction.
#[derive(Debug, Error)]
pub enum FbdtSimError {
    /// A scenario is missing.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A name is missing.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A run that is not possible.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Finished runs cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Settings {
    fn conditions(&self) -> Vec<&'static Condition> {
        let wanted = |c: &&Condition| !self.quick || QUICK_CONDITIONS.contains(&c.scenario);
        CONDITIONS.iter().filter(wanted).collect()
    }

    fn transports(&self) -> Vec<&'static str> {
        if self.quick {
            return QUICK_TRANSPORTS.to_vec();
        }
        let mut names = vec!["wifi", "wigig", "mptcp"];
        names.extend(tributary_proto::scheduler::names());
        names
    }

    /// The grid.
    ///
    /// # Errors
    /// [`FbdtSimError`] when a scenario is missing.
    pub fn plan(&self) -> Result<Plan, FbdtSimError> {
        let scenarios = self.conditions().into_iter().map(|condition| {
            let scenario = Scenario::builtin(condition.scenario)?.with_rtt(self.rtt);
            Ok(at_paper_rates(&scenario))
        });
        let scenarios = scenarios.collect::<Result<Vec<_>, ScenarioError>>()?;
        let mut plan = Plan::new("fbdt at the paper's rates", scenarios, &self.transports());
        plan.congestion.clone_from(&self.congestion);
        plan.queues = vec![self.queue];
        plan.seeds = (1..=u64::from(self.seeds)).collect();
        plan.seconds = self.seconds;
        Ok(plan)
    }
}

/// Runs what is not finished yet and judges the claims.
///
/// # Errors
/// [`FbdtSimError`]; a claim that does not hold is a result.
pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Outcome, FbdtSimError> {
    let began = Instant::now();
    let plan = settings.plan()?;
    let mut cells = plan.cells(Seeds::Working)?;
    // Seed by seed, so that a reproduction that runs out of time has fewer seeds, not fewer conditions.
    cells.sort_by_key(|cell| cell.simulation.scenario.seed);
    for cell in cells.iter().filter(|cell| cell.simulation.scenario.seed == 1) {
        cell.simulation.cell().check()?; // before hours of runs of which each would say the same
    }
    let mut store = Store::open(&settings.directory, Shard::WHOLE)?;
    let limit = settings.quick.then_some(QUICK_LIMIT);
    let effort = Effort { jobs: settings.jobs, limit, shard: Shard::WHOLE };
    let report = execute(&cells, &mut store, effort, progress)?;
    let rows: Vec<Row> = cells.iter().filter_map(|cell| store.row(&cell.key).cloned()).collect();
    let mut info = describe(settings, &rows, report);
    info.seconds = Some(began.elapsed().as_secs_f64());
    let planned: Vec<(&Condition, String)> = settings
        .congestion
        .iter()
        .flat_map(|name| settings.conditions().into_iter().map(|condition| (condition, name.clone())))
        .collect();
    let claims = claims::judge(&rows, &planned, settings);
    let reproduction = Reproduction { name: "fbdt, simulated".to_owned(), claims, run: info };
    let cells = Group::of(&rows).iter().map(summary).collect();
    Ok(Outcome { reproduction, cells, rows, planned, report })
}

fn describe(settings: &Settings, rows: &[Row], report: Report) -> RunInfo {
    let mut info = machine::run_info(&settings.command);
    let mut seeds: Vec<u64> = rows.iter().map(|row| row.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    info.seeds = seeds;
    info.congestion = settings.congestion.join(", ");
    let mut set = |name: &str, value: String| _ = info.configuration.insert(name.to_owned(), value);
    set("world", "simulated: the same on every machine for the same seeds".to_owned());
    set("rates", format!("the paper's: {FACTOR} times those of the scenario files, queues likewise"));
    set("base RTT", format!("{} ms", settings.rtt.as_secs_f64() * 1e3));
    set("queue", settings.queue.to_string());
    set("each run", format!("{} s of bulk; the first second is left out of goodput", settings.seconds));
    set("runs", rows.len().to_string());
    if report.left_out + report.failed > 0 {
        set("left out", format!("{} for want of time, {} failed", report.left_out, report.failed));
    }
    info
}

fn summary(group: &Group<'_>) -> CellSummary {
    let head = group.head();
    let mean = |of: fn(&Row) -> Option<f64>| group.spread(of).map(|spread| spread.mean);
    let seconds: Vec<f64> = group.rows.iter().flat_map(|row| row.measured_seconds()).copied().collect();
    let silences: Vec<f64> = group.rows.iter().filter_map(|row| row.measured.longest_silence_ms).collect();
    let condition = CONDITIONS.iter().find(|condition| condition.scenario == head.scenario);
    CellSummary {
        scenario: head.scenario.clone(),
        transport: head.transport.clone(),
        congestion: head.congestion.clone(),
        runs: group.rows.len(),
        goodput_mbps: mean(|row| row.measured.goodput_mbps),
        p10_mbps: stats::p10(&seconds),
        worst_second_mbps: mean(|row| row.measured.worst_second_mbps),
        share_of_capacity: mean(|row| row.measured.share_of_capacity),
        longest_silence_ms: stats::median(&silences),
        reinjected_percent: mean(|row| row.measured.reinjected_percent),
        paper_mbps: condition.and_then(|condition| paper(condition, &head.transport)),
    }
}

/// The paper's goodput at its own rates, Mbit/s.
pub(crate) fn paper(condition: &Condition, transport: &str) -> Option<f64> {
    condition.paper(transport).map(|mbps| mbps * FACTOR as f64)
}

#[cfg(test)]
mod tests;
