//! AVIRA's own experiment as cells: eight subflows on two pathways of 1 Mbit/s, one packet in 500 prioritised.
//! Simulator only. The axis `form` selects an interpretation of the paper. Deviations from the paper:
//! `docs/reproductions/avira.md`.

mod network;

use super::expression::Statistic;
use super::matrix::{Cell, CellError, failed};
use super::runner::Experiment;
use super::sample::{Metric, Sample};
use crate::result::World;
use network::Setting;
use tributary_report::stats;

/// The metrics. The first ten seconds are left out.
const METRICS: [Metric; 19] = [
    Metric::new("mean_rtt", "ms", "mean of the smoothed round-trip time over all acknowledgements"),
    Metric::new("rtt_deviation", "ms", "standard deviation of mean_rtt"),
    Metric::new("rtt_seconds", "ms", "mean smoothed round-trip time in every second"),
    Metric::new("throughput", "Mbit/s", "in-order bytes at the sink"),
    Metric::new("retransmitted", "%", "payload retransmitted on the same subflow"),
    Metric::new("duplicate_acks", "", "duplicate acknowledgements received"),
    Metric::new("fast_retransmissions", "", "number of fast recoveries"),
    Metric::new("lost", "", "segments marked as lost"),
    Metric::new("subflow_bytes", "MB", "bytes handed to each subflow"),
    Metric::new("subflow_0", "MB", "bytes handed to the first subflow"),
    Metric::new("subflow_1", "MB", "bytes handed to the second subflow"),
    Metric::new("subflow_2", "MB", "bytes handed to the third subflow"),
    Metric::new("subflow_3", "MB", "bytes handed to the fourth subflow"),
    Metric::new("subflow_4", "MB", "bytes handed to the fifth subflow"),
    Metric::new("subflow_5", "MB", "bytes handed to the sixth subflow"),
    Metric::new("subflow_6", "MB", "bytes handed to the seventh subflow"),
    Metric::new("subflow_7", "MB", "bytes handed to the eighth subflow"),
    Metric::new("prioritised", "ms", "mean latency of prioritised packets")
        .of(Statistic::Mean, "prioritised_packets"),
    Metric::new(
        "prioritised_packets",
        "ms",
        "latency of each prioritised packet, from being handed to a subflow to its acknowledgement",
    ),
];

/// Interpretations of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The pathways are separate from the source on; the source always has data to send.
    Printed,
    /// As printed, with schedulers that wait for their preferred subflow.
    Waiting,
    /// The source and the sink have one link each, shared by all subflows, as in the paper's figure.
    SharedAccess,
    /// The source sends nine tenths of the pathways' capacity.
    Limited,
    /// As in the public ns-3 model that the paper extends (reference 26): one access link, subflows hashed onto the
    /// pathways, recovery without selective acknowledgements.
    References,
}

/// The experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pathways;

impl Experiment for Pathways {
    fn name(&self) -> &'static str {
        "pathways"
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        setting(cell).map(|_| ())
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        let measured = network::simulate(&setting(cell)?).map_err(failed)?;
        let mut sample = Sample::default();
        sample.set("mean_rtt", Some(measured.rtt_ms));
        sample.set("rtt_deviation", Some(measured.rtt_deviation_ms));
        // The first ten seconds fill the queues.
        let seconds = measured.rtt_series_ms.get(network::WARM_UP as usize..).unwrap_or_default();
        sample.series("rtt_seconds", seconds.to_vec());
        sample.set("throughput", Some(measured.throughput_mbps));
        sample.set("retransmitted", Some(measured.retransmitted_percent));
        sample.set("duplicate_acks", Some(measured.duplicate_acks as f64));
        sample.set("fast_retransmissions", Some(measured.fast_retransmissions as f64));
        sample.set("lost", Some(measured.lost_segments as f64));
        let bytes: Vec<f64> = measured.subflow_bytes.iter().map(|bytes| *bytes as f64 / 1e6).collect();
        for (subflow, bytes) in bytes.iter().enumerate() {
            sample.set(&format!("subflow_{subflow}"), Some(*bytes));
        }
        sample.series("subflow_bytes", bytes);
        sample.set("prioritised", stats::mean(&measured.prioritised_ms));
        sample.series("prioritised_packets", measured.prioritised_ms);
        Ok(sample)
    }
}

fn setting(cell: &Cell) -> Result<Setting, CellError> {
    if cell.world != World::Sim {
        return Err(failed("this experiment is simulated only: use --world sim"));
    }
    let form = match cell.label("form") {
        "printed" => Form::Printed,
        "waiting" => Form::Waiting,
        "shared-access" => Form::SharedAccess,
        "limited" => Form::Limited,
        "references" => Form::References,
        _ => return Err(cell.refused("form", "printed, waiting, shared-access, limited or references")),
    };
    let scheduler = cell.label("transport");
    if !tributary_proto::scheduler::is_known(scheduler) {
        let known = tributary_proto::scheduler::names().join(", ");
        return Err(cell.refused("transport", &format!("a scheduler; known: {known}")));
    }
    let congestion = cell.label("congestion").to_owned();
    let (scheduler, seconds) = (scheduler.to_owned(), u64::from(cell.seconds));
    Ok(Setting { scheduler, congestion, form, seed: cell.seed, seconds })
}
