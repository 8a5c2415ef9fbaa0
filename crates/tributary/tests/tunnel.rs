//! `tributary tunnel` in namespaces: two radios between client and server, and a web server, an echo of datagrams and a name that only
//! the server's side knows. The client has no route but those to its radios' networks.
//!
//! Without the right to create namespaces nothing runs: the program prints the reason, and fails when `CI=true`.

#[path = "tunnel/bad_input.rs"]
mod bad_input;
#[path = "tunnel/clients.rs"]
mod clients;
#[path = "tunnel/ending.rs"]
mod ending;
#[path = "common/ends.rs"]
mod ends;
#[path = "common/far_side.rs"]
mod far_side;
#[path = "common/running.rs"]
mod running;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output, Stdio};
use std::thread;

use ends::{Ends, RESOLV_CONF};
use far_side::{CURL, NAME, PAGE, WEB, WEB_6, has, listening, said};
use running::{Running, succeeds};
use tributary_emu::{Side, VethNetwork};
use tributary_testing::{not_run, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tributary");
/// CAP_KILL, CAP_NET_ADMIN and CAP_NET_RAW as bits of a set.
const KILL: u64 = 1 << 5;
const ADMIN: u64 = 1 << 12;
const RAW: u64 = 1 << 13;

type Case = (&'static str, fn(&World));

const CASES: [Case; 22] = [
    ("the_whole_machine_s_traffic_is_carried", the_whole_machines_traffic_is_carried),
    ("a_transfer_survives_the_loss_of_a_radio", a_transfer_survives_the_loss_of_a_radio),
    ("what_is_selected_is_carried", what_is_selected_is_carried),
    ("a_control_group_is_selected", a_control_group_is_selected),
    ("what_cannot_be_carried_is_refused", what_cannot_be_carried_is_refused),
    ("the_session_keeps_no_privileges", the_session_keeps_no_privileges),
    ("what_a_killed_tunnel_left_is_taken_back", what_a_killed_tunnel_left_is_taken_back),
    ("the_kill_switch_holds_when_the_session_dies", the_kill_switch_holds_when_the_session_dies),
    ("a_route_back_into_the_tunnel_is_named", a_route_back_into_the_tunnel_is_named),
    ("a_settings_file_is_run_and_read_again", a_settings_file_is_run_and_read_again),
    ("what_is_missing_is_named", what_is_missing_is_named),
    ("a_client_of_the_list_reaches_what_it_may", clients::a_client_of_the_list_reaches_what_it_may),
    ("a_revoked_client_s_tunnel_carries_nothing", clients::a_revoked_clients_tunnel_carries_nothing),
    ("connections_finish_after_the_end_has_begun", ending::connections_finish_after_the_end_has_begun),
    ("connections_that_do_not_finish_are_reset", ending::connections_that_do_not_finish_are_reset),
    ("datagrams_pass_where_udp_is_blocked", bad_input::datagrams_pass_where_udp_is_blocked),
    (
        "an_upload_passes_radios_that_drop_long_packets",
        bad_input::an_upload_passes_radios_that_drop_long_packets,
    ),
    ("radios_with_ipv6_only_carry_both_families", bad_input::radios_with_ipv6_only_carry_both_families),
    ("a_machine_without_ipv6_has_a_tunnel_for_ipv4", bad_input::a_machine_without_ipv6_has_a_tunnel_for_ipv4),
    (
        "a_family_that_the_server_does_not_reach_is_refused",
        bad_input::a_family_that_the_server_does_not_reach_is_refused,
    ),
    ("answers_of_strangers_reach_no_program", bad_input::answers_of_strangers_reach_no_program),
    (
        "a_flood_of_flows_is_bounded_and_an_old_one_goes_on",
        bad_input::a_flood_of_flows_is_bounded_and_an_old_one_goes_on,
    ),
];

fn main() -> ExitCode {
    tributary_testing::run_cases(&CASES, prepare, |case, world| case(world))
}

fn prepare() -> Result<World, String> {
    tributary_emu::isolate().map_err(|error| error.to_string())?;
    let programs = ["nft", "ip", "curl", "python3", "setpriv"];
    match programs.into_iter().find(|program| !has(program)) {
        Some(missing) => Err(format!("the program {missing} is missing")),
        None => Ok(World::new()),
    }
}

struct World {
    network: VethNetwork,
    _server: Running,
    port: u16,
    web: u16,
    ends: Ends,
}

impl World {
    fn new() -> Self {
        let network = VethNetwork::create(2).expect("an isolated process may make one");
        let web = network.run(Side::Server, far_side::start).expect("a thread");
        // The client's resolver is in its own network, and nobody answers for it.
        let ends = Ends::new("10.77.1.9", "127.0.0.1");
        let log = File::create(ends.at("server.log")).expect("a file");
        let mut command = ends.serve(network.command(Side::Server, "unshare"));
        let mut server = Running::start(command.args(["--listen", "0.0.0.0:0"]).stderr(log));
        let address = listening(&mut server.0);
        let port = address.rsplit_once(':').expect("a port").1.parse().expect("a port");
        Self { network, _server: server, port, web, ends }
    }

    fn log(&self) -> PathBuf {
        self.ends.at("tunnel.log")
    }

    fn on_client(&self, words: &[&str]) -> Output {
        self.network.command(Side::Client, words[0]).args(&words[1..]).output().expect("it starts")
    }

    /// A path over a radio.
    fn path(&self, radio: usize) -> String {
        format!("{}={}:{}", VethNetwork::interface(radio), Side::Server.address(radio), self.port)
    }

    /// The program on the client's side.
    fn program(&self) -> Command {
        let mut command = self.network.command(Side::Client, PROGRAM);
        command.env_remove("RUST_LOG").stdin(Stdio::null());
        command.env("TRIBUTARY_RUNTIME_DIR", self.ends.at("status"));
        command
    }

    /// The tunnel's command with these options.
    fn tunnel_command(&self, options: &[&str]) -> Command {
        let mut command = self.program();
        command.arg("tunnel").arg("--shared-key").arg(self.ends.at("key"));
        command.args([0, 1].iter().flat_map(|radio| ["--path".to_owned(), self.path(*radio)])).args(options);
        command
    }

    /// A tunnel that leads already.
    fn tunnel(&self, options: &[&str]) -> Running {
        let routes_off = options.windows(2).any(|pair| pair == ["--routes", "off"]);
        self.start(self.tunnel_command(options), routes_off)
    }

    /// The same with any command.
    fn start(&self, mut command: Command, routes_off: bool) -> Running {
        let log = File::create(self.log()).expect("a file");
        let before = self.state();
        let tunnel = Running::start(command.stderr(log));
        until("the tunnel leads", || {
            let now = self.state();
            let marks = if routes_off { "198.18.0.1" } else { "29810" };
            now != before
                && now.contains(marks)
                && fs::read_to_string(self.log()).is_ok_and(|log| log.contains("is up"))
        });
        tunnel
    }

    /// Rules, routes, redirections, interfaces and resolv.conf of the client.
    fn state(&self) -> String {
        let commands = "ip rule; ip -6 rule; ip route show table all; ip -6 route show table all; nft list ruleset; ip -br link";
        let state = said(&self.on_client(&["sh", "-c", commands]), 0);
        state + &fs::read_to_string(RESOLV_CONF).expect("it is mounted")
    }

    fn page(&self, host: impl std::fmt::Display) -> Output {
        self.page_as(&[], host)
    }

    fn page_as(&self, before: &[&str], host: impl std::fmt::Display) -> Output {
        let url = format!("http://{host}:{}/", self.web);
        self.on_client(&[before, &CURL, &[&url]].concat())
    }

    fn logged(&self, words: &str) {
        until(words, || fs::read_to_string(self.log()).expect("a log").contains(words));
    }
}

/// The process that has the session.
fn session_of(tunnel: &Running) -> u32 {
    let children = format!("/proc/{0}/task/{0}/children", tunnel.0.id());
    let mut child = 0;
    until("the session's process runs", || {
        let text = fs::read_to_string(&children).unwrap_or_default();
        child = text.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
        child > 0
    });
    child
}

fn kill(process: u32) {
    succeeds(Command::new("kill").args(["-s", "KILL", &process.to_string()]));
}

fn the_whole_machines_traffic_is_carried(world: &World) {
    let before = world.state();
    let tunnel = world.tunnel(&[]);
    for host in [NAME.to_owned(), WEB.to_string(), format!("[{WEB_6}]")] {
        assert_eq!(said(&world.page(&host), 0), PAGE, "{host}");
    }
    let echo = far_side::echo_client(world.web);
    assert_eq!(said(&world.on_client(&["python3", "-c", &echo]), 0), "all\n");
    assert!(fs::read_to_string(RESOLV_CONF).expect("a file").contains("nameserver 198.18.0.2"));
    // A server in the machine's own network is not asked: the question is redirected.
    let asked = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)
name = b''.join(bytes([len(part)]) + part for part in b'web.example'.split(b'.'))
s.sendto(b'\\1\\2\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0' + name + b'\\0\\0\\1\\0\\1', ('10.77.1.9', 53))
print('.'.join(str(byte) for byte in s.recv(512)[-4:]))";
    assert_eq!(said(&world.on_client(&["python3", "-c", asked]), 0), format!("{WEB}\n"));
    assert_eq!(tunnel.end(), Some(0));
    assert_eq!(world.state(), before, "as it was found");
}

fn a_transfer_survives_the_loss_of_a_radio(world: &World) {
    const BYTES: usize = 64 << 20;
    let listener = world.network.run(Side::Server, || TcpListener::bind((WEB, 0)).expect("its own address"));
    let listener = listener.expect("a thread");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        for mut tcp in listener.incoming().flatten() {
            let _ = tcp.write_all(&vec![7; BYTES]);
        }
    });
    let tunnel = world.tunnel(&[]);
    let script = format!(
        "import socket, sys
s = socket.create_connection(('{WEB}', {port}))
got = len(s.recv(1 << 20, socket.MSG_WAITALL))
print('begun', flush=True)
sys.stdin.readline()
while True:
    piece = s.recv(1 << 20)
    if not piece: break
    got += len(piece)
print(got, flush=True)"
    );
    let mut command = world.network.command(Side::Client, "python3");
    command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut reader = Running::start(&mut command);
    let mut lines = BufReader::new(reader.0.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().expect("a line").expect("a line"), "begun");
    let radio = VethNetwork::interface(0);
    said(&world.on_client(&["ip", "link", "set", &radio, "down"]), 0);
    reader.0.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    let got = lines.next().expect("a line").expect("a line");
    said(&world.on_client(&["ip", "link", "set", &radio, "up"]), 0);
    // The kernel removes the routes of an interface that goes down.
    said(
        &world.on_client(&[
            "ip", "route", "replace", "default", "dev", &radio, "scope", "link", "table", "101",
        ]),
        0,
    );
    assert_eq!(got, BYTES.to_string());
    let code = tunnel.end();
    assert_eq!(code, Some(0), "{}", fs::read_to_string(world.log()).expect("the log"));
}

fn what_is_selected_is_carried(world: &World) {
    let before = world.state();
    // curl 7: no route, or no answer.
    let is_carried = |before: &[&str]| {
        let output = world.page_as(before, WEB);
        assert!(matches!(output.status.code(), Some(0 | 7)), "{output:?}");
        output.status.success()
    };
    let nobody = ["setpriv", "--reuid", "65534", "--clear-groups"];
    for (options, of_root, of_nobody) in [
        (["--uid", "65534"], false, true),
        (["--to", "203.0.113.0/24"], true, true),
        (["--to", "198.51.100.0/24"], false, false),
    ] {
        let tunnel = world.tunnel(&options);
        assert_eq!((is_carried(&[]), is_carried(&nobody)), (of_root, of_nobody), "{options:?}");
        assert_eq!(tunnel.end(), Some(0));
        assert_eq!(world.state(), before, "{options:?}");
    }
    let tunnel = world.tunnel(&["--routes", "off"]);
    assert!(!is_carried(&[]));
    let route = format!("{WEB}/32");
    said(&world.on_client(&["ip", "route", "add", &route, "dev", "tributary0"]), 0);
    assert!(is_carried(&[]));
    assert_eq!(tunnel.end(), Some(0));
    assert_eq!(world.state(), before);
}

/// A control group that is removed when dropped.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

fn a_control_group_is_selected(world: &World) {
    let root = PathBuf::from("/sys/fs/cgroup");
    // Only in this test's mount namespace.
    let mounted = Command::new("mount").args(["-t", "cgroup2", "none"]).arg(&root).output().expect("mount");
    let name = format!("tributary-test-{}", std::process::id());
    let group = Group(root.join(&name));
    if !mounted.status.success() || fs::create_dir(&group.0).is_err() {
        return not_run("control groups of version 2 cannot be made here");
    }
    // A socket needs a route before its packets are marked. Nobody answers for this gateway, and no rule is for this source.
    let ip = |words: &str| {
        let words: Vec<&str> = ["ip"].into_iter().chain(words.split(' ')).collect();
        said(&world.on_client(&words), 0);
    };
    ip("address add 10.99.0.1/32 dev lo");
    ip("route add default via 10.77.1.99 dev path1 src 10.99.0.1");
    let before = world.state();
    let tunnel = world.tunnel(&["--cgroup", &name]);
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    let inside = ["sh", "-c", &script, "sh"];
    assert_eq!(said(&world.page_as(&inside, WEB), 0), PAGE);
    let send = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)
s.sendto(b'there', ('{WEB}', {})); print(s.recv(9).decode())",
        world.web
    );
    let output = world.on_client(&[&inside[..], &["python3", "-c", &send]].concat());
    assert_eq!(said(&output, 0), "there\n");
    assert_eq!(world.page(WEB).status.code(), Some(7), "outside of the group");
    assert_eq!(tunnel.end(), Some(0));
    assert_eq!(world.state(), before);
    ip("route del default dev path1");
    ip("address del 10.99.0.1/32 dev lo");
}

fn what_cannot_be_carried_is_refused(world: &World) {
    let tunnel = world.tunnel(&[]);
    let script = format!(
        "import socket, errno
for family, host, port in [(socket.AF_INET, '10.9.8.7', 443), (socket.AF_INET6, 'fd00::9', 443), (socket.AF_INET, '{WEB}', 9)]:
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(60)
    s.connect((host, port))
    s.send(b'x')
    try: s.recv(1)
    except OSError as error: print(errno.errorcode[error.errno])"
    );
    let output = world.on_client(&["python3", "-c", &script]);
    assert_eq!(said(&output, 0), "EHOSTUNREACH\nEACCES\nECONNREFUSED\n");
    // A protocol for experiments (RFC 3692).
    let other = format!(
        "import socket, errno; s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 253); s.settimeout(60)
s.connect(('{WEB}', 0)); s.send(b'at least 8')
try: s.recv(1)
except OSError as error: print(errno.errorcode[error.errno])"
    );
    assert_eq!(said(&world.on_client(&["python3", "-c", &other]), 0), "EHOSTUNREACH\n");
    // curl: 7, 52 or 56, the connection was reset.
    let refused = world.page("10.9.8.7");
    assert!(matches!(refused.status.code(), Some(7 | 52 | 56)), "{refused:?}");
    world.logged("--allow");
    assert_eq!(tunnel.end(), Some(0));
}

fn the_session_keeps_no_privileges(world: &World) {
    let tunnel = world.tunnel(&["--user", "nobody"]);
    let status = |process: u32, name: &str| {
        let text = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        line.split_whitespace().next().expect("a value").to_owned()
    };
    let set = |process: u32, name: &str| u64::from_str_radix(&status(process, name), 16).expect("a set");
    let session = session_of(&tunnel);
    assert_eq!(status(session, "Uid:"), "65534");
    // To mark its sockets: by the kernel's version one of these.
    assert!([ADMIN, RAW].contains(&set(session, "CapEff:")), "{:x}", set(session, "CapEff:"));
    assert_eq!(set(session, "CapPrm:"), set(session, "CapEff:"));
    let guard = tunnel.0.id();
    // To signal a process of another user.
    assert_eq!((set(guard, "CapEff:"), status(guard, "NoNewPrivs:").as_str()), (ADMIN | KILL, "1"));
    assert_eq!(said(&world.page(NAME), 0), PAGE);
    assert_eq!(tunnel.end(), Some(0));
}

fn what_a_killed_tunnel_left_is_taken_back(world: &World) {
    let before = world.state();
    let kill_both = |mut tunnel: Running| {
        let session = session_of(&tunnel);
        kill(tunnel.0.id());
        tunnel.0.wait().expect("it is a child");
        // The kernel ends the session's process with the other one.
        until("the session's process has ended", || !fs::exists(format!("/proc/{session}")).expect("/proc"));
    };
    kill_both(world.tunnel(&[]));
    assert_ne!(world.state(), before, "something was left");
    let tunnel = world.tunnel(&["--uid", "65534", "--dns", "on"]);
    assert_eq!(world.page(WEB).status.code(), Some(7), "the predecessor's rules are gone");
    assert_eq!(tunnel.end(), Some(0));
    assert_eq!(world.state(), before);
    kill_both(world.tunnel(&["--kill-switch"]));
    said(&world.on_client(&[PROGRAM, "tunnel", "clean"]), 0);
    assert_eq!(world.state(), before);
    said(&world.on_client(&[PROGRAM, "tunnel", "clean"]), 0);
}

fn the_kill_switch_holds_when_the_session_dies(world: &World) {
    let before = world.state();
    let lose = |mut tunnel: Running| {
        kill(session_of(&tunnel));
        assert_eq!(tunnel.0.wait().expect("it is a child").code(), Some(137));
    };
    lose(world.tunnel(&[]));
    assert_eq!(world.state(), before, "without it everything is taken back");
    // A way around the tunnel that must not be used.
    let around = format!("{}", Side::Server.address(0));
    let route = ["route", "add", "default", "via", &around, "dev", &VethNetwork::interface(0)];
    said(&world.on_client(&[&["ip"], &route[..]].concat()), 0);
    let before = world.state();
    assert_eq!(said(&world.page(WEB), 0), PAGE, "the way around leads there");
    lose(world.tunnel(&["--kill-switch"]));
    assert_eq!(world.page(WEB).status.code(), Some(7));
    world.logged("kill switch holds");
    let tunnel = world.tunnel(&["--kill-switch"]);
    assert_eq!(said(&world.page(WEB), 0), PAGE);
    assert_eq!(tunnel.end(), Some(0));
    assert_eq!(world.state(), before);
    said(&world.on_client(&["ip", "route", "del", "default", "dev", &VethNetwork::interface(0)]), 0);
}

fn a_route_back_into_the_tunnel_is_named(world: &World) {
    // A path whose interface the routing table chooses, and a route of the user that leads it into the tunnel.
    let server = format!("any=192.0.2.1:{}", world.port);
    let tunnel = world.tunnel(&["--routes", "off", "--path", &server]);
    said(&world.on_client(&["ip", "route", "add", "192.0.2.1/32", "dev", "tributary0"]), 0);
    world.logged("192.0.2.1");
    world.logged("leads the session's own packets into the tunnel");
    assert_eq!(tunnel.end(), Some(0));
}

fn a_settings_file_is_run_and_read_again(world: &World) {
    let before = world.state();
    let at = |name: &str| world.ends.at(name);
    let write = |radio: usize, more: &str| {
        let (key, path) = (at("key"), world.path(radio));
        let text = format!("command = \"tunnel\"\nshared_key = {key:?}\npath = [{path:?}]\n{more}");
        fs::write(at("tunnel.toml"), text).expect("a file");
    };
    let paths = || {
        let status = world.program().args(["status", "--json"]).output().expect("it starts");
        let status: serde_json::Value = serde_json::from_str(&said(&status, 0)).expect("JSON");
        status.to_string()
    };
    write(0, "uid = [\"65534\"]\nuids = 3\n");
    let check = || world.program().arg("check").arg(at("tunnel.toml")).output().expect("it starts");
    assert!(String::from_utf8_lossy(&check().stderr).contains("tunnel.toml:5: unknown key `uids`"));
    write(0, "to = [\"10.0.0.1/8\"]\n");
    assert!(String::from_utf8_lossy(&check().stderr).contains("tunnel.toml:4: `to`: "));
    write(0, "to = [\"203.0.113.0/24\"]\n");
    assert!(said(&check(), 0).contains("valid settings of `tunnel`"));
    let mut command = world.program();
    command.arg("run").arg(at("tunnel.toml")).args(["--drain", "5"]);
    let tunnel = world.start(command, false);
    assert_eq!(said(&world.page(WEB), 0), PAGE);
    write(1, "to = [\"203.0.113.0/24\"]\nmtu = 1400\n");
    succeeds(Command::new("kill").args(["-s", "HUP", &tunnel.0.id().to_string()]));
    world.logged("was read again; changed: path; needs a restart: mtu");
    let other = world.path(1);
    until("the session is on the other path", || paths().contains(&other));
    assert_eq!(said(&world.page(WEB), 0), PAGE);
    assert_eq!(tunnel.end(), Some(0));
    assert_eq!(world.state(), before);
}

fn what_is_missing_is_named(world: &World) {
    let refused = |command: &mut Command, words: &str| {
        let output = command.output().expect("it starts");
        said(&output, 1);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(words), "{errors}");
    };
    let before = world.state();
    let with = |before: &[&str]| {
        let tunnel = world.tunnel_command(&[]);
        let mut command = world.network.command(Side::Client, before[0]);
        command.args(&before[1..]).arg(tunnel.get_program()).args(tunnel.get_args());
        command
    };
    let hide = "mount -t tmpfs none /dev/net; exec \"$@\"";
    refused(&mut with(&["unshare", "-m", "sh", "-c", hide, "sh"]), "modprobe tun");
    refused(
        &mut with(&["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]),
        "CAP_NET_ADMIN",
    );
    refused(&mut with(&["setpriv", "--reuid", "65534", "--clear-groups"]), "root");
    refused(&mut world.tunnel_command(&["--uid", "no-such-user"]), "no-such-user");
    refused(&mut world.tunnel_command(&["--to", "10.0.0.1/8"]), "10.0.0.1/8");
    refused(&mut world.tunnel_command(&["--cgroup", "a b"]), "/sys/fs/cgroup");
    assert_eq!(world.state(), before);
    let tunnel = world.tunnel(&[]);
    let during = world.state();
    refused(&mut world.tunnel_command(&["--device", "other0"]), "another tunnel runs");
    assert_eq!(world.state(), during, "the first one goes on");
    assert_eq!(said(&world.page(NAME), 0), PAGE);
    assert_eq!(tunnel.end(), Some(0));
}
