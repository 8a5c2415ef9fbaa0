//! The programs of COTAG's nodes and the proxy's server in namespaces: what they route, what they leave behind, what
//! they may still do.
//!
//! Without the right to create namespaces nothing runs: the program prints the reason, and fails when `CI=true`.

#[path = "nodes/keys.rs"]
mod keys;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tributary_emu::{Host, RelayNetwork};
use tributary_testing::{not_run, until};
use tributary_tun::{Netlink, Network};

const CASES: [(&str, fn()); 9] = [
    ("a_default_route_leads_through_the_tunnel", a_default_route_leads_through_the_tunnel),
    ("a_device_follows_its_access_point_to_another_interface", a_device_follows_its_access_point),
    ("a_gateway_from_a_file_serves_metrics", a_gateway_from_a_file_serves_metrics),
    ("a_node_with_another_key_is_refused_and_the_log_says_so", keys::a_node_with_another_key_is_refused),
    (
        "an_access_point_that_is_taken_out_is_cut_off_and_the_other_goes_on",
        keys::an_access_point_is_taken_out,
    ),
    ("nodes_with_shared_keys_connect_and_say_what_that_means", keys::nodes_with_shared_keys_connect),
    ("a_route_that_exists_is_named", a_route_that_exists_is_named),
    ("running_nodes_keep_no_privileges", running_nodes_keep_no_privileges),
    ("a_running_server_keeps_no_privileges", a_running_server_keeps_no_privileges),
];

/// An address of the access point that only a default route leads to.
const POINT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Time for the nodes to find each other on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// CAP_NET_RAW as a bit of a set.
const RAW: u64 = 1 << 13;

fn main() -> ExitCode {
    tributary_testing::run_cases(&CASES, tributary_emu::isolate, |case, ()| case())
}

/// A program that is killed when dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Program {
    /// Ends it with a signal and waits for its end.
    fn end(mut self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("it runs");
        self.0.wait().expect("it is a child");
    }
}

/// Server, gateway, two access points and device, each with a key. The device reaches the first access point by its default
/// route.
struct World {
    network: RelayNetwork,
    keys: TempDir,
}

impl World {
    fn new() -> Self {
        let network = RelayNetwork::bare(2).expect("an isolated process may start a network");
        let keys = tempfile::tempdir().expect("a directory");
        // Another user may read the directory, but no key.
        fs::set_permissions(keys.path(), fs::Permissions::from_mode(0o755)).expect("its owner may");
        let world = Self { network, keys };
        for key in ["gateway", "ap1", "ap2", "device"] {
            world.keygen(&["--out", &world.key(key)]);
        }
        let (radio, _) = RelayNetwork::radio(0);
        world.on(Host::AccessPoint(0), |netlink| netlink.add_address("lo", POINT.into(), 32));
        world.on(Host::Device, |netlink| {
            netlink.add_route("radio1", (Ipv4Addr::UNSPECIFIED.into(), 0), Some(radio.into()))
        });
        world
    }

    fn keygen(&self, arguments: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        let made = command.arg("keygen").args(arguments).output().expect("it starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn key(&self, name: &str) -> String {
        self.keys.path().join(name).display().to_string()
    }

    /// The public key of a key file.
    fn public(&self, name: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        let printed = command.args(["pubkey", &self.key(name)]).output().expect("it starts");
        String::from_utf8(printed.stdout).expect("base64").trim().to_owned()
    }

    /// Starts a program whose log is the file `log` beside the keys.
    fn start_logged(&self, host: Host, arguments: &[&str], log: &str) -> Program {
        let file = fs::File::create(self.key(log)).expect("a file");
        Program(self.command(host, arguments).stderr(file).spawn().expect("it starts"))
    }

    /// Waits until a log has this text.
    fn logs(&self, log: &str, text: &str) {
        let has = || fs::read_to_string(self.key(log)).is_ok_and(|lines| lines.contains(text));
        until(&format!("{log} says `{text}`"), has);
    }

    fn on(&self, host: Host, work: impl FnOnce(&mut Netlink) -> std::io::Result<()> + Send) {
        let done = self.network.run(host, || work(&mut Netlink::open()?));
        done.expect("the host runs").expect("the kernel does it");
    }

    fn configuration(&self, host: Host) -> Network {
        self.network.run(host, Network::read).expect("the host runs").expect("the kernel answers")
    }

    fn command(&self, host: Host, arguments: &[&str]) -> Command {
        let mut command = self.network.command(host, env!("CARGO_BIN_EXE_tributary"));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    fn start(&self, host: Host, arguments: &[&str]) -> Program {
        Program(self.command(host, arguments).spawn().expect("it starts"))
    }

    /// Gateway and access point, with these arguments more.
    fn start_nodes(&self, more: &[&str]) -> [Program; 2] {
        let (key, point) = (self.key("gateway"), self.public("ap1"));
        let of_gateway = [&["--key", &*key], more].concat();
        let gateway = self.start(Host::Gateway, &strs(&self.gateway_arguments(&point, &of_gateway)));
        [gateway, self.start(Host::AccessPoint(0), &strs(&self.point_arguments(0, more)))]
    }

    /// A gateway's, which knows one access point by this key.
    fn gateway_arguments(&self, point: &str, more: &[&str]) -> Vec<String> {
        let (point, address) = (format!("ap1={point}"), format!("{}/24", RelayNetwork::tunnel(1)));
        let fixed = ["gateway", "--listen", "0.0.0.0:7100", "--access-point", &point, "--tun", "cotag0"];
        owned(&[&fixed[..], &["--address", &address], more].concat())
    }

    /// An access point's.
    fn point_arguments(&self, point: usize, more: &[&str]) -> Vec<String> {
        let gateway = format!("{}:7100", RelayNetwork::backhaul(point, 1));
        let (listen, number) = (point_address(point), (point + 1).to_string());
        let (key, up, down) =
            (self.key(&format!("ap{number}")), self.public("gateway"), self.public("device"));
        let fixed = ["ap", "--gateway", &gateway, "--gateway-key", &up, "--listen", &listen, "--key", &key];
        owned(&[&fixed[..], &["--device-key", &down, "--number", &number], more].concat())
    }

    fn device_arguments(&self, routes: &[&str]) -> Vec<String> {
        let (point, key) = (format!("wifi={},{}", point_address(0), self.public("ap1")), self.key("device"));
        let address = format!("{}/24", RelayNetwork::tunnel(2));
        let fixed =
            ["device", "--access-point", &point, "--tun", "cotag0", "--address", &address, "--key", &key];
        let fixed = fixed.into_iter().map(str::to_owned);
        fixed.chain(routes.iter().flat_map(|route| ["--route".to_owned(), (*route).to_owned()])).collect()
    }

    fn start_device(&self, routes: &[&str], more: &[&str]) -> Program {
        let arguments = self.device_arguments(routes);
        self.start(Host::Device, &[&strs(&arguments)[..], more].concat())
    }

    /// A page of the gateway's metrics.
    fn get(&self, metrics: SocketAddr, page: &str) -> String {
        let get = || {
            let mut tcp = connect(metrics);
            write!(tcp, "GET {page} HTTP/1.1\r\nHost: {metrics}\r\nConnection: close\r\n\r\n")
                .expect("it reads");
            let mut answer = String::new();
            tcp.read_to_string(&mut answer).expect("it answers");
            answer
        };
        self.network.run(Host::Gateway, get).expect("the host runs")
    }

    /// One of the gateway's metrics.
    fn metric(&self, metrics: SocketAddr, name: &str) -> f64 {
        let text = self.get(metrics, "/metrics");
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name}: {text}"));
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    }

    /// The device downloads something from the server through the tunnel.
    fn transfer(&self) {
        let bind = || TcpListener::bind((RelayNetwork::SERVER, 0)).expect("the server has the address");
        let listener = self.network.run(Host::Server, bind).expect("the host runs");
        let address = listener.local_addr().expect("it is bound");
        let content = vec![7; 100_000];
        let mut stream = self.network.run(Host::Device, || connect(address)).expect("the host runs");
        let (mut sender, from) = listener.accept().expect("the client is there");
        assert_eq!(from.ip(), IpAddr::from(RelayNetwork::tunnel(2)), "it came through the tunnel");
        std::thread::scope(|scope| {
            scope.spawn(|| sender.write_all(&content).expect("the connection stays"));
            let mut got = vec![0; content.len()];
            stream.read_exact(&mut got).expect("everything arrives");
            assert!(got == content);
        });
    }
}

fn strs(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(ToString::to_string).collect()
}

/// Where an access point listens for the device.
fn point_address(point: usize) -> String {
    let address = if point == 0 { POINT } else { RelayNetwork::radio(point).0 };
    format!("{address}:7200")
}

/// Connects as soon as a device routes it: until then there is no way, or the answer comes from elsewhere.
fn connect(address: SocketAddr) -> TcpStream {
    let end = Instant::now() + LIMIT;
    loop {
        match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
                return stream;
            }
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    }
}

fn a_default_route_leads_through_the_tunnel() {
    use rustix::process::Signal;
    let world = World::new();
    let _nodes = world.start_nodes(&[]);
    let before = world.configuration(Host::Device);
    for routes in [&["0.0.0.0/0"][..], &["0.0.0.0/1", "128.0.0.0/1"]] {
        for signal in [Signal::TERM, Signal::KILL] {
            let device = world.start_device(routes, &[]);
            world.transfer();
            device.end(signal);
            assert_eq!(world.configuration(Host::Device), before, "{routes:?}, {signal:?}");
        }
    }
}

fn a_device_follows_its_access_point() {
    let world = World::new();
    let _nodes = world.start_nodes(&[]);
    // At the start nothing leads to the access point.
    world.on(Host::Device, |netlink| netlink.set_link("radio1", false, None));
    let _device = world.start_device(&["0.0.0.0/0"], &[]);
    let is_there = || {
        let network = world.configuration(Host::Device);
        network.interfaces.iter().any(|interface| interface.name == "cotag0" && interface.up)
    };
    until("the device is there", is_there);
    let (radio, _) = RelayNetwork::radio(0);
    world.on(Host::Device, |netlink| {
        netlink.set_link("radio1", true, None)?;
        netlink.add_route("radio1", (Ipv4Addr::UNSPECIFIED.into(), 0), Some(radio.into()))
    });
    world.transfer();
}

fn a_gateway_from_a_file_serves_metrics() {
    let world = World::new();
    let metrics = SocketAddr::from(([127, 0, 0, 1], 9100));
    let [gateway, _point] = world.start_nodes(&[]);
    drop(gateway);
    let file = world.key("gateway.toml");
    let (key, point) = (world.key("gateway"), world.public("ap1"));
    let settings = format!(
        "command = 'gateway'\nlisten = '{}:7100'\naccess_point = ['ap1={point}']\ntun = 'cotag0'\n\
         address = ['{}/24']\nkey = '{key}'\nmetrics = '{metrics}'\n",
        RelayNetwork::backhaul(0, 1),
        RelayNetwork::tunnel(1)
    );
    let check = |text: &str| {
        fs::write(&file, text).expect("a file");
        world.command(Host::Gateway, &["check", &file]).output().expect("it starts")
    };
    let own = world.public("gateway");
    world.keygen(&["--shared", "--out", &world.key("shared")]);
    fs::set_permissions(world.key("ap2"), fs::Permissions::from_mode(0o644)).expect("its owner may");
    for (of, by, place, part) in [
        (&key, "no-such.key", "gateway.toml:6: `key`", "no-such.key"),
        (&key, &world.key("shared"), "gateway.toml:6: `key`", "shared:FILE"),
        (&key, &world.key("ap2"), "gateway.toml:6: `key`", "chmod 600"),
        (&point, "ap1.key", "gateway.toml:3: `access_point`", "tributary pubkey"),
        (&point, "shared:no-such.key", "gateway.toml:3: `access_point`", "no-such.key"),
        (&point, &own, "gateway.toml:3: `access_point`", "this node's own public key"),
    ] {
        let wrong = check(&settings.replace(of, by));
        let said = String::from_utf8_lossy(&wrong.stderr);
        assert!(!wrong.status.success() && said.contains(place) && said.contains(part), "{said}");
    }
    let said = check(&settings.replace(&format!("key = '{key}'\n"), "")).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("`key` is missing") && said.contains("tributary keygen"), "{said}");
    assert!(check(&settings).status.success());
    let _gateway = world.start(Host::Gateway, &["run", &file]);
    let _device = world.start_device(&["0.0.0.0/0"], &[]);
    world.transfer();
    assert!(world.get(metrics, "/readyz").starts_with("HTTP/1.1 200 "));
    assert_eq!(world.metric(metrics, "tributary_link_up{role=\"gateway\",link=\"ap1\"}"), 1.0);
    // The status is a second old at most.
    let packets = "tributary_inner_packets_in_total{role=\"gateway\"}";
    until("packets are counted", || world.metric(metrics, packets) > 10.0);
}

fn a_route_that_exists_is_named() {
    let world = World::new();
    let route = (Ipv4Addr::new(10, 55, 0, 0).into(), 24);
    world.on(Host::Device, |netlink| netlink.add_route("radio1", route, None));
    let arguments = world.device_arguments(&["10.55.0.0/24"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = world.command(Host::Device, &arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("10.55.0.0/24 exists already, through radio1"), "{said}");
    assert!(!said.contains("root"), "{said}");
}

/// A line of `/proc/PID/task/TID/status`.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name}: {status}")).trim().to_owned()
}

/// The state of every thread of a process.
fn threads(process: &Child) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.id())).expect("it runs");
    // A thread may end meanwhile.
    tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok()).collect()
}

/// Waits until every thread has started and given up everything but `kept`, which only the thread `node` may keep.
fn assert_limited(process: &Child, kept: u64, is_root: bool) {
    until("every thread is limited", || {
        let threads = threads(process);
        let is_limited = |status: &String| {
            let allowed = if field(status, "Name") == "node" { kept } else { 0 };
            let sets = ["CapEff", "CapPrm", "CapInh", "CapAmb"].map(|name| field(status, name));
            let held = |set: &String| u64::from_str_radix(set, 16).expect("hexadecimal");
            let users = field(status, "Uid");
            sets.iter().all(|set| held(set) & !allowed == 0)
                && held(&sets[0]) == allowed
                && field(status, "NoNewPrivs") == "1"
                && users.split_whitespace().all(|user| (user == "0") == is_root)
        };
        !threads.is_empty() && threads.iter().all(is_limited)
    });
}

/// Whether this process may become another user: root may, but not the root of a user namespace with one user.
fn may_change_user() -> bool {
    let users = fs::read_to_string("/proc/self/uid_map").expect("every process has one");
    let count = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    let may = users.lines().filter_map(count).sum::<u64>() > 1000;
    if !may {
        not_run("--user: needs root");
    }
    may
}

fn running_nodes_keep_no_privileges() {
    let users = if may_change_user() { &[&[][..], &["--user", "nobody"]][..] } else { &[&[][..]][..] };
    for more in users {
        let world = World::new();
        let [gateway, point] = world.start_nodes(more);
        let device = world.start_device(&["0.0.0.0/0"], more);
        world.transfer();
        assert_limited(&gateway.0, 0, more.is_empty());
        assert_limited(&point.0, 0, more.is_empty());
        // It may have to move its sockets to another interface.
        assert_limited(&device.0, RAW, more.is_empty());
        drop(device);
        let server = format!("{}/32", RelayNetwork::SERVER);
        let device = world.start_device(&[&server], more);
        world.transfer();
        assert_limited(&device.0, 0, more.is_empty());
    }
}

fn a_running_server_keeps_no_privileges() {
    let users = if may_change_user() { &[&[][..], &["--user", "nobody"]][..] } else { &[&[][..]][..] };
    for more in users {
        let world = World::new();
        world.keygen(&["--shared", "--out", &world.key("shared")]);
        let key = world.key("shared");
        let serve = ["serve", "--listen", "127.0.0.1:700", "--forward", "127.0.0.1:9", "--shared-key", &key];
        let connect =
            ["connect", "--path", "lo=127.0.0.1:700", "--listen", "127.0.0.1:70", "--shared-key", &key];
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).display().to_string();
        let dash = ["dash", "serve", &directory, "--listen", "127.0.0.1:80"];
        let _programs = [&serve[..], &connect[..], &dash[..]].map(|arguments| {
            let mut command = world.command(Host::Server, &[arguments, more].concat());
            let mut program = Program(command.stdout(Stdio::piped()).spawn().expect("it starts"));
            let mut line = String::new();
            let output = program.0.stdout.take().expect("it is piped");
            BufReader::new(output).read_line(&mut line).expect("it says where it listens");
            assert!(line.starts_with("listening on"), "{arguments:?}: {line}");
            assert_limited(&program.0, 0, more.is_empty());
            program
        });
    }
}
