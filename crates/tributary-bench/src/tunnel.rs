//! The COTAG tunnel on real sockets: its speed without shaped links, and compared with TCP and kernel MPTCP
//! over emulated ones.
//!
//! All hosts and nodes run on this machine's cores, so the speed without shaped links is that of a sender,
//! four nodes and a receiver together. Peers have the same links in the same run: CUBIC over both (half of
//! the connections on each), and kernel MPTCP from server to device.

mod flows;

use super::{BenchError, Progress, judged, median, paired_ratio, verdict, within};
use core::time::Duration;
use flows::{Inside, Route, download, stream};
use serde::Serialize;
use tributary_emu::{Host, Network, RelayNetwork, Side};
use tributary_link::{LinkSpec, LossSpec, PathSpec, Scenario};
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
    /// `bare`, `lossy` or `clean`.
    pub condition: &'static str,
    /// Name of the contestant.
    pub name: &'static str,
    /// Goodput of each round at the device, Mbit/s.
    pub mbps: Vec<f64>,
    /// For tunnels: redundant packets per packet sent by the gateway and the access points, in each round.
    pub redundant: Vec<f64>,
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
    pub at_least: f64,
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
            through_tunnel(&tunnel, plan, entry(&mut contestants, "bare", name))?;
        }
        for (condition, loss, rtt) in [("lossy", plan.loss, plan.rtt), ("clean", 0.0, 0.0)] {
            let scenario = scenario(plan.rate, loss, rtt);
            for name in [COTAG, CUBIC, MPTCP] {
                progress(&format!("{name}, {condition} links, round {round} of {}", plan.rounds));
                let entry = entry(&mut contestants, condition, name);
                if name == COTAG {
                    let network = RelayNetwork::start(&scenario)?;
                    let tunnel = tunnel(network, Mode::Systematic, Coding::default().redundancy)?;
                    through_tunnel(&tunnel, plan, entry)?;
                } else {
                    beside(&scenario, plan, name == MPTCP, entry)?;
                }
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
        let (mbps, redundant, cpu_per_gb) = Default::default();
        all.push(ContestantReport { condition, name, mbps, redundant, cpu_per_gb });
        all.len() - 1
    });
    &mut all[at]
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

/// Measures `work`: Mbit/s, and processor time of this process per gigabyte.
fn with_cpu(
    plan: &Plan,
    entry: &mut ContestantReport,
    work: impl FnOnce() -> Result<f64, BenchError>,
) -> Result<(), BenchError> {
    let before = super::cpu_time();
    let mbps = work()?;
    let seconds = super::cpu_time().saturating_sub(before).as_secs_f64();
    entry.mbps.push(mbps);
    entry.cpu_per_gb.push(seconds / (mbps * plan.seconds / 8e3).max(1e-9));
    Ok(())
}

fn through_tunnel(tunnel: &Tunnel, plan: &Plan, entry: &mut ContestantReport) -> Result<(), BenchError> {
    let network = tunnel.network();
    let on =
        |host, work: &mut (dyn FnMut() + Send)| -> Result<(), BenchError> { Ok(network.run(host, work)?) };
    let server = |work: &mut (dyn FnMut() + Send)| on(Host::Server, work);
    let device = |work: &mut (dyn FnMut() + Send)| on(Host::Device, work);
    let routes: Vec<Route> = (0..plan.flows).map(|_| (None, RelayNetwork::SERVER)).collect();
    with_cpu(plan, entry, || download((&server, &device), &routes, false, plan.seconds))?;
    entry.redundant.push(redundant(tunnel)?);
    Ok(())
}

/// Redundant packets, of the gateway and the access points, per packet sent by the gateway.
fn redundant(tunnel: &Tunnel) -> Result<f64, BenchError> {
    let nodes = tunnel.statuses().map_err(|error| failed(error.to_string()))?;
    let taken: u64 = nodes.iter().map(|node| node.coding.taken).sum();
    let gateway = nodes.iter().find(|node| node.role == "gateway").map_or(0, |node| node.coding.received);
    Ok(taken as f64 / gateway.max(1) as f64)
}

fn beside(
    scenario: &Scenario,
    plan: &Plan,
    mptcp: bool,
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
    let route = |flow: u32| {
        let path = if mptcp { 0 } else { flow as usize % 2 };
        (Some(Side::Client.address(path)), Side::Server.address(path))
    };
    let routes: Vec<Route> = (0..plan.flows).map(route).collect();
    with_cpu(plan, entry, || download(ends, &routes, mptcp, plan.seconds))
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
    let mark = |what: &str, value: f64, at_least: f64| Mark {
        what: what.to_owned(),
        value,
        at_least,
        holds: value >= at_least,
    };
    let (on, off) = (rates("bare", BARE[0].0), rates("bare", BARE[1].0));
    let stream = streams.iter().find(|stream| stream.name == "coding on");
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
            stream.map_or(f64::NAN, |stream| median(&stream.delivered)),
            STREAM_MARK,
        ),
    ]
}

impl Report {
    /// The tables.
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        let (rate, flows, rtt, loss) = self.links;
        let title = format!(
            "{flows} connections, {}; lossy: two links of {rate} Mbit/s, {rtt} ms, loss {} %; medians",
            self.congestion,
            loss * 100.0
        );
        let mut speeds = Table::new(&title).columns([
            Column::left("links"),
            Column::left(""),
            Column::right("goodput").unit("Mbit/s"),
            Column::right("redundant").unit("%"),
            Column::right("CPU, all hosts").unit("s/GB"),
        ]);
        for c in &self.contestants {
            let redundant = (!c.redundant.is_empty()).then(|| median(&c.redundant) * 100.0);
            speeds.push([
                Cell::text(c.condition),
                Cell::text(c.name),
                Cell::number(median(&c.mbps), 0).strong(),
                Cell::optional_number(redundant, 1),
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
                Cell::text(&format!("≥ {}", mark.at_least)),
                verdict(mark.holds),
            ]);
        }
        vec![speeds, streams, marks]
    }
}
