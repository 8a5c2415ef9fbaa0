//! The story of the radio that dies without notice: how long nothing arrives, and when it is used again.

use crate::result::{RunResult, path_capacity_mbps};
use core::time::Duration;
use tributary_link::Scenario;

/// Shorter silences are not recorded.
const UNRECORDED_MS: f64 = 20.0;
/// A link counts as used from this share of its rate on.
const USED: f64 = 0.1;

/// When the second path is dead, in seconds, for a run of this length.
fn span(run: &RunResult) -> Option<(f64, f64)> {
    let seconds = run.goodput.as_ref()?.per_second_mbps.len() as u64;
    let scenario = Scenario::builtin(&run.scenario).ok()?;
    let dead = scenario.paths.iter().flat_map(|path| &path.dead).next()?;
    let at = |moment: &tributary_link::Moment| moment.resolve(Duration::from_secs(seconds)).as_secs_f64();
    Some((at(&dead.0), at(&dead.1)))
}

/// The longest silence that touches the time in which the radio is dead, in milliseconds.
pub(super) fn silence_ms(run: &RunResult) -> Option<f64> {
    let (from, to) = span(run)?;
    let touches = |at_ms: f64, length_ms: f64| at_ms + length_ms >= from * 1e3 && at_ms <= to * 1e3;
    let silences = run.silences.iter().filter(|s| touches(s.at_ms, s.length_ms));
    Some(silences.map(|s| s.length_ms).fold(UNRECORDED_MS, f64::max))
}

/// From the radio's return until it carries a tenth of its rate, in seconds, to 100 ms; infinite when it
/// never does.
pub(super) fn back_after(run: &RunResult) -> Option<f64> {
    let (_, to) = span(run)?;
    let scenario = Scenario::builtin(&run.scenario).ok()?;
    let (index, path) = scenario.paths.iter().enumerate().find(|(_, path)| !path.dead.is_empty())?;
    let rate = path_capacity_mbps(&scenario, index, 0.0, 0.1);
    let tenths = run.links.get(&path.name)?;
    let first = (to * 10.0).ceil() as usize;
    let used = tenths.iter().skip(first).position(|mbps| *mbps >= rate * USED);
    Some(used.map_or(f64::INFINITY, |steps| (first + steps + 1) as f64 / 10.0 - to))
}
