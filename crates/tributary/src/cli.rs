//! The arguments of the commands. Not the commands themselves (`commands.rs`).

use crate::paths::PathArguments;
use crate::quantity;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use tributary_lab::World;
use tributary_net::proxy::{Entrance, Target};
use tributary_net::{Limits, Siblings};

/// Measure one transport once: one scenario, one workload, through emulated or simulated links.
///
/// Transports are the scenario's paths (`wifi`, `wigig`: TCP on one radio), `mptcp`, `quic` (on one radio),
/// `mpquic` and Tributary's schedulers (`fbdt`, `fbdt-paper`, `min-rtt`, …). Options that are not given come from
/// the scenario's `[run]` table, if it has one. The emulator needs root or user namespaces; the simulator needs
/// nothing and gives the same result for the same seed everywhere.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary run mobility --transport fbdt --seconds 10
  tributary run blackout --transport mptcp --congestion bbr --rtt 20 --json
  tributary run los --transport fbdt --workload object --size 100000 --count 50
  tributary run mobility --world sim --transport fbdt --seconds 60 --seed 7 --json
  tributary run blackout --world sim --transport mptcp --scheduler blest --pcap mptcp.pcap --qlog logs")]
pub(crate) struct RunArguments {
    /// Scenario: a name (see `tributary emu list`) or a .toml file [default: mobility]
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
  tributary demo
  tributary demo --video my-equirectangular.mp4 --head viewer.csv
  tributary demo --tiles tiles --scenario deep-fade-2k --concealment black --out report
  tributary demo --untiled --scenario blackout --congestion bbr --seconds 60
  tributary demo --imu --scenario deep-fade --seconds 15")]
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
    /// Scenario: a name (see `tributary emu list`) or a .toml file [default: deep-fade-2k; --untiled: blackout]
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

/// The viewer.
#[derive(Debug, Args)]
pub(crate) struct ViewerArguments {
    /// Allocator, which chooses quality and order of tiles: ows, ows-no-skip, ows-paper, fix, fix-q, two-class, …
    #[arg(long, default_value = "ows")]
    pub(crate) allocator: String,
    /// Choose qualities by exact dynamic programming
    #[arg(long)]
    pub(crate) exact: bool,
    /// Head movement; without it the viewer looks straight ahead
    #[arg(long, value_name = "FILE")]
    pub(crate) head: Option<PathBuf>,
    /// Format of the head movement: plain (a header with time_s,yaw_deg,pitch_deg), nasrabadi19, jin22 or wu17
    #[arg(long, default_value = "plain")]
    pub(crate) head_format: String,
    /// Head movement of another viewer of this video, to predict with; repeatable
    #[arg(long, value_name = "FILE", requires = "head")]
    pub(crate) crowd: Vec<PathBuf>,
    /// Concealment of missing tiles
    #[arg(long, default_value = "freeze", value_parser = ["freeze", "black"])]
    pub(crate) concealment: String,
    /// Rate assumed before anything has arrived, in Mbit/s, or with a unit: 1.5Gbit/s
    #[arg(long, value_name = "RATE", default_value = "10", value_parser = quantity::mbps_in(1..=100_000))]
    pub(crate) assumed_rate: u64,
    /// Plans per GoP while it is sent [default: 8 with ows and ows-no-skip, else 1]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub(crate) plans: Option<u16>,
    /// Field of view in degrees, width × height
    #[arg(long, default_value = "110x90")]
    pub(crate) field: String,
    /// Width of the measured viewport in pixels
    #[arg(long, default_value_t = 720)]
    pub(crate) viewport_width: usize,
}

/// Arguments of both ends of the proxy.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    /// Key file, the same at both ends (see `tributary keygen`)
    #[arg(long)]
    pub(crate) key: PathBuf,
    /// Scheduler for the data that this end sends [default: fbdt; with --priority avira+fbdt]
    #[arg(long)]
    pub(crate) scheduler: Option<String>,
    /// Weights by which avira chooses the subflow of prioritised data: LATENCY,THROUGHPUT [default: 1,-0.25]
    ///
    /// LATENCY from 0.001 to 1000, THROUGHPUT from -1000 to 0.
    #[arg(long, value_name = "L,T", value_parser = weights, allow_hyphen_values = true)]
    pub(crate) weights: Option<(f64, f64)>,
    /// Priority of this end's data: PORT=N, TARGET=N or dscp:NAME=N, N from 1 to 255; repeatable
    ///
    /// `connect`: the port that the application connected to, the target of its `--listen ADDR=TARGET`, or the
    /// DSCP of its packets. `serve`: the port that it forwards to, or the target's name. The first rule that
    /// matches counts; other connections are bulk.
    #[arg(long, value_name = "RULE")]
    pub(crate) priority: Vec<String>,
    /// Congestion control of every subflow [default: the system's]
    #[arg(long)]
    pub(crate) congestion: Option<String>,
    /// Mark of a session's sockets (SO_MARK); coupled congestion control treats sockets with the same mark as one
    /// session: auto, off or a number
    ///
    /// auto: with lia, olia, balia or wvegas each session has its own mark, 0x54000000 to 0x54ffffff; needs
    /// CAP_NET_ADMIN. Example: --mark 0x7001, for a routing rule or for coupling several programs.
    #[arg(long, value_name = "MARK", default_value = "auto")]
    pub(crate) mark: Siblings,
    /// No encryption and no integrity protection; for experiments; set it at both ends
    #[arg(long)]
    pub(crate) plaintext: bool,
    /// Limit on a connection's data that waits here for a radio, as time at the measured rate of all radios, in ms
    ///
    /// Example: 200 ms at 100 Mbit/s are 2.5 MB, up to three eighths of it in the session and half in sockets between
    /// application and proxy; the rest is for the error of the measured rate. A larger buffer helps only with links
    /// that stop and return within that time.
    #[arg(long, value_name = "MS", default_value = "200", value_parser = quantity::millis_in(1..=60_000))]
    pub(crate) buffer: u64,
    /// Seconds that open connections have to finish after SIGTERM or SIGINT; those still open are then reset
    ///
    /// The program ends at most two seconds later. A second signal ends it at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = quantity::long_seconds_in(0..=3600))]
    pub(crate) drain: u64,
    /// Write the sessions' events to this file, one JSON object a line; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) json_events: Option<PathBuf>,
    /// Write decisions about segments too: thousands of lines a second
    #[arg(long, requires = "json_events")]
    pub(crate) json_decisions: bool,
}

fn weights(text: &str) -> Result<(f64, f64), &'static str> {
    let numbers =
        text.split_once(',').and_then(|(l, t)| Some((l.trim().parse().ok()?, t.trim().parse().ok()?)));
    numbers.ok_or("expected two numbers, for example 1,-0.25")
}

/// Memory limit of a server.
#[derive(Debug, Args)]
pub(crate) struct MemoryArguments {
    /// Memory for all sessions together: 512MiB, 2GiB [default: 8GiB]
    ///
    /// Half of it is reserved for the minimum that each session needs, 4 MiB: 8 GiB are enough for the limit of 1024
    /// sessions. The other half is shared by sessions that need more, up to about 117 MiB each. A session may not
    /// take more than what then remains free. The kernel's socket buffers are not counted. Sessions only: kernel
    /// transports and QUIC have limits on connections instead.
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes_in(Limits::LEAST_MEMORY..=1 << 44))]
    pub(crate) memory: Option<u64>,
}

impl MemoryArguments {
    pub(crate) fn limits(&self) -> Limits {
        let limits = Limits::default();
        Limits { memory: self.memory.unwrap_or(limits.memory), ..limits }
    }
}

/// Server end of the proxy: accept sessions and forward each stream to a TCP address.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary serve --listen 203.0.113.5:7000 --forward localhost:8080 --key tributary.key
  tributary serve --listen 203.0.113.5:7000 --forward localhost:8080 --key tributary.key --memory 512MiB
  tributary serve --listen 203.0.113.5:7000 --forward web=localhost:80 --forward video=localhost:8554 \\
      --priority video=7 --key tributary.key

What it logs: RUST_LOG=debug for every connection, RUST_LOG=error for failures only; default info.")]
pub(crate) struct ServeArguments {
    /// Address to accept subflows on; repeatable
    #[arg(long, required = true, num_args = 1..)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Where to forward: HOST:PORT, or NAME=HOST:PORT for clients that select it with --listen ADDR=NAME; repeatable
    #[arg(long, required = true, value_name = "[NAME=]HOST:PORT")]
    pub(crate) forward: Vec<Target>,
    #[command(flatten)]
    pub(crate) memory: MemoryArguments,
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    /// Keep a session without any path for this many seconds, at least three [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::long_seconds_in(1..=86_400))]
    pub(crate) wait: Option<u64>,
    /// Print the listening addresses as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Client end of the proxy: one session over several paths, for every TCP connection to a local address.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary connect --path wlan0=203.0.113.5:7000 --path wwan0=203.0.113.5:7000 \\
      --listen 127.0.0.1:8080 --key tributary.key
  tributary connect --path wlan0=203.0.113.5:7000 --listen 127.0.0.1:8080 --listen 127.0.0.1:8081 \\
      --priority 8081=7 --priority dscp:EF=7 --key tributary.key
  tributary connect --path wlan0=203.0.113.5:7000 --listen 127.0.0.1:80=web --listen 127.0.0.1:8554=video \\
      --key tributary.key
  tributary connect --path 'wlan0=[2001:db8::5]:7000' --path wwan0=video.example:7000 \
      --listen '[::1]:8080' --key tributary.key
  tributary connect --path auto --path wwan0,metered --server 203.0.113.5:7000 --wait 60 \\
      --listen 127.0.0.1:8080 --key tributary.key

What it logs: RUST_LOG=debug for every connection, RUST_LOG=error for failures only; default info.")]
pub(crate) struct ConnectArguments {
    #[command(flatten)]
    pub(crate) paths: PathArguments,
    /// Address for applications to connect to, and the name of the server's target; repeatable
    #[arg(long, required = true, value_name = "ADDRESS:PORT[=NAME]")]
    pub(crate) listen: Vec<Entrance>,
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    /// Print the listening addresses as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the running proxies of this user: each session's paths, why one is down, rates, round-trip times, bytes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary status
  tributary status --watch
  tributary status --json")]
pub(crate) struct StatusArguments {
    /// Repeat every second
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Generate a key: into a file that only its owner can read, or to standard output.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  tributary keygen --out tributary.key")]
pub(crate) struct KeygenArguments {
    /// Write the key to this new file, mode 600; an existing file is not overwritten
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The network emulator.
#[derive(Debug, Subcommand)]
pub(crate) enum Emu {
    Run(EmuRunArguments),
    Cotag(EmuCotagArguments),
    List(EmuListArguments),
}

/// Run a command on the client of an emulated network and exit with its exit code.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary emu run mobility -- bash
  tributary emu run blackout --server 'iperf3 -s -1' -- iperf3 -c 10.77.2.1 -R
  tributary emu run mobility --sdn -- sh -c 'curl $TRIBUTARY_CONTROLLER/v1/paths'")]
pub(crate) struct EmuRunArguments {
    /// Scenario: a name or a .toml file
    pub(crate) scenario: String,
    /// Shell command for the server, ended when the client's command ends
    #[arg(long)]
    pub(crate) server: Option<String>,
    /// Put OpenFlow switches and a path controller between client and server
    ///
    /// Needs Open vSwitch and controller/.venv of the source tree; scripts/setup --sdn installs them. The client's command
    /// finds the controller's REST interface in TRIBUTARY_CONTROLLER, and starts when every path is up.
    #[arg(long)]
    pub(crate) sdn: bool,
    /// Print the emulator's audit as one JSON object on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// The client's command and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Run a command on the device of a COTAG tunnel: server, gateway, one access point for each path, device.
///
/// All five hosts are network namespaces; the scenario's paths are the radios between access points and device.
/// The command finds the server's address in TRIBUTARY_SERVER (10.78.0.1) and TRIBUTARY_SERVER6. When it ends,
/// the nodes' counters and the emulator's audit are printed on standard error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary emu cotag los --server 'iperf3 -s -1' -- iperf3 -c 10.78.0.1 -R -P 10 -C cubic
  tributary emu cotag blackout --mode off -- ping -c 5 10.78.0.1
  tributary emu cotag mobility -- bash")]
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
