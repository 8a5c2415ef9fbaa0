//! Plans: lists of scenarios, transports, schedulers, congestion controls, round-trip times, queues and
//! seeds, and the grid that they span. Runs nothing.

use super::place::{Source, Value};
use super::{key, place};
use crate::run::Queue;
use crate::simulate::Simulation;
use core::time::Duration;
use std::path::Path;
use thiserror::Error;
use toml::de::DeTable;
use tributary_link::{Scenario, ScenarioError, WorkloadSpec};
use tributary_sim::run::{Choice, Options, check_congestion, check_scheduler};

/// Cells that a plan may have unless it or its user says otherwise.
pub const LIMIT: u64 = 100_000;
/// Longest run in seconds.
const LONGEST: u64 = 86_400;
/// Most seeds of one list, all its ranges together.
const MOST_SEEDS: u64 = 1_000_000;

/// A grid of runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name.
    pub name: String,
    /// Its file, or its name when it was made in code: for what is refused.
    pub source: String,
    /// One sentence.
    pub description: String,
    /// Networks.
    pub scenarios: Vec<Scenario>,
    /// What carries the bytes, by name.
    pub transports: Vec<String>,
    /// Schedulers of `mptcp` and `session`; empty is their own default. Other transports run once.
    pub schedulers: Vec<String>,
    /// Congestion controls.
    pub congestion: Vec<String>,
    /// Base RTTs; `None` is the scenario's own.
    pub rtts: Vec<Option<Duration>>,
    /// Queues of every path's link.
    pub queues: Vec<Queue>,
    /// Seeds to work with.
    pub seeds: Vec<u64>,
    /// Seeds that nothing may be tuned on: for results.
    pub held_back: Vec<u64>,
    /// Length of each run.
    pub seconds: u32,
    /// What is carried.
    pub workload: Work,
    /// Cells that the plan may have.
    pub limit: u64,
}

/// What every run of a plan carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// One bulk transfer.
    #[default]
    Bulk,
    /// What each scenario's `run` table says; bulk where it says nothing.
    Scenario,
}

/// Which seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seeds {
    /// Those to work with.
    #[default]
    Working,
    /// The held-back ones.
    HeldBack,
}

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its key.
    pub key: String,
    /// The base RTT and queue as the plan says them.
    pub labels: (String, String),
    /// The run itself.
    pub simulation: Simulation,
}

/// Why a plan is refused.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The file could not be read.
    #[error("{file}: {problem}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        problem: String,
    },
    /// A field has an impossible value, is missing or is unknown; or the text is no TOML.
    #[error("{file}:{line}: {field}: {problem}")]
    Field {
        /// The file.
        file: String,
        /// Line, counted from one.
        line: usize,
        /// The field.
        field: String,
        /// What is wrong and what is expected.
        problem: String,
    },
    /// A scenario of the plan.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Too many cells.
    #[error(
        "{plan}: {product} = {cells} runs, more than {limit}; shorten a list, or allow more with \
         `limit` in the plan or --limit"
    )]
    TooLarge {
        /// Its file or name.
        plan: String,
        /// The lengths of its lists.
        product: String,
        /// Their product.
        cells: u128,
        /// The limit.
        limit: u64,
    },
    /// A plan made in code has an impossible combination.
    #[error("{plan}: {problem}")]
    Impossible {
        /// Its file or name.
        plan: String,
        /// What is wrong.
        problem: String,
    },
}

impl Plan {
    /// One second of bulk for each scenario with the customary lists; to be changed.
    #[must_use]
    pub fn new(name: &str, scenarios: Vec<Scenario>, transports: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            source: name.to_owned(),
            description: String::new(),
            scenarios,
            transports: transports.iter().map(|&name| name.to_owned()).collect(),
            schedulers: Vec::new(),
            congestion: vec!["cubic".to_owned()],
            rtts: vec![None],
            queues: vec![Queue::Scenario],
            seeds: vec![1],
            held_back: Vec::new(),
            seconds: 10,
            workload: Work::Bulk,
            limit: LIMIT,
        }
    }

    /// Reads a plan; scenarios that are files are looked for beside it.
    ///
    /// # Errors
    /// [`PlanError`] with file, line and field.
    pub fn load(path: &Path) -> Result<Self, PlanError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| PlanError::Unreadable { file: file.clone(), problem: e.to_string() })?;
        Self::parse(&text, &file, path.parent().unwrap_or(Path::new(".")))
    }

    /// As [`Plan::load`], from a text.
    ///
    /// # Errors
    /// [`PlanError`] with file, line and field.
    pub fn parse(text: &str, file: &str, beside: &Path) -> Result<Self, PlanError> {
        let source = Source { file, text };
        let parsed = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            source.refuse(&span, "plan", error.message())
        })?;
        let table = parsed.get_ref();
        source.only(table, &KEYS)?;
        let missing = |name: &str| source.refuse(&(0..0), name, "is missing");
        let value = |name: &str| source.value(table, name);
        let scenarios = value("scenarios").ok_or_else(|| missing("scenarios"))?;
        let mut networks: Vec<Scenario> = Vec::new();
        for item in scenarios.list() {
            let network = scenario(&item, beside)?;
            if let Some(problem) = clash(&networks, &network) {
                return Err(item.refuse(problem));
            }
            networks.push(network);
        }
        let transports = value("transports").ok_or_else(|| missing("transports"))?;
        let mut plan = Self::new(stem(file), networks, &transports.texts()?);
        file.clone_into(&mut plan.source);
        let checked = |name: &str, check: fn(&str) -> Result<(), tributary_sim::run::UnknownName>| {
            value(name).map(|list| names(&list, check)).transpose()
        };
        plan.schedulers = checked("schedulers", check_scheduler)?.unwrap_or_default();
        plan.congestion = checked("congestion", check_congestion)?.unwrap_or(plan.congestion);
        for item in transports.list() {
            let name = item.text()?;
            for scenario in &plan.scenarios {
                let of = |e| item.refuse(format!("in scenario {}: {e}", scenario.name));
                Choice::find(name, None, scenario).map_err(of)?;
            }
        }
        plan.read_conditions(&source, table)?;
        for (name, length) in plan.lengths() {
            if length == 0 && name != "held-back" {
                let place = value(name).map(|list| list.refuse("is empty"));
                return Err(place.unwrap_or_else(|| missing(name)));
            }
        }
        plan.check_combinations(&source, table)?;
        Ok(plan)
    }

    /// Each distinct combination of names, and each network in each condition, must be possible.
    fn check_combinations<'a>(
        &self,
        source: &'a Source<'a>,
        table: &'a DeTable<'a>,
    ) -> Result<(), PlanError> {
        self.check_size(1, self.limit.max(LIMIT))?;
        let item = |list: &str, name: &str| {
            let list = source.value(table, list)?.list();
            list.iter().find(|item| item.text().is_ok_and(|text| text == name)).or(list.first()).cloned()
        };
        let (rtt, queue) = (self.rtts[0], self.queues[0]);
        let mut used = self.schedulers.is_empty();
        for scenario in &self.scenarios {
            for (name, choice) in self.choices(scenario)? {
                used |= takes_scheduler(&name);
                for congestion in &self.congestion {
                    let cell = self.cell((scenario, rtt, queue), &choice, congestion, 1);
                    if let Err(error) = cell.simulation.cell().check() {
                        let place = match self.congestion.len() {
                            1 => item("transports", &name),
                            _ => item("congestion", congestion),
                        };
                        let problem =
                            format!("{name} with {congestion} in scenario {}: {error}", scenario.name);
                        return Err(self.refuse(place.as_ref(), problem));
                    }
                }
            }
            let Some((_, choice)) = self.choices(scenario)?.into_iter().next() else { continue };
            for (rtt, queue) in self.conditions() {
                let cell = self.cell((scenario, rtt, queue), &choice, &self.congestion[0], 1);
                if let Err(error) = cell.simulation.cell().check() {
                    let ends = [item("queue", ""), item("rtt", ""), item("scenarios", "")];
                    return Err(self.refuse(ends.iter().flatten().next(), error.to_string()));
                }
            }
        }
        if used {
            return Ok(());
        }
        let problem = "no transport of the plan takes one: add mptcp or session, or leave the list out";
        Err(self.refuse(source.value(table, "schedulers").as_ref(), problem.to_owned()))
    }

    fn refuse(&self, place: Option<&Value<'_>>, problem: String) -> PlanError {
        match place {
            Some(place) => place.refuse(problem),
            None => PlanError::Impossible { plan: self.source.clone(), problem },
        }
    }

    /// Every base RTT with every queue.
    fn conditions(&self) -> impl Iterator<Item = (Option<Duration>, Queue)> {
        self.rtts.iter().flat_map(|rtt| self.queues.iter().map(move |queue| (*rtt, *queue)))
    }

    /// What each run is like: base RTT, queue, seeds, length, workload.
    fn read_conditions<'a>(
        &mut self,
        source: &'a Source<'a>,
        table: &'a DeTable<'a>,
    ) -> Result<(), PlanError> {
        let value = |name: &str| source.value(table, name);
        if let Some(list) = value("rtt") {
            self.rtts = list.list().iter().map(rtt).collect::<Result<_, _>>()?;
        }
        if let Some(list) = value("queue") {
            self.queues = list.list().iter().map(queue).collect::<Result<_, _>>()?;
        }
        if let Some(list) = value("seeds") {
            self.seeds = seeds(&list)?;
        }
        if let Some(list) = value("held-back") {
            self.held_back = seeds(&list)?;
            let working: std::collections::BTreeSet<&u64> = self.seeds.iter().collect();
            if let Some(both) = self.held_back.iter().find(|seed| working.contains(seed)) {
                return Err(list.refuse(format!("seed {both} is among `seeds`, too")));
            }
        }
        if let Some(value) = value("seconds") {
            self.seconds = match value.whole()? {
                n @ 2..=LONGEST => n as u32,
                n => return Err(value.refuse(format!("{n} is not from 2 to {LONGEST}"))),
            };
        }
        if let Some(value) = value("limit") {
            self.limit = value.whole()?;
        }
        if let Some(value) = value("workload") {
            self.workload = match value.text()? {
                "bulk" => Work::Bulk,
                "scenario" => Work::Scenario,
                other => {
                    return Err(
                        value.refuse(format!("`{other}` is not known here; known are bulk, scenario"))
                    );
                }
            };
        }
        for (name, text) in [("name", &mut self.name), ("description", &mut self.description)] {
            if let Some(value) = source.value(table, name) {
                value.text()?.clone_into(text);
            }
        }
        Ok(())
    }

    fn lengths(&self) -> [(&'static str, usize); 7] {
        [
            ("scenarios", self.scenarios.len()),
            ("transports", self.transports.len()),
            ("schedulers", self.schedulers.len().max(1)),
            ("congestion", self.congestion.len()),
            ("rtt", self.rtts.len()),
            ("queue", self.queues.len()),
            ("seeds", self.seeds.len()),
        ]
    }

    /// All runs, in the plan's order, each once: transports without a scheduler do not repeat for each.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] states the product.
    pub fn cells(&self, which: Seeds) -> Result<Vec<Planned>, PlanError> {
        let seeds = match which {
            Seeds::Working => &self.seeds,
            Seeds::HeldBack if self.held_back.is_empty() => {
                let problem = "has no held-back seeds: add a list `held-back`, or take the working ones";
                return Err(self.refuse(None, problem.to_owned()));
            }
            Seeds::HeldBack => &self.held_back,
        };
        self.check_size(seeds.len(), self.limit)?;
        for (number, scenario) in self.scenarios.iter().enumerate() {
            if let Some(problem) = clash(&self.scenarios[..number], scenario) {
                return Err(self.refuse(None, problem));
            }
        }
        let mut cells: Vec<Planned> = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        for scenario in &self.scenarios {
            let choices = self.choices(scenario)?;
            for (rtt, queue) in self.conditions() {
                for congestion in &self.congestion {
                    for (_, transport) in &choices {
                        for seed in seeds {
                            let cell = self.cell((scenario, rtt, queue), transport, congestion, *seed);
                            if known.insert(cell.key.clone()) {
                                cells.push(cell);
                            }
                        }
                    }
                }
            }
        }
        Ok(cells)
    }

    fn check_size(&self, seeds: usize, limit: u64) -> Result<(), PlanError> {
        let mut lengths = self.lengths();
        lengths[6].1 = seeds;
        let cells = lengths.iter().map(|(_, length)| *length as u128).product::<u128>();
        if cells <= u128::from(limit) {
            return Ok(());
        }
        let product: Vec<String> = lengths.iter().map(|(name, length)| format!("{length} {name}")).collect();
        let (plan, product) = (self.source.clone(), product.join(" × "));
        Err(PlanError::TooLarge { plan, product, cells, limit })
    }

    /// What carries the bytes, each once, by the names that the plan gives.
    fn choices(&self, scenario: &Scenario) -> Result<Vec<(String, Choice)>, PlanError> {
        let mut choices: Vec<(String, Choice)> = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        let named: Vec<Option<&str>> = self.schedulers.iter().map(|name| Some(name.as_str())).collect();
        let schedulers = if named.is_empty() { vec![None] } else { named };
        for transport in &self.transports {
            for scheduler in &schedulers {
                let choice = Choice::find(transport, *scheduler, scenario).map_err(|e| {
                    PlanError::Impossible { plan: self.source.clone(), problem: e.to_string() }
                })?;
                if known.insert(format!("{choice:?}")) {
                    choices.push((transport.clone(), choice));
                }
            }
        }
        Ok(choices)
    }

    fn cell(
        &self,
        (scenario, rtt, queue): (&Scenario, Option<Duration>, Queue),
        transport: &Choice,
        congestion: &str,
        seed: u64,
    ) -> Planned {
        let mut network = scenario.clone().with_seed(seed);
        network = network.with_duration(Duration::from_secs(self.seconds.into()));
        if let Some(rtt) = rtt {
            network = network.with_rtt(rtt);
        }
        let own = match self.workload {
            Work::Scenario => scenario.run.workloads.clone(),
            Work::Bulk => Vec::new(),
        };
        let workloads = if own.is_empty() { vec![WorkloadSpec::Bulk { size: None }] } else { own };
        let simulation = Simulation {
            scenario: network,
            queue,
            transport: transport.clone(),
            congestion: congestion.to_owned(),
            workloads,
            options: Options::default(),
        };
        let rtt = rtt.map_or("scenario".to_owned(), |rtt| format!("{} ms", rtt.as_secs_f64() * 1e3));
        let queue = match queue {
            Queue::Scenario => "scenario".to_owned(),
            Queue::Bytes(bytes) => format!("{} kB", bytes as f64 / 1e3),
            Queue::Millis(millis) => format!("{millis} ms"),
        };
        Planned { key: key::of(&simulation.identity()), labels: (rtt, queue), simulation }
    }
}

/// Keys of a plan's file.
const KEYS: [&str; 13] = [
    "name",
    "description",
    "scenarios",
    "transports",
    "schedulers",
    "congestion",
    "rtt",
    "queue",
    "seeds",
    "held-back",
    "seconds",
    "workload",
    "limit",
];

fn stem(file: &str) -> &str {
    Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("plan")
}

/// Whether a transport by this name runs the scheduler that is named beside it.
fn takes_scheduler(transport: &str) -> bool {
    ["mptcp", "session"].contains(&transport)
}

/// Results go by the name of their network: two of one name must be the same.
fn clash(networks: &[Scenario], network: &Scenario) -> Option<String> {
    let plain = |of: &Scenario| Scenario { description: String::new(), ..of.clone() };
    let other = networks.iter().find(|other| other.name == network.name)?;
    (plain(other) != plain(network))
        .then(|| format!("another network is called `{}`, too: give one of them another name", network.name))
}

/// A shipped scenario by name, or a file beside the plan.
fn scenario(value: &Value<'_>, beside: &Path) -> Result<Scenario, PlanError> {
    let name = value.text()?;
    let is_file = name.ends_with(".toml");
    let found = if is_file { Scenario::load(beside.join(name)) } else { Scenario::find(name) };
    found.map_err(|error| match error {
        ScenarioError::Field { .. } => PlanError::Scenario(error),
        other => value.refuse(other.to_string()),
    })
}

fn names(
    list: &place::Value<'_>,
    check: fn(&str) -> Result<(), tributary_sim::run::UnknownName>,
) -> Result<Vec<String>, PlanError> {
    let one = |item: &Value<'_>| {
        let name = item.text()?;
        check(name).map_err(|error| item.refuse(error.to_string()))?;
        Ok(name.to_owned())
    };
    list.list().iter().map(one).collect()
}

/// `"20 ms"`, or `"scenario"`.
fn rtt(value: &Value<'_>) -> Result<Option<Duration>, PlanError> {
    let text = value.text()?;
    if text == "scenario" {
        return Ok(None);
    }
    match number(text, &[("ms", 1e-3), ("s", 1.0)]) {
        Some(seconds) if seconds <= 60.0 => Ok(Some(Duration::from_secs_f64(seconds))),
        _ => {
            Err(value
                .refuse(format!("`{text}` is neither `scenario` nor a time such as 20 ms, at most 60 s")))
        }
    }
}

/// `"300 kB"`, `"20 ms"`, or `"scenario"`.
fn queue(value: &Value<'_>) -> Result<Queue, PlanError> {
    let text = value.text()?;
    if text == "scenario" {
        return Ok(Queue::Scenario);
    }
    if let Some(bytes) = number(text, &[("kB", 1e3), ("MB", 1e6)]).filter(|b| (1.0..=1e9).contains(b)) {
        return Ok(Queue::Bytes(bytes.round() as u64));
    }
    match number(text, &[("ms", 1.0)]) {
        Some(millis) if (1.0..=60_000.0).contains(&millis) && millis.fract() == 0.0 => {
            Ok(Queue::Millis(millis as u64))
        }
        _ => Err(value.refuse(format!(
            "`{text}` is none of `scenario`, a size such as 300 kB and a whole number of ms such as 20 ms"
        ))),
    }
}

fn number(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (digits, unit) = text.split_once(' ')?;
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    let number: f64 = digits.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * factor)
}

/// Numbers and ranges such as `"1-20"`.
fn seeds(value: &Value<'_>) -> Result<Vec<u64>, PlanError> {
    let mut seeds: Vec<u64> = Vec::new();
    for item in value.list() {
        let left = MOST_SEEDS - seeds.len() as u64;
        if left == 0 {
            return Err(item.refuse(format!("the list has more than {MOST_SEEDS} seeds")));
        }
        if item.is_whole() {
            seeds.push(item.whole()?);
            continue;
        }
        let text = item.text()?;
        let ends = text.split_once('-').unwrap_or((text, text));
        match (ends.0.trim().parse::<u64>(), ends.1.trim().parse::<u64>()) {
            (Ok(from), Ok(to)) if from <= to && to - from < left => seeds.extend(from..=to),
            _ => {
                let problem = format!(
                    "`{text}` is no range such as \"1-20\", or more than {MOST_SEEDS} seeds together"
                );
                return Err(item.refuse(problem));
            }
        }
    }
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(value.refuse(format!("seed {} is there twice", pair[0]))),
        None => Ok(seeds),
    }
}

#[cfg(test)]
mod tests;
