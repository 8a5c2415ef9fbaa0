//! The decision engine's experiment as cells: a DASH title over 2.6, then 1.3, then 2.6 Mbit/s, a third of the time
//! each.
//!
//! Transports over several paths have two paths of half the rate each; those over one path have one of the whole
//! rate. Scenario `paper` is this network; any other has its own paths, and a transport over one path takes the first
//! one (`quic-second`: the second). The axis `loss` is random loss in both directions, and `tcp` is `today` or `then`
//! ([`TcpEra`]). Simulated: a title that is longer than the run is played
//! for six minutes. Emulated: a whole title is played on sockets (`emulated.rs`), then in the simulator on the same
//! network, and each sample has both results. Source: Hayes, Chang and Riley, "Omnidirectional Adaptive Bitrate Media
//! Delivery using MPTCP/QUIC over an SDN Architecture", §IV. Deviations: `docs/reproductions/decision-engine.md`.

mod emulated;
mod title;

use core::time::Duration;

use super::matrix::{Cell, CellError, failed, loss, time};
use super::runner::Experiment;
use super::sample::{Metric, Sample};
use crate::cell::Queue;
use crate::result::World;
use tributary_link::{Direction, LinkSpec, LossSpec, PathSpec, QueueSpec, RateSpec, Scenario, WorkloadSpec};
use tributary_player::abr::Ladder;
use tributary_player::dash::LADDER;
use tributary_player::dash::play::{Counting, Qoe, Settings, Title};
use tributary_player::engine;
use tributary_proto::scheduler;
use tributary_report::stats;
use tributary_sim::run::{DashOutcome, SimRun, TcpEra, TransportName};
use tributary_sim::workload::dash::{Bandwidth, Control, DashSpec, Download};
use tributary_types::{Bitrate, DataSize, Instant};

/// The metrics.
const METRICS: [Metric; 30] = [
    Metric::new("start_up", "s", "from the request for the first segment to the first picture"),
    Metric::new("buffer", "s", "mean of the play buffer over all seconds"),
    Metric::new("throughput", "Mbit/s", "mean of the bytes that arrived in each second"),
    Metric::new("switches", "", "changes of quality between consecutive segments"),
    Metric::new("stalled", "s", "time of all stalls, without the start-up delay"),
    Metric::new("efficiency", "%", "bits of the kept segments over the paths' capacity"),
    Metric::new("stalls", "", "number of stalls"),
    Metric::new("bitrate", "kbit/s", "mean bitrate of the segments"),
    Metric::new("lowest", "%", "segments in the lowest quality"),
    Metric::new("abandoned", "", "downloads that were abandoned for a lower quality"),
    Metric::new("on_quic", "%", "playbacks that the engine began on QUIC or moved to it"),
    Metric::new("moved", "s", "time at which playback moved to QUIC; absent if it did not"),
    Metric::new("path_changes", "", "number of times that a path was removed or added"),
    Metric::new("moves", "", "number of times that playback moved to another transport"),
    Metric::new("removed", "s", "when a path was first taken out of use; absent if none was"),
    Metric::new("joined", "s", "when a path was first added, alone or by a move; absent if none was"),
    Metric::new(
        "back",
        "s",
        "when a path was first added after one was taken out of use; absent if none was",
    ),
    Metric::new("reconnects", "", "connections that replaced an aborted one"),
    Metric::new("buffer_seconds", "s", "the play buffer at the end of each second"),
    Metric::new("throughput_seconds", "Mbit/s", "bytes that arrived in each second"),
    Metric::new("readable", "%", "bytes without a gap before them over all that have arrived, from 0.5 s on"),
    Metric::new("readable_tenths", "kB", "longest download: bytes without a gap before them, every 0.1 s"),
    Metric::new("arrived_tenths", "kB", "longest download: all bytes that have arrived, every 0.1 s"),
    Metric::new("simulated_start_up", "s", "start_up of the same cell in the simulator; emulator only"),
    Metric::new("simulated_buffer", "s", "buffer of the same cell in the simulator; emulator only"),
    Metric::new(
        "simulated_throughput",
        "Mbit/s",
        "throughput of the same cell in the simulator; emulator only",
    ),
    Metric::new("simulated_switches", "", "switches of the same cell in the simulator; emulator only"),
    Metric::new("simulated_stalled", "s", "stalled of the same cell in the simulator; emulator only"),
    Metric::new("simulated_efficiency", "%", "efficiency of the same cell in the simulator; emulator only"),
    Metric::new("simulated_abandoned", "", "abandoned of the same cell in the simulator; emulator only"),
];

/// Metrics of the simulated playback that an emulated sample contains, too, with the prefix `simulated_`.
const COMPARED: [&str; 7] =
    ["start_up", "buffer", "throughput", "switches", "stalled", "efficiency", "abandoned"];

/// Total rate of all paths, each with its start in seconds: the paper's three phases. The last one has no end.
const RATES: [(u64, u64); 3] = [(0, 2_600_000), (120, 1_300_000), (240, 2_600_000)];
/// Seconds of the paper's runs.
const PAPER_SECONDS: u64 = 360;
const RTT: Duration = Duration::from_millis(120);
/// Queue of a path with half the rate, bytes. The paper gives none; this is 200 ms at 1.3 Mbit/s.
const QUEUE: u64 = 32_500;
/// Time in which the controller measures the paths before playback begins.
const BEFORE: Duration = Duration::from_secs(1);
const SEGMENT: Duration = Duration::from_secs(4);
/// A simulated playback of a whole title may take this much longer than the title, for start-up and stalls.
const SLACK: Duration = Duration::from_secs(60);
/// Loss above which the engine that may choose other transports leaves MPTCP, and above which it prefers a session to
/// multipath QUIC.
const LOSSY: f64 = 0.007;
const SESSION_ABOVE: f64 = 0.03;
/// Version of the simulated player. Increased with every change after which the same cell gives a different playback.
const PLAYER_VERSION: u32 = 5;
/// From this time after the request on, the bitrate rule may abandon a download.
const JUDGED_FROM: Duration = Duration::from_millis(500);
/// Transports that are played on sockets.
const ON_SOCKETS: [&str; 6] = ["tcp", "mptcp", "quic", "mpquic", "engine", "fbdt"];

/// The experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecisionEngine;

/// Settings of a cell in the simulator.
struct Setting {
    run: SimRun,
    spec: DashSpec,
}

impl Experiment for DecisionEngine {
    fn name(&self) -> &'static str {
        "decision-engine"
    }

    fn metrics(&self) -> &[Metric] {
        &METRICS
    }

    fn identity(&self, cell: &Cell) -> String {
        format!("player {PLAYER_VERSION} {}", cell.identity())
    }

    fn check(&self, cell: &Cell) -> Result<(), CellError> {
        let Setting { run, .. } = setting(cell)?;
        run.check().map_err(failed)
    }

    fn measure(&self, cell: &Cell) -> Result<Sample, CellError> {
        let setting = setting(cell)?;
        match cell.world {
            World::Sim => {
                let outcome = simulated(&setting)?;
                let mut sample = sample(&setting.run.scenario, &setting.spec, &outcome);
                if matches!(setting.run.transport, TransportName::Session { .. }) {
                    order(&mut sample, &outcome.downloads);
                }
                Ok(sample)
            }
            World::Emu => compared(cell, &setting),
        }
    }
}

fn simulated(Setting { run, spec }: &Setting) -> Result<DashOutcome, CellError> {
    run.run_dash(spec).map_err(failed)
}

/// A playback on sockets, and the same one in the simulator.
fn compared(cell: &Cell, setting: &Setting) -> Result<Sample, CellError> {
    let network = &setting.run.scenario;
    let real = emulated::play(cell, network, &setting.spec.title)?;
    let mut sample = whole(network, real.qoe)?;
    if cell.label("transport") == "engine" {
        let quic = real.transports.iter().any(|transport| transport == "quic");
        sample.set("on_quic", Some(if quic { 100.0 } else { 0.0 }));
    }
    sample.audit = Some(real.audit);
    let none = || failed("the simulated client got no manifest");
    let partner = whole(network, simulated(setting)?.qoe.ok_or_else(none)?)?;
    sample.add_simulated(&partner, &COMPARED);
    Ok(sample)
}

/// Metrics of the playback of a whole title, up to its end; a simulated run continues after the end.
fn whole(network: &Scenario, mut qoe: Qoe) -> Result<Sample, CellError> {
    let none = || failed("no picture was shown");
    let (start_up, first) = qoe.start_up_s.zip(qoe.segments.first()).ok_or_else(none)?;
    let asked = first.requested_s;
    let length = start_up + qoe.played_s + qoe.stalled_s;
    qoe.seconds.retain(|second| second.at_s <= length);
    let rates: Vec<f64> = qoe.seconds.iter().map(|second| second.throughput_bps).collect();
    qoe.throughput_bps = stats::mean(&rates).unwrap_or_default();
    let from = Instant::ZERO + BEFORE;
    let mut sample = Sample::default();
    sample.set("start_up", Some(start_up - asked));
    played(&mut sample, &qoe, available(network, from, from + Duration::from_secs_f64(length)));
    Ok(sample)
}

/// Bits that all paths can carry to the client.
fn available(network: &Scenario, from: Instant, to: Instant) -> f64 {
    let path = |path: usize| network.capacity(path, Direction::Down, from, to).as_bytes();
    (0..network.paths.len()).map(path).sum::<u64>() as f64 * 8.0
}

/// The order in which downloads arrived.
fn order(sample: &mut Sample, downloads: &[Download]) {
    let judged = downloads.iter().flat_map(|download| &download.steps);
    let judged = judged.filter(|step| step.after >= JUDGED_FROM && step.received > 0);
    let shares: Vec<f64> = judged.map(|step| step.in_order as f64 / step.received as f64).collect();
    sample.set("readable", stats::mean(&shares).map(|share| 100.0 * share));
    let length = |download: &Download| download.steps.last().map(|step| step.after);
    // Of several, the first.
    let Some(longest) = downloads.iter().rev().max_by_key(|download| length(download)) else { return };
    let tenth = Duration::from_millis(100);
    let mut at = Duration::ZERO;
    let (mut readable, mut arrived) = (Vec::new(), Vec::new());
    while Some(at) <= length(longest) {
        let known = longest.steps.iter().rev().find(|step| step.after <= at);
        readable.push(known.map_or(0.0, |step| step.in_order as f64 / 1e3));
        arrived.push(known.map_or(0.0, |step| step.received as f64 / 1e3));
        at += tenth;
    }
    sample.series("readable_tenths", readable);
    sample.series("arrived_tenths", arrived);
}

fn sample(network: &Scenario, spec: &DashSpec, outcome: &DashOutcome) -> Sample {
    let end = Instant::ZERO + network.duration;
    let whole = end.saturating_since(spec.from).as_secs_f64();
    let mut sample = Sample::default();
    // A playback that did not begin waited at least as long as the run lasted.
    let start_up = outcome.start_up.map_or(whole, |time| time.as_secs_f64());
    sample.set("start_up", Some(start_up));
    if let Some(qoe) = &outcome.qoe {
        played(&mut sample, qoe, available(network, spec.from, end));
    }
    sample.set("path_changes", Some(f64::from(outcome.path_changes)));
    sample.set("reconnects", Some(f64::from(outcome.reconnects)));
    let quic = |decision: &engine::Decision| {
        let start = matches!(decision, engine::Decision::Start(engine::Transport::Quic(_)));
        start || matches!(decision, engine::Decision::Move(engine::Transport::Quic(_)))
    };
    let moved = outcome.decisions.iter().find(|decided| quic(&decided.decision));
    if !outcome.decisions.is_empty() {
        sample.set("on_quic", Some(if moved.is_some() { 100.0 } else { 0.0 }));
    }
    let is_move = |decided: &&engine::Decided| matches!(decided.decision, engine::Decision::Move(_));
    sample.set("moves", Some(outcome.decisions.iter().filter(is_move).count() as f64));
    let leaves = |decided: &&engine::Decided| {
        matches!(decided.decision, engine::Decision::Remove(_) | engine::Decision::Replace { .. })
    };
    let joins = |decided: &&engine::Decided| match &decided.decision {
        engine::Decision::Add(_) => true,
        engine::Decision::Move(to) => decided.reason == engine::Reason::Recovered && to.paths().len() > 1,
        _ => false,
    };
    let at = |decided: &engine::Decided| decided.at.saturating_since(Instant::ZERO).as_secs_f64();
    let left = outcome.decisions.iter().find(leaves).map(at);
    sample.set("removed", left);
    sample.set("joined", outcome.decisions.iter().find(joins).map(at));
    let after = |decided: &&engine::Decided| left.is_some_and(|left| at(decided) > left);
    sample.set("back", outcome.decisions.iter().filter(after).find(joins).map(at));
    sample.set("moved", moved.map(|decided| decided.at.saturating_since(spec.from).as_secs_f64()));
    sample
}

fn played(sample: &mut Sample, qoe: &Qoe, available: f64) {
    let buffer: Vec<f64> = qoe.seconds.iter().map(|second| second.buffer_s).collect();
    let throughput = qoe.seconds.iter().map(|second| second.throughput_bps / 1e6).collect();
    let lowest = qoe.segments.iter().filter(|loaded| loaded.quality == 0).count();
    sample.set("buffer", stats::mean(&buffer));
    sample.set("throughput", Some(qoe.throughput_bps / 1e6));
    sample.set("switches", Some(qoe.switches as f64));
    sample.set("stalled", Some(qoe.stalled_s));
    sample.set("efficiency", qoe.efficiency(available).map(|share| 100.0 * share));
    sample.set("stalls", Some(qoe.stalls as f64));
    sample.set("bitrate", Some(qoe.bitrate_bps / 1e3));
    sample.set("lowest", Some(100.0 * lowest as f64 / qoe.segments.len().max(1) as f64));
    sample.set("abandoned", Some(qoe.abandoned as f64));
    sample.series("buffer_seconds", buffer);
    sample.series("throughput_seconds", throughput);
}

fn setting(cell: &Cell) -> Result<Setting, CellError> {
    // Whether it has one path, its name in the simulator, and its congestion controller in the paper.
    let (single, name, congestion) = match cell.label("transport") {
        "tcp" => (true, "tcp", "cubic"),
        "quic" => (true, "quic", "quic-cubic"),
        "mptcp" | "mp-sptcp" | "engine" | "engine-paper" | "engine-more" => {
            (false, "mptcp/min-rtt", "wvegas")
        }
        // QUIC on one of two paths, to which the engine can move.
        "quic-half" => (false, "quic", "quic-cubic"),
        "quic-second" => (false, "quic", "quic-cubic"),
        "mpquic" => (false, "mpquic", "quic-cubic"),
        "fbdt-in-order" => (false, "fbdt", "cubic"),
        scheduler if scheduler::is_known(scheduler) => (false, scheduler, "cubic"),
        _ => {
            let known = "tcp, quic, quic-half, quic-second, mptcp, mp-sptcp, engine-paper, engine, engine-more, \
                         mpquic, fbdt-in-order or a session's scheduler such as fbdt";
            return Err(cell.refused("transport", known));
        }
    };
    let on_sockets = cell.world == World::Emu;
    if on_sockets && !ON_SOCKETS.contains(&cell.label("transport")) {
        return Err(cell.refused("transport", &format!("{} on sockets", ON_SOCKETS.join(", "))));
    }
    if on_sockets && cell.label("congestion") != emulated::CONGESTION {
        return Err(cell.refused("congestion", &format!("{} on sockets", emulated::CONGESTION)));
    }
    let congestion = if on_sockets && congestion == "wvegas" { emulated::CONGESTION } else { congestion };
    let chosen = Some(cell.label("congestion")).filter(|name| *name != "paper" && !on_sockets);
    let quic = chosen.unwrap_or("quic-cubic").to_owned();
    let control = match cell.label("transport") {
        "mp-sptcp" => Control::Bandwidth(Bandwidth::default()),
        "engine" => Control::Engine { settings: engine::Settings::default(), quic },
        "engine-more" => {
            let several = engine::Several::Any { lossy: LOSSY, session: SESSION_ABOVE };
            Control::Engine { settings: engine::Settings { several, ..engine::Settings::default() }, quic }
        }
        "engine-paper" => Control::Engine { settings: engine::Settings::paper(), quic },
        _ => Control::None,
    };
    let network = if cell.label("scenario") == "paper" {
        network(cell, if single { 1 } else { 2 })?
    } else if on_sockets {
        return Err(cell.refused("scenario", "paper on sockets"));
    } else {
        cell.queue()?.of(cell.network()?)
    };
    let names = network.path_names();
    let name = match (cell.label("transport"), names.get(1)) {
        ("quic-second", Some(second)) => format!("{name}:{second}"),
        ("quic-second", None) => return Err(cell.refused("scenario", "two paths")),
        _ => name.to_owned(),
    };
    let transport = TransportName::find(&name, None, &names).map_err(failed)?;
    let rates = LADDER.map(|kbps| Bitrate::from_bps(u64::from(kbps) * 1000)).to_vec();
    let ladder = Ladder::new(SEGMENT, rates).map_err(failed)?;
    let segments = cell.seconds / SEGMENT.as_secs() as u32;
    // In the simulator, the title is longer than the run.
    let segments = if on_sockets { segments.max(1) } else { segments + 20 };
    let counting = match cell.label("transport") {
        "fbdt-in-order" => Counting::InOrder,
        _ => Counting::Received,
    };
    let spec = DashSpec {
        title: Title { ladder, later: Vec::new(), segments: vec![SEGMENT; segments as usize] },
        settings: Settings { counting, ..Settings::default() },
        rule: "dynamic".to_owned(),
        from: Instant::ZERO + BEFORE,
        control,
    };
    let bulk = WorkloadSpec::Bulk { size: None };
    let mut run = SimRun::new(&network, &transport, chosen.unwrap_or(congestion), &bulk);
    run.options.tcp = match cell.label("tcp") {
        "" | "today" => TcpEra::Today,
        "then" if !on_sockets => TcpEra::Then,
        _ => return Err(cell.refused("tcp", "today, or in the simulator then")),
    };
    Ok(Setting { run, spec })
}

/// The network with this number of paths, which share the rate.
fn network(cell: &Cell, paths: u64) -> Result<Scenario, CellError> {
    // A whole title has its phases in thirds of its length.
    let (number, of, slack) = match cell.world {
        World::Sim => (1, 1, Duration::ZERO),
        World::Emu => (u64::from(cell.seconds), PAPER_SECONDS, SLACK),
    };
    let phase = |(from, rate): (u64, u64)| {
        let from = if from == 0 {
            Duration::ZERO
        } else {
            BEFORE + Duration::from_secs_f64((from * number) as f64 / of as f64)
        };
        (from, Bitrate::from_bps(rate / paths))
    };
    let floor = QueueSpec::DEFAULT_FLOOR;
    let link = LinkSpec {
        loss: LossSpec::Bernoulli(loss(cell.label("loss"))?.unwrap_or(0.0)),
        queue: match cell.queue()? {
            Queue::Scenario => QueueSpec::Bytes(DataSize::from_bytes(QUEUE * 2 / paths)),
            Queue::Bytes(bytes) => QueueSpec::Bytes(DataSize::from_bytes(bytes)),
            Queue::Millis(millis) => QueueSpec::Time { time: Duration::from_millis(millis), floor },
        },
        ..LinkSpec::with_rate(RateSpec::Steps(RATES.map(phase).to_vec()))
    };
    let names = ["a", "b"].into_iter().take(paths as usize);
    let network = names.fold(Scenario::new("paper"), |network, name| {
        network.with_path(PathSpec::symmetric(name, link.clone()))
    });
    let length = BEFORE + Duration::from_secs(cell.seconds.into()) + slack;
    let rtt = time("rtt", cell.label("rtt"))?.unwrap_or(RTT);
    Ok(network.with_rtt(rtt).with_seed(cell.seed).with_duration(length))
}
