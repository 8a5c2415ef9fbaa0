//! The COTAG tunnel on real sockets: its speed without shaped links, and compared with TCP and kernel MPTCP
//! over emulated ones.
//!
//! All hosts and nodes run on this machine's cores, so the speed without shaped links is that of a sender,
//! four nodes and a receiver together. Peers have the same links in the same run: CUBIC over both (half of
//! the connections on each), and kernel MPTCP from server to device.

mod flows;

use super::{BenchError, Progress, judged, median, paired_ratio, verdict, within};
use core::time::Duration;
use flows::{Inside, Pair, connect, saturate, stream};
use serde::Serialize;
use tributary_emu::{Host, Network, RelayNetwork, Side};
use tributary_link::{LinkSpec, LossSpec, PathSpec, RateSpec, Scenario};
use tributary_nodes::tunnel::Tunnel;
use tributary_nodes::{Coding, Mode};
use tributary_report::{Cell, Column, Table};
use tributary_types::Bitrate;

/// Mark of the goodput without shaped links.
const SPEED_MARK: f64 = 2.0;
/// Mark of the ratio of coding on to coding off, without shaped links.
const CODING_MARK: f64 = 0.9;
/// Mark of the ratio of COTAG to the best peer, with loss and latency.
const LOSS_MARK: f64 = 2.0;
/// The same without loss and latency.
const CLEAN_MARK: f64 = 0.9;
/// Mark of the share of a stream that arrives at 5 % loss on each link.
const STREAM_MARK: f64 = 0.99;
/// Mark of a rival's goodput beside COTAG to the same beside CUBIC.
const RIVAL_MARK: f64 = 0.9;
/// Mark of the added delay of the stream: T and 1 ms.
fn delay_mark() -> f64 {
    Coding::default().interval_ms as f64 + 1.0
}

/// Cycle of the blocked links: each is blocked for this part, in turn.
const CYCLE: Duration = Duration::from_secs(1);
const BLOCKED: Duration = Duration::from_millis(400);
/// Rate of the stream's links; the stream has a quarter of both together.
const STREAM_LINK: u64 = 100;

/// Settings of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Number of rounds, with a turn of every contestant.
    pub rounds: u32,
    /// Seconds of each transfer.
    pub seconds: f64,
    /// Rate of each of the two links, Mbit/s.
    pub rate: f64,
    /// TCP connections at the same time.
    pub flows: u32,
    /// Base round-trip time of the lossy links, ms.
    pub rtt: f64,
    /// Loss on the lossy links, per packet.
    pub loss: f64,
}

impl Default for Plan {
    fn default() -> Self {
        Self { rounds: 3, seconds: 4.0, rate: 400.0, flows: 10, rtt: 10.0, loss: 0.001 }
    }
}

/// One contestant under one condition.
#[derive(Clone, Debug, Serialize)]
pub struct ContestantReport {
    /// `bare`, `lossy`, `clean`, `blocked` (both links in turn for 0.4 s of every second) or `shared` (with a rival).
    pub condition: &'static str,
    /// Name of the contestant.
    pub name: &'static str,
    /// Goodput of each round at the device, Mbit/s.
    pub mbps: Vec<f64>,
    /// For tunnels: share of redundant packets in what the radios sent, in each round.
    pub redundant: Vec<f64>,
    /// Retransmission time-outs of the server's TCP, in each round.
    pub timeouts: Vec<f64>,
    /// Goodput of the rival, one TCP connection over the first link beside the contestant, in each round; Mbit/s.
    pub rival: Vec<f64>,
    /// Processor seconds of all hosts per gigabyte, in each round.
    pub cpu_per_gb: Vec<f64>,
}

/// A steady stream of datagrams through lossy links.
#[derive(Clone, Debug, Serialize)]
pub struct StreamReport {
    /// Name of the contestant.
    pub name: &'static str,
    /// Share that arrived, in each round.
    pub delivered: Vec<f64>,
    /// One-way delay in each round, ms: median.
    pub delay_median: Vec<f64>,
    /// One-way delay in each round, ms: 99th percentile.
    pub delay_p99: Vec<f64>,
}

/// A value with a mark.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// What is measured.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// The mark.
    pub mark: f64,
    /// Whether the value must be at most the mark, not at least.
    pub at_most: bool,
    /// Whether it is met.
    pub holds: bool,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rate of each link, Mbit/s, connections, base round-trip time in ms, and loss of the lossy condition.
    pub links: (f64, u32, f64, f64),
    /// Congestion control of every socket.
    pub congestion: &'static str,
    /// Every contestant under every condition.
    pub contestants: Vec<ContestantReport>,
    /// The stream at 5 % loss.
    pub streams: Vec<StreamReport>,
    /// All values with a mark.
    pub marks: Vec<Mark>,
}

const BARE: [(&str, Mode); 2] = [("tunnel, coding on", Mode::Systematic), ("tunnel, coding off", Mode::Off)];
const COTAG: &str = "COTAG";
const NODES: &str = "the same nodes, coding off";
const CUBIC: &str = "CUBIC over both";
const MPTCP: &str = "kernel MPTCP";

/// Runs the benchmark.
///
/// # Errors
/// [`BenchError`].
pub fn run(plan: &Plan, progress: Progress<'_>) -> Result<Report, BenchError> {
    within("rounds", f64::from(plan.rounds), 1.0..=100.0)?;
    within("seconds", plan.seconds, 0.5..=600.0)?;
    within("rate", plan.rate, 1.0..=10_000.0)?;
    within("flows", f64::from(plan.flows), 2.0..=200.0)?;
    within("rtt", plan.rtt, 0.0..=1000.0)?;
    within("loss", plan.loss, 0.0..=0.5)?;
    let mut contestants = Vec::new();
    let mut streams = Vec::new();
    for round in 1..=plan.rounds {
        for (name, mode) in BARE {
            progress(&format!("{name}, without links, round {round} of {}", plan.rounds));
            let tunnel = tunnel(RelayNetwork::bare(2)?, mode, Coding::default().redundancy)?;
            through_tunnel(&tunnel, plan, false, entry(&mut contestants, "bare", name))?;
        }
        for condition in CONDITIONS {
            for name in [COTAG, NODES, CUBIC, MPTCP] {
                progress(&format!("{name}, {} links, round {round} of {}", condition.name, plan.rounds));
                one_contestant(plan, &condition, name, entry(&mut contestants, condition.name, name))?;
            }
        }
        for (name, mode, redundancy) in [("coding on", Mode::Systematic, 0.3), ("coding off", Mode::Off, 0.0)]
        {
            progress(&format!("a stream at 5 % loss, {name}, round {round} of {}", plan.rounds));
            one_stream(plan, (name, mode, redundancy), &mut streams)?;
        }
    }
    let marks = marks(&contestants, &streams);
    let links = (plan.rate, plan.flows, plan.rtt, plan.loss);
    Ok(Report { links, congestion: flows::CONGESTION, contestants, streams, marks })
}

fn entry<'a>(
    all: &'a mut Vec<ContestantReport>,
    condition: &'static str,
    name: &'static str,
) -> &'a mut ContestantReport {
    let same = |known: &ContestantReport| known.condition == condition && known.name == name;
    let at = all.iter().position(same).unwrap_or_else(|| {
        let (mbps, redundant, timeouts, rival, cpu_per_gb) = Default::default();
        all.push(ContestantReport { condition, name, mbps, redundant, timeouts, rival, cpu_per_gb });
        all.len() - 1
    });
    &mut all[at]
}

/// What the emulated links do.
struct Condition {
    name: &'static str,
    /// They lose packets.
    lossy: bool,
    /// They have the plan's round-trip time.
    far: bool,
    /// Each is blocked in turn.
    blocked: bool,
    /// A rival uses the first link.
    shared: bool,
}

const fn condition(name: &'static str, lossy: bool, far: bool) -> Condition {
    Condition { name, lossy, far, blocked: false, shared: false }
}

const CONDITIONS: [Condition; 4] = [
    condition("lossy", true, true),
    condition("clean", false, false),
    Condition { blocked: true, ..condition("blocked", false, true) },
    Condition { shared: true, ..condition("shared", false, true) },
];

impl Condition {
    fn scenario(&self, plan: &Plan) -> Scenario {
        let loss = if self.lossy { plan.loss } else { 0.0 };
        let mut scenario = scenario(plan.rate, loss, if self.far { plan.rtt } else { 0.0 });
        for (at, path) in scenario.paths.iter_mut().enumerate().filter(|_| self.blocked) {
            // The first link is blocked in the first half of a cycle, the second in the second.
            let (rate, half) = (path.down.rate.max(), CYCLE / 2);
            let before = half * at as u32;
            let turns = [(before, rate), (BLOCKED, Bitrate::ZERO), (CYCLE - BLOCKED - before, rate)];
            let turns: Vec<_> = turns.into_iter().filter(|turn| !turn.0.is_zero()).collect();
            (path.down.rate, path.up.rate) = (RateSpec::Turns(turns.clone()), RateSpec::Turns(turns));
        }
        scenario
    }
}

fn one_contestant(
    plan: &Plan,
    condition: &Condition,
    name: &'static str,
    entry: &mut ContestantReport,
) -> Result<(), BenchError> {
    let scenario = condition.scenario(plan);
    let mode = match name {
        COTAG => Mode::Systematic,
        NODES => Mode::Off,
        _ => return beside(&scenario, plan, (name == MPTCP, condition.shared), entry),
    };
    let tunnel = tunnel(RelayNetwork::start(&scenario)?, mode, Coding::default().redundancy)?;
    through_tunnel(&tunnel, plan, condition.shared, entry)
}

fn scenario(rate: f64, loss: f64, rtt: f64) -> Scenario {
    let link = LinkSpec::constant(Bitrate::from_mbps(rate as u64));
    // Data and acknowledgements have the same loss.
    let link = LinkSpec { loss: if loss > 0.0 { LossSpec::Bernoulli(loss) } else { LossSpec::None }, ..link };
    Scenario::new("two-links")
        .with_path(PathSpec::symmetric("wifi", link.clone()))
        .with_path(PathSpec::symmetric("wigig", link))
        .with_rtt(Duration::from_secs_f64(rtt / 1e3))
        .with_queue_time(Duration::from_millis(20))
}

fn tunnel(network: RelayNetwork, mode: Mode, redundancy: f64) -> Result<Tunnel, BenchError> {
    let coding = Coding { mode, redundancy, ..Coding::default() };
    Tunnel::start(network, &coding).map_err(|error| failed(error.to_string()))
}

fn failed(reason: String) -> BenchError {
    BenchError::Program { program: "a node of the tunnel".to_owned(), reason }
}

/// Saturates the connections, of which the last may be a rival, and adds the round to `entry`.
fn measure(
    plan: &Plan,
    (server, pairs): (Inside<'_>, &[Pair]),
    has_rival: bool,
    entry: &mut ContestantReport,
) -> Result<(), BenchError> {
    let (cpu, timeouts) = (super::cpu_time(), flows::timeouts(server)?);
    let mut rates = saturate(pairs, plan.seconds);
    let seconds = super::cpu_time().saturating_sub(cpu).as_secs_f64();
    let all: f64 = rates.iter().sum();
    entry.cpu_per_gb.push(seconds / (all * plan.seconds / 8e3).max(1e-9));
    if has_rival {
        entry.rival.extend(rates.pop());
    }
    entry.mbps.push(rates.iter().sum());
    entry.timeouts.push((flows::timeouts(server)? - timeouts) as f64);
    Ok(())
}

fn through_tunnel(
    tunnel: &Tunnel,
    plan: &Plan,
    has_rival: bool,
    entry: &mut ContestantReport,
) -> Result<(), BenchError> {
    let network = tunnel.network();
    let on =
        |host, work: &mut (dyn FnMut() + Send)| -> Result<(), BenchError> { Ok(network.run(host, work)?) };
    let server = |work: &mut (dyn FnMut() + Send)| on(Host::Server, work);
    let device = |work: &mut (dyn FnMut() + Send)| on(Host::Device, work);
    let point = |work: &mut (dyn FnMut() + Send)| on(Host::AccessPoint(0), work);
    let route = (None, RelayNetwork::SERVER);
    let mut pairs = Vec::new();
    for _ in 0..plan.flows {
        pairs.push(connect((&server, &device), route, false)?);
    }
    if has_rival {
        // From the access point itself, beside the tunnel.
        let (point_address, device_address) = RelayNetwork::radio(0);
        pairs.push(connect((&point, &device), (Some(device_address), point_address), false)?);
    }
    measure(plan, (&server, &pairs), has_rival, entry)?;
    entry.redundant.push(redundant(tunnel)?);
    Ok(())
}

/// Share of redundant packets in what the radios sent.
fn redundant(tunnel: &Tunnel) -> Result<f64, BenchError> {
    let nodes = tunnel.statuses().map_err(|error| failed(error.to_string()))?;
    let points = nodes.iter().filter(|node| node.role == "access-point");
    let (taken, sent) =
        points.fold((0, 0), |(taken, sent), point| (taken + point.coding.taken, sent + point.coding.sent));
    Ok(taken as f64 / sent.max(1) as f64)
}

fn beside(
    scenario: &Scenario,
    plan: &Plan,
    (mptcp, has_rival): (bool, bool),
    entry: &mut ContestantReport,
) -> Result<(), BenchError> {
    let network = Network::start(scenario)?;
    if mptcp {
        tributary_lab::kernel::prepare_emulated(&network)?;
    }
    let on =
        |side, work: &mut (dyn FnMut() + Send)| -> Result<(), BenchError> { Ok(network.run(side, work)?) };
    let server = |work: &mut (dyn FnMut() + Send)| on(Side::Server, work);
    let client = |work: &mut (dyn FnMut() + Send)| on(Side::Client, work);
    let ends: (Inside<'_>, Inside<'_>) = (&server, &client);
    let route = |path| (Some(Side::Client.address(path)), Side::Server.address(path));
    let mut pairs = Vec::new();
    for flow in 0..plan.flows as usize {
        pairs.push(connect(ends, route(if mptcp { 0 } else { flow % 2 }), mptcp)?);
    }
    if has_rival {
        pairs.push(connect(ends, route(0), false)?);
    }
    measure(plan, (&server, &pairs), has_rival, entry)
}

fn one_stream(
    plan: &Plan,
    (name, mode, redundancy): (&'static str, Mode, f64),
    streams: &mut Vec<StreamReport>,
) -> Result<(), BenchError> {
    let network = RelayNetwork::start(&scenario(STREAM_LINK as f64, 0.05, plan.rtt))?;
    let tunnel = tunnel(network, mode, redundancy)?;
    let network = tunnel.network();
    let on =
        |host, work: &mut (dyn FnMut() + Send)| -> Result<(), BenchError> { Ok(network.run(host, work)?) };
    let server = |work: &mut (dyn FnMut() + Send)| on(Host::Server, work);
    let device = |work: &mut (dyn FnMut() + Send)| on(Host::Device, work);
    let rate = STREAM_LINK as f64 / 2.0;
    let result = stream((&server, &device), RelayNetwork::tunnel(2), rate, plan.seconds)?;
    let at = streams.iter().position(|known| known.name == name).unwrap_or_else(|| {
        let (delivered, delay_median, delay_p99) = Default::default();
        streams.push(StreamReport { name, delivered, delay_median, delay_p99 });
        streams.len() - 1
    });
    streams[at].delivered.push(result.delivered);
    streams[at].delay_median.push(result.quantile(0.5));
    streams[at].delay_p99.push(result.quantile(0.99));
    Ok(())
}

/// Goodput of a contestant under a condition, by round.
fn rates_of<'a>(contestants: &'a [ContestantReport], condition: &str, name: &str) -> &'a [f64] {
    let same = |known: &&ContestantReport| known.condition == condition && known.name == name;
    match contestants.iter().find(same) {
        Some(known) => &known.mbps,
        None => &[],
    }
}

fn marks(contestants: &[ContestantReport], streams: &[StreamReport]) -> Vec<Mark> {
    let rates = |condition, name| rates_of(contestants, condition, name);
    let best = |condition| -> Vec<f64> {
        let peers = rates(condition, CUBIC).iter().zip(rates(condition, MPTCP));
        peers.map(|(cubic, mptcp)| cubic.max(*mptcp)).collect()
    };
    let mark = |what: &str, value: f64, mark: f64| Mark {
        what: what.to_owned(),
        value,
        mark,
        at_most: false,
        holds: value >= mark,
    };
    let at_most = |what: &str, value: f64, mark: f64| Mark {
        what: what.to_owned(),
        value,
        mark,
        at_most: true,
        holds: value <= mark,
    };
    let (on, off) = (rates("bare", BARE[0].0), rates("bare", BARE[1].0));
    let of = |condition, name: &str| {
        let same = |known: &&ContestantReport| known.condition == condition && known.name == name;
        contestants.iter().find(same)
    };
    let stalls = of("blocked", COTAG).map_or(f64::NAN, |cotag| cotag.timeouts.iter().sum());
    let rival = |name| of("shared", name).map_or(&[][..], |known| known.rival.as_slice());
    let stream = |name: &str| streams.iter().find(|stream| stream.name == name);
    let p99 = |name| stream(name).map_or(f64::NAN, |stream| median(&stream.delay_p99));
    vec![
        mark("tunnel without links, Gbit/s", median(on) / 1e3, SPEED_MARK),
        mark("coding on over coding off, without links", paired_ratio(on, off), CODING_MARK),
        mark(
            "COTAG over the best peer, lossy links",
            paired_ratio(rates("lossy", COTAG), &best("lossy")),
            LOSS_MARK,
        ),
        mark(
            "COTAG over the best peer, clean links",
            paired_ratio(rates("clean", COTAG), &best("clean")),
            CLEAN_MARK,
        ),
        mark(
            "share of a stream delivered, 5 % loss on each link, redundancy 0.3",
            stream("coding on").map_or(f64::NAN, |stream| median(&stream.delivered)),
            STREAM_MARK,
        ),
        at_most(
            "its p99 delay, coding on less coding off, ms",
            p99("coding on") - p99("coding off"),
            delay_mark(),
        ),
        at_most("COTAG's TCP time-outs, links blocked in turn, all rounds", stalls, 0.0),
        mark(
            "rival beside COTAG over rival beside CUBIC over both",
            paired_ratio(rival(COTAG), rival(CUBIC)),
            RIVAL_MARK,
        ),
    ]
}

impl Report {
    /// The tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let (rate, flows, rtt, loss) = self.links;
        let title = format!(
            "{flows} connections, {}; two links of {rate} Mbit/s; lossy: {rtt} ms, loss {} %; blocked: {rtt} ms, each link \
             blocked for 0.4 s of every second; shared: {rtt} ms, one TCP connection beside on the first link; medians",
            self.congestion,
            loss * 100.0
        );
        let mut speeds = Table::new(&title).columns([
            Column::left("links"),
            Column::left(""),
            Column::right("goodput").unit("Mbit/s"),
            Column::right("redundant").unit("%"),
            Column::right("time-outs"),
            Column::right("rival").unit("Mbit/s"),
            Column::right("CPU, all hosts").unit("s/GB"),
        ]);
        for c in &self.contestants {
            let redundant = (!c.redundant.is_empty()).then(|| median(&c.redundant) * 100.0);
            speeds.push([
                Cell::text(c.condition),
                Cell::text(c.name),
                Cell::number(median(&c.mbps), 0).strong(),
                Cell::optional_number(redundant, 1),
                Cell::number(median(&c.timeouts), 0),
                Cell::optional_number((!c.rival.is_empty()).then(|| median(&c.rival)), 0),
                Cell::number(median(&c.cpu_per_gb), 2),
            ]);
        }
        let title = format!("A stream of {} Mbit/s, 5 % loss on each link; medians", STREAM_LINK / 2);
        let mut streams = Table::new(&title).columns([
            Column::left(""),
            Column::right("delivered").unit("%"),
            Column::right("delay, median").unit("ms"),
            Column::right("p99").unit("ms"),
        ]);
        for s in &self.streams {
            streams.push([
                Cell::text(s.name),
                Cell::number(median(&s.delivered) * 100.0, 2),
                Cell::number(median(&s.delay_median), 1),
                Cell::number(median(&s.delay_p99), 1),
            ]);
        }
        let mut marks = Table::new("Marks").columns([
            Column::left("what"),
            Column::right("here"),
            Column::right("wanted"),
            Column::left(""),
        ]);
        for mark in &self.marks {
            marks.push([
                Cell::text(&mark.what),
                judged(mark.value, 2, mark.holds),
                Cell::text(&format!("{} {}", if mark.at_most { "≤" } else { "≥" }, mark.mark)),
                verdict(mark.holds),
            ]);
        }
        vec![speeds, streams, marks]
    }
}
