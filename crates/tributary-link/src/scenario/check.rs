//! What no scenario may ask for, whether read from a file or built in code.

use super::{Direction, LinkSpec, MAX_PATHS, PathSpec, Scenario, ScenarioError};
use crate::{LossSpec, MAX_RATE, QueueSpec, RateSpec};
use core::time::Duration;
use tributary_types::Bitrate;

/// Largest queue.
pub(super) const MAX_QUEUE_BYTES: u64 = 1 << 30;
/// Longest delay of a link: the delay line holds this much traffic in memory.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Shortest time between two changes of rate.
const MIN_STEP: Duration = Duration::from_micros(10);

/// What is wrong, and where.
pub(super) struct Fault {
    pub(super) path: Option<usize>,
    pub(super) field: String,
    pub(super) problem: String,
}

type Check = Result<(), (String, String)>;

fn refuse<T>(field: &str, problem: impl Into<String>) -> Result<T, (String, String)> {
    Err((field.to_owned(), problem.into()))
}

impl Scenario {
    /// Refuses impossible values in a scenario built or changed in code.
    pub fn check(&self) -> Result<(), ScenarioError> {
        check(self).map_err(|fault| {
            let path = fault.path.map_or_else(String::new, |i| format!("path {}: ", self.paths[i].name));
            let field = format!("{path}{}", fault.field);
            ScenarioError::Impossible { scenario: self.name.clone(), field, problem: fault.problem }
        })
    }
}

pub(super) fn check(scenario: &Scenario) -> Result<(), Fault> {
    let whole = |(field, problem)| Fault { path: None, field, problem };
    general(scenario).map_err(whole)?;
    for (i, path) in scenario.paths.iter().enumerate() {
        let here = |(field, problem)| Fault { path: Some(i), field, problem };
        if scenario.paths[..i].iter().any(|other| other.name == path.name) {
            return Err(here(("name".to_owned(), format!("there are two paths called `{}`", path.name))));
        }
        check_path(path, scenario).map_err(here)?;
    }
    Ok(())
}

fn general(scenario: &Scenario) -> Check {
    if scenario.name.is_empty() {
        return refuse("name", "must not be empty");
    }
    if scenario.duration < Duration::from_millis(1) || scenario.duration > Duration::from_secs(7 * 86_400) {
        return refuse("duration", "must be from 1 ms to a week");
    }
    if scenario.rtt > MAX_DELAY {
        return refuse("rtt", "must be at most 60 s");
    }
    if scenario.paths.is_empty() || scenario.paths.len() > MAX_PATHS {
        return refuse("path", format!("there must be 1 to {MAX_PATHS} paths, not {}", scenario.paths.len()));
    }
    Ok(())
}

fn check_path(path: &PathSpec, scenario: &Scenario) -> Check {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &path.name;
    if !(1..=15).contains(&name.len()) || !name.chars().all(allowed) || name == "lo" {
        let problem =
            format!("`{name}` must be 1 to 15 of a-z, 0-9 and -, and not `lo`: it names an interface");
        return refuse("name", problem);
    }
    for direction in [Direction::Down, Direction::Up] {
        let prefix = if direction == Direction::Down { "down" } else { "up" };
        check_link(path.link(direction))
            .map_err(|(field, problem)| (format!("{prefix}.{field}"), problem))?;
    }
    let mut before = None;
    for (from, to) in &path.dead {
        let (from, to) = (from.resolve(scenario.duration), to.resolve(scenario.duration));
        if from >= to || before.is_some_and(|end| from < end) {
            return refuse(
                "dead",
                "each window must end after it begins and begin after the one before ends",
            );
        }
        before = Some(to);
    }
    Ok(())
}

fn check_link(link: &LinkSpec) -> Check {
    check_rate(&link.rate)?;
    let delays = link.delay.changes.iter().map(|change| change.1);
    if delays.chain([link.delay.base, link.delay.jitter]).any(|delay| delay > MAX_DELAY) {
        return refuse("delay", "must be at most 60 s");
    }
    if !ascending(link.delay.changes.iter().map(|change| change.0)) {
        return refuse("delay.changes", "must be in ascending order of time");
    }
    let probabilities = match link.loss {
        LossSpec::None => vec![],
        LossSpec::Bernoulli(p) => vec![p],
        LossSpec::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
            vec![to_bad, to_good, loss_good, loss_bad]
        }
    };
    if let Some(p) = probabilities.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return refuse("loss", format!("{p} is not a probability from 0 to 1"));
    }
    match link.queue {
        QueueSpec::Bytes(size) if !(1500..=MAX_QUEUE_BYTES).contains(&size.as_bytes()) => {
            refuse("queue", "must hold at least one packet of 1500 B and at most 1 GiB")
        }
        QueueSpec::Packets(n) if !(1..=1_000_000).contains(&n) => {
            refuse("queue", "must hold from 1 to 1 000 000 packets")
        }
        QueueSpec::Time { time, floor } if time > MAX_DELAY || floor.as_bytes() < 1500 => {
            refuse("queue", "time must be at most 60 s and floor at least 1500 B")
        }
        _ => Ok(()),
    }
}

fn ascending(times: impl Iterator<Item = Duration>) -> bool {
    let times: Vec<_> = times.collect();
    times.windows(2).all(|pair| pair[0] < pair[1])
}

fn check_rate(rate: &RateSpec) -> Check {
    let too_often = format!("rates must not change more often than every {MIN_STEP:?}");
    match rate {
        RateSpec::Constant(_) => {}
        RateSpec::Trace(_) => {}
        RateSpec::Steps(steps) => {
            if steps.first().is_none_or(|step| step.0 != Duration::ZERO) {
                return refuse("rate.steps", "the first step must be at 0 s");
            }
            if !ascending(steps.iter().map(|step| step.0)) {
                return refuse("rate.steps", "must be in ascending order of time");
            }
        }
        RateSpec::Turns(turns) => {
            if turns.is_empty() || turns.iter().any(|turn| turn.0 < MIN_STEP) {
                return refuse("rate.turns", format!("give at least one turn; {too_often}"));
            }
        }
        RateSpec::Markov { rates, transitions, every } => {
            check_markov(rates, transitions)?;
            if *every < MIN_STEP {
                return refuse("rate.markov.every", too_often);
            }
        }
        RateSpec::Gaussian { mean, every, .. } => {
            if *mean == Bitrate::ZERO {
                return refuse("rate.gaussian.mean", "must be above zero");
            }
            if *every < MIN_STEP {
                return refuse("rate.gaussian.every", too_often);
            }
        }
        RateSpec::Blockage { clear_mean, shortest, longest, .. } => {
            if *shortest < MIN_STEP || *clear_mean < MIN_STEP {
                return refuse("rate.blockage", too_often);
            }
            if longest < shortest {
                return refuse("rate.blockage.longest", "must not be less than `shortest`");
            }
        }
    }
    match rate.max() {
        Bitrate::ZERO => {
            refuse("rate", "is zero at all times: to take a path away for good, use `dead` instead")
        }
        max if max > MAX_RATE => refuse("rate", format!("{max} is above the highest rate, {MAX_RATE}")),
        _ => Ok(()),
    }
}

fn check_markov(rates: &[Bitrate], transitions: &[Vec<f64>]) -> Check {
    let n = rates.len();
    if !(1..=64).contains(&n) {
        return refuse("rate.markov.rates", format!("there must be 1 to 64 states, not {n}"));
    }
    if transitions.len() != n || transitions.iter().any(|row| row.len() != n) {
        return refuse("rate.markov.transitions", format!("must be {n} rows of {n} probabilities"));
    }
    let sums_to_one = |row: &Vec<f64>| {
        row.iter().all(|p| (0.0..=1.0).contains(p)) && (row.iter().sum::<f64>() - 1.0).abs() < 1e-6
    };
    if !transitions.iter().all(sums_to_one) {
        return refuse("rate.markov.transitions", "each row must be probabilities that sum to 1");
    }
    Ok(())
}
