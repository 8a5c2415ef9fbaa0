//! The messages beside bulk once more, on real sockets through the emulator.

use std::time::Instant;

use serde::Serialize;
use tributary_report::{Claim, Column, Expectation, Interval, Reproduction, Table, stats};

use super::{AviraError, messages};
use crate::contestant::Contestant;
use crate::demo::Progress;
use crate::machine;
use crate::messages::{MessageFlow, MessageRecord};
use crate::run::{Cell, run as measure};
use crate::workload::Workload;

const CONGESTION: &str = "cubic";

/// What to run.
#[derive(Clone, Debug)]
pub struct EmulatedSettings {
    /// Seeds, from 1 up: each begins the radios' turns elsewhere.
    pub seeds: u32,
    /// Seconds of each run.
    pub seconds: u32,
    /// Networks only, by name; empty is all.
    pub networks: Vec<String>,
    /// The command line, for the report.
    pub command: String,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct EmulatedRun {
    /// Network.
    pub scenario: String,
    /// Transport.
    pub transport: String,
    /// Seed.
    pub seed: u64,
    /// Goodput of bulk over the whole run, Mbit/s.
    pub bulk_mbps: f64,
    /// The messages.
    pub messages: MessageRecord,
    /// The emulator was exact.
    pub valid: bool,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct EmulatedOutcome {
    /// Claims and how they were measured.
    #[serde(flatten)]
    pub reproduction: Reproduction,
    /// A row for each run.
    pub runs: Vec<EmulatedRun>,
}

/// Runs them one after the other and judges the claims.
///
/// # Errors
/// [`AviraError`]; a claim that does not hold is a result.
pub fn run_emulated(
    settings: &EmulatedSettings,
    progress: Progress<'_>,
) -> Result<EmulatedOutcome, AviraError> {
    let began = Instant::now();
    let wanted = |name: &&str| settings.networks.is_empty() || settings.networks.iter().any(|n| n == name);
    let networks: Vec<&str> = messages::SCENARIOS.into_iter().filter(wanted).collect();
    if networks.is_empty() {
        let known = messages::SCENARIOS.join(", ");
        return Err(AviraError::Networks { asked: settings.networks.join(", "), known });
    }
    let seeds: Vec<u64> = (1..=u64::from(settings.seeds)).collect();
    let all = networks.len() * seeds.len() * messages::TRANSPORTS.len();
    let (mut runs, mut audited) = (Vec::new(), Vec::new());
    for &network in &networks {
        for &seed in &seeds {
            for transport in messages::TRANSPORTS {
                progress(runs.len() as f64 / all as f64, &format!("{network}, {transport}, seed {seed}"));
                let scenario = messages::varied(network, seed)?;
                let contestant = Contestant::find(transport, &scenario)?;
                let workload = Workload::Bulk { seconds: f64::from(settings.seconds) };
                let mut cell = Cell::new(&scenario, &contestant, CONGESTION, &workload);
                cell.messages = vec![MessageFlow::imu()];
                let result = measure(&cell)?;
                let seconds = f64::from(settings.seconds.max(1));
                runs.push(EmulatedRun {
                    scenario: network.to_owned(),
                    transport: transport.to_owned(),
                    seed,
                    bulk_mbps: result.record.bytes() as f64 * 8e-6 / seconds,
                    messages: result
                        .messages
                        .first()
                        .cloned()
                        .unwrap_or_else(|| MessageRecord::new("imu", &[], &[])),
                    valid: result.audit.valid,
                });
                audited.push(result);
            }
        }
    }
    let mut info = machine::run_info(&settings.command);
    info.audit = Some(machine::audit(audited.iter()));
    info.seeds = seeds;
    info.congestion = CONGESTION.to_owned();
    info.seconds = Some(began.elapsed().as_secs_f64());
    let what = format!("{} s of each network, {}", settings.seconds, messages::DESCRIPTION);
    info.configuration.insert("messages".to_owned(), what);
    info.configuration.insert("base RTT".to_owned(), format!("{:?}", messages::RTT));
    let claims = networks.iter().flat_map(|network| judge(&runs, network)).collect();
    let reproduction = Reproduction { name: "avira-emulated".to_owned(), claims, run: info };
    Ok(EmulatedOutcome { reproduction, runs })
}

fn series(runs: &[EmulatedRun], network: &str, transport: &str, of: fn(&EmulatedRun) -> f64) -> Vec<f64> {
    runs.iter().filter(|run| run.scenario == network && run.transport == transport).map(of).collect()
}

/// From the least to the most: few seeds have no better interval.
fn range(values: &[f64]) -> Option<Interval> {
    Some(Interval { low: stats::minimum(values)?, high: stats::maximum(values)? })
}

fn with_range(values: &[f64]) -> String {
    match (stats::median(values), range(values)) {
        (Some(median), Some(Interval { low, high })) => format!("{median:.1} [{low:.1}, {high:.1}]"),
        _ => "–".to_owned(),
    }
}

fn judge(runs: &[EmulatedRun], network: &str) -> [Claim; 2] {
    let ratios = |of: fn(&EmulatedRun) -> f64, other: &str| -> Vec<f64> {
        let (ours, theirs) = (series(runs, network, "avira+fbdt", of), series(runs, network, other, of));
        ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs.max(1e-9)).collect()
    };
    let claim = |id: &str, text: &str, values: &[f64], expected| {
        let text = format!("{network}: {text}, median");
        Claim::judge(&format!("{id}-{network}"), &text, stats::median(values), expected)
            .interval(range(values))
    };
    let p99 = ratios(|run| run.messages.p99_ms, "mptcp");
    let bulk = ratios(|run| run.bulk_mbps, "fbdt");
    let latency = "p99 of messages under avira+fbdt over kernel MPTCP's";
    let cost = "goodput of bulk beside them under avira+fbdt over fbdt's";
    [
        claim("sockets-p99", latency, &p99, Expectation::AtMost(0.5)),
        claim("sockets-bulk", cost, &bulk, Expectation::AtLeast(0.98)),
    ]
}

/// The runs as a table: medians over the seeds, the least and the most.
#[must_use]
pub fn emulated_table(outcome: &EmulatedOutcome) -> Table {
    let mut table =
        Table::new("Messages beside bulk on real sockets: medians over the seeds, the least and the most")
            .columns([
                Column::left("Network"),
                Column::left("Transport"),
                Column::right("p50").unit("ms"),
                Column::right("p95").unit("ms"),
                Column::right("p99").unit("ms"),
                Column::right("longest").unit("ms"),
                Column::right("Arrived").unit("%"),
                Column::right("Bulk").unit("Mbit/s"),
                Column::right("Valid runs"),
            ]);
    for network in messages::SCENARIOS {
        for transport in messages::TRANSPORTS {
            let text = |of: fn(&EmulatedRun) -> f64| {
                let values = series(&outcome.runs, network, transport, of);
                tributary_report::Cell::text(&with_range(&values))
            };
            let valid = series(&outcome.runs, network, transport, |run| f64::from(u8::from(run.valid)));
            if valid.is_empty() {
                continue;
            }
            let row = [
                tributary_report::Cell::text(network),
                tributary_report::Cell::text(if transport == "mptcp" { "kernel MPTCP" } else { transport }),
                text(|run| run.messages.p50_ms),
                text(|run| run.messages.p95_ms),
                text(|run| run.messages.p99_ms),
                text(|run| run.messages.longest_ms),
                text(|run| run.messages.arrived_percent()),
                text(|run| run.bulk_mbps),
                tributary_report::Cell::text(&format!("{} of {}", valid.iter().sum::<f64>(), valid.len())),
            ];
            if transport == "avira+fbdt" { table.push_highlighted(row) } else { table.push(row) }
        }
    }
    table
}
