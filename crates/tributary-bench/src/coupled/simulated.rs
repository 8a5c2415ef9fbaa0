//! The same in the simulator: the scenario `shared-bottleneck`, whose stranger runs Reno, and two separate links.
//!
//! The stranger is background traffic of the scenario and has no record of its own. Its rate is what the shared link
//! delivers and neither of the paths behind it.

use super::Settings;
use super::contender::{Contender, Transport};
use super::separate::{self, Throughput};
use super::share::{Run, Share};
use crate::{BenchError, Progress};
use core::time::Duration;
use std::collections::BTreeMap;
use tributary_lab::{SimResult, Simulation, World};
use tributary_link::Scenario;
use tributary_report::stats;

/// The scenario, its shared link, and the paths behind it.
const SCENARIO: &str = "shared-bottleneck";
const LINE: &str = "line";
const PATHS: [&str; 2] = ["wifi", "lte"];
/// Samples of 100 ms at the beginning that are left out: windows find their size.
const SETTLE: usize = 100;
/// Simulated time on two separate links.
const SEPARATE: Duration = Duration::from_secs(30);

/// Shares of the shared link, with as many seeds as the plan says.
pub(super) fn shares(settings: &Settings, progress: Progress<'_>) -> Result<Vec<Share>, BenchError> {
    let scenario = Scenario::builtin(SCENARIO)?;
    let mut shares = Vec::new();
    for contender in Contender::at_bottleneck(&settings.coupled()) {
        progress(&format!("{contender} in the simulator: {} seeds", settings.seeds));
        let seeds = 1..=u64::from(settings.seeds);
        let runs: Result<Vec<Run>, BenchError> =
            seeds.map(|seed| Ok(read(&simulate(contender, scenario.clone().with_seed(seed))?))).collect();
        shares.push(Share::new(World::Sim, contender, runs?));
    }
    Ok(shares)
}

/// Goodput on two separate links, with as many seeds as the plan says.
pub(super) fn separate(settings: &Settings, progress: Progress<'_>) -> Result<Vec<Throughput>, BenchError> {
    let scenario = separate::scenario().with_duration(SEPARATE);
    separate::measure(World::Sim, (settings.seeds, &settings.coupled()), progress, |contender, seed| {
        let result = simulate(contender, scenario.clone().with_seed(seed.into()))?;
        Ok(result.goodput.map_or(f64::NAN, |goodput| goodput.mean_mbps))
    })
}

fn simulate(contender: Contender, scenario: Scenario) -> Result<SimResult, BenchError> {
    let first = scenario.path_names().first().map(|name| (*name).to_owned()).unwrap_or_default();
    let transport = contender.transport.registered(&first);
    let mut simulation = Simulation::bulk(&scenario, &transport, contender.control);
    if contender.transport == Transport::TwoTcp {
        simulation.cell.options.connections = 2;
    }
    let (result, _) = simulation.run().map_err(|error| BenchError::Simulation(error.to_string()))?;
    Ok(result)
}

/// Rates of contender and stranger after the windows have found their size.
fn read(result: &SimResult) -> Run {
    Run { invalid: result.audit.reasons.clone(), ..rates(&result.links) }
}

/// The same from what the links delivered in every 100 ms, in Mbit/s.
fn rates(links: &BTreeMap<String, Vec<f64>>) -> Run {
    let of = |name: &str| {
        let samples = links.get(name).and_then(|samples| samples.get(SETTLE..)).unwrap_or_default();
        stats::mean(samples).unwrap_or(0.0)
    };
    let paths = PATHS.map(of);
    let mbps: f64 = paths.iter().sum();
    let least = stats::minimum(&paths).unwrap_or(f64::NAN);
    let smaller = if least > 0.0 { least / mbps } else { f64::NAN };
    Run { mbps, stranger_mbps: of(LINE) - mbps, smaller, limits: None, invalid: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coupled::{UNCOUPLED, bottleneck};
    use tributary_link::BackgroundKind;

    #[test]
    fn the_stranger_has_what_the_line_delivers_and_no_path() {
        let series = |before: f64, after: f64| [vec![before; SETTLE], vec![after; 500]].concat();
        let links = BTreeMap::from([
            (LINE.to_owned(), series(30.0, 48.0)),
            (PATHS[0].to_owned(), series(9.0, 18.0)),
            (PATHS[1].to_owned(), series(1.0, 6.0)),
        ]);
        let run = rates(&links);
        assert!((run.mbps - 24.0).abs() < 1e-9 && (run.stranger_mbps - 24.0).abs() < 1e-9, "{run:?}");
        assert!((run.smaller - 0.25).abs() < 1e-9, "{run:?}");
    }

    #[test]
    fn the_scenario_has_the_links_that_are_read() {
        let scenario = Scenario::builtin(SCENARIO).unwrap();
        assert_eq!(scenario.path_names(), PATHS);
        let line = scenario.hops.iter().find(|hop| hop.name == LINE).expect("the shared link");
        let emulated = bottleneck::scenario(20).paths.remove(0).down;
        assert_eq!(
            (&line.down.rate, &line.down.queue),
            (&emulated.rate, &emulated.queue),
            "as in the emulator"
        );
        let [stranger] = &scenario.background[..] else { panic!("one stranger: {:?}", scenario.background) };
        let BackgroundKind::Tcp { congestion, .. } = &stranger.kind else { panic!("{stranger:?}") };
        assert_eq!(congestion.as_str(), UNCOUPLED);
        assert!(scenario.duration >= Duration::from_secs(30), "time after the first ten seconds");
    }
}
