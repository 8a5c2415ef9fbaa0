//! A thousand small messages a second beside bulk while the radios change: what the paper prioritises for,
//! and does not measure.

use core::time::Duration;

use serde::Serialize;
use tributary_link::{Scenario, WorkloadSpec};
use tributary_report::stats;
use tributary_sim::run::{Cell, Choice};
use tributary_types::DataSize;

use super::AviraError;

/// Rival, the default scheduler with messages as bulk, and with the discriminator in front.
pub(super) const TRANSPORTS: [&str; 3] = ["mptcp", "fbdt", "avira+fbdt"];
/// For the report.
pub(super) const DESCRIPTION: &str =
    "bulk, and 1000 messages of 64 bytes a second (MPTCP: on a connection of their own)";

const SCENARIO: &str = "mobility";
const CONGESTION: &str = "cubic";
const RTT: Duration = Duration::from_millis(10);

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Messages {
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
    /// From making a message to its arrival in order, milliseconds: median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
}

pub(super) fn simulate(transport: &str, seed: u64, seconds: u64) -> Result<Messages, AviraError> {
    let mut scenario = Scenario::builtin(SCENARIO)?.with_rtt(RTT);
    scenario.seed = seed;
    scenario.duration = Duration::from_secs(seconds);
    let choice = Choice::find(transport, None, &scenario).map_err(tributary_sim::run::RunError::from)?;
    let mut cell = Cell::new(&scenario, &choice, CONGESTION, &WorkloadSpec::Bulk { size: None });
    let size = DataSize::from_bytes(64);
    cell.workloads.push(WorkloadSpec::Messages { per_second: 1000.0, size, priority: 7, deadline: None });
    let outcome = cell.run()?;
    let bytes: u64 = outcome.flows().filter(|flow| flow.kind == "bulk").map(|flow| flow.bytes).sum();
    let messages = || outcome.flows().filter(|flow| flow.kind != "bulk");
    let took: Vec<f64> = messages().flat_map(|flow| &flow.latencies).map(|l| l.as_secs_f64() * 1e3).collect();
    let percentile = |percent| stats::percentile(&took, percent).unwrap_or(f64::NAN);
    Ok(Messages {
        transport: transport.to_owned(),
        seed,
        bulk_mbps: bytes as f64 * 8e-6 / seconds.max(1) as f64,
        arrived: took.len(),
        made: messages().map(|flow| flow.made).sum(),
        p50_ms: percentile(50.0),
        p95_ms: percentile(95.0),
        p99_ms: percentile(99.0),
    })
}
