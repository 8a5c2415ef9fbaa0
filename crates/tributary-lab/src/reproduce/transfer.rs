//! The common experiment: a bulk transfer, with or without messages beside it, in either world.

use super::expression::Statistic;
use super::matrix::{Cell, CellError, Work, failed};
use super::own::{self, Given};
use super::runner::Experiment;
use super::sample::{Metric, Sample};
use crate::cell::Run;
use crate::messages::MessageFlow;
use crate::result::{Goodput, World, path_capacity_mbps};
use crate::simulate::Simulation;
use crate::transport::is_on_sockets;
use crate::workload::Workload;
use std::collections::BTreeMap;
use tributary_link::{Scenario, WorkloadSpec};
use tributary_report::stats;
use tributary_sim::run::{Options, SimRun, TransportName};
use tributary_stream::Silence;
use tributary_types::DataSize;

/// Shorter silences are not recorded.
const UNRECORDED_MS: f64 = 20.0;
/// A link counts as used when it carries at least this share of its rate.
const USED: f64 = 0.1;
/// Number of messages in the first two seconds, in which connections are set up and schedulers have no history.
const START: usize = 2 * PER_SECOND;
const PER_SECOND: usize = 1000;

/// The metrics.
pub const METRICS: [Metric; 28] = [
    Metric::new("seconds", "Mbit/s", "goodput of every whole second but the first"),
    Metric::new("capacity", "Mbit/s", "capacity of all links in each of these seconds"),
    Metric::new("goodput", "Mbit/s", "mean goodput").of(Statistic::Mean, "seconds"),
    Metric::new("p10", "Mbit/s", "10th percentile of the seconds").of(Statistic::Percentile(10.0), "seconds"),
    Metric::new("worst_second", "Mbit/s", "the worst whole second").of(Statistic::Minimum, "seconds"),
    Metric::new("of_capacity", "", "mean goodput over link capacity"),
    Metric::new("silence", "ms", "longest time without a byte in order"),
    Metric::new("silences", "ms", "every silence of at least 20 ms"),
    Metric::new("sent_again", "%", "payload bytes sent again on another path"),
    Metric::new("share", "%", "bytes that the first path's link carried, of those of all links"),
    Metric::new("cpu", "s/GB", "processor time of both ends; emulator only"),
    Metric::new("rtt", "ms", "base round-trip time"),
    Metric::new("dead_silence", "ms", "longest silence during the time a radio is dead"),
    Metric::new("back_after", "s", "time until a radio that was dead carries at least a tenth of its rate"),
    Metric::new("bulk", "Mbit/s", "goodput of the transfer over the whole run"),
    Metric::new("message_p50", "ms", "median latency of messages"),
    Metric::new("message_p95", "ms", "95th percentile of the latency"),
    Metric::new("message_p99", "ms", "99th percentile of the latency"),
    Metric::new("message_longest", "ms", "longest latency; emulator only"),
    Metric::new(
        "message_p99_start",
        "ms",
        "99th percentile of the message latency in the first two seconds; simulator only",
    ),
    Metric::new(
        "message_p99_after",
        "ms",
        "99th percentile of the message latency after the first two seconds; simulator only",
    ),
    Metric::new("messages_arrived", "%", "messages that arrived"),
    Metric::new("retransmitted", "%", "data sent again on the same path; simulator only"),
    Metric::new("timeouts", "", "retransmission time-outs; simulator only"),
    Metric::new(
        "srtt",
        "ms",
        "mean smoothed round-trip time; in the emulator only of QUIC on the axis `inner`",
    ),
    Metric::new("took_p50", "ms", "median time of transfers and messages of known size; simulator only"),
    Metric::new("took_p99", "ms", "99th percentile of this time; simulator only"),
    Metric::new("late", "", "messages that missed their deadline; simulator only"),
];

/// A bulk transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transfer<'a> {
    /// The scheduler of the transports [`own::OWN`].
    pub own: Given<'a>,
}

impl Experiment for Transfer<'_> {
    fn name(&self) -> &'static str {
        "transfer"
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn identity(&self, cell: &Cell) -> String {
        match (cell.world, simulation(cell, self.own)) {
            (World::Sim, Ok(simulation)) => simulation.identity() + &own::identity(self.own, cell),
            _ => cell.identity(),
        }
    }

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        match cell.world {
            World::Sim => own::check(self.own, cell, &simulation(cell, self.own)?.cell),
            World::Emu => emulation(cell).map(|_| ()),
        }
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        match cell.world {
            World::Sim => simulated(cell, self.own),
            World::Emu => emulated(cell),
        }
    }
}

fn simulation(cell: &Cell, given: Given<'_>) -> Result<Simulation, CellError> {
    let scenario = cell.network()?;
    let transport = own::transport(given, cell, &scenario.path_names())?;
    let own = Some(&scenario.run.workloads).filter(|own| cell.workload == Work::Scenario && !own.is_empty());
    let mut workloads = own.cloned().unwrap_or_else(|| vec![WorkloadSpec::Bulk { size: None }]);
    if cell.messages {
        let (per_second, size) = (PER_SECOND as f64, DataSize::from_bytes(64));
        workloads.push(WorkloadSpec::Messages { per_second, size, priority: 7, deadline: None });
    }
    over_quic(cell)?;
    datagrams(cell)?;
    // The other transports of a comparison have no transmission window.
    let session = matches!(transport, TransportName::Session { .. });
    // quinn's own CUBIC, as on sockets.
    let inner = inner(cell).map(|name| if name == "cubic" { "quic-cubic" } else { name });
    let options = Options {
        window: window(cell)?.filter(|_| session),
        inner_quic: inner.filter(|_| session).map(str::to_owned),
        ..Options::default()
    };
    let congestion = inner.filter(|_| transport.is_quic()).unwrap_or(cell.label("congestion")).to_owned();
    let run = SimRun { scenario, transport, congestion, workloads, options };
    Ok(Simulation::new(run, cell.queue()?))
}

/// The congestion control on the axis `inner`: of a QUIC connection inside a session, or directly on a path.
fn inner(cell: &Cell) -> Option<&str> {
    Some(cell.label("inner")).filter(|name| !name.is_empty())
}

/// The datagrams that the axis `datagrams` puts beside the transfer; the simulator has none.
fn datagrams(cell: &Cell) -> Result<Option<MessageFlow>, CellError> {
    match cell.label("datagrams") {
        "" => Ok(None),
        "game" if cell.world == World::Emu => Ok(Some(MessageFlow::game())),
        "media" if cell.world == World::Emu => Ok(Some(MessageFlow::media())),
        _ => Err(cell.refused("datagrams", "game or media, on sockets")),
    }
}

/// Whether the axis `subflows` asks for subflows over QUIC; the simulator has none.
fn over_quic(cell: &Cell) -> Result<bool, CellError> {
    match cell.label("subflows") {
        "" | "tcp" => Ok(false),
        "quic" if cell.world == World::Emu => Ok(true),
        _ => Err(cell.refused("subflows", "tcp, or on sockets quic")),
    }
}

/// The transmission window on the axis `window`, such as `256 KiB`.
fn window(cell: &Cell) -> Result<Option<usize>, CellError> {
    let text = cell.label("window");
    let refuse = || cell.refused("window", "a whole number of KiB such as 1024 KiB");
    match text.strip_suffix("KiB").map(|number| number.trim().parse::<usize>()) {
        None if text.is_empty() => Ok(None),
        Some(Ok(kib)) => kib.checked_mul(1024).map(Some).ok_or_else(refuse),
        _ => Err(refuse()),
    }
}

/// Share in percent of the bytes of all links that the first path of the scenario carried after the first second.
fn share(sample: &mut Sample, scenario: &Scenario, links: &BTreeMap<String, Vec<f64>>) {
    let carried = |link: &Vec<f64>| link.iter().skip(10).sum::<f64>();
    let all: f64 = links.values().map(carried).sum();
    let first = scenario.paths.first().and_then(|path| links.get(&path.name)).map(carried);
    sample.set("share", first.filter(|_| all > 0.0).map(|first| 100.0 * first / all));
}

fn simulated(cell: &Cell, given: Given<'_>) -> Result<Sample, CellError> {
    let simulation = simulation(cell, given)?;
    let (result, outcome) = own::simulate(given, cell, |own, watch| simulation.run_watched(own, watch))?;
    let mut sample = Sample::default();
    delivery(&mut sample, result.goodput.as_ref(), &result.silences);
    sample.set("silence", result.longest_silence_ms);
    sample.set("sent_again", result.duplicates_percent);
    sample.set("rtt", Some(result.rtt_ms));
    let time = &result.virtual_time;
    sample.set("retransmitted", Some(time.retransmitted_percent));
    sample.set("timeouts", Some(time.timeouts as f64));
    sample.set("srtt", Some(time.mean_srtt_ms));
    let took = result.flows.iter().filter_map(|flow| flow.took_ms);
    sample.set("took_p50", stats::maximum(&took.clone().map(|took| took.p50).collect::<Vec<_>>()));
    sample.set("took_p99", stats::maximum(&took.map(|took| took.p99).collect::<Vec<_>>()));
    sample.set("late", Some(result.flows.iter().map(|flow| flow.late as f64).sum()));
    sample.event_log_hash = Some(time.hash.clone());
    dead_radio(&mut sample, &simulation.cell.scenario, &result.silences, &result.links);
    share(&mut sample, &simulation.cell.scenario, &result.links);
    let bulk: u64 = outcome.flows().filter(|flow| flow.kind == "bulk").map(|flow| flow.bytes).sum();
    sample.set("bulk", Some(bulk as f64 * 8e-6 / f64::from(cell.seconds.max(1))));
    if cell.messages {
        let messages = || outcome.flows().filter(|flow| flow.kind != "bulk");
        let took: Vec<f64> =
            messages().flat_map(|flow| &flow.latencies).map(|l| l.as_secs_f64() * 1e3).collect();
        let made: u64 = messages().map(|flow| flow.made).sum();
        for (name, percent) in [("message_p50", 50.0), ("message_p95", 95.0), ("message_p99", 99.0)] {
            sample.set(name, stats::percentile(&took, percent));
        }
        // Messages arrive in the order in which they were made.
        let (start, after) = took.split_at(took.len().min(START));
        sample.set("message_p99_start", stats::percentile(start, 99.0));
        sample.set("message_p99_after", stats::percentile(after, 99.0));
        sample.set("messages_arrived", Some(100.0 * took.len() as f64 / made.max(1) as f64));
    }
    Ok(sample)
}

fn emulation(cell: &Cell) -> Result<Run, CellError> {
    let scenario = cell.network()?;
    let transport = own::transport(None, cell, &scenario.path_names())?;
    let unused = cell.scheduler().filter(|name| !transport.is_scheduled_by(name));
    if let Some(value) = unused.or(transport.scheduler().filter(|_| !is_on_sockets(&transport))) {
        let expected = "sockets have schedulers for the transport `session` only".to_owned();
        return Err(CellError::Value { axis: "scheduler", value: value.to_owned(), expected });
    }
    if !cell.label("window").is_empty() {
        let expected = "is an axis of the simulator only".to_owned();
        return Err(CellError::Value { axis: "window", value: cell.label("window").to_owned(), expected });
    }
    let workload = Workload::Bulk { seconds: f64::from(cell.seconds) };
    let inner = inner(cell);
    let congestion = inner.filter(|_| transport.is_quic()).unwrap_or(cell.label("congestion"));
    let mut run = Run::new(&scenario, &transport, congestion, &workload);
    run = run.with_queue(cell.queue()?);
    run.session.quic = over_quic(cell)?;
    run.inner_quic = inner.map(str::to_owned);
    run.windows = inner.is_some();
    run.attempts = cell.attempts;
    if cell.messages {
        run.messages = vec![MessageFlow::imu()];
    }
    if let Some(datagrams) = datagrams(cell)? {
        if !matches!(run.transport, TransportName::Tcp(_) | TransportName::Session { .. }) {
            return Err(cell.refused("transport", "with datagrams: a path, or a session's scheduler"));
        }
        run.messages.push(datagrams);
    }
    Ok(run)
}

fn emulated(cell: &Cell) -> Result<Sample, CellError> {
    let run = emulation(cell)?;
    let result = crate::run(&run).map_err(failed)?;
    let mut sample = Sample::default();
    delivery(&mut sample, result.goodput.as_ref(), &result.silences);
    sample.set("silence", result.longest_silence_ms);
    sample.set("sent_again", result.duplicates_percent);
    sample.set("cpu", Some(result.cpu.seconds_per_gb));
    sample.set("rtt", Some(result.rtt_ms));
    dead_radio(&mut sample, &run.scenario, &result.silences, &result.links);
    share(&mut sample, &run.scenario, &result.links);
    let round_trips: Vec<f64> = result.windows.iter().map(|sample| sample.srtt_ms).collect();
    sample.set("srtt", stats::mean(&round_trips));
    sample.set("bulk", Some(result.record.bytes() as f64 * 8e-6 / f64::from(cell.seconds.max(1))));
    if let Some(messages) = result.messages.first() {
        sample.set("message_p50", Some(messages.p50_ms));
        sample.set("message_p95", Some(messages.p95_ms));
        sample.set("message_p99", Some(messages.p99_ms));
        sample.set("message_longest", Some(messages.longest_ms));
        sample.set("messages_arrived", Some(messages.arrived_percent()));
    }
    sample.audit = Some(result.audit);
    Ok(sample)
}

fn delivery(sample: &mut Sample, goodput: Option<&Goodput>, silences: &[Silence]) {
    if let Some(goodput) = goodput {
        let capacity = goodput.capacity_per_second_mbps.get(goodput.skipped_seconds..).unwrap_or_default();
        sample.series("seconds", goodput.measured().to_vec());
        sample.series("capacity", capacity.to_vec());
        sample.set("goodput", Some(goodput.mean_mbps));
        sample.set("p10", Some(goodput.p10_mbps));
        sample.set("worst_second", Some(goodput.worst_second_mbps));
        sample.set("of_capacity", Some(goodput.share_of_capacity));
    }
    sample.series("silences", silences.iter().map(|silence| silence.length_ms).collect());
}

/// For the first radio that is dead for some time: the longest silence in that time, and the time until the radio was
/// used again.
fn dead_radio(
    sample: &mut Sample,
    scenario: &Scenario,
    silences: &[Silence],
    links: &BTreeMap<String, Vec<f64>>,
) {
    let Some((index, path)) = scenario.paths.iter().enumerate().find(|(_, path)| !path.dead.is_empty())
    else {
        return;
    };
    let at = |moment: &tributary_link::Moment| moment.resolve(scenario.duration).as_secs_f64();
    let (from, to) = (at(&path.dead[0].0), at(&path.dead[0].1));
    let touches = |s: &&Silence| s.at_ms + s.length_ms >= from * 1e3 && s.at_ms <= to * 1e3;
    let longest = silences.iter().filter(touches).map(|s| s.length_ms).fold(UNRECORDED_MS, f64::max);
    sample.set("dead_silence", Some(longest));
    let Some(tenths) = links.get(&path.name) else { return };
    let (rate, first) = (path_capacity_mbps(scenario, index, 0.0, 0.1), (to * 10.0).ceil() as usize);
    let used = tenths.iter().skip(first).position(|mbps| *mbps >= rate * USED);
    // A radio that is never used again counts as the rest of the run plus an hour, so that it misses every bound.
    let never = scenario.duration.as_secs_f64() - to + 3600.0;
    let back = used.map_or(never, |steps| (first + steps + 1) as f64 / 10.0 - to);
    sample.set("back_after", Some(back));
}

#[cfg(test)]
mod tests;
