//! Measurements of one run, for JSON, tables and plots.
//!
//! Goodput figures leave out the first second, in which every transport is still increasing its congestion window;
//! silences are counted from the first byte.

use crate::cell::Run;
use crate::endpoint::{ClientReport, Counters, ServerReport, WindowSample};
use crate::messages::MessageRecord;
use crate::transport::{self, SessionSettings};
use crate::workload::Record;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tributary_emu::{Audit, LinkSample, Verdict};
use tributary_link::{Direction, Scenario};
use tributary_report::stats;
use tributary_stream::Silence;
use tributary_types::Instant;

/// Seconds at the beginning that goodput figures leave out.
pub const RAMP_UP: usize = 1;

/// The world of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// Kernel stacks in wall time, joined by emulated links.
    #[default]
    Emu,
    /// Models in virtual time.
    Sim,
}

/// One run in the emulator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunResult {
    /// Always the emulator.
    #[serde(default)]
    pub world: World,
    /// Name of the scenario.
    pub scenario: String,
    /// Short name of the transport.
    pub transport: String,
    /// Its name for tables and figures.
    pub label: String,
    /// Settings of the session, where they differ from the defaults.
    #[serde(default, skip_serializing_if = "SessionSettings::is_default")]
    pub session_settings: SessionSettings,
    /// Congestion control, as the kernel reports it for every connection of both ends; for QUIC, as requested.
    pub congestion: String,
    /// Name of the workload.
    pub workload: String,
    /// Seed of the scenario's randomness.
    pub seed: u64,
    /// Base RTT in milliseconds.
    pub rtt_ms: f64,
    /// Queue of every link, as text.
    pub queue: String,
    /// Goodput without the first second; `None` for objects.
    pub goodput: Option<Goodput>,
    /// The longest time without a byte in order, in milliseconds.
    pub longest_silence_ms: Option<f64>,
    /// Every silence of at least 20 ms.
    pub silences: Vec<Silence>,
    /// Processor seconds of both ends.
    pub cpu: Cpu,
    /// Retransmitted payload as a share of the payload sent for the first time, in per cent; sessions only.
    pub duplicates_percent: Option<f64>,
    /// Counters of both ends of a session.
    pub session: Option<BothEnds>,
    /// Paths in use when the workload began.
    pub paths_up: usize,
    /// An MPTCP connection fell back to TCP, so the run does not measure MPTCP.
    pub fallback: bool,
    /// Bytes that the links delivered towards the client in every 100 ms, Mbit/s of IP packets, by path.
    pub links: BTreeMap<String, Vec<f64>>,
    /// The emulator's audit.
    pub audit: AuditNote,
    /// The client's record.
    pub record: Record,
    /// The window of a single TCP or QUIC connection every 10 ms, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<WindowSample>,
    /// Messages beside the workload, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageRecord>,
}

/// Goodput after the ramp-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// Seconds left out at the beginning.
    pub skipped_seconds: usize,
    /// Mean, Mbit/s.
    pub mean_mbps: f64,
    /// 10th percentile of the seconds, Mbit/s.
    pub p10_mbps: f64,
    /// The worst whole second, Mbit/s.
    pub worst_second_mbps: f64,
    /// Every whole second, the left-out ones included, Mbit/s.
    pub per_second_mbps: Vec<f64>,
    /// Capacity of all links in each of them, Mbit/s of IP packets.
    pub capacity_per_second_mbps: Vec<f64>,
    /// Mean goodput divided by the mean capacity of all links in the same seconds.
    pub share_of_capacity: f64,
}

/// Processor seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Processor seconds of the client.
    pub client_seconds: f64,
    /// Processor seconds of the server.
    pub server_seconds: f64,
    /// Processor seconds of both for each gigabyte delivered.
    pub seconds_per_gb: f64,
}

/// Counters of both ends of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BothEnds {
    /// Counters of the client.
    pub client: Counters,
    /// Counters of the server, which sends.
    pub server: Counters,
}

/// The emulator's audit of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AuditNote {
    /// Whether the network matched the scenario.
    pub valid: bool,
    /// Reasons why it is invalid.
    pub reasons: Vec<String>,
    /// Number of attempts, including the kept one.
    pub attempts: u32,
    /// 99th percentile of the delay error in microseconds.
    pub delay_error_p99_us: f64,
}

/// The emulator's report after a run.
pub(crate) struct NetworkReport {
    pub(crate) audit: Audit,
    pub(crate) links: Vec<LinkSample>,
}

impl RunResult {
    pub(crate) fn new(
        cell: &Run,
        client: ClientReport,
        server: &ServerReport,
        network: &NetworkReport,
    ) -> Self {
        let session = client.session.zip(server.session);
        let session = session.map(|(client, server)| BothEnds { client, server });
        let gigabytes = client.record.bytes() as f64 / 1e9;
        let cpu = client.cpu_seconds + server.cpu_seconds;
        let arrivals = client.record.arrivals();
        Self {
            world: World::Emu,
            scenario: cell.scenario.name.clone(),
            transport: cell.transport.name(),
            label: transport::label(&cell.transport),
            session_settings: cell.session.clone(),
            congestion: cell.congestion.clone(),
            workload: cell.workload.name().to_owned(),
            seed: cell.scenario.seed,
            rtt_ms: cell.scenario.rtt.as_secs_f64() * 1e3,
            queue: cell.queue.to_string(),
            goodput: arrivals.map(|a| Goodput::new(a.mbps_per_second(), &cell.scenario)),
            longest_silence_ms: arrivals.map(|a| a.longest_silence_ms),
            silences: arrivals.map(|a| a.silences.clone()).unwrap_or_default(),
            cpu: Cpu {
                client_seconds: client.cpu_seconds,
                server_seconds: server.cpu_seconds,
                seconds_per_gb: if gigabytes > 0.0 { cpu / gigabytes } else { 0.0 },
            },
            duplicates_percent: session.map(|both| both.duplicates_percent()),
            session,
            paths_up: client.paths_up,
            fallback: client.fallback || server.fallback,
            links: links(&network.links),
            audit: AuditNote::new(&network.audit),
            record: client.record,
            windows: server.windows.clone(),
            messages: client.messages.clone(),
        }
    }

    /// Mean goodput in Mbit/s; zero for objects.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.goodput.as_ref().map_or(0.0, |goodput| goodput.mean_mbps)
    }
}

impl Goodput {
    pub(crate) fn new(per_second: Vec<f64>, scenario: &Scenario) -> Self {
        let capacity: Vec<f64> =
            (0..per_second.len()).map(|second| capacity_mbps(scenario, second as f64, 1.0)).collect();
        let measured = per_second.get(RAMP_UP..).unwrap_or_default();
        let mean = stats::mean(measured).unwrap_or(0.0);
        let could = stats::mean(capacity.get(RAMP_UP..).unwrap_or_default()).unwrap_or(0.0);
        Self {
            skipped_seconds: RAMP_UP,
            mean_mbps: mean,
            p10_mbps: stats::p10(measured).unwrap_or(0.0),
            worst_second_mbps: stats::minimum(measured).unwrap_or(0.0),
            share_of_capacity: if could > 0.0 { mean / could } else { 0.0 },
            per_second_mbps: per_second,
            capacity_per_second_mbps: capacity,
        }
    }

    /// The seconds after the ramp-up, Mbit/s.
    #[must_use]
    pub fn measured(&self) -> &[f64] {
        self.per_second_mbps.get(self.skipped_seconds..).unwrap_or_default()
    }
}

impl BothEnds {
    fn duplicates_percent(&self) -> f64 {
        self.server.sent_again as f64 / (self.server.sent as f64).max(1.0) * 100.0
    }
}

impl AuditNote {
    pub(crate) fn new(audit: &Audit) -> Self {
        let (valid, reasons) = match audit.verdict() {
            Verdict::Valid => (true, Vec::new()),
            Verdict::Invalid { reasons } => (false, reasons),
        };
        Self { valid, reasons, attempts: 1, delay_error_p99_us: audit.delay_error.p99_us }
    }
}

/// Capacity of all links of a scenario towards the client, from `from` on for `length` seconds, as a mean rate in
/// Mbit/s.
#[must_use]
pub fn capacity_mbps(scenario: &Scenario, from: f64, length: f64) -> f64 {
    (0..scenario.paths.len()).map(|path| path_capacity_mbps(scenario, path, from, length)).sum()
}

/// Capacity of one path's link towards the client, as in [`capacity_mbps`].
#[must_use]
pub fn path_capacity_mbps(scenario: &Scenario, path: usize, from: f64, length: f64) -> f64 {
    let at = |seconds: f64| Instant::from_nanos((seconds * 1e9).max(0.0) as u64);
    let size = scenario.capacity(path, Direction::Down, at(from), at(from + length));
    size.as_bytes() as f64 * 8e-6 / length.max(1e-9)
}

fn links(samples: &[LinkSample]) -> BTreeMap<String, Vec<f64>> {
    let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let length = tributary_emu::SAMPLE_EVERY.as_secs_f64();
    for sample in samples.iter().filter(|sample| sample.direction == Direction::Down) {
        out.entry(sample.path.clone()).or_default().push(sample.delivered_bytes as f64 * 8e-6 / length);
    }
    out
}

/// Means over whole seconds of a series with a value every 100 ms.
#[must_use]
pub fn seconds_of(tenths: &[f64]) -> Vec<f64> {
    tenths.chunks_exact(10).filter_map(stats::mean).collect()
}
