//! The networks of the viewings: the conditions of the paper's radios at a tenth of its rates, for live viewings at a
//! hundredth, and networks that the user adds.
//!
//! Loads are relative to a network's capacity. In the paper's conditions, sizes of tiles are relative to line of
//! sight, so that a clip is the same in all of them; in an added network they are relative to its own mean capacity.

use core::time::Duration;

use tributary_link::Direction::Down;
use tributary_link::{Scenario, WorkloadSpec};
use tributary_sim::run::{RunError, SimRun, TransportName};
use tributary_types::{Bitrate, Instant};

use super::OwsError;
use crate::result::World;
use crate::store::key;
use tributary_stream::viewing::ViewerConfig;

/// Congestion control of every subflow.
pub const CONGESTION: &str = "cubic";

/// Viewings start at a random time within this span, so that blockages hit any part of a GoP.
const SPREAD: Duration = Duration::from_millis(2500);

/// The paper's radio conditions in a world, with the names that describe them.
pub(super) fn conditions(world: World) -> [(&'static str, &'static str); 5] {
    let [los, varying, nlos, mobility, fades] = match world {
        World::Sim => ["los", "los-varying", "nlos", "mobility", "deep-fade"],
        World::Emu => ["los-2k", "los-varying-2k", "nlos-2k", "mobility-2k", "deep-fade-2k"],
    };
    [(los, "LoS"), (varying, "LoS, varying"), (nlos, "nLoS"), (mobility, "mobility"), (fades, "deep fades")]
}

/// The network of a viewing.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// Its name in the paper's file, or the path of an added scenario.
    pub name: String,
    /// The network with its own length.
    scenario: Scenario,
    /// Whether the user added it.
    added: bool,
    /// Key of all that decides the network.
    pub key: String,
}

impl Scene {
    /// One of the paper's radio conditions.
    ///
    /// # Errors
    /// The scenario does not exist.
    pub fn condition(name: &str) -> Result<Self, OwsError> {
        Ok(Self::new(name, Scenario::builtin(name)?, false))
    }

    /// A network that the user added: a scenario's name or file.
    ///
    /// # Errors
    /// The scenario does not exist, or cannot be read.
    pub fn added(name: &str) -> Result<Self, OwsError> {
        Ok(Self::new(name, Scenario::find(name)?, true))
    }

    /// A network that is not in a file.
    pub fn of(scenario: Scenario) -> Self {
        Self::new(&scenario.name.clone(), scenario, true)
    }

    fn new(name: &str, scenario: Scenario, added: bool) -> Self {
        let key = key::of(&format!("{scenario:?}"));
        Self { name: name.to_owned(), scenario, added, key }
    }

    /// The network for a viewing that takes `length`. The viewing's number is the seed of its random rates.
    pub fn network(&self, viewing: usize, length: Duration) -> Scenario {
        self.scenario.clone().with_seed(viewing as u64 + 1).with_duration(length)
    }

    /// The time within which viewings of `length` start: the first 2.5 s of the paper's conditions, which repeat, or
    /// any time of an added network that leaves `length` to its end.
    pub fn starts_within(&self, length: Duration) -> Duration {
        if self.added { self.scenario.duration.saturating_sub(length).max(SPREAD) } else { SPREAD }
    }

    /// Mean capacity of all its paths, bytes per second.
    pub fn mean_rate(&self) -> f64 {
        let (scenario, end) = (&self.scenario, Instant::ZERO + self.scenario.duration);
        let bytes = |path| scenario.capacity(path, Down, Instant::ZERO, end).as_bytes() as f64;
        (0..scenario.paths.len()).map(bytes).sum::<f64>() / scenario.duration.as_secs_f64()
    }
}

/// A cell with one connection of a transport in a scenario. A viewing replaces the workload by its own data.
///
/// # Errors
/// The transport does not exist.
pub(super) fn cell(scenario: &Scenario, transport: &str) -> Result<SimRun, OwsError> {
    let choice = TransportName::find(transport, None, &scenario.path_names()).map_err(RunError::from)?;
    Ok(SimRun::new(scenario, &choice, CONGESTION, &WorkloadSpec::Bulk { size: None }))
}

/// Capacity of both radios in line of sight, bytes per second.
///
/// # Errors
/// The scenario does not exist.
pub(super) fn full_rate() -> Result<f64, OwsError> {
    Ok(Scene::condition("los")?.mean_rate())
}

/// The rate that a player assumes before it has measured one: the product's default, scaled from the live scenes to
/// these scenes.
///
/// # Errors
/// The scenario does not exist.
pub(super) fn assumed() -> Result<Bitrate, OwsError> {
    let default = ViewerConfig::default().assumed.as_bps() as f64;
    Ok(Bitrate::from_bps((default * full_rate()? / Scene::condition("los-2k")?.mean_rate()) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn conditions_exist_and_start_within_a_cycle() {
        for (name, _) in conditions(World::Sim).into_iter().chain(conditions(World::Emu)) {
            let scene = Scene::condition(name).unwrap();
            assert!(scene.mean_rate() > 0.0, "{name}");
            assert_eq!(scene.starts_within(Duration::from_secs(10)), SPREAD, "{name}");
        }
    }

    #[test]
    fn varying_rates_differ_between_viewings() {
        let scene = Scene::condition("los-varying").unwrap();
        let bytes = |viewing: usize| {
            let network = scene.network(viewing, Duration::from_secs(10));
            network.capacity(1, Down, Instant::ZERO, Instant::from_millis(10_000)).as_bytes()
        };
        assert_eq!(bytes(0), bytes(0));
        assert!((1..5).any(|viewing| bytes(viewing) != bytes(0)));
    }

    #[test]
    fn an_added_network_is_a_file_and_viewings_start_anywhere_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("walk.toml");
        let text = "name = \"walk\"\nduration = \"60 s\"\n[[path]]\nname = \"a\"\ndown.rate = \"8 Mbit/s\"\n";
        fs::write(&file, text).unwrap();
        let scene = Scene::added(file.to_str().unwrap()).unwrap();
        assert_eq!(scene.starts_within(Duration::from_secs(11)), Duration::from_secs(49));
        assert_eq!(scene.starts_within(Duration::from_secs(80)), SPREAD);
        assert_eq!(scene.mean_rate(), 1e6);
        assert!(Scene::added("no/such.toml").is_err());
    }
}
