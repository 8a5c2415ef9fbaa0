//! COTAG's own experiment as cells: ten bursty flows over correlated radios, with and without coding. Axes:
//! `scenario` selects the radios; `transport` selects the protocol of the flows and the gateway's scheme;
//! `correlation` is the correlation of the radios' rates. What the paper leaves open has defaults: `interval`, the nodes' T;
//! `redundancy`, their limit of redundant packets; `queue`, the packets in front of a radio; `change`, the probability that a
//! radio changes its state; `recovery`, how TCP detects losses.
//! In the emulator every cell is also simulated, so that both results are in one sample. Deviations from the paper:
//! `docs/reproductions/cotag.md`.

mod emulated;
mod flows;

use super::matrix::{Cell, CellError, failed, loss, number, time};
use super::runner::Experiment;
use super::sample::{Metric, Sample};
use crate::result::World;
use core::time::Duration;
use emulated::Transport;
use tributary_sim::LossDetection;
use tributary_sim::cotag::{CHANGE, FLOWS, QUEUE, Radio, Scheme, Setting, simulate};

/// The metrics. They are of the burst unless the description says otherwise.
const METRICS: [Metric; 16] = [
    Metric::new("throughput", "Gbit/s", "payload delivered in order"),
    Metric::new("of_capacity", "", "throughput over the radios' capacity"),
    Metric::new("capacity", "Gbit/s", "capacity of the radios"),
    Metric::new("burst_time", "ms", "time until 5 Gbit were delivered (slow radios: 0.5 Gbit); at most 8 s"),
    Metric::new("rtt", "ms", "mean smoothed round-trip time of the flows over the whole run"),
    Metric::new("sent_again", "%", "retransmitted payload over the whole run"),
    Metric::new("timeouts", "", "retransmission timeouts of all flows over the whole run"),
    Metric::new("delay_p50", "ms", "median delay from the gateway to delivery by the device; coded schemes"),
    Metric::new("delay_p99", "ms", "99th percentile of this delay; coded schemes"),
    Metric::new(
        "redundant",
        "%",
        "share of redundant packets in the packets sent by the radios; coded schemes",
    ),
    Metric::new("recovered", "", "packets recovered by decoding; coded schemes"),
    Metric::new("lost", "", "packets that could not be decoded; coded schemes"),
    Metric::new("full", "", "packets dropped at full queues of access points; coded schemes"),
    Metric::new("simulated", "Gbit/s", "throughput of the same cell in the simulator; emulator only"),
    Metric::new("simulated_burst", "ms", "burst_time of the same cell in the simulator; emulator only"),
    Metric::new("simulated_redundant", "%", "redundant of the same cell in the simulator; emulator only"),
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

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        setting(cell).map(|_| ())
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        let setting = setting(cell)?;
        if cell.world == World::Sim {
            return simulated(&setting);
        }
        let (transport, _) = transport(cell)?;
        let mut sample = emulated::measure(cell, &setting, transport)?;
        let counterpart = simulated(&setting)?;
        for (name, here) in [
            ("throughput", "simulated"),
            ("burst_time", "simulated_burst"),
            ("redundant", "simulated_redundant"),
        ] {
            sample.set(here, counterpart.first(name));
        }
        Ok(sample)
    }
}

fn simulated(setting: &Setting) -> Result<Sample, CellError> {
    let measured = simulate(setting).map_err(failed)?;
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
            return Err(failed(what));
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

/// The transport of an emulated cell, and the scheme of its simulated counterpart.
fn transport(cell: &Cell) -> Result<(Transport, Scheme), CellError> {
    let found = Transport::find(cell.label("transport"));
    let (transport, counterpart) =
        found.ok_or_else(|| cell.refused("transport", &format!("{} in the emulator", Transport::names())))?;
    Ok((transport, Scheme::find(counterpart).expect("the counterpart is a scheme")))
}

/// A network of the experiment.
struct Radios {
    /// Number of radios, and whether their rates are steady.
    radios: (usize, bool),
    /// Divides the paper's rates.
    divisor: u64,
    /// Size of a full inner packet in bytes.
    packet: u32,
    /// Maximum number of packets queued in front of a radio.
    queue: u64,
    flows: usize,
}

/// COTAG §5.2 and §5.3.1. `two-real` is small enough for real nodes on two cores; its queue is 15 ms at a radio's
/// high rate.
fn place(cell: &Cell) -> Result<Radios, CellError> {
    let place = |radios, divisor, packet, queue| Radios { radios, divisor, packet, queue, flows: FLOWS };
    Ok(match cell.label("scenario") {
        "two-fast" | "two-interval" | "two-settings" => place((2, false), 1, 8192, QUEUE),
        "two-fast-one-flow" => Radios { flows: 1, ..place((2, false), 1, 8192, QUEUE) },
        "two-slow" => place((2, false), 10, 128, QUEUE),
        "one-slow" => place((1, false), 10, 128, QUEUE),
        "one-steady" => place((1, true), 10, 128, QUEUE),
        "two-real" => place((2, false), 50, 1500, 256),
        "two-real-one-flow" => Radios { flows: 1, ..place((2, false), 50, 1500, 256) },
        _ => {
            let known = "two-fast, two-fast-one-flow, two-interval, two-settings, two-slow, one-slow, one-steady, two-real or \
                         two-real-one-flow";
            return Err(cell.refused("scenario", known));
        }
    })
}

fn setting(cell: &Cell) -> Result<Setting, CellError> {
    let Radios { radios: (count, steady), divisor, packet, queue, flows } = place(cell)?;
    let correlation = cell.label("correlation").parse::<f64>().ok().filter(|c| (-1.0..=1.0).contains(c));
    let correlation = correlation.ok_or_else(|| cell.refused("correlation", "a number from -1 to 1"))?;
    let (scheme, packet) = match cell.world {
        World::Sim => {
            let expected = || Scheme::names().collect::<Vec<_>>().join(", ");
            let scheme = Scheme::find(cell.label("transport"));
            (scheme.ok_or_else(|| cell.refused("transport", &expected()))?, packet)
        }
        World::Emu => {
            let (transport, counterpart) = transport(cell)?;
            (counterpart, transport.packet())
        }
    };
    if cell.world == World::Emu && divisor < 50 {
        return Err(cell.refused("scenario", "two-real in the emulator"));
    }
    if cell.label("congestion") != "cubic" {
        return Err(cell.refused("congestion", "cubic: the paper's"));
    }
    let Choices { interval, queue: chosen, redundancy, change, loss_detection } = Choices::of(cell)?;
    let loss = loss(cell.label("loss"))?.unwrap_or(0.0);
    let rtt = time("rtt", cell.label("rtt"))?.unwrap_or_default();
    let burst = Duration::from_secs(cell.seconds.into());
    let radio = Radio { count, correlation, divisor, steady, change, loss };
    let (queue, seed) = (chosen.unwrap_or(queue), cell.seed);
    Ok(Setting {
        scheme,
        radio,
        flows,
        packet,
        rtt,
        queue,
        interval,
        redundancy,
        loss_detection,
        burst,
        seed,
    })
}

/// What the paper leaves open; `None`: the default of the nodes or of the network.
struct Choices {
    interval: Option<Duration>,
    queue: Option<u64>,
    redundancy: Option<u32>,
    change: f64,
    loss_detection: LossDetection,
}

impl Choices {
    fn of(cell: &Cell) -> Result<Self, CellError> {
        let interval = optional(cell, "interval", "a time of at least 1 ms, as 2 ms", |label| {
            time("interval", label).ok().flatten().filter(|time| *time >= Duration::from_millis(1))
        })?;
        let queue = optional(cell, "queue", "`scenario` or a number such as 256 packets", |label| {
            let count = number(label, "packets").filter(|count| (1.0..=1e6).contains(count));
            count.map(|count| count as u64)
        })?;
        let redundancy = optional(cell, "redundancy", "a share such as 25 %, at most 100 %", |label| {
            let percent = number(label, "%").filter(|percent| *percent <= 100.0);
            percent.map(|percent| (percent * 10.0).round() as u32)
        })?;
        let change = optional(cell, "change", "a probability from 0 to 1", |label| {
            label.parse().ok().filter(|change| (0.0..=1.0).contains(change))
        })?;
        let loss_detection = optional(cell, "recovery", "rack, sack or new-reno", |label| match label {
            "rack" => Some(LossDetection::Rack),
            "sack" => Some(LossDetection::DupAck),
            "new-reno" => Some(LossDetection::NewReno),
            _ => None,
        })?;
        if cell.world == World::Emu && loss_detection.is_some() {
            return Err(cell.refused("recovery", "none in the emulator: the kernel's TCP has its own"));
        }
        let (change, loss_detection) = (change.unwrap_or(CHANGE), loss_detection.unwrap_or_default());
        Ok(Self { interval, queue, redundancy, change, loss_detection })
    }
}

/// The value of an axis that a cell need not have.
fn optional<T>(
    cell: &Cell,
    axis: &'static str,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, CellError> {
    match cell.label(axis) {
        "" | "default" | "scenario" => Ok(None),
        label => read(label).map(Some).ok_or_else(|| cell.refused(axis, expected)),
    }
}
