//! A client with two emulated radios, a server that runs `tributary serve`, and what lies beyond it: a web server, an echo and a
//! resolver. The client has no route but those to its radios' networks.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tributary_emu::{Network, Side};
use tributary_link::{Change, LinkSpec, PathSpec, Scenario};
use tributary_testing::until;
use tributary_types::Bitrate;

use crate::ends::{Ends, RESOLV_CONF};
use crate::far_side::{self, NAME, WEB, listening, said};
use crate::running::Running;

const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary");
/// The server's resolver. Another one, which knows less, has 127.0.0.1.
const RESOLVER: &str = "127.0.0.53";
/// A resolver in the first radio's network, which nobody answers for.
pub const NEAR_RESOLVER: &str = "10.77.1.9";
/// Names that the server's resolver knows, each with two addresses: those of `numbered`.
pub const NAMES: u8 = 100;
const RADIOS: [&str; 2] = ["wifi", "lte"];

pub fn numbered(number: u8) -> (String, Ipv4Addr, String) {
    (
        format!("host{number}.example"),
        Ipv4Addr::new(203, 0, 113, 100 + number),
        format!("2001:db8::1:{number:x}"),
    )
}

/// What leads a program's traffic into a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `tributary tunnel`.
    Tunnel,
    /// `tributary exec`.
    Exec,
    /// `tributary connect --socks`: only for programs that are told its address.
    Socks,
}

pub struct World {
    pub network: Network,
    pub web: u16,
    ends: Ends,
    port: u16,
    _running: [Running; 2],
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in ["server.log", "client.log"] {
                println!("{log}:\n{}", fs::read_to_string(self.at(log)).unwrap_or_default());
            }
        }
    }
}

impl World {
    pub fn new() -> Self {
        let radio = |name, mbps| PathSpec::symmetric(name, LinkSpec::constant(Bitrate::from_mbps(mbps)));
        let scenario = Scenario::new("radios")
            .with_path(radio(RADIOS[0], 20))
            .with_path(radio(RADIOS[1], 10))
            .with_rtt(Duration::from_millis(20))
            .with_queue_time(Duration::from_millis(50));
        let network = Network::start(&scenario).expect("an isolated process may start one");
        let ends = Ends::new(NEAR_RESOLVER, RESOLVER);
        let web = network.run(Side::Server, far_side::start).expect("a thread");
        let resolver = resolver(&network, &ends);
        let log = File::create(ends.at("server.log")).expect("a file");
        let mut command = ends.serve(network.command(Side::Server, "unshare"));
        let mut server = Running::start(command.args(["--listen", "0.0.0.0:0"]).stderr(log));
        let address = listening(&mut server.0);
        let port = address.rsplit_once(':').expect("a port").1.parse().expect("a port");
        let world = Self { network, web, ends, port, _running: [resolver, server] };
        world.watch();
        world
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.ends.at(name)
    }

    /// Nothing but the session passes the client's radios: what else would leave is counted.
    fn watch(&self) {
        let (port, names) = (self.port, RADIOS.map(|name| format!("\"{name}\"")).join(", "));
        let rules = format!(
            "table inet watch {{
              counter outside {{ }}
              chain leaving {{
                type filter hook postrouting priority 300
                oifname {{ {names} }} ip daddr 10.77.0.0/16 th dport {port} accept
                oifname {{ {names} }} meta l4proto {{ tcp, udp }} counter name outside drop
              }}
              chain arriving {{
                type filter hook input priority 0
                iifname {{ {names} }} meta l4proto {{ tcp, udp }} th sport != {port} drop
              }}
            }}"
        );
        self.on(Side::Client, &["nft", &rules]);
    }

    /// Packets of programs that would have left over a radio since the last call.
    pub fn outside(&self) -> u64 {
        let text = self.on(Side::Client, &["nft", "reset", "counter", "inet", "watch", "outside"]);
        let packets = text.split_once("packets ").and_then(|(_, rest)| rest.split_whitespace().next());
        packets.and_then(|word| word.parse().ok()).expect("a counter")
    }

    /// Runs a command on one side to its successful end; what it printed.
    pub fn on(&self, side: Side, words: &[&str]) -> String {
        said(&self.network.command(side, words[0]).args(&words[1..]).output().expect("it starts"), 0)
    }

    /// Runs a script of the shell on one side.
    pub fn shell(&self, side: Side, script: &str) -> String {
        self.on(side, &["sh", "-ec", script])
    }

    /// Waits until somebody on the server's side listens on this port.
    pub fn listens(&self, protocol: &str, port: u16) {
        let (file, port) = (format!("/proc/thread-self/net/{protocol}"), format!(":{port:04X} "));
        let read = || fs::read_to_string(&file).expect("the kernel's table");
        until("it listens", || self.network.run(Side::Server, read).expect("a thread").contains(&port));
    }

    fn client(&self, name: &str) -> Command {
        let mut command = self.network.command(Side::Client, PROGRAM);
        command.arg(name).arg("--shared-key").arg(self.at("key")).stdin(Stdio::null());
        for (index, radio) in RADIOS.iter().enumerate() {
            command.arg("--path").arg(format!("{radio}={}:{}", Side::Server.address(index), self.port));
        }
        command.env("TRIBUTARY_RUNTIME_DIR", self.at("status")).env_remove("RUST_LOG");
        command
    }

    fn log(&self) -> File {
        File::options().create(true).append(true).open(self.at("client.log")).expect("a file")
    }

    /// Starts what carries the traffic of programs.
    pub fn carry(&self, way: Way) -> Carrier<'_> {
        let (mut running, mut socks) = (None, String::new());
        match way {
            Way::Tunnel => {
                running = Some(Running::start(self.client("tunnel").stderr(self.log())));
                let route = format!("ip route get {WEB}; cat {RESOLV_CONF}");
                until("the tunnel leads", || {
                    let output = self.network.command(Side::Client, "sh").args(["-c", &route]).output();
                    let text = String::from_utf8(output.expect("sh").stdout).expect("text");
                    text.contains("tributary0") && text.contains("198.18.0.2")
                });
            }
            Way::Exec => {}
            Way::Socks => {
                let mut command = self.client("connect");
                command.args(["--socks", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(self.log());
                let mut connect = Running::start(&mut command);
                socks = listening(&mut connect.0);
                running = Some(connect);
            }
        }
        Carrier { world: self, way, running, socks }
    }

    /// What happens to radios happens to these. Before each step, and after the last one, `progress` is called with its name: it
    /// returns when the program has made progress.
    pub fn troubles(&self, mut progress: impl FnMut(&str)) {
        for (what, step) in STEPS {
            progress(what);
            step(self);
        }
        progress("everything as before");
    }

    /// Waits until the radios have delivered so many more bytes, and the program still runs.
    pub fn carried(&self, bytes: u64, what: &str, program: &mut Child) {
        let delivered = || {
            let links = self.network.state().expect("it runs").links;
            links.iter().map(|link| link.delivered_bytes).sum::<u64>()
        };
        let goal = delivered() + bytes;
        let mut ended = None;
        until(what, || {
            ended = program.try_wait().expect("a child");
            ended.is_some() || delivered() >= goal
        });
        assert_eq!(ended, None, "it has ended before: {what}");
    }

    fn change(&self, radio: usize, change: Change) {
        self.network.change(RADIOS[radio], None, change).expect("it runs");
    }

    fn plug(&self, radio: usize, is_up: bool) {
        self.network.set_link_state(Side::Client, RADIOS[radio], is_up).expect("it is there");
    }

    /// Gives the client's first radio another address of its network.
    fn readdress(&self, from: u8, to: u8) {
        let radio = RADIOS[0];
        let script = format!(
            "ip address del 10.77.1.{from}/24 dev {radio}; ip address add 10.77.1.{to}/24 dev {radio}"
        );
        self.shell(Side::Client, &script);
    }
}

type Step = (&'static str, fn(&World));

const STEPS: [Step; 9] = [
    ("the first radio fades", |world| {
        world.change(0, Change { rate: Some(Bitrate::from_mbps(1)), ..Change::default() });
    }),
    ("the first radio dies", |world| world.change(0, Change { blocked: true, ..Change::default() })),
    ("the first radio comes back", |world| world.change(0, Change::default())),
    ("the second radio's interface goes down", |world| world.plug(1, false)),
    ("the second radio's interface comes back", |world| world.plug(1, true)),
    ("the first radio's address changes", |world| world.readdress(2, 3)),
    ("the first radio's old address comes back", |world| world.readdress(3, 2)),
    ("the second radio loses packets", |world| {
        world.change(1, Change { loss: Some(0.03), ..Change::default() });
    }),
    ("the second radio loses no packets", |world| world.change(1, Change::default())),
];

/// Carries the traffic of programs. Killed when dropped.
pub struct Carrier<'a> {
    world: &'a World,
    way: Way,
    running: Option<Running>,
    /// Where `connect` listens for SOCKS.
    pub socks: String,
}

impl Carrier<'_> {
    /// A command on the client's side whose traffic is carried.
    pub fn command(&self, program: &str) -> Command {
        match self.way {
            Way::Tunnel | Way::Socks => self.world.network.command(Side::Client, program),
            Way::Exec => {
                let mut command = self.world.client("exec");
                command.arg("--").arg(program);
                command
            }
        }
    }

    /// Ends it in order.
    pub fn end(self) {
        let code = self.running.map(Running::end);
        assert!(matches!(code, None | Some(Some(0))), "{:?}: {code:?}", self.way);
    }
}

/// What a program printed until it ended by itself.
pub fn output_of(mut program: Child) -> Output {
    until("the program ends", || program.try_wait().expect("a child").is_some());
    program.wait_with_output().expect("it has ended")
}

/// Bytes of a file; each depends on its position.
pub fn content(length: u32) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Debian's resolver.
fn resolver(network: &Network, ends: &Ends) -> Running {
    let mut hosts = format!("{WEB} {NAME}\n");
    for (name, four, six) in (0..NAMES).map(numbered) {
        hosts += &format!("{four} {name}\n{six} {name}\n");
    }
    fs::write(ends.at("hosts"), hosts).expect("a file");
    let option = |name: &str, value: PathBuf| format!("--{name}={}", value.display());
    let mut command = network.command(Side::Server, "dnsmasq");
    command.args(["--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=root"]);
    command.args(["--no-resolv", "--no-hosts", "--bind-interfaces", "--local=/example/", "--log-queries"]);
    command.arg(format!("--listen-address={RESOLVER}")).arg(option("addn-hosts", ends.at("hosts")));
    command.arg(option("log-facility", ends.at("resolver.log")));
    let resolver = Running::start(&mut command);
    until("the resolver runs", || {
        fs::read_to_string(ends.at("resolver.log")).is_ok_and(|log| log.contains("started"))
    });
    resolver
}
