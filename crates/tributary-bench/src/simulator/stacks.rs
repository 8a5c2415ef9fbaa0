//! The simulator beside Linux and ns-3, as an experiment: a cell runs on the one stack that its axis `stack` names, and
//! papers compare the stacks (`scenarios/papers/simulator-linux.toml`, `simulator-ns3.toml`).
//!
//! Besides the scenarios by name there is the network `bottleneck`: one link, described by the axes `rate`, `buffer`,
//! `rtt` and `loss`.

use super::{Bottleneck, Driver, Measured, Traffic, own};
use crate::controllers::Controllers;
use core::time::Duration;
use std::path::Path;
use std::sync::OnceLock;
use tributary_lab::process::ProcessError;
use tributary_lab::reproduce::matrix::{loss, number, time};
use tributary_lab::reproduce::{Cell, CellError, Experiment, Metric, Sample, Statistic, failed};
use tributary_lab::simulate::Simulation;
use tributary_lab::workload::Workload;
use tributary_lab::{LabError, Run, run};
use tributary_link::{LinkSpec, LossSpec, PathSpec, QueueSpec, Scenario};
use tributary_report::stats;
use tributary_sim::run::TransportName;
use tributary_sim::workload::BIN;
use tributary_types::{Bitrate, DataSize};

/// The scenario that is built from axes, and its only path.
const BOTTLENECK: &str = "bottleneck";
const PATH: &str = "link";
/// The smallest queue: two full packets.
const LEAST_QUEUE: u64 = 3000;
/// The queue of acknowledgements never fills.
const RETURN_QUEUE: u64 = 1 << 20;
/// Bytes of a full segment.
const SEGMENT: f64 = 1448.0;
/// Windows are recorded in steps of this many seconds; each has the largest window.
const STEP: f64 = 0.05;
/// Prefix of the eBPF controllers' names.
const PREFIX: &str = "bsl_";
/// Time for ns-3 to run a cell.
const PATIENCE: Duration = Duration::from_secs(400);

const METRICS: [Metric; 5] = [
    Metric::new("seconds", "Mbit/s", "goodput of every whole second but the first"),
    Metric::new("goodput", "Mbit/s", "mean goodput").of(Statistic::Mean, "seconds"),
    Metric::new("settled", "Mbit/s", "mean goodput without the first third of the run"),
    Metric::new("window", "segments", "congestion window of the first seed, every 50 ms"),
    Metric::new("completed", "s", "time of a transfer of known size, from its first data packet on"),
];

/// A stack that a cell runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    /// Linux, in the emulator.
    Kernel,
    /// The simulator's models.
    Simulator,
    /// ns-3 3.37.
    Ns3,
    /// The simulator with the sockets' settings of ns-3: full buffers from the beginning, no segmentation offload.
    LikeNs3,
}

/// One cell on one stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stacks;

impl Stacks {
    /// ns-3's driver, built once.
    ///
    /// # Errors
    /// What is missing.
    pub fn ns3() -> Result<&'static Driver, &'static str> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        let build = || Driver::build(Path::new(super::DRIVER)).map_err(|error| error.to_string());
        DRIVER.get_or_init(build).as_ref().map_err(String::as_str)
    }
}

impl Experiment for Stacks {
    fn name(&self) -> &'static str {
        "stack"
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn identity(&self, cell: &Cell) -> String {
        match stack(cell) {
            // These results do not change with the simulator's models.
            Ok(Stack::Kernel | Stack::Ns3) => format!("{cell:?}"),
            _ => cell.identity(),
        }
    }

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        match stack(cell)? {
            Stack::Kernel | Stack::Simulator => simulation(cell)?.cell.check().map_err(failed),
            Stack::Ns3 | Stack::LikeNs3 => bottleneck(cell).map(|_| ()),
        }
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        match stack(cell)? {
            Stack::Kernel => kernel(cell),
            Stack::Simulator => simulator(cell),
            Stack::Ns3 => {
                let driver = Self::ns3().map_err(failed)?;
                let bottleneck = bottleneck(cell)?;
                Ok(of_measured(cell, &driver.run(&bottleneck, PATIENCE).map_err(failed)?))
            }
            Stack::LikeNs3 => Ok(of_measured(cell, &own::run(&bottleneck(cell)?).map_err(failed)?)),
        }
    }
}

fn stack(cell: &Cell) -> Result<Stack, CellError> {
    match cell.label("stack") {
        "kernel" => Ok(Stack::Kernel),
        "simulator" => Ok(Stack::Simulator),
        "ns-3" => Ok(Stack::Ns3),
        "like-ns-3" => Ok(Stack::LikeNs3),
        _ => Err(cell.refused("stack", "kernel, simulator, ns-3 or like-ns-3")),
    }
}

/// Rate in bit/s, base round-trip time, queue in bandwidth-delay products, and loss of the link.
fn link(cell: &Cell) -> Result<(u64, Duration, f64, f64), CellError> {
    let rate = number(cell.label("rate"), "Mbit/s").filter(|rate| (0.001..=1e5).contains(rate));
    let rate = rate.ok_or_else(|| cell.refused("rate", "a rate such as 20 Mbit/s"))?;
    let buffer = number(cell.label("buffer"), "BDP").filter(|buffer| (0.01..=100.0).contains(buffer));
    let buffer = buffer.ok_or_else(|| cell.refused("buffer", "a queue such as 0.25 BDP"))?;
    let rtt = time("rtt", cell.label("rtt"))?.filter(|rtt| !rtt.is_zero());
    let rtt = rtt.ok_or_else(|| cell.refused("rtt", "a time such as 20 ms"))?;
    Ok(((rate * 1e6) as u64, rtt, buffer, loss(cell.label("loss"))?.unwrap_or(0.0)))
}

fn network(cell: &Cell) -> Result<Scenario, CellError> {
    if cell.label("scenario") != BOTTLENECK {
        let network = cell.network()?;
        return Ok(network.clone().only(cell.label("transport")).unwrap_or(network));
    }
    let (rate, rtt, buffer, loss) = link(cell)?;
    let product = rate as f64 / 8.0 * rtt.as_secs_f64();
    let queue = ((product * buffer) as u64).max(LEAST_QUEUE);
    let link = |queue| {
        let mut link = LinkSpec::constant(Bitrate::from_bps(rate));
        link.queue = QueueSpec::Bytes(DataSize::from_bytes(queue));
        link
    };
    let (mut down, up) = (link(queue), link(queue.max(RETURN_QUEUE)));
    if loss > 0.0 {
        down.loss = LossSpec::Bernoulli(loss);
    }
    let path = PathSpec { down, up: up.clone(), ..PathSpec::symmetric(PATH, up) };
    let scenario = Scenario::new(BOTTLENECK).with_path(path).with_rtt(rtt).with_seed(cell.seed);
    Ok(scenario.with_duration(Duration::from_secs(cell.seconds.into())))
}

fn transport(cell: &Cell, network: &Scenario) -> Result<TransportName, CellError> {
    TransportName::find(cell.label("transport"), cell.scheduler(), &network.path_names()).map_err(failed)
}

fn kernel(cell: &Cell) -> Result<Sample, CellError> {
    let scenario = network(cell)?;
    let control = cell.label("congestion");
    // Ours are in the kernel for this run only.
    let loaded = tributary_bpf::CONTROLLERS.contains(&control);
    let loaded =
        loaded.then(|| Controllers::load(&[control.to_owned()], PREFIX)).transpose().map_err(failed)?;
    let control = loaded.as_ref().map_or_else(|| control.to_owned(), |loaded| loaded.in_kernel(control));
    let workload = Workload::Bulk { seconds: f64::from(cell.seconds) };
    let mut cell_of_run = Run::new(&scenario, &transport(cell, &scenario)?, &control, &workload);
    (cell_of_run.windows, cell_of_run.attempts) = (true, cell.attempts);
    let result = match run(&cell_of_run) {
        // A busy machine may have starved an endpoint: try once more.
        Err(LabError::Process(ProcessError::Failed { .. })) => run(&cell_of_run),
        result => result,
    };
    let result = result.map_err(failed)?;
    let bins = result.record.arrivals().map(|arrivals| arrivals.bytes.clone()).unwrap_or_default();
    let mut sample = delivered(cell, bins);
    windows(&mut sample, cell, result.windows.iter().map(|window| (window.at_ms / 1e3, window.window)));
    sample.audit = Some(result.audit);
    Ok(sample)
}

/// In the emulator connections are up when time begins. In the simulator the handshake takes a round trip, so a run over
/// the bottleneck is longer by that time and its first bins do not count. Not so with changing rates, where the same
/// times must be compared.
fn handshake(cell: &Cell, scenario: &Scenario) -> Duration {
    if cell.label("scenario") == BOTTLENECK { scenario.rtt } else { Duration::ZERO }
}

fn simulation(cell: &Cell) -> Result<Simulation, CellError> {
    let scenario = network(cell)?;
    let length = scenario.duration + handshake(cell, &scenario);
    let scenario = scenario.with_duration(length);
    let transport = transport(cell, &scenario)?;
    let mut simulation = Simulation::bulk(&scenario, &transport, cell.label("congestion"));
    simulation.cell.options.trace = true;
    Ok(simulation)
}

fn simulator(cell: &Cell) -> Result<Sample, CellError> {
    let simulation = simulation(cell)?;
    let outcome = simulation.cell.run().map_err(failed)?;
    let skip = (handshake(cell, &simulation.cell.scenario).as_nanos() / BIN.as_nanos()) as usize;
    let mut sample = delivered(cell, outcome.arrivals().bins.into_iter().skip(skip).collect());
    // The handshake takes a round trip, the request half of one.
    let request = simulation.cell.scenario.rtt.as_secs_f64() * 1.5;
    let trace = outcome.trace.iter().flat_map(|trace| &trace.samples);
    let points = trace.map(|sample| (sample.at.as_nanos() as f64 / 1e9 - request, sample.path.window));
    windows(&mut sample, cell, points);
    Ok(sample)
}

/// Goodput from the payload that arrived in each [`BIN`].
fn delivered(cell: &Cell, mut bins: Vec<u64>) -> Sample {
    let per_second = (Duration::from_secs(1).as_nanos() / BIN.as_nanos()) as usize;
    bins.resize(cell.seconds as usize * per_second, 0);
    let seconds = bins.chunks(per_second).map(|second| second.iter().sum::<u64>() as f64 * 8e-6);
    let mut sample = Sample::default();
    goodput(&mut sample, cell, &seconds.collect::<Vec<_>>());
    sample
}

fn goodput(sample: &mut Sample, cell: &Cell, seconds: &[f64]) {
    let from = |first: usize| seconds.get(first..).unwrap_or_default();
    sample.set("goodput", stats::mean(from(1)));
    sample.set("settled", stats::mean(from((cell.seconds as usize).div_ceil(3))));
    sample.series("seconds", from(1).to_vec());
}

/// The largest window of each step, in segments; of the first seed.
fn windows(sample: &mut Sample, cell: &Cell, points: impl Iterator<Item = (f64, u64)>) {
    if cell.seed != 1 {
        return;
    }
    let mut steps = vec![0.0_f64; (f64::from(cell.seconds) / STEP) as usize];
    for (at, bytes) in points.filter(|(at, _)| *at >= 0.0) {
        if let Some(step) = steps.get_mut((at / STEP) as usize) {
            *step = step.max(bytes as f64 / SEGMENT);
        }
    }
    sample.series("window", steps);
}

fn bottleneck(cell: &Cell) -> Result<Bottleneck, CellError> {
    let (rate, rtt, buffer, loss) = link(cell)?;
    let traffic = match (cell.label("size"), number(cell.label("size"), "KiB")) {
        ("" | "endless", _) => Traffic::Endless,
        (_, Some(kib)) if (1.0..=1e7).contains(&kib) => Traffic::Transfer((kib * 1024.0) as u64),
        _ => return Err(cell.refused("size", "endless or a size such as 128 KiB")),
    };
    let bottleneck = Bottleneck::new(rate, rtt, buffer, cell.label("congestion"));
    let duration = Duration::from_secs(cell.seconds.into());
    Ok(Bottleneck { duration, traffic, loss, seed: cell.seed, ..bottleneck })
}

fn of_measured(cell: &Cell, measured: &Measured) -> Sample {
    let mut sample = Sample::default();
    match cell.label("size") {
        "" | "endless" => {
            let seconds: Vec<f64> = measured.goodput_bps_per_second.iter().map(|bps| bps / 1e6).collect();
            goodput(&mut sample, cell, &seconds);
        }
        _ => sample.set("completed", measured.completed),
    }
    sample
}

#[cfg(test)]
mod tests;
