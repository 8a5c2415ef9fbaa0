//! Trials of many seeds, in virtual time ([`tributary_sim::trial`]) or on real sockets ([`crate::trial`]): several at the same time and
//! kept like the runs of a sweep. One in virtual time that breaks a rule is shortened.
//!
//! Not here: what a trial is and which rules it must keep.

use core::time::Duration;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tributary_report::machine;
use tributary_sim::trial::{self, Outcome, Trial};

use crate::trial as real;
use crate::trial::Tried;

use crate::demo::Progress;
use crate::result::{AuditNote, World};
use crate::store::execute::{Effort, execute};
use crate::store::{Finished, Store, StoreError, key};

/// Seeds of one stored row, in virtual time and on real sockets.
const BATCH: u64 = 250;
const REAL_BATCH: u64 = 1;
/// Trials on real sockets at the same time, for each core: their links are slow, and they mostly wait.
const REAL_JOBS: usize = 4;

/// What is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the trials take place. On real sockets only after [`tributary_emu::isolate`].
    pub world: World,
    /// The first seed.
    pub first: u64,
    /// How many there are.
    pub seeds: u64,
    /// Directory in which finished seeds are kept; `None`: nowhere.
    pub directory: Option<PathBuf>,
    /// Seeds that run at the same time; `None`: one per core, four on real sockets.
    pub jobs: Option<NonZeroUsize>,
}

/// What the trials of all seeds measured.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
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
    /// Real sockets: what a trial measured beside this.
    #[serde(flatten)]
    pub real: Real,
}

/// What trials on real sockets measured.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Real {
    /// Trials that were run again because the emulator was late.
    pub repeated: u64,
    /// Largest 99th percentile of the emulator's delay error in a trial, microseconds.
    pub delay_error_p99_us: f64,
    /// Most resident memory of a process above what it had when it was ready, bytes.
    pub memory: u64,
    /// Processor seconds of all ends, without the emulator's.
    pub cpu_seconds: f64,
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
    /// Real sockets: the file with its trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// A seed without a result: the emulator was late each time, or the trial could not be carried out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unknown {
    /// The seed.
    pub seed: u64,
    /// Why.
    pub reason: String,
}

/// A broken rule after shortening.
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
    /// Where the trials took place.
    pub world: World,
    /// The sums.
    #[serde(flatten)]
    pub measured: Measured,
    /// Every seed that breaks a rule.
    pub broken: Vec<Broken>,
    /// Every seed without a result; it is not counted as a trial.
    pub unknown: Vec<Unknown>,
    /// Virtual time: the first one of each rule, shortened.
    pub shortened: Vec<Shortened>,
    /// Wall time.
    pub seconds: f64,
}

/// Seeds that run one after the other.
#[derive(Debug)]
struct Batch {
    world: World,
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
    #[serde(default)]
    unknown: Vec<Unknown>,
}

impl Finished for Row {
    fn key(&self) -> &str {
        &self.key
    }

    fn failure(&self) -> Option<&str> {
        let broken = self.broken.first().map(|broken| broken.fault.as_str());
        broken.or(self.unknown.first().map(|unknown| unknown.reason.as_str()))
    }

    fn title(&self) -> String {
        let broken = if self.broken.is_empty() { "" } else { ", a rule is broken" };
        let unknown = self.unknown.first().map_or(String::new(), |unknown| format!(", {}", unknown.reason));
        let last = self.first + (self.measured.trials + self.unknown.len() as u64).saturating_sub(1);
        format!("seeds {} to {last}{broken}{unknown}", self.first)
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
            real: Real::default(),
        });
    }

    fn add_real(&mut self, outcome: &real::Outcome, audit: &AuditNote) {
        self.merge(&Self {
            trials: 1,
            events: 0,
            read: outcome.read,
            longest_wait: outcome.waited,
            connections: outcome.connections,
            settled: outcome.settled.as_secs_f64(),
            real: Real {
                repeated: u64::from(audit.attempts > 1),
                delay_error_p99_us: audit.delay_error_p99_us,
                memory: outcome.memory,
                cpu_seconds: outcome.cpu_seconds,
            },
        });
    }

    fn merge(&mut self, other: &Self) {
        self.trials += other.trials;
        self.events += other.events;
        self.read += other.read;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.connections = self.connections.max(other.connections);
        self.settled = self.settled.max(other.settled);
        let (real, other) = (&mut self.real, &other.real);
        real.repeated += other.repeated;
        real.delay_error_p99_us = real.delay_error_p99_us.max(other.delay_error_p99_us);
        real.memory = real.memory.max(other.memory);
        real.cpu_seconds += other.cpu_seconds;
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
    let world = settings.world;
    let batch = if world == World::Emu { REAL_BATCH } else { BATCH };
    let firsts = (settings.first..end).step_by(batch as usize);
    let batches: Vec<Batch> =
        firsts.map(|first| Batch::new(world, first..end.min(first.saturating_add(batch)))).collect();
    let mut store = Store::open(directory, crate::store::Shard::WHOLE)?;
    let effort = Effort { jobs: settings.jobs.or_else(|| jobs(world)), ..Effort::default() };
    execute((&batches, |batch| &batch.key), Batch::run, &mut store, effort, progress)?;
    let mut soaked = Soaked { world, ..Soaked::default() };
    for row in batches.iter().filter_map(|batch| store.row(&batch.key)) {
        soaked.measured.merge(&row.measured);
        soaked.broken.extend_from_slice(&row.broken);
        soaked.unknown.extend_from_slice(&row.unknown);
    }
    if world == World::Emu {
        soaked.write(settings.directory.as_deref().unwrap_or(Path::new(".")))?;
    } else {
        soaked.shorten();
    }
    soaked.seconds = began.elapsed().max(Duration::from_millis(1)).as_secs_f64();
    Ok(soaked)
}

/// Trials of a world at the same time; `None`: one per core.
#[must_use]
pub fn jobs(world: World) -> Option<NonZeroUsize> {
    let cores = std::thread::available_parallelism().ok()?;
    (world == World::Emu).then(|| cores.saturating_mul(NonZeroUsize::new(REAL_JOBS).expect("not zero")))
}

impl Soaked {
    /// Shortens the first trial of each broken rule.
    fn shorten(&mut self) {
        let mut rules = BTreeSet::new();
        let of_each_rule = self.broken.iter().filter(|broken| rules.insert(broken.rule.clone()));
        self.shortened = of_each_rule.filter_map(shortened).collect();
    }

    /// Writes the trials that broke a rule.
    fn write(&mut self, directory: &Path) -> Result<(), StoreError> {
        for broken in &mut self.broken {
            let file = directory.join(format!("seed-{}.toml", broken.seed));
            let text = format!("# {}\n{}", broken.fault.replace('\n', " "), real::draw(broken.seed).text());
            std::fs::write(&file, text)
                .map_err(|source| StoreError::Io { path: file.display().to_string(), source })?;
            broken.file = Some(file);
        }
        Ok(())
    }
}

impl Batch {
    fn new(world: World, seeds: core::ops::Range<u64>) -> Self {
        let kind = if world == World::Emu { "real trials" } else { "trials" };
        let key = key::of(&format!("{kind} {} {seeds:?}", machine::version()));
        Self { world, key, seeds }
    }

    fn run(&self) -> Row {
        let (mut measured, mut broken, mut unknown) = (Measured::default(), Vec::new(), Vec::new());
        for seed in self.seeds.clone() {
            let fault = match self.world {
                World::Sim => match trial::run(&Trial::draw(seed)) {
                    Ok(outcome) => {
                        measured.add(&outcome);
                        continue;
                    }
                    Err(fault) => fault,
                },
                World::Emu => match real::run(&real::draw(seed)) {
                    Ok(Tried::Passed(outcome, audit)) => {
                        measured.add_real(&outcome, &audit);
                        continue;
                    }
                    Ok(Tried::Broken(fault)) => fault,
                    Ok(Tried::Inexact(audit)) => {
                        let reason = format!("the emulator was late: {}", audit.reasons.join(", "));
                        unknown.push(Unknown { seed, reason });
                        continue;
                    }
                    Err(error) => {
                        unknown.push(Unknown { seed, reason: error.to_string() });
                        continue;
                    }
                },
            };
            measured.trials += 1;
            let rule = format!("{:?}", fault.rule);
            broken.push(Broken { seed, rule, fault: fault.to_string(), file: None });
        }
        Row { key: self.key.clone(), first: self.seeds.start, measured, broken, unknown }
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
        let settings = Settings {
            world: World::Sim,
            first: 3,
            seeds: 4,
            directory: Some(directory.path().to_owned()),
            jobs: None,
        };
        let mut rows = 0;
        let first = soak(&settings, &mut |_, _| rows += 1).unwrap();
        assert_eq!((rows, first.measured.trials), (1, 4));
        let second = soak(&settings, &mut |_, _| rows += 1).unwrap();
        assert_eq!((rows, second.measured.events), (1, first.measured.events));
        assert!(first.broken.is_empty() && first.measured.read > 0, "{:?}", first.broken);
    }
}
