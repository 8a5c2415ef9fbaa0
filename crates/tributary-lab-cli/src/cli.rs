//! The arguments of the commands. Not the commands themselves (`commands.rs`).

use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use tributary_cli::arguments::ViewerArguments;
use tributary_cli::quantity;
use tributary_lab::World;

/// Measure one transport once: one scenario, one workload, through emulated or simulated links.
///
/// Transports are the scenario's paths (`wifi`, `wigig`: TCP on one radio), `mptcp`, `quic` (on one radio),
/// `mpquic` and Tributary's schedulers (`fbdt`, `fbdt-paper`, `min-rtt`, …). Options that are not given come from
/// the scenario's `[run]` table, if it has one. The emulator needs root or user namespaces; the simulator needs
/// nothing and gives the same result for the same seed everywhere.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab run mobility --transport fbdt --seconds 10
  tributary-lab run blackout --transport mptcp --congestion bbr --rtt 20 --json
  tributary-lab run los --transport fbdt --workload object --size 100000 --count 50
  tributary-lab run mobility --world sim --transport fbdt --seconds 60 --seed 7 --json
  tributary-lab run blackout --world sim --transport mptcp --scheduler blest --pcap mptcp.pcap --qlog logs")]
pub(crate) struct RunArguments {
    /// Scenario: a name (see `tributary-lab emu list`) or a .toml file [default: mobility]
    #[arg(value_name = "SCENARIO")]
    pub(crate) network: Option<String>,
    /// The same as SCENARIO
    #[arg(long, conflicts_with = "network", hide = true)]
    pub(crate) scenario: Option<String>,
    /// World to run in: the emulator (kernel stacks, wall time) or the simulator (models, virtual time)
    #[arg(long, value_enum, default_value_t = WorldArgument::Emu)]
    pub(crate) world: WorldArgument,
    /// Transport: a path's name, mptcp, quic, mpquic or a scheduler [default: fbdt]
    #[arg(long)]
    pub(crate) transport: Option<String>,
    /// Scheduler of the transport `session`; in the simulator also of mptcp
    #[arg(long)]
    pub(crate) scheduler: Option<String>,
    /// Congestion control of every subflow of both ends [default: cubic]
    #[arg(long)]
    pub(crate) congestion: Option<String>,
    /// bulk, object or live (emu only) [default: bulk]
    #[arg(long, value_parser = ["bulk", "object", "live"])]
    pub(crate) workload: Option<String>,
    /// Length of the measurement in seconds [default: 10]
    #[arg(long, value_parser = quantity::seconds_in(2..=3600))]
    pub(crate) seconds: Option<u32>,
    /// Size of each object in bytes, or with a unit: 64KiB, 1.5MB [default: 100KiB]
    #[arg(long, value_parser = quantity::bytes_in(1..=1 << 40))]
    pub(crate) size: Option<u64>,
    /// Number of objects, at most [default: 100]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    /// Pause between two objects in milliseconds [default: 50]
    #[arg(long, value_parser = quantity::millis_in(0..=3_600_000))]
    pub(crate) pause: Option<u64>,
    /// Distance of the live player to the live edge, in milliseconds [default: 1000]
    #[arg(long, value_parser = quantity::millis_in(100..=60_000))]
    pub(crate) start_up: Option<u64>,
    /// Seed of the scenario's random numbers [default: the scenario's]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Base RTT in milliseconds [default: the scenario's]
    #[arg(long, value_parser = quantity::millis)]
    pub(crate) rtt: Option<u64>,
    #[command(flatten)]
    pub(crate) queue: QueueArguments,
    /// Sessions without TLS; emu only
    #[arg(long)]
    pub(crate) plaintext: bool,
    /// Subflows of sessions over QUIC; emu only
    #[arg(long)]
    pub(crate) quic: bool,
    /// Largest transmission window of a session in bytes, or with a unit: 256KiB
    #[arg(long, value_parser = quantity::bytes_in(1..=1 << 40))]
    pub(crate) window: Option<u64>,
    /// Cap on the kernel's retransmission timeout of a session's subflows, in milliseconds; emu only
    #[arg(long, value_parser = quantity::millis)]
    pub(crate) rto_max: Option<u64>,
    /// Write a packet capture, as the server sees it; sim only
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Write a qlog file with windows, round-trip times and losses into this directory; sim only
    #[arg(long, value_name = "DIR")]
    pub(crate) qlog: Option<PathBuf>,
    /// Stop a run after so many events [default: derived from rates and time]; sim only
    #[arg(long, value_name = "EVENTS")]
    pub(crate) budget: Option<u64>,
    /// Print one JSON object, with every second and every silence
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a run takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WorldArgument {
    /// Kernel stacks in wall time, joined by emulated links
    Emu,
    /// Models in virtual time
    Sim,
}

impl From<WorldArgument> for World {
    fn from(argument: WorldArgument) -> Self {
        match argument {
            WorldArgument::Emu => Self::Emu,
            WorldArgument::Sim => Self::Sim,
        }
    }
}

#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct QueueArguments {
    /// Queue of every link in kB, or with a unit: 256KiB [default: the scenario's]
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_of(1000, 1000..=1_000_000_000))]
    pub(crate) queue_kb: Option<u64>,
    /// Queue of every link in milliseconds at its present rate
    #[arg(long, value_parser = quantity::millis_in(1..=60_000))]
    pub(crate) queue_ms: Option<u64>,
}

/// Stream a tiled 360° video over emulated radios: OWS on an FBDT session beside FIX on kernel MPTCP.
///
/// Both transports get the same head movement and the same trace of the radios. The program decodes what
/// arrived, renders the viewport and measures its quality. Takes about three minutes, and one more the first
/// time to cut the video into tiles. Needs ffmpeg, and root or user namespaces. Without --video it takes the
/// sample video if there is one, else a scene that the program renders itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab demo
  tributary-lab demo --video my-equirectangular.mp4 --head viewer.csv
  tributary-lab demo --tiles tiles --scenario deep-fade-2k --concealment black --out report
  tributary-lab demo --untiled --scenario blackout --congestion bbr --seconds 60
  tributary-lab demo --imu --scenario deep-fade --seconds 15")]
pub(crate) struct DemoArguments {
    /// Equirectangular video file; its first eight seconds are played in a loop
    #[arg(long)]
    pub(crate) video: Option<PathBuf>,
    /// Directory of tiles that `tributary ingest` has written
    #[arg(long, value_name = "DIR", conflicts_with_all = ["video", "untiled", "imu"])]
    pub(crate) tiles: Option<PathBuf>,
    /// Accept a video whose picture is not twice as wide as high
    #[arg(long)]
    pub(crate) any_aspect: bool,
    /// Scenario: a name (see `tributary-lab emu list`) or a .toml file [default: deep-fade-2k; --untiled: blackout]
    #[arg(long)]
    pub(crate) scenario: Option<String>,
    /// Seconds of video that each transport plays; with --untiled 40 % of them measure bulk transfer
    #[arg(long, default_value_t = 27, value_parser = quantity::seconds_in(6..=3600))]
    pub(crate) seconds: u32,
    /// Congestion control of every socket of both ends
    #[arg(long, default_value = "cubic")]
    pub(crate) congestion: String,
    /// Seed of the scenario's random numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Measure the latency of head-movement messages (1000 a second) and sound beside live video, by scheduler
    #[arg(long)]
    pub(crate) imu: bool,
    #[command(flatten)]
    pub(crate) viewer: ViewerArguments,
    /// Play the whole picture in one of eight bitrates, without tiles, over each radio alone, kernel MPTCP,
    /// fbdt-paper and fbdt
    #[arg(long)]
    pub(crate) untiled: bool,
    /// Directory for the report (demo.html, demo.json, demo.svg; with --imu imu.html, imu.json)
    #[arg(long, default_value = "tributary-demo")]
    pub(crate) out: PathBuf,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// The network emulator.
#[derive(Debug, Subcommand)]
pub(crate) enum Emu {
    Run(EmuRunArguments),
    Set(EmuSetArguments),
    Cotag(EmuCotagArguments),
    List(EmuListArguments),
}

/// Run a command on the client of an emulated network and exit with its exit code.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab emu run mobility -- bash
  tributary-lab emu run blackout --server 'iperf3 -s -1' -- iperf3 -c 10.77.2.1 -R
  tributary-lab emu run blackout --pcap run.pcapng -- ping -c 3 10.77.2.1
  tributary-lab emu run mobility --sdn -- \\
      sh -c 'curl -H \"Authorization: Bearer $(cat $TRIBUTARY_CONTROLLER_TOKEN)\" $TRIBUTARY_CONTROLLER/v1/paths'")]
pub(crate) struct EmuRunArguments {
    /// Scenario: a name or a .toml file
    pub(crate) scenario: String,
    /// Shell command for the server, ended when the client's command ends
    #[arg(long)]
    pub(crate) server: Option<String>,
    /// Put OpenFlow switches and a path controller between client and server
    ///
    /// Needs Open vSwitch and controller/.venv of the source tree; scripts/setup --sdn installs them. The client's command
    /// finds the controller's REST interface in TRIBUTARY_CONTROLLER and the file with its token in
    /// TRIBUTARY_CONTROLLER_TOKEN, and starts when every path is up.
    #[arg(long)]
    pub(crate) sdn: bool,
    /// Listen on this socket for `tributary-lab emu set`, which changes the network while it runs
    #[arg(long, value_name = "FILE")]
    pub(crate) control: Option<PathBuf>,
    /// Capture every path's packets as the client sees them, in a pcapng file with an interface for each path
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// The side whose packets are captured
    #[arg(long, value_enum, default_value_t = SideArgument::Client, requires = "pcap")]
    pub(crate) pcap_at: SideArgument,
    /// Print the emulator's audit as one JSON object on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// The client's command and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// One end of an emulated network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SideArgument {
    /// The device with several radios
    Client,
    /// The machine it communicates with
    Server,
}

/// Change a path of a running `emu run --control FILE`, or print what every link is now.
///
/// What is not given is the scenario's, so a path alone takes every change back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab emu run los --control radios -- bash
  tributary-lab emu set radios wigig --block
  tributary-lab emu set radios wigig --rate 10 --loss 0.02 --down
  tributary-lab emu set radios wigig
  tributary-lab emu set radios --json")]
pub(crate) struct EmuSetArguments {
    /// The socket
    #[arg(value_name = "FILE")]
    pub(crate) socket: PathBuf,
    /// The path to change
    pub(crate) path: Option<String>,
    /// Only towards the client
    #[arg(long, requires = "path", conflicts_with = "up")]
    pub(crate) down: bool,
    /// Only towards the server
    #[arg(long, requires = "path")]
    pub(crate) up: bool,
    /// A constant rate of IP packets, Mbit/s
    #[arg(long, value_name = "MBIT", requires = "path", value_parser = quantity::number_in(0.0..=100_000.0))]
    pub(crate) rate: Option<f64>,
    /// Lose packets with this probability, independently
    #[arg(long, value_name = "SHARE", requires = "path", value_parser = quantity::number_in(0.0..=1.0))]
    pub(crate) loss: Option<f64>,
    /// Drop everything silently
    #[arg(long, requires = "path")]
    pub(crate) block: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run a command on the device of a COTAG tunnel: server, gateway, one access point for each path, device.
///
/// All five hosts are network namespaces; the scenario's paths are the radios between access points and device.
/// The command finds the server's address in TRIBUTARY_SERVER (10.78.0.1) and TRIBUTARY_SERVER6. When it ends,
/// the nodes' counters and the emulator's audit are printed on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary-lab emu cotag los --server 'iperf3 -s -1' -- iperf3 -c 10.78.0.1 -R -P 10 -C cubic
  tributary-lab emu cotag blackout --mode off -- ping -c 5 10.78.0.1
  tributary-lab emu cotag mobility -- bash")]
pub(crate) struct EmuCotagArguments {
    /// Scenario: a name or a .toml file
    pub(crate) scenario: String,
    /// Shell command for the server, ended when the device's command ends
    #[arg(long)]
    pub(crate) server: Option<String>,
    /// Coding: systematic, paper or off
    #[arg(long, default_value = "systematic")]
    pub(crate) mode: String,
    /// Upper limit of redundant packets for each packet
    #[arg(long, default_value_t = 0.1)]
    pub(crate) redundancy: f64,
    /// Print nodes and audit as one JSON object on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// The device's command and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// List the built-in scenarios.
#[derive(Debug, Args)]
pub(crate) struct EmuListArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
