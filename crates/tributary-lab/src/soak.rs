//! Trials of many seeds ([`tributary_sim::trial`]): on all cores, kept like the runs of a sweep, and shortened where one breaks a rule.
//!
//! Not here: what a trial is and which rules it must keep.

use core::time::Duration;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tributary_report::machine;
use tributary_sim::trial::{self, Outcome, Trial};

use crate::demo::Progress;
use crate::store::execute::{Effort, execute};
use crate::store::{Finished, Store, StoreError, key};

/// Seeds of one stored row.
const BATCH: u64 = 250;

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The first seed.
    pub first: u64,
    /// How many there are.
    pub seeds: u64,
    /// Directory in which finished seeds are kept; `None`: nowhere.
    pub directory: Option<PathBuf>,
    /// Seeds that run at the same time; `None`: one per core.
    pub jobs: Option<NonZeroUsize>,
}

/// What the trials of all seeds measured.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Trials.
    pub trials: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Bytes and datagrams that were read.
    pub read: u64,
    /// Longest wait of a reader as a share of what the liveness rule allows.
    pub longest_wait: f64,
    /// Most TCP connections of an end.
    pub connections: usize,
    /// Longest time until everything had arrived after the last operation, seconds.
    pub settled: f64,
}

/// A seed that breaks a rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Broken {
    /// The seed.
    pub seed: u64,
    /// The rule.
    pub rule: String,
    /// What was seen.
    pub fault: String,
}

/// The same after shortening.
#[derive(Clone, Debug, Serialize)]
pub struct Shortened {
    /// As it was found.
    #[serde(flatten)]
    pub broken: Broken,
    /// What the shorter trial shows.
    pub shortened_fault: String,
    /// Its text.
    pub trial: String,
}

/// Result of all seeds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Soaked {
    /// The sums.
    #[serde(flatten)]
    pub measured: Measured,
    /// Every seed that breaks a rule.
    pub broken: Vec<Broken>,
    /// The first one of each rule, shortened.
    pub shortened: Vec<Shortened>,
    /// Wall time.
    pub seconds: f64,
}

/// Seeds that run one after the other.
#[derive(Debug)]
struct Batch {
    key: String,
    seeds: core::ops::Range<u64>,
}

/// A batch's row.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    key: String,
    first: u64,
    measured: Measured,
    broken: Vec<Broken>,
}

impl Finished for Row {
    fn key(&self) -> &str {
        &self.key
    }

    fn failure(&self) -> Option<&str> {
        self.broken.first().map(|broken| broken.fault.as_str())
    }

    fn title(&self) -> String {
        let broken = if self.broken.is_empty() { "" } else { ", a rule is broken" };
        format!("seeds {} to {}{broken}", self.first, self.first + self.measured.trials - 1)
    }
}

impl Measured {
    fn add(&mut self, outcome: &Outcome) {
        self.merge(&Self {
            trials: 1,
            events: outcome.events,
            read: outcome.read,
            longest_wait: outcome.waited,
            connections: outcome.connections,
            settled: outcome.settled.as_secs_f64(),
        });
    }

    fn merge(&mut self, other: &Self) {
        self.trials += other.trials;
        self.events += other.events;
        self.read += other.read;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.connections = self.connections.max(other.connections);
        self.settled = self.settled.max(other.settled);
    }
}

/// Runs all seeds; those that a stored row of this program's version has are not run again.
///
/// # Errors
/// [`StoreError`]; a broken rule is a result.
pub fn soak(settings: &Settings, progress: Progress<'_>) -> Result<Soaked, StoreError> {
    let began = Instant::now();
    let temporary = tempfile::tempdir()
        .map_err(|source| StoreError::Io { path: std::env::temp_dir().display().to_string(), source })?;
    let directory = settings.directory.as_deref().unwrap_or(temporary.path());
    let end = settings.first.saturating_add(settings.seeds);
    let firsts = (settings.first..end).step_by(BATCH as usize);
    let batches: Vec<Batch> = firsts.map(|first| Batch::new(first..end.min(first + BATCH))).collect();
    let mut store = Store::open(directory, crate::store::Shard::WHOLE)?;
    let effort = Effort { jobs: settings.jobs, ..Effort::default() };
    execute((&batches, |batch| &batch.key), Batch::run, &mut store, effort, progress)?;
    let mut soaked = Soaked::default();
    for row in batches.iter().filter_map(|batch| store.row(&batch.key)) {
        soaked.measured.merge(&row.measured);
        soaked.broken.extend_from_slice(&row.broken);
    }
    let mut rules = BTreeSet::new();
    let of_each_rule = soaked.broken.iter().filter(|broken| rules.insert(broken.rule.clone()));
    soaked.shortened = of_each_rule.filter_map(shortened).collect();
    soaked.seconds = began.elapsed().max(Duration::from_millis(1)).as_secs_f64();
    Ok(soaked)
}

impl Batch {
    fn new(seeds: core::ops::Range<u64>) -> Self {
        let key = key::of(&format!("trials {} {seeds:?}", machine::version()));
        Self { key, seeds }
    }

    fn run(&self) -> Row {
        let (mut measured, mut broken) = (Measured::default(), Vec::new());
        for seed in self.seeds.clone() {
            match trial::run(&Trial::draw(seed)) {
                Ok(outcome) => measured.add(&outcome),
                Err(fault) => {
                    measured.trials += 1;
                    broken.push(Broken { seed, rule: format!("{:?}", fault.rule), fault: fault.to_string() });
                }
            }
        }
        Row { key: self.key.clone(), first: self.seeds.start, measured, broken }
    }
}

/// `None` if the seed no longer breaks the rule: its row is of another program.
fn shortened(broken: &Broken) -> Option<Shortened> {
    let trial = Trial::draw(broken.seed);
    let fault = trial::run(&trial).err()?;
    let (shorter, fault) = trial::shrink(&trial, fault, trial::run);
    Some(Shortened { broken: broken.clone(), shortened_fault: fault.to_string(), trial: shorter.text() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_seeds_are_kept_and_sums_are_over_all() {
        let directory = tempfile::tempdir().unwrap();
        let settings =
            Settings { first: 3, seeds: 4, directory: Some(directory.path().to_owned()), jobs: None };
        let mut rows = 0;
        let first = soak(&settings, &mut |_, _| rows += 1).unwrap();
        assert_eq!((rows, first.measured.trials), (1, 4));
        let second = soak(&settings, &mut |_, _| rows += 1).unwrap();
        assert_eq!((rows, second.measured.events), (1, first.measured.events));
        assert!(first.broken.is_empty() && first.measured.read > 0, "{:?}", first.broken);
    }
}
