//! A thousand small messages a second beside bulk while the radios change: what the paper prioritises for,
//! and does not measure.

use core::time::Duration;

use serde::Serialize;
use tributary_link::{RateSpec, Scenario, WorkloadSpec};
use tributary_report::stats;
use tributary_sim::run::{Cell, RunError, TransportName};
use tributary_types::{Bitrate, DataSize, Rng};

use super::AviraError;

/// Rival, the default scheduler with messages as bulk, and with the discriminator in front.
pub(super) const TRANSPORTS: [&str; 3] = ["mptcp", "fbdt", "avira+fbdt"];
/// Networks whose fast radio comes and goes.
pub(super) const SCENARIOS: [&str; 3] = ["mobility", "blackout", "onoff"];
/// For the report.
pub(super) const DESCRIPTION: &str = "begun at any moment of the radios' turns: bulk, and 1000 messages of \
     64 bytes a second (MPTCP: on a connection of their own)";

const CONGESTION: &str = "cubic";
pub(super) const RTT: Duration = Duration::from_millis(10);
const PER_SECOND: f64 = 1000.0;
/// Messages of the start: handshakes, slow start and histories that are empty.
const START: Duration = Duration::from_secs(2);
/// Resolution of the moment at which a run begins.
const STEP: Duration = Duration::from_millis(10);

/// From making a message to its arrival in order, milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latencies {
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
}

impl Latencies {
    fn of(took: &[f64]) -> Self {
        let percentile = |percent| stats::percentile(took, percent).unwrap_or(f64::NAN);
        Self { p50_ms: percentile(50.0), p95_ms: percentile(95.0), p99_ms: percentile(99.0) }
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Messages {
    /// Network.
    pub scenario: String,
    /// Transport.
    pub transport: String,
    /// Seed.
    pub seed: u64,
    /// Goodput of bulk, Mbit/s.
    pub bulk_mbps: f64,
    /// Messages that arrived.
    pub arrived: usize,
    /// Messages that were made.
    pub made: u64,
    /// All of them.
    #[serde(flatten)]
    pub all: Latencies,
    /// Those of the first two seconds.
    pub start: Latencies,
    /// The others.
    pub steady: Latencies,
}

/// The radios' turns begin anywhere, and what is drawn is drawn anew.
pub(super) fn varied(name: &str, seed: u64) -> Result<Scenario, AviraError> {
    let mut scenario = Scenario::builtin(name)?.with_rtt(RTT);
    scenario.seed = seed;
    let mut rng = Rng::new(seed).child("phase");
    for path in &mut scenario.paths {
        let phase = rng.next_u64();
        for link in [&mut path.down, &mut path.up] {
            if let RateSpec::Turns(turns) = &mut link.rate {
                *turns = turned(turns, phase);
            }
        }
    }
    Ok(scenario)
}

/// The same turns for ever, begun in the middle of one.
fn turned(turns: &[(Duration, Bitrate)], phase: u64) -> Vec<(Duration, Bitrate)> {
    let period: Duration = turns.iter().map(|turn| turn.0).sum();
    let steps = (period.as_nanos() / STEP.as_nanos()).max(1) as u64;
    let mut skip = STEP * u32::try_from(phase % steps).unwrap_or(0);
    let mut rest = turns.to_vec();
    while skip >= rest[0].0 {
        skip -= rest[0].0;
        rest.rotate_left(1);
    }
    if !skip.is_zero() {
        let (length, rate) = rest[0];
        rest[0].0 = length - skip;
        rest.push((skip, rate));
    }
    rest
}

pub(super) fn simulate(
    network: &str,
    transport: &str,
    seed: u64,
    seconds: u64,
) -> Result<Messages, AviraError> {
    let mut scenario = varied(network, seed)?;
    scenario.duration = Duration::from_secs(seconds);
    let choice = TransportName::find(transport, None, &scenario.path_names()).map_err(RunError::from)?;
    let mut cell = Cell::new(&scenario, &choice, CONGESTION, &WorkloadSpec::Bulk { size: None });
    let size = DataSize::from_bytes(64);
    let messages = WorkloadSpec::Messages { per_second: PER_SECOND, size, priority: 7, deadline: None };
    cell.workloads.push(messages);
    let outcome = cell.run()?;
    let bytes: u64 = outcome.flows().filter(|flow| flow.kind == "bulk").map(|flow| flow.bytes).sum();
    let messages = || outcome.flows().filter(|flow| flow.kind != "bulk");
    let took: Vec<f64> = messages().flat_map(|flow| &flow.latencies).map(|l| l.as_secs_f64() * 1e3).collect();
    // They arrive in the order in which they were made.
    let (start, steady) = took.split_at(took.len().min((START.as_secs_f64() * PER_SECOND) as usize));
    Ok(Messages {
        scenario: network.to_owned(),
        transport: transport.to_owned(),
        seed,
        bulk_mbps: bytes as f64 * 8e-6 / seconds.max(1) as f64,
        arrived: took.len(),
        made: messages().map(|flow| flow.made).sum(),
        all: Latencies::of(&took),
        start: Latencies::of(start),
        steady: Latencies::of(steady),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_begin_anywhere_and_go_on_as_before() {
        let ms = Duration::from_millis;
        let turns = [(ms(1500), Bitrate::from_mbps(140)), (ms(1000), Bitrate::from_mbps(3))];
        let at = |turns: &[(Duration, Bitrate)], ms: u64| {
            let period: u128 = turns.iter().map(|turn| turn.0.as_millis()).sum();
            let mut left = u128::from(ms) % period;
            let inside = |turn: &&(Duration, Bitrate)| {
                let inside = left < turn.0.as_millis();
                left = left.saturating_sub(turn.0.as_millis());
                inside
            };
            turns.iter().find(inside).map(|turn| turn.1)
        };
        for (phase, skipped) in [(0, 0), (1, 10), (150, 1500), (249, 2490), (250, 0), (401, 1510)] {
            let begun = turned(&turns, phase);
            for ms in (0..5000).step_by(10) {
                assert_eq!(at(&begun, ms), at(&turns, ms + skipped), "phase {phase}, {ms} ms");
            }
        }
    }

    #[test]
    fn seeds_differ_in_every_network() {
        for name in SCENARIOS {
            assert_ne!(varied(name, 1).unwrap(), varied(name, 2).unwrap(), "{name}");
        }
    }
}
