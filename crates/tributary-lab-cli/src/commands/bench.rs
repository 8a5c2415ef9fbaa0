//! `tributary-lab bench`: the benchmarks, each beside its peer in the same run.

mod coupled;
mod hop;
mod simulator;

use super::page::PageArguments;
use anyhow::Result;
use clap::{Args, Subcommand};
use core::time::Duration;
use coupled::CoupledArguments;
use simulator::Simulator;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_bench::{
    churn, coding, dash, emulator, end, flood, handoff, idle, memory, objects, proxy, sessions, stalled,
    tunnel, unshaped,
};
use tributary_cli::{output, quantity};
use tributary_report::Table;
use tributary_report::machine;

/// Benchmarks: each prints the ratio with its peer, measured in the same run.
///
/// A promise holds or fails if the whole 95 % interval is on one side of its bound, else it is undecided; the exit code is 0 in
/// each case. Run benchmarks on a machine that does
/// nothing else. They need root or user namespaces.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench unshaped --rounds 5 --json
  tributary-lab bench memory --page docs/benchmarks.md")]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    bench: Bench,
    /// Also write the tables into the file of tables beside this page: --page docs/benchmarks.md writes
    /// docs/benchmarks.tables.md
    #[arg(long, value_name = "PAGE.md", global = true)]
    page: Option<PathBuf>,
    /// Heading of this run in that file, without it the name of the benchmark
    #[arg(long, value_name = "HEADING", global = true)]
    part: Option<String>,
}

/// One benchmark.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    Unshaped(UnshapedArguments),
    Objects(ObjectsArguments),
    Idle(IdleArguments),
    Memory(MemoryArguments),
    Churn(ChurnArguments),
    Dash(DashArguments),
    Flood(FloodArguments),
    Handoff(HandoffArguments),
    Hop(hop::HopArguments),
    Proxy(ProxyArguments),
    ProxyHttp(ProxyHttpArguments),
    Sessions(SessionsArguments),
    Stalled(StalledArguments),
    Emulator(EmulatorArguments),
    Coding(CodingArguments),
    Coupled(CoupledArguments),
    Tunnel(TunnelArguments),
    /// The simulator beside Linux, and beside ns-3 3.37 (development: needs the source tree and libns3-dev).
    #[command(subcommand)]
    Simulator(Simulator),
    /// Clients of `sessions`; started by it.
    #[command(hide = true)]
    Hostile {
        /// What to do, in JSON
        orders: String,
    },
    /// One end of a transfer; started by the benchmarks themselves.
    #[command(hide = true)]
    End {
        /// What to do, in JSON
        plan: String,
    },
}

/// Throughput over two veth paths: sessions beside kernel MPTCP, one TCP and one TLS-over-TCP connection.
#[derive(Debug, Args)]
pub(crate) struct UnshapedArguments {
    /// Rounds; each contestant runs once per round
    #[arg(long, default_value_t = unshaped::Plan::default().rounds)]
    rounds: u32,
    /// Seconds of each transfer
    #[arg(long, default_value_t = unshaped::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// 100 KiB and 1 MiB objects on warm connections through emulated radios.
#[derive(Debug, Args)]
pub(crate) struct ObjectsArguments {
    /// Rounds; each transport runs once per round
    #[arg(long, default_value_t = objects::Plan::default().rounds)]
    rounds: u32,
    /// Objects of each transport in each round
    #[arg(long, default_value_t = objects::Plan::default().count)]
    count: u32,
    /// Congestion control of every socket of both ends
    #[arg(long, default_value_t = objects::Plan::default().congestion)]
    congestion: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Processor time of an idle session.
#[derive(Debug, Args)]
pub(crate) struct IdleArguments {
    /// Seconds without payload in each round
    #[arg(long, default_value_t = idle::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Rounds, each with a new session
    #[arg(long, default_value_t = idle::Plan::default().rounds)]
    rounds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Memory of a session: over many windows, and at 2 Gbit/s · 50 ms.
#[derive(Debug, Args)]
pub(crate) struct MemoryArguments {
    /// Windows of 64 KiB in the long transfer
    #[arg(long, default_value_t = memory::Plan::default().windows)]
    windows: u32,
    /// Seconds at 2 Gbit/s · 50 ms
    #[arg(long, default_value_t = memory::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Transfers at 2 Gbit/s · 50 ms
    #[arg(long, default_value_t = memory::Plan::default().rounds)]
    rounds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Leaks of a proxy while connections open and close: memory, descriptors and streams of both ends over time.
///
/// Half of the connections are aborted, by either side, at a random time. Bounds: growth of memory for each connection, and
/// descriptors and streams that are left at the end.
#[derive(Debug, Args)]
#[command(after_help = "Example: an hour at one connection a second
  tributary-lab bench churn --seconds 3600 --json > churn.json")]
pub(crate) struct ChurnArguments {
    /// Seconds during which connections are opened
    #[arg(long, default_value_t = churn::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Connections opened per second
    #[arg(long, default_value_t = churn::Plan::default().rate)]
    rate: f64,
    /// Seconds between two samples
    #[arg(long, default_value_t = churn::Plan::default().every, value_parser = quantity::seconds)]
    every: f64,
    /// Seed of sizes, lifetimes and aborts
    #[arg(long, default_value_t = churn::Plan::default().seed)]
    seed: u64,
    /// Print one JSON object, with every sample
    #[arg(long)]
    json: bool,
}

/// `tributary dash serve` beside nginx: bytes for each second of processor time with many clients, and memory.
///
/// The same files and the same clients over loopback TCP, in turns; nginx with `sendfile`. Needs nginx: scripts/setup --nginx.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  tributary-lab bench dash --rounds 7 --clients 1000 --json > dash.json")]
pub(crate) struct DashArguments {
    /// Rounds; in each both servers have their turn
    #[arg(long, default_value_t = dash::Plan::default().rounds)]
    rounds: u32,
    /// Measured seconds of each turn
    #[arg(long, default_value_t = dash::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Clients at once
    #[arg(long, default_value_t = dash::Plan::default().clients)]
    clients: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Proxied connections that stop reading, in both directions: the rate of others beside them and the time of small
/// requests.
#[derive(Debug, Args)]
pub(crate) struct StalledArguments {
    /// Rounds; each measures alone and beside stalled connections
    #[arg(long, default_value_t = stalled::Plan::default().rounds)]
    rounds: u32,
    /// Measured seconds of each transfer
    #[arg(long, default_value_t = stalled::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Stalled downloads, and as many stalled uploads
    #[arg(long, default_value_t = stalled::Plan::default().stalled)]
    stalled: u32,
    /// Rate of the radio, Mbit/s
    #[arg(long, default_value_t = stalled::Plan::default().mbps)]
    mbps: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A flood of connections that never authenticate: its effect on honest clients 100 ms away and on a running stream.
#[derive(Debug, Args)]
pub(crate) struct FloodArguments {
    /// Rounds; each has a phase with the flood and one without
    #[arg(long, default_value_t = flood::Plan::default().rounds)]
    rounds: u32,
    /// Measured seconds of each phase
    #[arg(long, default_value_t = flood::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Connections of the flood each second
    #[arg(long, default_value_t = flood::Plan::default().per_second)]
    per_second: u32,
    /// Measure instead the longest round trip of a session beside two that have the key and send these frames without end
    #[arg(long, value_name = "settings|pieces|pings", conflicts_with = "per_second")]
    hostile: Option<flood::frames::Hostile>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A live video over two radios that are lost in turns: times without data, late frames, and how soon a change of an
/// interface changes a session's paths; a session beside kernel MPTCP on the same links.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench handoff
  tributary-lab bench handoff --handoffs 200 --json > handoff.json")]
pub(crate) struct HandoffArguments {
    /// Losses, three seconds each
    #[arg(long, default_value_t = handoff::Plan::default().handoffs)]
    handoffs: u32,
    /// Print one JSON object, with every handoff
    #[arg(long)]
    json: bool,
}

/// The proxy's buffering: how many bytes it accepts ahead of its radio, and what SIGTERM does to an upload.
#[derive(Debug, Args)]
pub(crate) struct ProxyArguments {
    /// Rounds; each case runs once per round
    #[arg(long, default_value_t = proxy::Plan::default().rounds)]
    rounds: u32,
    /// Seconds of each upload that is not interrupted
    #[arg(long, default_value_t = proxy::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// The radio's rate, Mbit/s
    #[arg(long, default_value_t = proxy::Plan::default().mbps)]
    mbps: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The proxy beside two HAProxies, nginx behind and wrk in front: requests and bytes per second, resident memory.
///
/// Two paths without shaping; TLS 1.3 between the sides; HAProxy uses one path. Needs nginx, wrk and HAProxy: scripts/setup --haproxy.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  tributary-lab bench proxy-http --rounds 9 --json > proxy-http.json")]
pub(crate) struct ProxyHttpArguments {
    /// Rounds; each contestant runs once per round
    #[arg(long, default_value_t = proxy::http::Plan::default().rounds)]
    rounds: u32,
    /// Measured seconds of each turn and size of object
    #[arg(long, default_value_t = proxy::http::Plan::default().seconds)]
    seconds: u32,
    /// Connections that ask for objects of 1 KiB
    #[arg(long, default_value_t = proxy::http::Plan::default().connections)]
    connections: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A server's memory under clients that write and never read, and their effect on an honest client beside them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench sessions
  tributary-lab bench sessions --sessions 100 --memory 1GiB --rounds 5 --json")]
pub(crate) struct SessionsArguments {
    /// Hostile sessions
    #[arg(long, default_value_t = sessions::Plan::default().sessions)]
    sessions: u32,
    /// Streams of each
    #[arg(long, default_value_t = sessions::Plan::default().streams)]
    streams: u32,
    #[command(flatten)]
    memory: tributary_cli::arguments::MemoryArguments,
    /// Rounds, each without and with hostile sessions
    #[arg(long, default_value_t = sessions::Plan::default().rounds)]
    rounds: u32,
    /// Seconds of each transfer of the honest client
    #[arg(long, default_value_t = sessions::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Rate of the honest client's limited transfers, Mbit/s
    #[arg(long, default_value_t = sessions::Plan::default().mbps)]
    mbps: f64,
    /// Print one JSON object, with every round
    #[arg(long)]
    json: bool,
}

/// The emulator: accuracy, ceiling, loss equivalence, and rattan 0.1.1 in the same run.
#[derive(Debug, Args)]
pub(crate) struct EmulatorArguments {
    /// Directory of rattan; cargo installs it there if it is missing (minutes); without this option there is no peer
    #[arg(long)]
    rattan: Option<PathBuf>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = emulator::Plan::default().time.as_secs(),
          value_parser = quantity::long_seconds_in(1..=600))]
    seconds: u64,
    /// Seeds of the loss equivalence
    #[arg(long, default_value_t = emulator::Plan::default().seeds)]
    seeds: u64,
    /// Rounds of the comparison with rattan
    #[arg(long, default_value_t = emulator::Plan::default().rounds)]
    rounds: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The COTAG tunnel: speed and added delay, and beside TCP and kernel MPTCP over emulated links.
#[derive(Debug, Args)]
pub(crate) struct TunnelArguments {
    /// Rounds; each contestant runs once per round
    #[arg(long, default_value_t = tunnel::Plan::default().rounds)]
    rounds: u32,
    /// Seconds of each transfer
    #[arg(long, default_value_t = tunnel::Plan::default().seconds, value_parser = quantity::seconds)]
    seconds: f64,
    /// Rate of each of the two links in Mbit/s
    #[arg(long, default_value_t = tunnel::Plan::default().rate)]
    rate: f64,
    /// TCP connections at the same time
    #[arg(long, default_value_t = tunnel::Plan::default().flows)]
    flows: u32,
    /// Base round-trip time of the lossy links in milliseconds
    #[arg(long, default_value_t = tunnel::Plan::default().rtt, value_parser = quantity::fine_millis)]
    rtt: f64,
    /// Loss on the lossy links, per packet
    #[arg(long, default_value_t = tunnel::Plan::default().loss)]
    loss: f64,
    /// Only this condition: bare (without links), lossy, clean, blocked (links in turn), shared (with a rival), stream
    #[arg(long)]
    only: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// GF(2^8) kernels, block codes, decoding and recoding beside memcpy, ISA-L, rusty_erasure, rlnc and rlnc-simdx.
///
/// ISA-L takes part when it is installed (Debian: libisal2).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab bench coding
  tributary-lab bench coding --only decode --rounds 51 --json")]
pub(crate) struct CodingArguments {
    /// Rounds of each contest; in each every contestant has its turn
    #[arg(long, default_value_t = coding::Plan::default().rounds)]
    rounds: u32,
    /// Run only contests whose name begins with this: kernels, encode-192, encode-128, encode-10, decode-systematic,
    /// decode-dense, recode
    #[arg(long)]
    only: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &BenchArguments) -> Result<ExitCode> {
    let documentation = PageArguments { page: arguments.page.clone(), part: arguments.part.clone() };
    let beside = documentation.open()?;
    let done = match &arguments.bench {
        Bench::End { plan } => Some(end::run(plan)),
        Bench::Hostile { orders } => Some(sessions::run_hostile(orders)),
        _ => None,
    };
    if let Some(done) = done {
        return Ok(if done { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let measured = measure(&arguments.bench, &mut |what| eprintln!("{what}"))?;
    match &measured.json {
        Some(json) => println!("{json}"),
        None => measured.tables.iter().for_each(|table| println!("{}", table.to_text())),
    }
    if let Some(beside) = beside.filter(|_| !measured.tables.is_empty()) {
        beside.write(measured.name, &measured.markdown())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn flood(a: &FloodArguments, progress: &mut dyn FnMut(&str)) -> Result<Measured> {
    if let Some(hostile) = a.hostile {
        let plan = flood::frames::Plan { hostile, rounds: a.rounds, seconds: a.seconds };
        let report = flood::frames::run(&plan, progress)?;
        return Measured::new("flood", report.tables(), a.json, &report);
    }
    tributary_emu::isolate()?;
    let plan = flood::Plan { rounds: a.rounds, seconds: a.seconds, per_second: a.per_second };
    let report = flood::run(&plan, progress)?;
    Measured::new("flood", report.tables(), a.json, &report)
}

fn measure(bench: &Bench, progress: &mut dyn FnMut(&str)) -> Result<Measured> {
    Ok(match bench {
        Bench::End { .. } | Bench::Hostile { .. } => Measured::default(), // handled in `run`
        Bench::Unshaped(a) => {
            tributary_emu::isolate()?;
            let plan = unshaped::Plan { rounds: a.rounds, seconds: a.seconds };
            let report = unshaped::run(&plan, progress)?;
            Measured::new("unshaped", report.tables(), a.json, &report)?
        }
        Bench::Objects(a) => {
            tributary_emu::isolate()?;
            let plan = objects::Plan { rounds: a.rounds, count: a.count, congestion: a.congestion.clone() };
            let report = objects::run(&plan, progress)?;
            Measured::new("objects", report.tables(), a.json, &report)?
        }
        Bench::Simulator(command) => simulator::run(command, progress)?,
        Bench::Idle(a) => {
            tributary_emu::isolate()?;
            let report = idle::run(&idle::Plan { seconds: a.seconds, rounds: a.rounds }, progress)?;
            Measured::new("idle", report.tables(), a.json, &report)?
        }
        Bench::Memory(a) => {
            tributary_emu::isolate()?;
            let plan = memory::Plan { windows: a.windows, seconds: a.seconds, rounds: a.rounds };
            let report = memory::run(&plan, progress)?;
            Measured::new("memory", report.tables(), a.json, &report)?
        }
        Bench::Sessions(a) => {
            let memory = a.memory.limits().memory;
            let plan = sessions::Plan {
                sessions: a.sessions,
                streams: a.streams,
                memory,
                rounds: a.rounds,
                seconds: a.seconds,
                mbps: a.mbps,
            };
            let report = sessions::run(&plan, progress)?;
            Measured::new("sessions", report.tables(), a.json, &report)?
        }
        Bench::Stalled(a) => {
            tributary_emu::isolate()?;
            let StalledArguments { rounds, seconds, stalled, mbps, .. } = *a;
            let report = stalled::run(&stalled::Plan { rounds, seconds, stalled, mbps }, progress)?;
            Measured::new("stalled", report.tables(), a.json, &report)?
        }
        Bench::Churn(a) => {
            let plan = churn::Plan { seconds: a.seconds, rate: a.rate, every: a.every, seed: a.seed };
            let report = churn::run(&plan, progress)?;
            Measured::new("churn", report.tables(), a.json, &report)?
        }
        Bench::Coding(a) => {
            let plan = coding::Plan { rounds: a.rounds, only: a.only.clone() };
            let report = coding::run(&plan, progress)?;
            Measured::new("coding", report.tables(), a.json, &report)?
        }
        Bench::Coupled(a) => coupled::run(a, progress)?,
        Bench::Dash(a) => {
            let plan = dash::Plan { rounds: a.rounds, seconds: a.seconds, clients: a.clients };
            let report = dash::run(&plan, progress)?;
            Measured::new("dash", report.tables(), a.json, &report)?
        }
        Bench::Tunnel(a) => {
            tributary_emu::isolate()?;
            let TunnelArguments { rounds, seconds, rate, flows, rtt, loss, .. } = *a;
            let only = a.only.clone();
            let report =
                tunnel::run(&tunnel::Plan { rounds, seconds, rate, flows, rtt, loss, only }, progress)?;
            Measured::new("tunnel", report.tables(), a.json, &report)?
        }
        Bench::Flood(a) => flood(a, progress)?,
        Bench::Hop(a) => hop::run(a, progress)?,
        Bench::Handoff(a) => {
            tributary_emu::isolate()?;
            let report = handoff::run(&handoff::Plan { handoffs: a.handoffs }, progress)?;
            Measured::new("handoff", report.tables(), a.json, &report)?
        }
        Bench::Proxy(a) => {
            tributary_emu::isolate()?;
            let plan = proxy::Plan { rounds: a.rounds, seconds: a.seconds, mbps: a.mbps };
            let report = proxy::run(&plan, progress)?;
            Measured::new("proxy", report.tables(), a.json, &report)?
        }
        Bench::ProxyHttp(a) => {
            tributary_emu::isolate()?;
            let plan = proxy::http::Plan { rounds: a.rounds, seconds: a.seconds, connections: a.connections };
            let report = proxy::http::run(&plan, progress)?;
            Measured::new("proxy-http", report.tables(), a.json, &report)?
        }
        Bench::Emulator(a) => {
            // The crate registry cannot be reached after isolation.
            let rattan = a.rattan.as_deref().map(tributary_emu::bench::install_rattan).transpose()?;
            tributary_emu::isolate()?;
            let time = Duration::from_secs(a.seconds);
            let plan = emulator::Plan { time, seeds: a.seeds.max(2), rounds: a.rounds.max(1) };
            let report = emulator::run(&plan, rattan.as_deref(), progress)?;
            Measured::new("emulator", report.tables(), a.json, &report)?
        }
    })
}

/// What a benchmark prints.
#[derive(Default)]
struct Measured {
    name: &'static str,
    tables: Vec<Table>,
    /// The whole report, if JSON was requested.
    json: Option<String>,
}

impl Measured {
    fn new(
        name: &'static str,
        tables: Vec<Table>,
        json: bool,
        report: &impl serde::Serialize,
    ) -> Result<Self> {
        Ok(Self { name, tables, json: json.then(|| serde_json::to_string(report)).transpose()? })
    }

    /// The tables, below a line with the command, the commit and the machine.
    fn markdown(&self) -> String {
        let run = machine::run_info(&output::command_line());
        let made = format!("{}\nLinux {}, {}.\n", run.marker(), run.kernel, run.machine);
        let tables = self.tables.iter().map(Table::to_section);
        std::iter::once(made).chain(tables).collect::<Vec<_>>().join("\n")
    }
}
