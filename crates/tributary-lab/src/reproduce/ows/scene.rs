//! The networks of the viewings: the conditions of the paper's radios at a tenth of its rates; for live viewings at a
//! hundredth.

use core::time::Duration;

use tributary_link::Direction::Down;
use tributary_link::{Scenario, WorkloadSpec};
use tributary_sim::run::{Cell, RunError, TransportName};
use tributary_types::{Bitrate, Instant};

use super::OwsError;
use crate::result::World;
use crate::tiled::ViewerConfig;

/// Congestion control of every subflow.
pub const CONGESTION: &str = "cubic";

/// The scenes of a world: line of sight, no line of sight, alternating, deep fades.
pub(super) fn names(world: World) -> [&'static str; 4] {
    match world {
        World::Sim => ["los", "nlos", "mobility", "deep-fade"],
        World::Emu => ["los-2k", "nlos-2k", "mobility-2k", "deep-fade-2k"],
    }
}

/// The scenario of a viewing of `duration`.
///
/// # Errors
/// The scenario is missing.
pub(super) fn scenario(name: &str, duration: Duration) -> Result<Scenario, OwsError> {
    let mut scenario = Scenario::builtin(name)?;
    scenario.duration = duration;
    Ok(scenario)
}

/// A cell with one connection of a transport in a scenario. A viewing replaces the workload by its own data.
///
/// # Errors
/// The transport does not exist.
pub(super) fn cell(scenario: &Scenario, transport: &str) -> Result<Cell, OwsError> {
    let choice = TransportName::find(transport, None, &scenario.path_names()).map_err(RunError::from)?;
    Ok(Cell::new(scenario, &choice, CONGESTION, &WorkloadSpec::Bulk { size: None }))
}

/// Capacity of both radios in line of sight, bytes per second. Loads are relative to it.
///
/// # Errors
/// The scenario does not exist.
pub(super) fn full_rate() -> Result<f64, OwsError> {
    mean_rate("los")
}

/// The rate that a player assumes before it has measured one: the product's default, scaled from the live scenes to
/// these scenes.
///
/// # Errors
/// The scenario does not exist.
pub(super) fn assumed() -> Result<Bitrate, OwsError> {
    let default = ViewerConfig::default().assumed.as_bps() as f64;
    Ok(Bitrate::from_bps((default * full_rate()? / mean_rate("los-2k")?) as u64))
}

/// Mean capacity of both radios of a scene, bytes per second.
///
/// # Errors
/// The scenario does not exist.
pub(super) fn mean_rate(scene: &str) -> Result<f64, OwsError> {
    let scenario = Scenario::builtin(scene)?;
    let end = Instant::ZERO + scenario.duration;
    let bytes = |path| scenario.capacity(path, Down, Instant::ZERO, end).as_bytes() as f64;
    Ok((0..scenario.paths.len()).map(bytes).sum::<f64>() / scenario.duration.as_secs_f64())
}
