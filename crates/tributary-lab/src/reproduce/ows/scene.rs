//! Where it is watched: the three radio conditions, and what a GoP's time carries there.

use core::time::Duration;

use tributary_link::Direction::Down;
use tributary_link::{Scenario, WorkloadSpec};
use tributary_sim::run::{Cell, RunError, TransportName};
use tributary_sim::workload::tiled::{GopRecord, TileMessage, TilePlanner, TiledSpec};
use tributary_types::Instant;

use super::OwsError;
use super::known::{self, Course};

/// The paper's conditions at a tenth of its rates, with their names.
pub const SCENES: [(&str, &str); 3] = [("los", "LoS"), ("nlos", "nLoS"), ("mobility", "mobility")];
/// Congestion control of every subflow.
pub const CONGESTION: &str = "cubic";
/// GoPs of the earlier viewing that are measured, after [`RAMP`].
const MEASURED: usize = 15;
/// GoPs in which it starts.
const RAMP: usize = 3;
/// Bytes of a message of it.
const PIECE: u64 = 256 << 10;

/// The scenario of a viewing of `duration`.
///
/// # Errors
/// There is none.
pub(super) fn scenario(name: &str, duration: Duration) -> Result<Scenario, OwsError> {
    let mut scenario = Scenario::builtin(name)?;
    scenario.duration = duration;
    Ok(scenario)
}

/// One connection of a transport in a scenario; a viewing puts its own bytes in the workload's place.
///
/// # Errors
/// There is no such transport.
pub(super) fn cell(scenario: &Scenario, transport: &str) -> Result<Cell, OwsError> {
    let choice = TransportName::find(transport, None, &scenario.path_names()).map_err(RunError::from)?;
    Ok(Cell::new(scenario, &choice, CONGESTION, &WorkloadSpec::Bulk { size: None }))
}

/// Wants more than the radios carry.
#[derive(Debug)]
struct Insatiable {
    bytes: u64,
}

impl TilePlanner for Insatiable {
    fn plan(&mut self, _: usize, _: usize, _: &[GopRecord]) -> Option<Vec<TileMessage>> {
        let pieces = self.bytes.div_ceil(PIECE) as usize;
        Some((0..pieces).map(|tile| TileMessage { tile, choice: 0, bytes: PIECE }).collect())
    }
}

/// Bytes that a GoP's time carried, GoP by GoP, in an earlier viewing that wanted more than the radios have: asked
/// for and cut off as this one's.
///
/// # Errors
/// The simulator refuses.
pub(super) fn earlier(scene: &str, transport: &str, gop: Duration) -> Result<Vec<Course>, OwsError> {
    let gops = RAMP + MEASURED;
    let from = gop.mul_f64(0.7);
    let scenario = scenario(scene, from + gop * gops as u32 + Duration::from_millis(100))?;
    let spec = TiledSpec { gops, gop, from: Instant::ZERO + from, ..TiledSpec::default() };
    let bytes = (1.2 * full_rate()? * gop.as_secs_f64()) as u64;
    let outcome = cell(&scenario, transport)?.run_tiled(&spec, Box::new(Insatiable { bytes }))?;
    Ok(outcome.record.gops.iter().skip(RAMP).map(known::course).collect())
}

/// What both radios carry in line of sight, bytes a second: loads are named relative to it.
///
/// # Errors
/// There is no such scenario.
pub(super) fn full_rate() -> Result<f64, OwsError> {
    mean_rate("los")
}

/// What both radios of a scene carry on average, bytes a second.
///
/// # Errors
/// There is no such scenario.
pub(super) fn mean_rate(scene: &str) -> Result<f64, OwsError> {
    let scenario = Scenario::builtin(scene)?;
    let end = Instant::ZERO + scenario.duration;
    let bytes = |path| scenario.capacity(path, Down, Instant::ZERO, end).as_bytes() as f64;
    Ok((0..scenario.paths.len()).map(bytes).sum::<f64>() / scenario.duration.as_secs_f64())
}
