//! Measurements of a simulated run: the fields of an emulated run's result, and further ones of the simulator.

use super::Simulation;
use crate::result::{AuditNote, Goodput, RAMP_UP, World};
use crate::workload::Record;
use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tributary_link::{Direction, WorkloadSpec};
use tributary_report::stats;
use tributary_sim::run::{LINK_SAMPLE, Outcome};
use tributary_sim::workload::{BIN, FlowRecord};
use tributary_stream::{Arrivals, BulkRecord, End, ObjectRecord, Silence};

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SimResult {
    /// Always the simulator.
    pub world: World,
    /// Name of the scenario.
    pub scenario: String,
    /// Short name of the transport.
    pub transport: String,
    /// Its scheduler, if it has one.
    pub scheduler: Option<String>,
    /// Congestion control of every subflow.
    pub congestion: String,
    /// Kinds of the workloads.
    pub workload: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Base RTT in milliseconds.
    pub rtt_ms: f64,
    /// Queue of every path's link, as text.
    pub queue: String,
    /// Goodput of all workloads without the first second; `None` if there are only objects.
    pub goodput: Option<Goodput>,
    /// The longest time without a byte in order while data was outstanding, in milliseconds.
    pub longest_silence_ms: Option<f64>,
    /// Every silence of at least 20 ms; with several workloads those of the first.
    pub silences: Vec<Silence>,
    /// Payload sent again on another path, as a share of the payload sent once, in per cent.
    pub duplicates_percent: Option<f64>,
    /// Subflows of the first connection at the end.
    pub paths_up: usize,
    /// Bytes that the links delivered towards the client in every 100 ms, Mbit/s of IP packets, by name.
    pub links: BTreeMap<String, Vec<f64>>,
    /// Valid if every packet is accounted for exactly once.
    pub audit: AuditNote,
    /// The record of a single bulk or object workload, as the emulator's client writes it.
    pub record: Option<Record>,
    /// Every workload of every connection.
    pub flows: Vec<FlowSummary>,
    /// Measurements that exist only in virtual time.
    #[serde(rename = "virtual")]
    pub virtual_time: Virtual,
}

/// Measurements that exist only in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Virtual {
    /// Seconds of virtual time.
    pub seconds: f64,
    /// Hash of the event log, hexadecimal: the same for the same run on every machine.
    pub hash: String,
    /// Number of events.
    pub events: u64,
    /// Packets that hosts sent.
    pub packets: u64,
    /// Payload retransmitted on the same path, as a share of the payload sent once, in per cent.
    pub retransmitted_percent: f64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Mean smoothed round-trip time in milliseconds.
    pub mean_srtt_ms: f64,
    /// Most bytes held for reassembly and reading by a receiver.
    pub receive_held_most: u64,
    /// Packets dropped by queues, at random, and because a radio was dead or absent.
    pub dropped: [u64; 3],
}

/// One workload of one connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Kind.
    pub kind: String,
    /// Bytes that arrived in order.
    pub bytes: u64,
    /// Transfers or messages that are complete.
    pub complete: u64,
    /// Transfers or messages that are incomplete.
    pub unfinished: u64,
    /// Messages that missed their deadline.
    pub late: u64,
    /// Time from request or sending to complete arrival, in milliseconds.
    pub took_ms: Option<Percentiles>,
}

/// Percentiles of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub worst: f64,
}

impl SimResult {
    pub(super) fn new(simulation: &Simulation, outcome: &Outcome) -> Self {
        let arrivals = arrivals(&outcome.arrivals());
        let timed =
            simulation.cell.workloads.iter().any(|workload| {
                !matches!(workload, WorkloadSpec::Object { .. } | WorkloadSpec::Request { .. })
            });
        let kinds: Vec<&str> = simulation.cell.workloads.iter().map(WorkloadSpec::kind).collect();
        let sent = outcome.sent();
        let share = |bytes: u64| bytes as f64 / (sent.sent as f64).max(1.0) * 100.0;
        let seconds = Some(seconds(simulation, outcome, &arrivals)).filter(|s| timed && s.len() > RAMP_UP);
        let goodput = seconds.map(|seconds| Goodput::new(seconds, &simulation.cell.scenario));
        Self {
            world: World::Sim,
            scenario: simulation.cell.scenario.name.clone(),
            transport: simulation.cell.transport.name(),
            scheduler: simulation.cell.transport.scheduler().map(str::to_owned),
            congestion: simulation.cell.congestion.clone(),
            workload: kinds.join("+"),
            seed: simulation.cell.scenario.seed,
            rtt_ms: simulation.cell.scenario.rtt.as_secs_f64() * 1e3,
            queue: simulation.queue.to_string(),
            goodput,
            longest_silence_ms: Some(arrivals.longest_silence_ms),
            silences: arrivals.silences.clone(),
            duplicates_percent: simulation.cell.transport.scheduler().map(|_| share(sent.reinjected)),
            paths_up: outcome.connections.first().map_or(0, |connection| connection.subflows),
            links: links(outcome),
            audit: audit(outcome),
            record: record(simulation, outcome, &arrivals),
            flows: outcome.flows().map(FlowSummary::new).collect(),
            virtual_time: Virtual {
                seconds: outcome.duration.as_secs_f64(),
                hash: format!("{:016x}", outcome.hash),
                events: outcome.events,
                packets: outcome.packets,
                retransmitted_percent: share(sent.retransmitted),
                timeouts: sent.timeouts,
                mean_srtt_ms: millis(sent.mean_srtt),
                receive_held_most: outcome.received().receive_held_most,
                dropped: dropped(outcome),
            },
        }
    }
}

impl FlowSummary {
    fn new(flow: &FlowRecord) -> Self {
        let completions = flow.completions.iter().map(|completion| millis(completion.took));
        let latencies = flow.latencies.iter().map(|latency| millis(*latency));
        let took: Vec<f64> = completions.chain(latencies).collect();
        let at = |percent| stats::percentile(&took, percent);
        let percentiles =
            || Some(Percentiles { p50: at(50.0)?, p95: at(95.0)?, p99: at(99.0)?, worst: at(100.0)? });
        Self {
            kind: flow.kind.to_owned(),
            bytes: flow.bytes,
            complete: took.len() as u64,
            unfinished: flow.unfinished,
            late: flow.late,
            took_ms: percentiles(),
        }
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}

/// Converts to the form of records from real sockets.
fn arrivals(from: &tributary_sim::workload::ArrivalSeries) -> Arrivals {
    let silence = |silence: &tributary_sim::workload::SilentSpan| Silence {
        at_ms: silence.at.as_nanos() as f64 / 1e6,
        length_ms: millis(silence.length),
    };
    Arrivals {
        bin_ms: BIN.as_millis() as u64,
        bytes: from.bins.clone(),
        longest_silence_ms: millis(from.longest_silence),
        silences: from.silences.iter().map(silence).collect(),
    }
}

/// Goodput of every whole second, Mbit/s; for a transfer of known size, only until it was complete.
fn seconds(simulation: &Simulation, outcome: &Outcome, arrivals: &Arrivals) -> Vec<f64> {
    let mut seconds = arrivals.mbps_per_second();
    if let ([WorkloadSpec::Bulk { size: Some(_) }], 1) =
        (&*simulation.cell.workloads, outcome.flows().count())
        && let Some(done) = outcome.flows().next().and_then(|flow| flow.completions.first())
    {
        seconds.truncate(done.took.as_secs() as usize);
    }
    seconds
}

fn record(simulation: &Simulation, outcome: &Outcome, arrivals: &Arrivals) -> Option<Record> {
    let mut flows = outcome.flows();
    let (flow, None) = (flows.next()?, flows.next()) else { return None };
    match simulation.cell.workloads.first()? {
        WorkloadSpec::Bulk { size } => Some({
            // A transfer of known size lasts from the request to the last byte.
            let done = flow.completions.first().map(|done| done.took);
            let seconds = done.unwrap_or(outcome.duration).as_secs_f64();
            Record::Bulk(BulkRecord {
                seconds,
                bytes: flow.bytes,
                goodput_mbps: flow.bytes as f64 * 8e-6 / seconds.max(1e-9),
                first_byte_ms: flow.first_byte.map(millis),
                arrivals: arrivals.clone(),
                intact: None,
                end: if size.is_none() || done.is_some() { End::Complete } else { End::TimedOut },
            })
        }),
        WorkloadSpec::Object { size, .. } => Some(Record::Object(ObjectRecord {
            size: size.as_bytes(),
            completion_ms: flow.completions.iter().map(|done| millis(done.took)).collect(),
            first_byte_ms: flow.completions.iter().map(|done| millis(done.first_byte)).collect(),
            unfinished: u32::try_from(flow.unfinished).unwrap_or(u32::MAX),
            pending_ms: flow.pending.map(millis),
            intact: None,
            end: if flow.unfinished == 0 { End::Complete } else { End::TimedOut },
        })),
        _ => None,
    }
}

fn links(outcome: &Outcome) -> BTreeMap<String, Vec<f64>> {
    let down = outcome.links.iter().filter(|link| link.direction == Direction::Down);
    let rate = |bytes: &u64| *bytes as f64 * 8e-6 / LINK_SAMPLE.as_secs_f64();
    down.map(|link| (link.name.clone(), link.delivered.iter().map(rate).collect())).collect()
}

fn audit(outcome: &Outcome) -> AuditNote {
    let lossy = outcome.links.iter().filter(|link| !link.stats.is_conserved());
    let reasons: Vec<String> =
        lossy.map(|link| format!("link {} lost count of its packets", link.name)).collect();
    AuditNote { valid: reasons.is_empty(), reasons, attempts: 1, delay_error_p99_us: 0.0 }
}

fn dropped(outcome: &Outcome) -> [u64; 3] {
    let mut sum = [0; 3];
    for link in &outcome.links {
        let stats = &link.stats;
        let counts = [stats.overflowed, stats.lost, stats.dead];
        sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count.packets);
    }
    sum
}
