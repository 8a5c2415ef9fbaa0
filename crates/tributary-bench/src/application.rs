//! An application over `tributary tunnel` and `tributary exec`, unshaped between two namespaces: rate and processor time of TCP, and of
//! UDP in both directions, beside plain sockets, `tributary connect` (TCP) and WireGuard in user space.
//!
//! Processor time is that of every process of a contestant: both ends of the application, and whatever carries their data. What the
//! kernel does for a packet counts for the process that it interrupts or that sends it. Not here: WireGuard in the kernel, whose threads
//! belong to no process.

mod rig;

use super::end::Contestant;
use super::{Aim, BenchError, Expectation, Judged, Progress, Tables, bounds, median};
use clap::Args;
use rig::Rig;
use serde::Serialize;
use tributary_cli::quantity;
use tributary_report::Table;

/// Rates over the tunnel, Gbit/s.
const TCP: Expectation = Expectation::AtLeast(2.5);
const UDP: Expectation = Expectation::AtLeast(1.0);
/// Processor time per byte over WireGuard's.
const CPU: Expectation = Expectation::AtMost(2.0);
/// Processor time of an idle tunnel, both ends, as a share of a core in per cent.
const IDLE: Expectation = Expectation::AtMost(0.1);
/// Rate of TCP over that through `connect`.
const OF_CONNECT: Expectation = Expectation::AtLeast(0.98);

/// `tunnel` and `exec` beside plain sockets, `connect` and WireGuard: rate and processor time, TCP and UDP.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Rounds; each contestant runs once per round
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Seconds of each transfer
    #[arg(long, default_value_t = 3.0, value_parser = quantity::part_seconds_in(0.5..=600.0))]
    pub seconds: f64,
    /// WireGuard's program for user space
    #[arg(long, default_value = "wireguard-go")]
    pub wireguard: String,
    /// Only this contestant: plain, wireguard, connect, tunnel, exec
    #[arg(long)]
    pub only: Option<Way>,
}

/// What carries an application's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Nothing: the kernel's sockets over one path.
    Plain,
    /// WireGuard in user space over one path.
    Wireguard,
    /// `tributary connect` over both paths, to which the application connects itself: TCP only.
    Connect,
    /// `tributary tunnel` over both paths.
    Tunnel,
    /// `tributary exec` over both paths.
    Exec,
}

impl Way {
    const ALL: [Self; 5] = [Self::Plain, Self::Wireguard, Self::Connect, Self::Tunnel, Self::Exec];

    fn label(self) -> &'static str {
        match self {
            Self::Plain => "plain sockets",
            Self::Wireguard => "WireGuard (user space)",
            Self::Connect => "tributary connect",
            Self::Tunnel => "tributary tunnel",
            Self::Exec => "tributary exec",
        }
    }
}

const TCP_UP: &str = "TCP up";

/// Loads of a way, with what the ends of each are.
fn loads(way: Way) -> Vec<(&'static str, Contestant)> {
    let mut loads = vec![(TCP_UP, Contestant::of("tcp"))];
    if way != Way::Connect {
        loads.push(("UDP up", Contestant::Datagrams { back: false }));
        loads.push(("UDP down", Contestant::Datagrams { back: true }));
    }
    loads
}

/// One way under one load.
#[derive(Clone, Debug, Serialize)]
pub struct WayReport {
    /// What carries the data.
    pub way: Way,
    pub load: &'static str,
    /// Goodput of each round at the receiver, Gbit/s.
    pub gbps: Vec<f64>,
    /// Share of the sent bytes that arrived, in each round.
    pub arrived: Vec<f64>,
    /// Processor seconds of all processes per gigabyte that arrived, in each round.
    pub cpu_per_gb: Vec<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Every way under every load.
    pub ways: Vec<WayReport>,
    /// Processor time of an idle tunnel, both ends, as a share of a core in per cent; each round.
    pub idle: Vec<f64>,
    /// The bounds.
    pub aims: Vec<Aim>,
}

pub fn run(settings: &Settings, progress: Progress<'_>) -> Result<Report, BenchError> {
    let ways: Vec<Way> =
        Way::ALL.into_iter().filter(|way| settings.only.is_none_or(|only| only == *way)).collect();
    let empty = |way, load| {
        let (gbps, arrived, cpu_per_gb) = Default::default();
        WayReport { way, load, gbps, arrived, cpu_per_gb }
    };
    let each = ways.iter().flat_map(|way| loads(*way).into_iter().map(|(load, _)| (*way, load)));
    let mut idle = Vec::new();
    let mut reports: Vec<WayReport> = each.map(|(way, load)| empty(way, load)).collect();
    for round in 1..=settings.rounds {
        for way in &ways {
            let mut rig = Rig::prepare(*way, settings)?;
            for (load, contestant) in loads(*way) {
                progress(&format!("{}, {load}, round {round} of {}", way.label(), settings.rounds));
                let (sent, arrived, cpu) = rig.transfer(&contestant, settings.seconds)?;
                let same = |report: &&mut WayReport| report.way == *way && report.load == load;
                let report = reports.iter_mut().find(same).expect("every way has all loads");
                let gigabytes = arrived.bytes as f64 / 1e9;
                report.gbps.push(gigabytes * 8.0 / arrived.seconds);
                report.arrived.push(arrived.bytes as f64 / sent.bytes.max(1) as f64);
                report.cpu_per_gb.push(cpu / gigabytes);
            }
            if *way == Way::Tunnel {
                progress(&format!("{}, idle, round {round} of {}", way.label(), settings.rounds));
                idle.push(rig.idle()? * 100.0);
            }
        }
    }
    let mut aims = aims(&reports);
    if !idle.is_empty() {
        let what = format!("{}, idle: % of a core", Way::Tunnel.label());
        aims.push(Aim { what, value: Judged::median(&idle, IDLE) });
    }
    Ok(Report { ways: reports, idle, aims })
}

fn aims(reports: &[WayReport]) -> Vec<Aim> {
    let of = |way: Way, load: &str| reports.iter().find(|report| report.way == way && report.load == load);
    let mut aims = Vec::new();
    for way in [Way::Tunnel, Way::Exec] {
        for (load, _) in loads(way) {
            let Some(own) = of(way, load) else { continue };
            let bound = if load == TCP_UP { TCP } else { UDP };
            let what = format!("{}, {load}: Gbit/s", way.label());
            aims.push(Aim { what, value: Judged::median(&own.gbps, bound) });
            if let Some(peer) = of(Way::Wireguard, load) {
                let what = format!("{}, {load}: processor time over WireGuard's", way.label());
                aims.push(Aim { what, value: Judged::ratio(&own.cpu_per_gb, &peer.cpu_per_gb, CPU) });
            }
            if let Some(peer) = of(Way::Connect, load) {
                let what = format!("{}, {load}: rate over that of tributary connect", way.label());
                aims.push(Aim { what, value: Judged::ratio(&own.gbps, &peer.gbps, OF_CONNECT) });
            }
        }
    }
    aims
}

impl Tables for Report {
    fn tables(&self) -> Vec<Table> {
        let title = format!("Unshaped; UDP in datagrams of {} bytes; medians", super::end::DATAGRAM);
        let ways = Table::of(&title, &self.ways)
            .text("way", |report| report.way.label())
            .text("load", |report| report.load)
            .number(("goodput", "Gbit/s"), 2, |report| median(&report.gbps))
            .strong()
            .number(("arrived", "%"), 1, |report| median(&report.arrived) * 100.0)
            .number(("CPU, all processes", "s/GB"), 2, |report| median(&report.cpu_per_gb))
            .table();
        let aims = self.aims.iter().map(|aim| (aim.what.as_str(), &aim.value, 2));
        let aims = bounds("Bounds, median of the rounds' own", ["bound", "value"], aims);
        vec![ways, aims]
    }
}
