//! A cell on real sockets: TCP of this machine's kernel through the emulator, with and without real COTAG nodes. The
//! radios have the same rates as in the simulated run of the same seed.

use super::flows::{Delivered, carry, open};
use crate::audits;
use crate::kernel::{self, TcpCounters};
use crate::pairs::{Inside, Route, within};
use crate::reproduce::matrix::{Cell, CellError};
use crate::reproduce::sample::Sample;
use crate::result::AuditNote;
use crate::tunnel::Tunnel;
use core::time::Duration;
use std::ffi::OsStr;
use tributary_emu::{Audit, Host, Network, NetworkError, RelayNetwork, Side};
use tributary_link::{LinkSpec, LossSpec, PathSpec, QueueSpec, Scenario};
use tributary_nodes::{Coding, Mode, Status};
use tributary_sim::cotag::{Load, Setting};
use tributary_types::Bitrate;

/// Rate of the radios' upward direction, as in the simulator.
const UP: Bitrate = Bitrate::from_mbps(1000);

/// The transport of the flows on real sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// TCP, every second flow over the other radio.
    Tcp,
    /// Kernel MPTCP with a subflow for each radio.
    Mptcp,
    /// TCP through the nodes.
    Nodes(Mode),
}

impl Transport {
    /// Every transport that the nodes and this kernel have, with the name of its simulated counterpart.
    const ALL: [(&'static str, Self, &'static str); 5] = [
        ("cubic-split", Self::Tcp, "cubic-split"),
        ("mptcp", Self::Mptcp, "mptcp"),
        ("cotag-off", Self::Nodes(Mode::Off), "cubic-split"),
        ("cotag", Self::Nodes(Mode::Systematic), "cotag"),
        ("cotag-paper", Self::Nodes(Mode::Paper), "cotag-paper"),
    ];

    /// The transport of this name, and its simulated counterpart's name.
    pub(super) fn find(name: &str) -> Option<(Self, &'static str)> {
        Self::ALL
            .into_iter()
            .find(|known| known.0 == name)
            .map(|(_, transport, counterpart)| (transport, counterpart))
    }

    /// All names.
    pub(super) fn names() -> String {
        Self::ALL.map(|(name, ..)| name).join(", ")
    }

    /// Largest inner packet.
    pub(super) fn packet(self) -> u32 {
        match self {
            Self::Tcp | Self::Mptcp => 1500,
            Self::Nodes(mode) => Coding { mode, ..Coding::default() }.inner_mtu() as u32,
        }
    }
}

/// The radios as paths. Every path has the base RTT.
fn network(setting: &Setting) -> Scenario {
    let path = |(at, rate): (usize, _)| {
        let mut down = LinkSpec::with_rate(rate);
        down.loss =
            if setting.radio.loss > 0.0 { LossSpec::Bernoulli(setting.radio.loss) } else { LossSpec::None };
        down.queue = QueueSpec::Packets(setting.queue);
        let up = LinkSpec::constant(UP);
        PathSpec { down, ..PathSpec::symmetric(&format!("radio{}", at + 1), up) }
    };
    let paths = setting.radio_rates().into_iter().enumerate().map(path);
    let empty = Scenario::new("cotag").with_rtt(setting.rtt).with_seed(setting.seed);
    paths.fold(empty, Scenario::with_path)
}

/// Results of a run.
struct Run {
    delivered: Delivered,
    tcp: TcpCounters,
    audit: Audit,
    nodes: Vec<Status>,
}

/// Runs the cell; again while the emulator is not exact, up to the cell's number of attempts.
pub(super) fn measure(cell: &Cell, setting: &Setting, transport: Transport) -> Result<Sample, CellError> {
    let (run, audit) = audits::exact(cell.attempts, || {
        let run = once(cell, setting, transport).map_err(CellError::Experiment)?;
        let audit = AuditNote::new(&run.audit);
        Ok::<_, CellError>((run, audit))
    })?;
    Ok(sample(&run, setting, audit))
}

fn once(cell: &Cell, setting: &Setting, transport: Transport) -> Result<Run, String> {
    let (scenario, load, congestion) = (network(setting), setting.load(), cell.label("congestion"));
    match transport {
        Transport::Tcp | Transport::Mptcp => beside(&scenario, &load, (transport, congestion), setting.burst),
        Transport::Nodes(mode) => through(&scenario, &load, (mode, congestion), setting),
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Without nodes: server and device are joined by the radios.
fn beside(
    scenario: &Scenario,
    load: &Load,
    (transport, congestion): (Transport, &str),
    burst: Duration,
) -> Result<Run, String> {
    let network = Network::start(scenario).map_err(told)?;
    let mptcp = transport == Transport::Mptcp;
    if mptcp {
        kernel::prepare_emulated(&network).map_err(told)?;
    }
    let server = |work: &mut (dyn FnMut() + Send)| network.run(Side::Server, work);
    let client = |work: &mut (dyn FnMut() + Send)| network.run(Side::Client, work);
    let connect = |flow: usize| {
        let path = if mptcp { 0 } else { flow % scenario.paths.len() };
        let route = Route { from: Some(Side::Client.address(path)), to: Side::Server.address(path) };
        open((&server, &client), route, mptcp, congestion)
    };
    let flows = (0..load.flows).map(connect).collect::<Result<Vec<_>, _>>()?;
    for side in [Side::Client, Side::Server] {
        let command = |side, program: &OsStr| network.command(side, program);
        kernel::assert_congestion(&command, side, congestion).map_err(told)?;
    }
    let rewind = || network.rewind();
    let (delivered, tcp) = counted(&server, &rewind, || carry(&flows, load, burst))?;
    Ok(Run { delivered, tcp, audit: network.audit().map_err(told)?, nodes: Vec::new() })
}

/// Through gateway, access points and device.
fn through(
    scenario: &Scenario,
    load: &Load,
    (mode, congestion): (Mode, &str),
    setting: &Setting,
) -> Result<Run, String> {
    let default = Coding::default();
    let interval_ms = setting.interval.map_or(default.interval_ms, |time| time.as_millis() as u64);
    let redundancy = setting.redundancy.map_or(default.redundancy, |share| f64::from(share) / 1000.0);
    let coding = Coding { mode, interval_ms, redundancy, ..default };
    let tunnel = Tunnel::start(RelayNetwork::start(scenario).map_err(told)?, &coding).map_err(told)?;
    let hosts = tunnel.network();
    let radios = hosts.radios().ok_or("every path of the scenario is a radio")?;
    let server = |work: &mut (dyn FnMut() + Send)| hosts.run(Host::Server, work);
    let device = |work: &mut (dyn FnMut() + Send)| hosts.run(Host::Device, work);
    let route = Route { from: None, to: RelayNetwork::SERVER };
    let connect = |_| open((&server, &device), route, false, congestion);
    let flows = (0..load.flows).map(connect).collect::<Result<Vec<_>, _>>()?;
    let rewind = || radios.rewind();
    let (delivered, tcp) = counted(&server, &rewind, || carry(&flows, load, setting.burst))?;
    Ok(Run { delivered, tcp, audit: radios.audit().map_err(told)?, nodes: tunnel.statuses().map_err(told)? })
}

/// Restarts the radios, does the work, and returns with it the increase of the server's TCP counters.
fn counted(
    server: Inside<'_>,
    rewind: &dyn Fn() -> Result<(), NetworkError>,
    work: impl FnOnce() -> Delivered,
) -> Result<(Delivered, TcpCounters), String> {
    let counters = || within(server, "reading TCP's counters", || Ok(TcpCounters::here()?));
    let before = counters()?;
    rewind().map_err(told)?;
    let delivered = work();
    Ok((delivered, counters()?.since(before)))
}

fn sample(run: &Run, setting: &Setting, note: AuditNote) -> Sample {
    let mut sample = Sample::default();
    let capacity = setting.capacity_mbps();
    sample.set("throughput", Some(run.delivered.mbps / 1e3));
    sample.set("of_capacity", Some(run.delivered.mbps / capacity));
    sample.set("capacity", Some(capacity / 1e3));
    sample.set("burst_time", Some(run.delivered.goal.as_secs_f64() * 1e3));
    let all = (run.tcp.sent + run.tcp.again).max(1);
    sample.set("sent_again", Some(100.0 * run.tcp.again as f64 / all as f64));
    sample.set("timeouts", Some(run.tcp.timeouts as f64));
    let of = |role: &'static str| run.nodes.iter().filter(move |node| node.role == role);
    if let Some(device) = of("device").find(|device| device.coding.received > 0) {
        let sum = |count: fn(&Status) -> u64| of("access-point").map(count).sum::<u64>();
        let (taken, sent) = (sum(|point| point.coding.taken), sum(|point| point.coding.sent));
        sample.set("redundant", Some(100.0 * taken as f64 / sent.max(1) as f64));
        sample.set("recovered", Some(device.coding.recovered as f64));
        sample.set("lost", Some(device.coding.lost as f64));
        sample.set("full", Some(sum(|point| point.coding.full) as f64));
    }
    sample.audit = Some(note);
    sample
}
