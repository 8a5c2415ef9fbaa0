//! One finished cell: its settings and measurements, as a line of the store and a row of the table. Contains
//! nothing that depends on the machine, so that a cell's row is the same everywhere.

use super::execute::guarded;
use super::frame::{Column, Frame};
use super::plan::Planned;
use super::store::Finished;
use crate::simulate::SimResult;
use serde::{Deserialize, Serialize};
use tributary_report::stats;

/// A finished cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Key of all settings that decide the run.
    pub key: String,
    /// Scenario.
    pub scenario: String,
    /// Transport; for sessions, their scheduler's name.
    pub transport: String,
    /// Scheduler, if it has one.
    pub scheduler: Option<String>,
    /// Congestion control.
    pub congestion: String,
    /// Base RTT as written in the plan.
    pub rtt: String,
    /// Queue as written in the plan.
    pub queue: String,
    /// Workloads.
    pub workload: String,
    /// Seed.
    pub seed: u64,
    /// Seconds of virtual time.
    pub seconds: f64,
    /// Why the run has no result.
    pub failure: Option<String>,
    /// The measurements.
    pub measured: Measured,
}

/// The measurements of a cell. Rates in Mbit/s, times in milliseconds, shares in per cent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Mean goodput without the first second.
    pub goodput_mbps: Option<f64>,
    /// 10th percentile of the goodput per second.
    pub p10_mbps: Option<f64>,
    /// The worst whole second.
    pub worst_second_mbps: Option<f64>,
    /// Mean goodput over mean link capacity.
    pub share_of_capacity: Option<f64>,
    /// Longest silence.
    pub longest_silence_ms: Option<f64>,
    /// Median time of transfers and messages.
    pub took_p50_ms: Option<f64>,
    /// 99th percentile of this time.
    pub took_p99_ms: Option<f64>,
    /// Messages that missed their deadline.
    pub late: u64,
    /// Data retransmitted on the same path.
    pub retransmitted_percent: f64,
    /// Data sent again on another path.
    pub reinjected_percent: Option<f64>,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Mean smoothed round-trip time.
    pub mean_srtt_ms: f64,
    /// Packets sent.
    pub packets: u64,
    /// Hash of the event log.
    pub hash: String,
    /// Goodput of every whole second.
    pub per_second_mbps: Vec<f64>,
    /// Every silence of at least 20 ms.
    pub silences_ms: Vec<f64>,
}

impl Finished for Row {
    fn key(&self) -> &str {
        &self.key
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn title(&self) -> String {
        format!("{} · {} · {} · seed {}", self.scenario, self.transport, self.congestion, self.seed)
    }
}

impl Row {
    /// Runs a cell.
    #[must_use]
    pub fn of(planned: &Planned) -> Self {
        match guarded(|| planned.simulation.run()) {
            Ok(Ok((result, _))) => Self::new(planned, &result),
            Ok(Err(error)) => Self::failed(planned, &error.to_string()),
            Err(fault) => Self::failed(planned, &fault),
        }
    }

    /// The row of a successful run.
    #[must_use]
    pub fn new(planned: &Planned, result: &SimResult) -> Self {
        let goodput = result.goodput.as_ref();
        let took = result.flows.iter().filter_map(|flow| flow.took_ms);
        let worst = |of: fn(&crate::simulate::Percentiles) -> f64| {
            stats::maximum(&took.clone().map(|took| of(&took)).collect::<Vec<_>>()).map(short)
        };
        let time = &result.virtual_time;
        let measured = Measured {
            goodput_mbps: goodput.map(|g| short(g.mean_mbps)),
            p10_mbps: goodput.map(|g| short(g.p10_mbps)),
            worst_second_mbps: goodput.map(|g| short(g.worst_second_mbps)),
            share_of_capacity: goodput.map(|g| short(g.share_of_capacity)),
            longest_silence_ms: result.longest_silence_ms.map(short),
            took_p50_ms: worst(|took| took.p50),
            took_p99_ms: worst(|took| took.p99),
            late: result.flows.iter().map(|flow| flow.late).sum(),
            retransmitted_percent: short(time.retransmitted_percent),
            reinjected_percent: result.duplicates_percent.map(short),
            timeouts: time.timeouts,
            mean_srtt_ms: short(time.mean_srtt_ms),
            packets: time.packets,
            hash: time.hash.clone(),
            per_second_mbps: goodput
                .map(|g| g.per_second_mbps.iter().copied().map(short).collect())
                .unwrap_or_default(),
            silences_ms: result.silences.iter().map(|silence| short(silence.length_ms)).collect(),
        };
        Self { measured, ..Self::blank(planned) }
    }

    /// The row of a failed run.
    #[must_use]
    pub fn failed(planned: &Planned, failure: &str) -> Self {
        Self { failure: Some(failure.to_owned()), ..Self::blank(planned) }
    }

    fn blank(planned: &Planned) -> Self {
        let simulation = &planned.simulation;
        let kinds: Vec<&str> = simulation.workloads.iter().map(|workload| workload.kind()).collect();
        Self {
            key: planned.key.clone(),
            scenario: simulation.scenario.name.clone(),
            transport: simulation.transport.name(),
            scheduler: simulation.transport.scheduler().map(str::to_owned),
            congestion: simulation.congestion.clone(),
            rtt: planned.labels.0.clone(),
            queue: planned.labels.1.clone(),
            workload: kinds.join("+"),
            seed: simulation.scenario.seed,
            seconds: simulation.scenario.duration.as_secs_f64(),
            failure: None,
            measured: Measured::default(),
        }
    }

    /// The seconds after the ramp-up.
    #[must_use]
    pub fn measured_seconds(&self) -> &[f64] {
        self.measured.per_second_mbps.get(crate::result::RAMP_UP..).unwrap_or_default()
    }
}

/// Rounds to three decimals, to keep files small.
fn short(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// All rows as a table, one per cell, without the lists.
#[must_use]
pub fn frame(rows: &[Row]) -> Frame {
    let text = |of: fn(&Row) -> &str| Column::Text(rows.iter().map(|r| Some(of(r).to_owned())).collect());
    let optional =
        |of: fn(&Row) -> Option<&String>| Column::Text(rows.iter().map(|r| of(r).cloned()).collect());
    let whole = |of: fn(&Row) -> u64| Column::Whole(rows.iter().map(of).collect());
    let number = |of: fn(&Row) -> Option<f64>| Column::Number(rows.iter().map(of).collect());
    Frame {
        columns: vec![
            ("key", text(|r| &r.key)),
            ("scenario", text(|r| &r.scenario)),
            ("transport", text(|r| &r.transport)),
            ("scheduler", optional(|r| r.scheduler.as_ref())),
            ("congestion", text(|r| &r.congestion)),
            ("rtt", text(|r| &r.rtt)),
            ("queue", text(|r| &r.queue)),
            ("workload", text(|r| &r.workload)),
            ("seed", whole(|r| r.seed)),
            ("seconds", number(|r| Some(r.seconds))),
            ("goodput_mbps", number(|r| r.measured.goodput_mbps)),
            ("p10_mbps", number(|r| r.measured.p10_mbps)),
            ("worst_second_mbps", number(|r| r.measured.worst_second_mbps)),
            ("share_of_capacity", number(|r| r.measured.share_of_capacity)),
            ("longest_silence_ms", number(|r| r.measured.longest_silence_ms)),
            ("took_p50_ms", number(|r| r.measured.took_p50_ms)),
            ("took_p99_ms", number(|r| r.measured.took_p99_ms)),
            ("late", whole(|r| r.measured.late)),
            ("retransmitted_percent", number(|r| Some(r.measured.retransmitted_percent))),
            ("reinjected_percent", number(|r| r.measured.reinjected_percent)),
            ("timeouts", whole(|r| r.measured.timeouts)),
            ("mean_srtt_ms", number(|r| Some(r.measured.mean_srtt_ms))),
            ("packets", whole(|r| r.measured.packets)),
            ("event_log_hash", text(|r| &r.measured.hash)),
            ("failure", optional(|r| r.failure.as_ref())),
        ],
    }
}
