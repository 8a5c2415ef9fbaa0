//! Checks of scenarios, whether read from a file or built in code.

use super::{
    Direction, HopSpec, MAX_BACKGROUND, MAX_CONNECTIONS, MAX_HOPS, MAX_PATHS, MAX_SUBFLOWS, Moment, PathSpec,
    Scenario, ScenarioError,
};
use core::time::Duration;

mod link;
mod run;

/// Largest queue.
pub(super) const MAX_QUEUE_BYTES: u64 = 1 << 30;
/// Maximum delay of a link. The delay line holds this much traffic in memory.
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Shortest time between two changes of rate.
const MIN_STEP: Duration = Duration::from_micros(10);
/// Maximum number of rate changes in a scenario, so that stepping through them takes less time than the scenario.
const MAX_STEPS: u128 = 100_000_000;

/// An error and its section.
pub(super) struct Fault {
    pub(super) section: Section,
    pub(super) field: String,
    pub(super) problem: String,
}

/// The part of a scenario that a field belongs to.
#[derive(Clone, Copy)]
pub(super) enum Section {
    Whole,
    Path(usize),
    Hop(usize),
    Background(usize),
    Workload(usize),
}

type Check = Result<(), (String, String)>;

fn refuse<T>(field: &str, problem: impl Into<String>) -> Result<T, (String, String)> {
    Err((field.to_owned(), problem.into()))
}

impl Scenario {
    /// Refuses invalid values in a scenario built or changed in code.
    pub fn check(&self) -> Result<(), ScenarioError> {
        check(self).map_err(|fault| {
            let section = match fault.section {
                Section::Whole => String::new(),
                Section::Path(i) => format!("path {}: ", self.paths[i].name),
                Section::Hop(i) => format!("hop {}: ", self.hops[i].name),
                Section::Background(i) => format!("background {} on {}: ", i + 1, self.background[i].on),
                Section::Workload(i) => format!("workload {}: ", i + 1),
            };
            let field = format!("{section}{}", fault.field);
            ScenarioError::Impossible { scenario: self.name.clone(), field, problem: fault.problem }
        })
    }
}

pub(super) fn check(scenario: &Scenario) -> Result<(), Fault> {
    let at = |section| move |(field, problem)| Fault { section, field, problem };
    general(scenario).map_err(at(Section::Whole))?;
    for (i, path) in scenario.paths.iter().enumerate() {
        check_path(i, path, scenario).map_err(at(Section::Path(i)))?;
    }
    for (i, hop) in scenario.hops.iter().enumerate() {
        check_hop(i, hop, scenario).map_err(at(Section::Hop(i)))?;
    }
    for (i, source) in scenario.background.iter().enumerate() {
        run::check_background(source, scenario).map_err(at(Section::Background(i)))?;
    }
    for (i, workload) in scenario.run.workloads.iter().enumerate() {
        run::check_workload(workload).map_err(at(Section::Workload(i)))?;
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
    let parts = [
        ("hop", scenario.hops.len(), MAX_HOPS),
        ("background", scenario.background.len(), MAX_BACKGROUND),
        ("run.workload", scenario.run.workloads.len(), 16),
        ("run.metrics", scenario.run.metrics.len(), 64),
    ];
    for (field, number, most) in parts {
        if number > most {
            return refuse(field, format!("there may be at most {most}, not {number}"));
        }
    }
    for (field, number, most) in [
        ("run.subflows", scenario.run.subflows, MAX_SUBFLOWS),
        ("run.connections", scenario.run.connections, MAX_CONNECTIONS),
    ] {
        if let Some(number) = number.filter(|number| !(1..=most).contains(number)) {
            return refuse(field, format!("{number} is not from 1 to {most}"));
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Check {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !(1..=15).contains(&name.len()) || !name.chars().all(allowed) || name == "lo" {
        let problem =
            format!("`{name}` must be 1 to 15 of a-z, 0-9 and -, and not `lo`: it names an interface");
        return refuse("name", problem);
    }
    Ok(())
}

fn check_path(index: usize, path: &PathSpec, scenario: &Scenario) -> Check {
    if scenario.paths[..index].iter().any(|other| other.name == path.name) {
        return refuse("name", format!("there are two paths called `{}`", path.name));
    }
    check_name(&path.name)?;
    check_links(|direction| path.link(direction), scenario.duration)?;
    check_windows("dead", &path.dead, scenario.duration)?;
    check_windows("absent", &path.absent, scenario.duration)?;
    if path.radio.as_ref().is_some_and(|radio| !(1..=64).contains(&radio.len())) {
        return refuse("radio", "must be a name of 1 to 64 characters");
    }
    for (i, name) in path.via.iter().enumerate() {
        if scenario.hop(name).is_none() {
            let known: Vec<&str> = scenario.hops.iter().map(|hop| hop.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return refuse("via", format!("no hop is called `{name}`; there are {known}"));
        }
        if path.via[..i].contains(name) {
            return refuse("via", format!("`{name}` is crossed twice"));
        }
    }
    Ok(())
}

fn check_hop(index: usize, hop: &HopSpec, scenario: &Scenario) -> Check {
    let name = &hop.name;
    if scenario.path(name).is_some() || scenario.hops[..index].iter().any(|other| other.name == *name) {
        return refuse("name", format!("another path or hop is called `{name}`"));
    }
    check_name(name)?;
    check_links(|direction| hop.link(direction), scenario.duration)?;
    check_windows("dead", &hop.dead, scenario.duration)?;
    if !scenario.paths.iter().any(|path| path.via.contains(name)) {
        return refuse("name", format!("no path crosses `{name}`: enter it in a path's `via`, or remove it"));
    }
    Ok(())
}

fn check_links<'a>(link: impl Fn(Direction) -> &'a super::LinkSpec, duration: Duration) -> Check {
    for (direction, prefix) in [(Direction::Down, "down"), (Direction::Up, "up")] {
        link::check_link(link(direction))
            .map_err(|(field, problem)| (format!("{prefix}.{field}"), problem))?;
        let steps = duration.as_nanos() / link(direction).rate.mean_span().as_nanos().max(1);
        if steps > MAX_STEPS {
            let problem = format!("changes {steps} times in {duration:?}; at most {MAX_STEPS} are allowed");
            return refuse(&format!("{prefix}.rate"), problem);
        }
    }
    Ok(())
}

fn check_windows(field: &str, windows: &[(Moment, Moment)], duration: Duration) -> Check {
    let mut before = None;
    for (from, to) in windows {
        let (from, to) = (from.resolve(duration), to.resolve(duration));
        if from >= to || before.is_some_and(|end| from < end) {
            return refuse(field, "each window must end after it begins and begin after the one before ends");
        }
        before = Some(to);
    }
    Ok(())
}
