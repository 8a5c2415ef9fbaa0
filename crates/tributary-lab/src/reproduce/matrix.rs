//! The cells of a paper: every combination of a matrix's lists, for each seed.

use super::network::{phase, scaled};
use super::sample::{Labels, combined};
use crate::cell::Queue;
use crate::result::World;
use core::time::Duration;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tributary_link::{LossSpec, RateSpec, Scenario, ScenarioError};
use tributary_sim::run::model_version;
use tributary_types::Rng;

/// Axes that every matrix has; further ones are in `axes`.
pub(crate) const AXES: [&str; 7] =
    ["scenario", "transport", "scheduler", "congestion", "rtt", "queue", "loss"];
/// Resolution of the start time of a run with `any-phase`.
const STEP: Duration = Duration::from_millis(10);
/// Steps within the first ten seconds of a recording, in which it begins with `any-phase`.
const RECORDED_STEPS: u64 = 1000;

/// Values of axes; `["*"]` stands for every planned value.
pub type Axes = BTreeMap<String, Vec<String>>;

/// All matrices of a paper.
pub(super) struct Matrices<'a> {
    /// The paper's name.
    pub name: &'a str,
    /// The matrices.
    pub matrix: &'a [Matrix],
    /// Transports that are always run.
    pub reference: &'a [String],
    /// Directory of the paper's file.
    pub beside: &'a Path,
}

/// Lists whose combinations are run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Matrix {
    /// The world.
    pub world: World,
    /// `quick` or `full`; without it the matrix belongs to both.
    pub size: Option<Size>,
    /// The experiment of each cell.
    #[serde(default = "transfer")]
    pub experiment: String,
    /// Networks: names of scenarios, or files in the directory of the paper's file.
    pub scenarios: Vec<String>,
    /// Transports, by name.
    pub transports: Vec<String>,
    /// Schedulers of the transports `mptcp` and `session`; `none` is their default.
    #[serde(default = "none")]
    pub schedulers: Vec<String>,
    /// Congestion controls.
    #[serde(default = "cubic")]
    pub congestion: Vec<String>,
    /// Base round-trip times such as `20 ms`; `scenario` is the scenario's own.
    #[serde(default = "scenario")]
    pub rtt: Vec<String>,
    /// Queues such as `300 kB` or `20 ms`; `scenario` is the scenario's own.
    #[serde(default = "scenario")]
    pub queue: Vec<String>,
    /// Random loss on every link, such as `1 %`; `none` leaves the scenario's own.
    #[serde(default = "none")]
    pub loss: Vec<String>,
    /// Further axes, interpreted by the experiment.
    #[serde(default)]
    pub axes: Axes,
    /// Rates and queue sizes of every link are multiplied by this.
    #[serde(default = "one")]
    pub scale: u64,
    /// Seeds: their number, from 1 up, or a list such as `["1-20", 77]`.
    pub seeds: Seeds,
    /// Seeds for final results; nothing may be tuned with them.
    #[serde(default)]
    pub held_back: Seeds,
    /// How the user's number of seeds applies to this matrix.
    #[serde(default)]
    pub repeat: Repeat,
    /// Seconds of each run.
    pub seconds: u32,
    /// The workload; of the experiment `transfer`.
    #[serde(default)]
    pub workload: Work,
    /// Whether 1000 messages of 64 bytes per second are sent beside the bulk transfer.
    #[serde(default)]
    pub messages: bool,
    /// Whether the seed also shifts the phase of the radios' rate cycles, and where in its first ten seconds a recording begins.
    #[serde(default)]
    pub any_phase: bool,
    /// Number of attempts for an emulated run with an invalid audit. The last attempt is kept and marked.
    #[serde(default = "three")]
    pub attempts: u32,
}

/// Seeds of a matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SeedsText")]
pub struct Seeds(Vec<u64>);

#[derive(Deserialize)]
#[serde(untagged)]
enum SeedsText {
    Count(u32),
    List(Vec<SeedText>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SeedText {
    One(u64),
    Range(String),
}

/// Maximum number of seeds in one list, including its ranges.
const MOST_SEEDS: u64 = 1_000_000;

impl TryFrom<SeedsText> for Seeds {
    type Error = String;

    fn try_from(text: SeedsText) -> Result<Self, String> {
        let items = match text {
            SeedsText::Count(count) => return Ok(Self((1..=u64::from(count)).collect())),
            SeedsText::List(items) => items,
        };
        let mut seeds: Vec<u64> = Vec::new();
        for item in items {
            let (from, to) = match &item {
                SeedText::One(seed) => (*seed, *seed),
                SeedText::Range(text) => {
                    let ends = text.split_once('-').unwrap_or((text, text));
                    let ends = (ends.0.trim().parse::<u64>(), ends.1.trim().parse::<u64>());
                    match ends {
                        (Ok(from), Ok(to)) if from <= to => (from, to),
                        _ => return Err(format!("`{text}` is not a range of seeds such as \"1-20\"")),
                    }
                }
            };
            if to - from >= MOST_SEEDS - seeds.len() as u64 {
                return Err(format!("more than {MOST_SEEDS} seeds"));
            }
            seeds.extend(from..=to);
        }
        let mut sorted = seeds.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("seed {} is listed twice", pair[0])),
            None => Ok(Self(seeds)),
        }
    }
}

/// The workload of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// One bulk transfer.
    #[default]
    Bulk,
    /// The scenario's `run` table; bulk if it has none. Simulator only.
    Scenario,
}

/// The size of reproduction that a matrix belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Size {
    /// A reproduction within ten minutes.
    Quick,
    /// The whole reproduction.
    Full,
}

/// Number of seeds of a matrix when the user chooses one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// The user's number.
    #[default]
    All,
    /// The file's number, because nothing in the matrix is random.
    Once,
}

fn transfer() -> String {
    "transfer".to_owned()
}
fn none() -> Vec<String> {
    vec!["none".to_owned()]
}
fn scenario() -> Vec<String> {
    vec!["scenario".to_owned()]
}
fn cubic() -> Vec<String> {
    vec!["cubic".to_owned()]
}
fn one() -> u64 {
    1
}
fn three() -> u32 {
    3
}

/// The user's choice; empty lists and `None` leave a setting to the file.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The world.
    pub world: World,
    /// Whether to run the quick matrices instead of the full ones.
    pub quick: bool,
    /// Scenarios to keep.
    pub scenarios: Vec<String>,
    /// Transports instead of the file's; the reference transports are always run.
    pub transports: Vec<String>,
    /// Congestion controls instead of the file's.
    pub congestion: Vec<String>,
    /// Base RTT of every path.
    pub rtt: Option<String>,
    /// Queue of every link.
    pub queue: Option<String>,
    /// Seeds of every cell.
    pub seeds: Option<u32>,
    /// Seconds of every run.
    pub seconds: Option<u32>,
    /// Whether to use the held-back seeds.
    pub held_back: bool,
    /// Maximum number of runs, instead of [`LIMIT`].
    pub limit: Option<u64>,
}

/// Default maximum number of runs of a choice.
pub const LIMIT: u64 = 100_000;

/// One run.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Labels that identify the run.
    pub labels: Labels,
    /// Seed of everything random.
    pub seed: u64,
    /// The world.
    pub world: World,
    /// Name of the experiment.
    pub experiment: String,
    /// Seconds of the run.
    pub seconds: u32,
    /// Factor of rates and queue sizes.
    pub scale: u64,
    /// The workload.
    pub workload: Work,
    /// Whether messages are sent beside the transfer.
    pub messages: bool,
    /// Whether the radios' rate cycles start at a random phase.
    pub any_phase: bool,
    /// Attempts of an emulated run.
    pub attempts: u32,
    beside: PathBuf,
}

/// Why a cell cannot be run.
#[derive(Debug, Error)]
pub enum CellError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A value of an axis is invalid.
    #[error("{axis} `{value}`: {expected}")]
    Value {
        /// The axis.
        axis: &'static str,
        /// Its value.
        value: String,
        /// The possible values.
        expected: String,
    },
    /// The choice leaves nothing to run.
    #[error("nothing to run: {problem}")]
    Empty {
        /// The choice, and the known values.
        problem: String,
    },
    /// The choice has too many runs; with the lengths of the lists.
    #[error("{0}; shorten a list, or allow more with --limit")]
    TooMany(String),
    /// The experiment failed, with its reason.
    #[error("{0}")]
    Experiment(String),
}

impl Matrix {
    /// The values of an axis of an experiment, or the scenarios.
    pub(super) fn values_mut(&mut self, axis: &str) -> Option<&mut Vec<String>> {
        match axis {
            "scenario" => Some(&mut self.scenarios),
            _ => self.axes.get_mut(axis),
        }
    }

    /// Its lists after the user's choice, outermost first.
    fn lists(&self, paper: &Matrices<'_>, chosen: &Selection) -> Vec<(&str, Vec<String>)> {
        let or = |own: &[String], chosen: &[String]| {
            if chosen.is_empty() { own.to_vec() } else { chosen.to_vec() }
        };
        let transports = match chosen.transports.is_empty() {
            true => self.transports.clone(),
            false => {
                let more = chosen.transports.iter().filter(|name| !paper.reference.contains(name));
                paper.reference.iter().chain(more).cloned().collect()
            }
        };
        let keep = |name: &&String| chosen.scenarios.is_empty() || chosen.scenarios.contains(name);
        let lists = [
            ("scenario", self.scenarios.iter().filter(keep).cloned().collect()),
            ("congestion", or(&self.congestion, &chosen.congestion)),
            ("rtt", or(&self.rtt, chosen.rtt.as_slice())),
            ("queue", or(&self.queue, chosen.queue.as_slice())),
            ("loss", self.loss.clone()),
            ("scheduler", self.schedulers.clone()),
        ];
        let more = self.axes.iter().map(|(axis, values)| (axis.as_str(), values.clone()));
        lists.into_iter().chain(more).chain([("transport", transports)]).collect()
    }

    /// Its seeds after the user's choice.
    fn seeds(&self, chosen: &Selection) -> Vec<u64> {
        let count = match self.repeat {
            Repeat::All => chosen.seeds,
            Repeat::Once => None,
        };
        match count {
            Some(count) => (1..=u64::from(count)).collect(),
            None if chosen.held_back => self.held_back.0.clone(),
            None => self.seeds.0.clone(),
        }
    }
}

/// Every combination of the lists' values. Only `mptcp` and `session` have a scheduler to choose.
fn combinations(lists: &[(&str, Vec<String>)]) -> Vec<Labels> {
    let mut all = combined(Labels::new(), lists.iter().map(|(axis, values)| (*axis, values.clone())));
    for labels in &mut all {
        if labels.get("transport").is_some_and(|name| !["mptcp", "session"].contains(&name.as_str())) {
            labels.insert("scheduler".to_owned(), "none".to_owned());
        }
    }
    all
}

/// All runs in order, seed by seed: if the time runs out, cells have fewer seeds, but no cell is missing.
///
/// # Errors
/// [`CellError::Empty`] when the choice leaves nothing.
pub(super) fn cells(paper: &Matrices<'_>, chosen: &Selection) -> Result<Vec<Cell>, CellError> {
    let size = if chosen.quick { Size::Quick } else { Size::Full };
    let fits = |m: &&Matrix| m.world == chosen.world && m.size.is_none_or(|own| own == size);
    let known: Vec<&str> =
        paper.matrix.iter().filter(fits).flat_map(|m| m.scenarios.iter().map(String::as_str)).collect();
    if let Some(name) = chosen.scenarios.iter().find(|name| !known.contains(&name.as_str())) {
        let problem = format!(
            "`{name}` is not a scenario of {} in world {}; known: {}",
            paper.name,
            chosen.world,
            known.join(", ")
        );
        return Err(CellError::Empty { problem });
    }
    let mut cells: Vec<Cell> = Vec::new();
    let (mut known, mut runs, limit) = (BTreeSet::new(), 0, chosen.limit.unwrap_or(LIMIT));
    for matrix in paper.matrix.iter().filter(fits) {
        let (lists, seeds) = (matrix.lists(paper, chosen), matrix.seeds(chosen));
        let lengths =
            lists.iter().map(|(axis, values)| (*axis, values.len())).chain([("seeds", seeds.len())]);
        runs += lengths.clone().map(|(_, length)| length as u128).product::<u128>();
        if runs > u128::from(limit) {
            let factors = lengths.filter(|(_, length)| *length != 1);
            let product = factors.map(|(axis, length)| format!("{length} {axis}")).collect::<Vec<_>>();
            let (name, product) = (paper.name, product.join(" × "));
            return Err(CellError::TooMany(format!("{name}: {product} = {runs} runs, more than {limit}")));
        }
        for labels in combinations(&lists) {
            if !known.insert(labels.clone()) {
                continue;
            }
            for seed in seeds.iter().copied() {
                cells.push(Cell {
                    labels: labels.clone(),
                    seed,
                    world: chosen.world,
                    experiment: matrix.experiment.clone(),
                    seconds: chosen.seconds.unwrap_or(matrix.seconds),
                    scale: matrix.scale,
                    workload: matrix.workload,
                    messages: matrix.messages,
                    any_phase: matrix.any_phase,
                    attempts: matrix.attempts,
                    beside: paper.beside.to_owned(),
                });
            }
        }
    }
    if cells.is_empty() {
        let problem = match chosen.held_back {
            true => format!(
                "{} has no held-back seeds in world {}: add lists `held-back`",
                paper.name, chosen.world
            ),
            false => format!("{} has no matrix of this size in world {}", paper.name, chosen.world),
        };
        return Err(CellError::Empty { problem });
    }
    cells.sort_by_key(|cell| cell.seed);
    Ok(cells)
}

impl Cell {
    /// The error that its value of an axis is invalid; `expected` are the possible values.
    #[must_use]
    pub fn refused(&self, axis: &'static str, expected: &str) -> CellError {
        refuse(axis, self.label(axis), expected)
    }

    /// Its value on an axis; empty if it has none.
    #[must_use]
    pub fn label(&self, axis: &str) -> &str {
        self.labels.get(axis).map_or("", String::as_str)
    }

    /// Its scheduler, if one is named.
    #[must_use]
    pub fn scheduler(&self) -> Option<&str> {
        Some(self.label("scheduler")).filter(|name| *name != "none")
    }

    /// All settings of the run as text, with the version of the models ([`model_version`]).
    #[must_use]
    pub fn identity(&self) -> String {
        format!("models {} {self:?}", model_version(self.label("transport")))
    }

    /// Its scenario as it is in its file.
    ///
    /// # Errors
    /// [`ScenarioError`].
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        let name = self.label("scenario");
        if name.ends_with(".toml") { Scenario::load(self.beside.join(name)) } else { Scenario::find(name) }
    }

    /// Its network: the scenario with seed, length, base RTT, scale and loss.
    ///
    /// # Errors
    /// [`CellError`] names the axis and the value.
    pub fn network(&self) -> Result<Scenario, CellError> {
        self.conditions(self.scenario()?)
    }

    /// Another scenario with its seed, length, base RTT, scale and loss.
    ///
    /// # Errors
    /// [`CellError::Value`] names the axis and the value.
    pub fn conditions(&self, scenario: Scenario) -> Result<Scenario, CellError> {
        let mut network =
            scenario.with_seed(self.seed).with_duration(Duration::from_secs(self.seconds.into()));
        if let Some(rtt) = time("rtt", self.label("rtt"))? {
            network = network.with_rtt(rtt);
        }
        if self.scale != 1 {
            network = scaled(&network, (self.scale, 1));
        }
        if let Some(loss) = loss(self.label("loss"))? {
            for path in &mut network.paths {
                (path.down.loss, path.up.loss) = (LossSpec::Bernoulli(loss), LossSpec::Bernoulli(loss));
            }
        }
        if self.any_phase {
            let mut rng = Rng::new(self.seed).child("phase");
            // Recordings that were made at the same time stay so.
            let recorded = STEP * rng.child("recorded").below(RECORDED_STEPS) as u32;
            for path in &mut network.paths {
                let random = rng.next_u64();
                for link in [&mut path.down, &mut path.up] {
                    match &link.rate {
                        RateSpec::Turns(turns) => link.rate = link.rate.begun_at(phase(turns, random, STEP)),
                        RateSpec::Trace(_) => link.rate = link.rate.begun_at(recorded),
                        _ => {}
                    }
                }
            }
        }
        Ok(network)
    }

    /// Its queue.
    ///
    /// # Errors
    /// [`CellError::Value`].
    pub fn queue(&self) -> Result<Queue, CellError> {
        let text = self.label("queue");
        let bytes = number(text, "kB").or_else(|| number(text, "MB").map(|mb| mb * 1e3));
        match (text, bytes, number(text, "ms")) {
            ("scenario", ..) => Ok(Queue::Scenario),
            (_, Some(kb), _) if (0.001..=1e6).contains(&kb) => Ok(Queue::Bytes((kb * 1e3).round() as u64)),
            (_, _, Some(ms)) if (1.0..=60_000.0).contains(&ms) && ms.fract() == 0.0 => {
                Ok(Queue::Millis(ms as u64))
            }
            _ => Err(refuse("queue", text, "`scenario`, a size such as 300 kB, or whole ms such as 20 ms")),
        }
    }
}

/// The failure of an experiment.
pub fn failed(error: impl std::fmt::Display) -> CellError {
    CellError::Experiment(error.to_string())
}

fn refuse(axis: &'static str, value: &str, expected: &str) -> CellError {
    CellError::Value { axis, value: value.to_owned(), expected: format!("expected {expected}") }
}

/// A number that is not negative, before its unit.
#[must_use]
pub fn number(text: &str, unit: &str) -> Option<f64> {
    let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// A time such as `20 ms`; `None` for `scenario`.
///
/// # Errors
/// [`CellError::Value`].
pub fn time(axis: &'static str, text: &str) -> Result<Option<Duration>, CellError> {
    match (text, number(text, "ms")) {
        ("scenario", _) => Ok(None),
        (_, Some(ms)) if ms <= 60_000.0 => Ok(Some(Duration::from_secs_f64(ms / 1e3))),
        _ => Err(refuse(axis, text, "`scenario` or a time such as 20 ms, at most 60000 ms")),
    }
}

/// A share such as `1 %`; `None` for `none`.
///
/// # Errors
/// [`CellError::Value`].
pub fn loss(text: &str) -> Result<Option<f64>, CellError> {
    match (text, number(text, "%")) {
        ("none", _) => Ok(None),
        (_, Some(percent)) if percent <= 100.0 => Ok(Some(percent / 100.0)),
        _ => Err(refuse("loss", text, "`none` or a share such as 1 %")),
    }
}

#[cfg(test)]
mod tests;
