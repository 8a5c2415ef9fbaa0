//! COTAG's own experiment as cells: ten flows that burst over correlated radios, with and without coding.
//! Simulator only. `scenario` says which radios, `transport` what carries the flows and what the gateway does, the axis
//! `correlation` how alike the radios move. Deviations from the paper: `docs/reproductions/cotag.md`.

use super::matrix::{Cell, CellError, loss, time};
use super::runner::Experiment;
use super::sample::{Metric, Sample};
use crate::result::World;
use core::time::Duration;
use tributary_sim::cotag::{Radio, Scheme, Setting, simulate};
use tributary_sim::run::MODEL_VERSION;

/// What it measures; of the burst unless it says otherwise.
const METRICS: [Metric; 13] = [
    Metric::new("throughput", "Gbit/s", "payload delivered in order"),
    Metric::new("of_capacity", "", "throughput over what the radios could carry"),
    Metric::new("capacity", "Gbit/s", "what the radios could carry"),
    Metric::new("burst_time", "ms", "until 5 Gbit (or, of the slow radios, 0.5) were delivered; at most 8 s"),
    Metric::new("rtt", "ms", "mean of the flows' smoothed round-trip time, of the whole run"),
    Metric::new("sent_again", "%", "payload sent again, of the whole run"),
    Metric::new("timeouts", "", "retransmission time-outs of all flows, of the whole run"),
    Metric::new("delay_p50", "ms", "from the gateway to delivery by the device, coded schemes"),
    Metric::new("delay_p99", "ms", "its 99th percentile"),
    Metric::new("redundant", "%", "redundant packets of those that the radios sent, coded schemes"),
    Metric::new("recovered", "", "packets decoded without having arrived, coded schemes"),
    Metric::new("lost", "", "packets that could not be decoded, coded schemes"),
    Metric::new("full", "", "packets that access points had no room for, coded schemes"),
];

/// The experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cotag;

impl Experiment for Cotag {
    fn name(&self) -> &'static str {
        "cotag"
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn identity(&self, cell: &Cell) -> String {
        format!("models {MODEL_VERSION} {}", cell.identity())
    }

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        setting(cell).map(|_| ())
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        let measured = simulate(&setting(cell)?).map_err(|error| CellError::Experiment(error.to_string()))?;
        let mut sample = Sample::default();
        sample.set("throughput", Some(measured.throughput / 1e3));
        sample.set("of_capacity", Some(measured.throughput / measured.capacity));
        sample.set("capacity", Some(measured.capacity / 1e3));
        sample.set("burst_time", Some(measured.burst_ms));
        sample.set("rtt", Some(measured.rtt_ms));
        sample.set("sent_again", Some(measured.retransmitted));
        sample.set("timeouts", Some(measured.timeouts as f64));
        if let Some(tunnel) = measured.tunnel {
            if tunnel.unknown > 0 {
                let what = format!("{} decoded packets were never sent", tunnel.unknown);
                return Err(CellError::Experiment(what));
            }
            sample.set("delay_p50", Some(tunnel.delay_p50_ms));
            sample.set("delay_p99", Some(tunnel.delay_p99_ms));
            sample.set("redundant", Some(tunnel.redundant));
            sample.set("recovered", Some(tunnel.recovered as f64));
            sample.set("lost", Some(tunnel.lost as f64));
            sample.set("full", Some(tunnel.full as f64));
        }
        Ok(sample)
    }
}

fn setting(cell: &Cell) -> Result<Setting, CellError> {
    if cell.world != World::Sim {
        let what =
            "COTAG's experiment is simulated: take --world sim; on real sockets: tributary bench tunnel";
        return Err(CellError::Experiment(what.to_owned()));
    }
    let value = |axis: &'static str, expected: String| CellError::Value {
        axis,
        value: cell.label(axis).to_owned(),
        expected,
    };
    // Radios, whether steady, what rates are divided by, bytes of a packet. COTAG §5.2 and §5.3.1.
    let (count, steady, divisor, packet) = match cell.label("scenario") {
        "two-fast" => (2, false, 1, 8192),
        "two-slow" => (2, false, 10, 128),
        "one-slow" => (1, false, 10, 128),
        "one-steady" => (1, true, 10, 128),
        _ => return Err(value("scenario", "expected two-fast, two-slow, one-slow or one-steady".to_owned())),
    };
    let correlation = cell.label("correlation").parse::<f64>().ok().filter(|c| (-1.0..=1.0).contains(c));
    let correlation =
        correlation.ok_or_else(|| value("correlation", "expected a number from -1 to 1".to_owned()))?;
    let expected = || format!("expected {}", Scheme::names().collect::<Vec<_>>().join(", "));
    let scheme = Scheme::find(cell.label("transport")).ok_or_else(|| value("transport", expected()))?;
    if cell.label("congestion") != "cubic" {
        return Err(value("congestion", "expected cubic: the paper's".to_owned()));
    }
    let loss = loss(cell.label("loss"))?.unwrap_or(0.0);
    let rtt = time("rtt", cell.label("rtt"))?.unwrap_or_default();
    let burst = Duration::from_secs(cell.seconds.into());
    let radio = Radio { count, correlation, divisor, steady, loss };
    Ok(Setting { scheme, radio, packet, rtt, burst, seed: cell.seed })
}
