//! Reads a plan from its TOML file; checks the fields and their combinations. [`super::Plan`] makes the
//! cells.

use core::time::Duration;
use std::path::Path;

use toml::de::DeTable;
use tributary_link::{Scenario, ScenarioError};
use tributary_sim::run::{TransportName, UnknownName, check_congestion, check_scheduler};

use super::{LIMIT, Plan, PlanError, Work, clash};
use crate::cell::Queue;
use crate::sweep::place::{Source, Value};

/// Longest run in seconds.
const LONGEST: u64 = 86_400;
/// Maximum number of seeds in one list, including its ranges.
const MOST_SEEDS: u64 = 1_000_000;
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

impl Plan {
    /// Reads a plan; scenario files are looked for beside it.
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
        let checked = |name: &str, check: fn(&str) -> Result<(), UnknownName>| {
            value(name).map(|list| names(&list, check)).transpose()
        };
        plan.schedulers = checked("schedulers", check_scheduler)?.unwrap_or_default();
        plan.congestion = checked("congestion", check_congestion)?.unwrap_or(plan.congestion);
        for item in transports.list() {
            let name = item.text()?;
            for scenario in &plan.scenarios {
                let of = |e| item.refuse(format!("in scenario {}: {e}", scenario.name));
                TransportName::find(name, None, &scenario.path_names()).map_err(of)?;
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

    /// Checks that each combination of names, and each network in each condition, is possible.
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
        let problem = "no transport of the plan supports one: add mptcp or session, or leave the list out";
        Err(self.refuse(source.value(table, "schedulers").as_ref(), problem.to_owned()))
    }

    /// Settings of each run: base RTT, queue, seeds, length, workload.
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
                    return Err(value.refuse(format!("`{other}` is unknown; known: bulk, scenario")));
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
}

fn stem(file: &str) -> &str {
    Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or("plan")
}

/// Whether a transport of this name accepts a scheduler.
fn takes_scheduler(transport: &str) -> bool {
    ["mptcp", "session"].contains(&transport)
}

/// A built-in scenario by name, or a file beside the plan.
fn scenario(value: &Value<'_>, beside: &Path) -> Result<Scenario, PlanError> {
    let name = value.text()?;
    let is_file = name.ends_with(".toml");
    let found = if is_file { Scenario::load(beside.join(name)) } else { Scenario::find(name) };
    found.map_err(|error| match error {
        ScenarioError::Field { .. } => PlanError::Scenario(error),
        other => value.refuse(other.to_string()),
    })
}

fn names(list: &Value<'_>, check: fn(&str) -> Result<(), UnknownName>) -> Result<Vec<String>, PlanError> {
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
                    "`{text}` is not a range such as \"1-20\", or more than {MOST_SEEDS} seeds together"
                );
                return Err(item.refuse(problem));
            }
        }
    }
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(value.refuse(format!("seed {} is listed twice", pair[0]))),
        None => Ok(seeds),
    }
}
