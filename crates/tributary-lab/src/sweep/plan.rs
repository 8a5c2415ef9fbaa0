//! Plans: lists of scenarios, transports, schedulers, congestion controls, round-trip times, queues and
//! seeds, whose combinations are the cells. Runs nothing.

mod read;

use super::error::PlanError;
use super::key;
use super::place::Value;
use crate::cell::Queue;
use crate::simulate::Simulation;
use core::time::Duration;
use tributary_link::{Scenario, WorkloadSpec};
use tributary_sim::run::{Options, TransportName};

/// Default limit of a plan's cells.
pub const LIMIT: u64 = 100_000;

/// A grid of runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name.
    pub name: String,
    /// Its file, or its name if it was made in code; for error messages.
    pub source: String,
    /// One sentence.
    pub description: String,
    /// Networks.
    pub scenarios: Vec<Scenario>,
    /// Transports by name.
    pub transports: Vec<String>,
    /// Schedulers of `mptcp` and `session`; if empty, their default. Other transports run once.
    pub schedulers: Vec<String>,
    /// Congestion controls.
    pub congestion: Vec<String>,
    /// Base RTTs; `None`: the scenario's own.
    pub rtts: Vec<Option<Duration>>,
    /// Queues of the links of every path.
    pub queues: Vec<Queue>,
    /// Seeds for development.
    pub seeds: Vec<u64>,
    /// Seeds for final results; nothing may be tuned with them.
    pub held_back: Vec<u64>,
    /// Duration of each run in seconds.
    pub seconds: u32,
    /// The workload.
    pub workload: Work,
    /// Maximum number of cells of the plan.
    pub limit: u64,
}

/// The workload of every run of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    /// One bulk transfer.
    #[default]
    Bulk,
    /// The scenario's `run` table; bulk if it has none.
    Scenario,
}

/// Which seeds to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seeds {
    /// The seeds for development.
    #[default]
    Working,
    /// The held-back seeds.
    HeldBack,
}

/// One run of a plan.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its key.
    pub key: String,
    /// The base RTT and the queue as written in the plan.
    pub labels: (String, String),
    /// The run itself.
    pub simulation: Simulation,
}

impl Plan {
    /// A plan with one second of bulk for each scenario and the usual lists, to be adapted.
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

    /// All runs in the plan's order, each once: transports without schedulers are not repeated for each.
    ///
    /// # Errors
    /// [`PlanError::TooLarge`] states the number of cells.
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

    /// The transports, each once, with their names in the plan.
    fn choices(&self, scenario: &Scenario) -> Result<Vec<(String, TransportName)>, PlanError> {
        let mut choices: Vec<(String, TransportName)> = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        let named: Vec<Option<&str>> = self.schedulers.iter().map(|name| Some(name.as_str())).collect();
        let schedulers = if named.is_empty() { vec![None] } else { named };
        for transport in &self.transports {
            for scheduler in &schedulers {
                let choice =
                    TransportName::find(transport, *scheduler, &scenario.path_names()).map_err(|e| {
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
        transport: &TransportName,
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

/// Results are stored by scenario name: two scenarios with the same name must be equal.
fn clash(networks: &[Scenario], network: &Scenario) -> Option<String> {
    let plain = |of: &Scenario| Scenario { description: String::new(), ..of.clone() };
    let other = networks.iter().find(|other| other.name == network.name)?;
    (plain(other) != plain(network))
        .then(|| format!("another network is called `{}`, too: give one of them another name", network.name))
}

#[cfg(test)]
mod tests;
