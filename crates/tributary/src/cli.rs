//! The arguments of the commands. Not the commands themselves (`commands.rs`).

use crate::keys::{ClientKeys, ServerKeys};
use crate::paths::PathArguments;
use crate::service::ServiceArguments;
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use tributary_cli::arguments::MemoryArguments;
use tributary_cli::quantity;
use tributary_net::proxy::{AllowRule, Entrance, Target};
use tributary_net::{OwnAddress, Siblings};

/// Arguments of both ends of the proxy.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
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
    /// `connect`: the port that the application connected or sent to, the target of its `--listen` or `--udp ADDR=TARGET`, or
    /// the DSCP of its first packet. `serve`: the port that it forwards to, the target's name, or that DSCP. The first rule that
    /// matches counts; other connections are bulk. N:latency or N:throughput, such as 8554=3:throughput, chooses the path by
    /// that alone instead of by --weights. N:redundant, such as 5000=7:redundant, sends little and urgent data over every path.
    /// N:rtp-h264, rtp-h265, rtp-vp8 or rtp-av1, such as 5004=5:rtp-h264, sends the key frames of RTP datagrams first.
    #[arg(long, value_name = "RULE")]
    pub(crate) priority: Vec<String>,
    /// Subflows over QUIC where UDP passes, else TLS on TCP; set it at both ends
    ///
    /// `serve` listens on UDP too, at the same addresses. `connect` tries QUIC first on every path. Where QUIC does not get
    /// through, the log says so and TCP is used. With QUIC a lost packet delays no acknowledgement behind it, and a connection
    /// goes on when a NAT gives it another port. It needs more processor time than TCP. --congestion may be cubic (the
    /// default), bbr or reno.
    #[arg(long)]
    pub(crate) quic: bool,
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
    /// Write events, decisions about segments and measurements of every subflow to this file as qlog; an existing file is
    /// replaced
    ///
    /// Thousands of records a second. Each has the session and the path as its group.
    #[arg(long, value_name = "FILE", conflicts_with = "json_events")]
    pub(crate) qlog: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) user: UserArguments,
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
}

fn weights(text: &str) -> Result<(f64, f64), &'static str> {
    let numbers =
        text.split_once(',').and_then(|(l, t)| Some((l.trim().parse().ok()?, t.trim().parse().ok()?)));
    numbers.ok_or("expected two numbers, for example 1,-0.25")
}

/// Privileges of a program that runs for a long time.
#[derive(Debug, Args)]
pub(crate) struct UserArguments {
    /// Run as this user once everything is set up; needs root. Capabilities are given up with or without this option
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

/// Server end of the proxy: accept sessions and forward each stream to a TCP address, or to where an application asks.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary serve --listen 203.0.113.5:7000 --forward localhost:8080 --key server.key --clients clients.toml
  tributary serve --listen 203.0.113.5:7000 --forward web=localhost:80 --forward video=localhost:8554 \\
      --priority video=7 --key server.key --clients clients.toml --memory 512MiB
  tributary serve --listen 203.0.113.5:7000 --allow any:80,443 --allow '*.example.org' --allow 192.168.1.0/24:22 \\
      --key server.key --clients clients.toml
  tributary serve --listen 203.0.113.5:7000 --forward localhost:8080 --shared-key shared.key

clients.toml:
  [[client]]
  name = \"laptop\"
  key = \"(what `tributary pubkey client.key` prints)\"
  allow = [\"any:443\"]        # these, too, may be left out: instead of --allow
  rate = \"20 Mbit/s\"         # each way, over all its sessions
  sessions = 4

What it logs: RUST_LOG=debug for every connection, RUST_LOG=error for failures only; default info.")]
pub(crate) struct ServeArguments {
    /// Address to accept subflows on; repeatable
    #[arg(long, required = true, num_args = 1..)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Where clients reach this instance itself, if several stand behind a load balancer
    ///
    /// The server's answer carries it, and clients connect there for the subflows that they start after it. Where they cannot,
    /// they go on by the load balancer.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) address: Option<OwnAddress>,
    /// Where to forward: HOST:PORT, or NAME=HOST:PORT for clients that select it with --listen ADDR=NAME; repeatable
    #[arg(long, required_unless_present_any = ["allow", "clients"], value_name = "[NAME=]HOST:PORT")]
    pub(crate) forward: Vec<Target>,
    /// Where applications of `connect --socks`, `exec` and `tunnel` may connect and send to: HOST or HOST:PORTS; repeatable [default: nowhere]
    ///
    /// HOST is an address, a network such as 192.168.1.0/24 or `[fd00::]/8`, a name, *.NAME, or `any`; PORTS are ports and
    /// ranges, such as 80,8000-8999, or all ports without it. Names are resolved here, and the address is judged: one that
    /// is not public (loopback, private, link-local) needs a rule for itself or its network.
    #[arg(long, value_name = "HOST[:PORTS]")]
    pub(crate) allow: Vec<AllowRule>,
    /// Where to forward datagrams (UDP) of `connect --udp`, as --forward; repeatable
    #[arg(long, value_name = "[NAME=]HOST:PORT")]
    pub(crate) udp: Vec<Target>,
    #[command(flatten)]
    pub(crate) keys: ServerKeys,
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

/// Client end of the proxy: one session over several paths, for every TCP connection to a local address, or for every
/// application with a setting for SOCKS5 or an HTTP proxy.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary connect --path wlan0=203.0.113.5:7000 --path wwan0=203.0.113.5:7000 \\
      --listen 127.0.0.1:8080 --server-key PUBKEY --key client.key
  tributary connect --path wlan0=203.0.113.5:7000 --listen 127.0.0.1:8080 --listen 127.0.0.1:8081 \\
      --priority 8081=7 --priority dscp:EF=7 --server-key PUBKEY --key client.key
  tributary connect --path wlan0=203.0.113.5:7000 --listen 127.0.0.1:80=web --listen 127.0.0.1:8554=video \\
      --server-key PUBKEY --key client.key
  tributary connect --path 'wlan0=[2001:db8::5]:7000' --path wwan0=video.example:7000 \\
      --listen '[::1]:8080' --server-key PUBKEY --key client.key
  tributary connect --path auto --server 203.0.113.5:7000 --socks 127.0.0.1:1080 --server-key PUBKEY --key client.key
      (then: curl --proxy socks5h://127.0.0.1:1080 https://example.org)
  tributary connect --path auto --path wwan0,metered --server 203.0.113.5:7000 --wait 60 \\
      --listen 127.0.0.1:8080 --server-key PUBKEY --key client.key
  tributary connect --path wlan0 --path wwan0,cap=5 --server 203.0.113.5:7000 --listen 127.0.0.1:8080 --shared-key shared.key
      (wwan0 carries at most 5 Mbit/s each way)
  tributary connect --path auto --server 203.0.113.5:7000 --listen 127.0.0.1:8080 --shared-key shared.key

What it logs: RUST_LOG=debug for every connection, RUST_LOG=error for failures only; default info.")]
#[command(group = clap::ArgGroup::new("entrance").args(["listen", "socks", "udp"]).required(true).multiple(true))]
pub(crate) struct ConnectArguments {
    #[command(flatten)]
    pub(crate) paths: PathArguments,
    /// Address for applications to connect to, and the name of the server's target; repeatable
    #[arg(long, value_name = "ADDRESS:PORT[=NAME]")]
    pub(crate) listen: Vec<Entrance>,
    /// Address for applications that name their destination by SOCKS5 or HTTP CONNECT; repeatable
    ///
    /// Both protocols on one address; with SOCKS5 datagrams too (UDP ASSOCIATE). The server needs `--allow`; it resolves the names.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) socks: Vec<SocketAddr>,
    /// Let --socks listen on an address that other machines reach; there is no password
    #[arg(long, requires = "socks")]
    pub(crate) socks_remote: bool,
    /// Address for applications to send datagrams (UDP) to, and the name of the server's --udp target; repeatable
    ///
    /// How a flow of datagrams is sent follows from its traffic: bulk such as QUIC in order, media and small flows as they
    /// arrive and ahead of bulk.
    #[arg(long, value_name = "ADDRESS:PORT[=NAME]")]
    pub(crate) udp: Vec<Entrance>,
    #[command(flatten)]
    pub(crate) keys: ClientKeys,
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    /// Print the listening addresses as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run one program whose traffic goes over a session: TCP, UDP, and names resolved by the server. Without root.
///
/// The server needs `--allow`. The exit code is the program's, or 128 plus the number of the signal that ended it; 125, 126
/// and 127 as with env(1).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary exec --path auto --server 203.0.113.5:7000 --server-key PUBKEY --key client.key -- curl https://example.org
  tributary exec --path wlan0 --path wwan0,metered --server 203.0.113.5:7000 --server-key PUBKEY --key client.key \\
      -- git fetch
  tributary exec --path auto --server 203.0.113.5:7000 --shared-key shared.key -- bash

What it logs: refused connections; RUST_LOG=info for sessions, too.")]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    pub(crate) paths: PathArguments,
    #[command(flatten)]
    pub(crate) keys: ClientKeys,
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Becomes a program in a namespace of its own; only for `exec`.
#[derive(Debug, Args)]
pub(crate) struct InsideArguments {
    #[arg(required = true, last = true)]
    pub(crate) program: Vec<OsString>,
}

/// Carry the traffic of this machine, or a part of it, over a session. Needs root.
///
/// TCP connections end here and go on at the server as with `exec`; UDP goes as datagrams; names are resolved by the server. The
/// server needs `--allow`. Other protocols are refused. Routes, rules and resolv.conf are as before when it has ended.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  tributary tunnel --path auto --server 203.0.113.5:7000 --server-key PUBKEY --key client.key
  tributary tunnel --path wlan0 --path wwan0,metered --server 203.0.113.5:7000 --kill-switch --server-key PUBKEY --key client.key
  tributary tunnel --path auto --server 203.0.113.5:7000 --to 10.20.0.0/16 --uid games --server-key PUBKEY --key client.key
  tributary tunnel clean"
)]
pub(crate) struct TunnelArguments {
    #[command(subcommand)]
    pub(crate) command: Option<TunnelCommand>,
    #[command(flatten)]
    pub(crate) paths: PathArguments,
    #[command(flatten)]
    pub(crate) keys: ClientKeys,
    #[command(flatten)]
    pub(crate) session: SessionArguments,
    /// Only traffic to this network; repeatable
    #[arg(long, value_name = "NETWORK")]
    pub(crate) to: Vec<String>,
    /// Only traffic of this user, by name, number or FIRST-LAST; repeatable
    #[arg(long, value_name = "USER")]
    pub(crate) uid: Vec<String>,
    /// Only traffic of processes in this control group, a path below /sys/fs/cgroup; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Vec<String>,
    /// Add rules and routes; off: only make the device, to which your own routes lead
    #[arg(long, value_name = "ON|OFF", default_value = "on", value_enum)]
    pub(crate) routes: Switch,
    /// Let the server resolve names for this machine [default: on if the tunnel carries everything, else off]
    #[arg(long, value_name = "ON|OFF")]
    pub(crate) dns: Option<Switch>,
    /// If the tunnel is killed, block the traffic that it carried, until the next start or `tributary tunnel clean`
    #[arg(long, conflicts_with = "to")]
    pub(crate) kill_switch: bool,
    /// Name of the TUN device
    #[arg(long, value_name = "NAME", default_value = "tributary0")]
    pub(crate) device: String,
    /// MTU of the device. Longer datagrams are sent to it in fragments, and arrive whole
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    pub(crate) mtu: u32,
}

/// What else to do with a tunnel.
#[derive(Debug, Subcommand)]
pub(crate) enum TunnelCommand {
    /// Remove the rules and routes of a tunnel that was killed, and end its kill switch
    Clean,
}

/// Run the command of a settings file: TOML with the command's flags as keys.
///
/// `command` names the command: serve, connect, tunnel, stream serve, stream play, dash serve, dash play, gateway, ap or device. Every
/// flag is a key, with `_` for `-`; one that may be repeated takes a list, and one without a value true or false. The
/// directory of `stream serve` and `dash serve` is `directory`, the URL of `dash play` is `url`. Paths are relative to the
/// working directory. Everything is checked before anything starts. An option after FILE replaces the file's value.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary run /etc/tributary/serve.toml
  tributary run serve.toml --drain 60

serve.toml:
  command = \"serve\"
  listen = [\"203.0.113.5:7000\"]
  forward = [\"web=localhost:80\", \"video=localhost:8554\"]
  priority = [\"video=7\"]
  key = \"/etc/tributary/server.key\"
  clients = \"/etc/tributary/clients.toml\"
  metrics = \"127.0.0.1:9464\"")]
pub(crate) struct RunArguments {
    /// Settings in TOML
    pub(crate) file: PathBuf,
    /// Options of the command, instead of the file's
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    pub(crate) options: Vec<OsString>,
}

/// Check a settings file, and the keys and lists that it names, without starting anything.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  tributary check /etc/tributary/serve.toml")]
pub(crate) struct CheckArguments {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Settings in TOML, as for `tributary run`
    pub(crate) file: PathBuf,
    /// Options of the command, instead of the file's
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    pub(crate) options: Vec<OsString>,
}

/// Change a running program of this user: its paths, priorities and settings, or let it end.
///
/// By JSON-RPC 2.0 on the socket that `tributary status` asks, too. What is changed lasts until the program ends, or until a
/// settings file that is read again says otherwise.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary ctl add-path wwan0,metered
  tributary ctl metered wwan0 off
  tributary ctl cap wwan0 20
  tributary ctl remove-path wwan0
  tributary ctl --pid 4711 priority 8081=7 dscp:EF=7
  tributary ctl reload
  tributary ctl drain")]
pub(crate) struct CtlArguments {
    /// Number of the program's process, if several programs run that could be meant
    #[arg(long)]
    pub(crate) pid: Option<u32>,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) order: Order,
}

/// What `tributary ctl` asks for.
#[derive(Debug, Subcommand)]
pub(crate) enum Order {
    /// `connect`: use another path
    AddPath {
        /// As --path; without =SERVER, the server of --server or of the first path
        #[arg(value_name = "LOCAL[,metered][,cap=MBIT][=SERVER:PORT]")]
        path: String,
    },
    /// `connect`: use a path no longer; its data is sent on the others
    RemovePath {
        /// Local end of the path, or the whole path
        path: String,
    },
    /// `connect`: say whether a path's traffic costs money
    Metered {
        /// Local end of the path, or the whole path
        path: String,
        /// on: use it only when the others cannot carry the data
        #[arg(value_enum)]
        metered: Switch,
    },
    /// `connect`: limit what a path carries each way, at once and without a new connection
    Cap {
        /// Local end of the path, or the whole path
        path: String,
        /// Mbit/s, such as 20 or 2.5, or `off`
        #[arg(value_name = "MBIT|off")]
        mbps: Mbps,
    },
    /// `connect` and `serve`: replace all priority rules, for connections from now on
    Priority {
        /// Rules as for --priority; without one, every connection is bulk
        #[arg(value_name = "RULE")]
        rules: Vec<String>,
    },
    /// Read the settings file of `tributary run` again, as SIGHUP does
    Reload,
    /// End as after SIGTERM: nothing new is accepted, and open connections may finish
    Drain,
}

/// A cap in Mbit/s, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mbps(pub(crate) Option<f64>);

impl std::str::FromStr for Mbps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self(None));
        }
        let mbps = text.parse::<f64>().ok().filter(|mbps| mbps.is_finite());
        mbps.map(|mbps| Self(Some(mbps))).ok_or_else(|| "expected Mbit/s, such as 20, or `off`".to_owned())
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// Show this user's running programs: proxies with each session's paths and why one is down, servers, players, COTAG nodes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  tributary status
  tributary status --watch
  tributary status --json
  tributary status --web                    # a page in the browser; prints its URL
  tributary status --web 127.0.0.1:8321")]
pub(crate) struct StatusArguments {
    /// Repeat every second; on a terminal a live view with the rates of each path
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print one JSON object; with --web, the page's URL in one
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve a page for the browser on this loopback address, with a secret in its URL, until ended
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:0", conflicts_with = "watch")]
    pub(crate) web: Option<SocketAddr>,
}
