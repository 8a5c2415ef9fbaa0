//! `tributary bench`: the benchmarks, each beside its peer in the same run.

mod simulator;

use anyhow::Result;
use clap::{Args, Subcommand};
use core::time::Duration;
use simulator::Simulator;
use std::path::PathBuf;
use std::process::ExitCode;
use tributary_bench::{churn, emulator, end, flood, idle, memory, objects, proxy, tunnel, unshaped};
use tributary_report::Table;

/// Benchmarks: each prints the ratio with its peer, measured in the same run.
///
/// Figures of merit that are missed are said to be missed; the exit code is 0 all the same. Run them on a
/// machine that does nothing else. They need root or user namespaces.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    Unshaped(UnshapedArguments),
    Objects(ObjectsArguments),
    Idle(IdleArguments),
    Memory(MemoryArguments),
    Churn(ChurnArguments),
    Flood(FloodArguments),
    Proxy(ProxyArguments),
    Emulator(EmulatorArguments),
    Tunnel(TunnelArguments),
    /// The simulator beside Linux, and beside ns-3 3.37 (development: needs the source tree and libns3-dev).
    #[command(subcommand)]
    Simulator(Simulator),
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
    /// Rounds; in each every carrier has its turn
    #[arg(long, default_value_t = unshaped::Plan::default().rounds)]
    rounds: u32,
    /// Seconds of each transfer
    #[arg(long, default_value_t = unshaped::Plan::default().seconds)]
    seconds: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// 100 KiB and 1 MiB objects on warm connections through emulated radios.
#[derive(Debug, Args)]
pub(crate) struct ObjectsArguments {
    /// Rounds; in each every transport has its turn
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

/// Processor time of a session with nothing to do.
#[derive(Debug, Args)]
pub(crate) struct IdleArguments {
    /// Seconds without payload
    #[arg(long, default_value_t = idle::Plan::default().seconds)]
    seconds: f64,
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
    #[arg(long, default_value_t = memory::Plan::default().seconds)]
    seconds: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A proxy while connections come and go: memory, descriptors and streams of both ends, and whether they grow.
///
/// Half of the connections are aborted, by either side, at a random point of their life. A slope is flat when its
/// 95 % interval does not lie above zero; descriptors and streams are flat when all are back at the end.
#[derive(Debug, Args)]
#[command(after_help = "Example: an hour at one connection a second
  tributary bench churn --seconds 3600 --json > churn.json")]
pub(crate) struct ChurnArguments {
    /// Seconds in which connections begin
    #[arg(long, default_value_t = churn::Plan::default().seconds)]
    seconds: f64,
    /// Connections that begin in a second
    #[arg(long, default_value_t = churn::Plan::default().rate)]
    rate: f64,
    /// Seconds between two samples
    #[arg(long, default_value_t = churn::Plan::default().every)]
    every: f64,
    /// Seed of sizes, lives and aborts
    #[arg(long, default_value_t = churn::Plan::default().seed)]
    seed: u64,
    /// Print one JSON object, with every sample
    #[arg(long)]
    json: bool,
}

/// A flood of connections that prove nothing: what it costs honest clients 100 ms away, and a running stream.
#[derive(Debug, Args)]
pub(crate) struct FloodArguments {
    /// Rounds; in each a phase with the flood and one without
    #[arg(long, default_value_t = flood::Plan::default().rounds)]
    rounds: u32,
    /// Measured seconds of each phase
    #[arg(long, default_value_t = flood::Plan::default().seconds)]
    seconds: f64,
    /// Connections of the flood each second
    #[arg(long, default_value_t = flood::Plan::default().per_second)]
    per_second: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The proxy: what it takes from an application beyond what its radio carries, and what SIGTERM does to an upload.
#[derive(Debug, Args)]
pub(crate) struct ProxyArguments {
    /// Rounds; in each every case has its turn
    #[arg(long, default_value_t = proxy::Plan::default().rounds)]
    rounds: u32,
    /// Seconds of each upload that goes on
    #[arg(long, default_value_t = proxy::Plan::default().seconds)]
    seconds: f64,
    /// The radio's rate, Mbit/s
    #[arg(long, default_value_t = proxy::Plan::default().mbps)]
    mbps: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The emulator: accuracy, ceiling, loss equivalence, and rattan 0.1.1 in the same run.
#[derive(Debug, Args)]
pub(crate) struct EmulatorArguments {
    /// Where rattan is, or is installed by cargo (minutes, the first time); without it there is no peer
    #[arg(long)]
    rattan: Option<PathBuf>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = emulator::Plan::default().time.as_secs())]
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
    /// Rounds; in each every contestant has its turn
    #[arg(long, default_value_t = tunnel::Plan::default().rounds)]
    rounds: u32,
    /// Seconds of each transfer
    #[arg(long, default_value_t = tunnel::Plan::default().seconds)]
    seconds: f64,
    /// Rate of each of the two links in Mbit/s
    #[arg(long, default_value_t = tunnel::Plan::default().rate)]
    rate: f64,
    /// TCP connections side by side
    #[arg(long, default_value_t = tunnel::Plan::default().flows)]
    flows: u32,
    /// Base round-trip time of the lossy links in milliseconds
    #[arg(long, default_value_t = tunnel::Plan::default().rtt)]
    rtt: f64,
    /// Loss on the lossy links, per packet
    #[arg(long, default_value_t = tunnel::Plan::default().loss)]
    loss: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Bench) -> Result<ExitCode> {
    let progress = &mut |what: &str| eprintln!("{what}");
    let (tables, json) = match command {
        Bench::End { plan } => {
            return Ok(if end::run(plan) { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Bench::Unshaped(a) => {
            tributary_emu::isolate()?;
            let plan = unshaped::Plan { rounds: a.rounds, seconds: a.seconds };
            let report = unshaped::run(&plan, progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
        Bench::Objects(a) => {
            tributary_emu::isolate()?;
            let plan = objects::Plan { rounds: a.rounds, count: a.count, congestion: a.congestion.clone() };
            let report = objects::run(&plan, progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
        Bench::Simulator(command) => return simulator::run(command, progress),
        Bench::Idle(a) => {
            tributary_emu::isolate()?;
            let report = idle::run(&idle::Plan { seconds: a.seconds }, progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
        Bench::Memory(a) => {
            tributary_emu::isolate()?;
            let plan = memory::Plan { windows: a.windows, seconds: a.seconds };
            let report = memory::run(&plan, progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
        Bench::Churn(a) => {
            let plan = churn::Plan { seconds: a.seconds, rate: a.rate, every: a.every, seed: a.seed };
            let report = churn::run(&plan, progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
        Bench::Tunnel(a) => {
            tributary_emu::isolate()?;
            let TunnelArguments { rounds, seconds, rate, flows, rtt, loss, .. } = *a;
            let report = tunnel::run(&tunnel::Plan { rounds, seconds, rate, flows, rtt, loss }, progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
        Bench::Flood(a) => {
            tributary_emu::isolate()?;
            let plan = flood::Plan { rounds: a.rounds, seconds: a.seconds, per_second: a.per_second };
            let report = flood::run(&plan, progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
        Bench::Proxy(a) => {
            tributary_emu::isolate()?;
            let plan = proxy::Plan { rounds: a.rounds, seconds: a.seconds, mbps: a.mbps };
            let report = proxy::run(&plan, progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
        Bench::Emulator(a) => {
            // The crate registry is out of reach once isolated.
            let rattan = a.rattan.as_deref().map(tributary_emu::bench::install_rattan).transpose()?;
            tributary_emu::isolate()?;
            let time = Duration::from_secs(a.seconds.clamp(1, 600));
            let plan = emulator::Plan { time, seeds: a.seeds.max(2), rounds: a.rounds.max(1) };
            let report = emulator::run(&plan, rattan.as_deref(), progress)?;
            (report.tables(), to_json(a.json, &report)?)
        }
    };
    print(&tables, json);
    Ok(ExitCode::SUCCESS)
}

fn to_json(wanted: bool, report: &impl serde::Serialize) -> Result<Option<String>> {
    Ok(wanted.then(|| serde_json::to_string(report)).transpose()?)
}

fn print(tables: &[Table], json: Option<String>) {
    match json {
        Some(json) => println!("{json}"),
        None => tables.iter().for_each(|table| println!("{}", table.to_text())),
    }
}
