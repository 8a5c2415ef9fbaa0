//! The command line.

use clap::{Args, Parser, Subcommand};

/// Several radios, one immersive stream.
#[derive(Debug, Parser)]
#[command(name = "tributary", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArguments),
    /// One end of an experiment; started by the experiments themselves.
    #[command(hide = true)]
    Endpoint,
}

/// Measure one transport once: one scenario, one workload, through emulated links.
///
/// Transports are the scenario's paths (`wifi`, `wigig`: kernel TCP on one radio), `mptcp` (the kernel's)
/// and Tributary's schedulers (`fbdt`, `fbdt-paper`, `min-rtt`, …). Needs root or user namespaces.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary run --scenario mobility --transport fbdt --seconds 10
  tributary run --scenario blackout --transport mptcp --congestion bbr --rtt 20 --json
  tributary run --scenario los --transport fbdt --workload object --size 100000 --count 50")]
pub(crate) struct RunArguments {
    /// Scenario: a name (see `tributary emu list`) or a .toml file
    #[arg(long, default_value = "mobility")]
    pub(crate) scenario: String,
    /// What carries the bytes: a path's name, mptcp, or a scheduler
    #[arg(long, default_value = "fbdt")]
    pub(crate) transport: String,
    /// Congestion control of every socket of both ends
    #[arg(long, default_value = "cubic")]
    pub(crate) congestion: String,
    /// bulk, object or live
    #[arg(long, default_value = "bulk", value_parser = ["bulk", "object", "live"])]
    pub(crate) workload: String,
    /// Length of the measurement in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=3600))]
    pub(crate) seconds: u32,
    /// Bytes of each object
    #[arg(long, default_value_t = 102_400)]
    pub(crate) size: u64,
    /// How many objects at most
    #[arg(long, default_value_t = 100)]
    pub(crate) count: u32,
    /// Rest between two objects in milliseconds
    #[arg(long, default_value_t = 50)]
    pub(crate) pause: u64,
    /// Seed of the scenario's randomness
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Base RTT in milliseconds; without it the scenario's own
    #[arg(long)]
    pub(crate) rtt: Option<u64>,
    #[command(flatten)]
    pub(crate) queue: QueueArguments,
    /// Sessions without TLS
    #[arg(long)]
    pub(crate) plaintext: bool,
    /// Largest transmission window of a session in bytes
    #[arg(long)]
    pub(crate) window: Option<usize>,
    /// Cap on the kernel's retransmission timeout of a session's subflows, in milliseconds
    #[arg(long)]
    pub(crate) rto_max: Option<u64>,
    /// Print one JSON object, with every second and every silence
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct QueueArguments {
    /// Queue of every link in kB; without it the scenario's own
    #[arg(long)]
    pub(crate) queue_kb: Option<u64>,
    /// Queue of every link in milliseconds at its present rate
    #[arg(long)]
    pub(crate) queue_ms: Option<u64>,
}
