//! Chromium: a page over HTTP/3 and through a SOCKS proxy, and a call between two browsers.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use tributary_emu::Side;
use tributary_testing::{HANG, until};

use crate::far_side::{CURL, NAME, PAGE, WEB, said};
use crate::running::Running;
use crate::world::{Way, World, content, output_of};

/// The scripts of the browser's tests.
pub const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/browser");
/// A page's pieces, and the bytes of each.
const PIECES: u32 = 8;
const PIECE: u32 = 500_000;
/// Bytes on the radios between two of their troubles: of a page and of a call.
const EACH: u64 = 250_000;
const EACH_OF_CALL: u64 = 60_000;
/// The far browser's address: Chromium offers none of loopback's.
const FAR: &str = "203.0.113.8";
/// Pictures that must arrive after the last of the radios' troubles.
const MORE_PICTURES: u64 = 30;

/// A page in pieces on a server of HTTP/3 and HTTP/2.
struct Pages {
    _server: Running,
    /// The two servers' ports: of QUIC and of TCP.
    ports: [u16; 2],
    /// SHA-256 of the server's public key, which Chromium knows it by.
    key: String,
    hashes: Vec<Value>,
}

impl Pages {
    fn serve(world: &World) -> Self {
        let folder = world.at("pages");
        fs::create_dir_all(&folder).expect("a directory");
        fs::write(folder.join("index.html"), "<!doctype html><title>pieces</title>").expect("a file");
        let hash = |piece: u32| {
            let file = folder.join(format!("piece-{piece}"));
            fs::write(&file, content(PIECE + piece)).expect("a file");
            let output = Command::new("sha256sum").arg(file).output().expect("sha256sum");
            json!(said(&output, 0)[..64])
        };
        let hashes = (0..PIECES).map(hash).collect();
        let script = format!(
            "cd $0; openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 10 -subj /CN={NAME} \
             -addext subjectAltName=DNS:{NAME} -keyout key.pem -out chain.pem 2>/dev/null; openssl x509 -in chain.pem -pubkey -noout |
             openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64"
        );
        let output = Command::new("sh").args(["-ec", &script]).arg(world.at("")).output().expect("openssl");
        let key = said(&output, 0).trim().to_owned();
        let mut command = world.network.command(Side::Server, env!("CARGO_BIN_EXE_tributary"));
        let any = format!("{WEB}:0");
        command.args(["dash", "serve", "--json", "--tcp", "--listen", &any, "--https", &any, "--quic", &any]);
        command.arg("--tls-cert").arg(world.at("chain.pem")).arg("--tls-key").arg(world.at("key.pem"));
        command.env("TRIBUTARY_RUNTIME_DIR", world.at("status")).env_remove("RUST_LOG");
        let mut server = Running::start(command.arg(folder).stdout(Stdio::piped()));
        let mut line = String::new();
        let pipe = server.0.stdout.take().expect("a pipe");
        BufReader::new(pipe).read_line(&mut line).expect("a line");
        let listening: Value = serde_json::from_str(&line).expect("JSON");
        let port = |name: &str| {
            let address = listening["listening"][name][0].as_str().expect("an address");
            address.rsplit_once(':').expect("a port").1.parse().expect("a port")
        };
        Self { _server: server, ports: [port("quic"), port("https")], key, hashes }
    }

    /// Loads the page in Chromium while the radios have their troubles, and checks what the browser got and how.
    fn load(&self, world: &World, way: Way, protocol: &str) {
        let carrier = world.carry(way);
        let mut command = carrier.command("node");
        let is_quic = way != Way::Socks;
        let url = format!("https://{NAME}:{}/", self.ports[usize::from(!is_quic)]);
        command.arg(format!("{SCRIPTS}/load.mjs")).args([&url, &PIECES.to_string(), &self.key]);
        if !is_quic {
            command.arg(format!("socks5://{}", carrier.socks));
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        world.troubles(|what| world.carried(EACH, what, &mut child));
        let seen: Value = serde_json::from_str(&said(&output_of(child), 0)).expect("JSON");
        assert_eq!(seen["hashes"], json!(self.hashes), "{way:?}");
        let protocols: Vec<&str> =
            seen["protocols"].as_array().expect("a list").iter().flat_map(Value::as_str).collect();
        // More where Chromium asked again.
        assert!(protocols.len() > PIECES as usize, "{way:?}: {protocols:?}");
        assert_eq!(protocols.iter().collect::<BTreeSet<_>>(), [&protocol].into(), "{way:?}");
        carrier.end();
    }
}

pub fn chromium_loads_a_page_over_http_3(world: &World) {
    let pages = Pages::serve(world);
    for way in [Way::Tunnel, Way::Exec] {
        pages.load(world, way, "h3");
    }
}

/// Browsers use no UDP behind a SOCKS proxy.
pub fn chromium_loads_a_page_over_socks(world: &World) {
    Pages::serve(world).load(world, Way::Socks, "h2");
    let carrier = world.carry(Way::Socks);
    let proxy = format!("socks5h://{}", carrier.socks);
    let mut curl = carrier.command(CURL[0]);
    curl.args(&CURL[1..]).args([
        "--noproxy",
        "",
        "--proxy",
        &proxy,
        &format!("http://{NAME}:{}/", world.web),
    ]);
    assert_eq!(said(&curl.output().expect("curl"), 0), PAGE);
    carrier.end();
}

/// One end of a call: a program that answers each line with a line.
struct End {
    child: Child,
    lines: Receiver<String>,
}

impl End {
    fn start(mut command: Command, role: &str) -> Self {
        command.arg(format!("{SCRIPTS}/call.mjs")).arg(role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let pipe = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || pipe.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    fn hear(&self) -> Value {
        let line = self.lines.recv_timeout(HANG).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"))
    }

    fn ask(&mut self, question: &Value) -> Value {
        let pipe = self.child.stdin.as_mut().expect("a pipe");
        pipe.write_all(format!("{question}\n").as_bytes()).expect("it reads");
        self.hear()
    }

    /// Closes the browser.
    fn end(mut self) {
        drop(self.child.stdin.take());
        said(&output_of(self.child), 0);
    }
}

/// The candidates that a network address translator would leave: without it the ends would find the radios' own addresses.
fn reachable(description: &Value) -> Value {
    let text = description["sdp"].as_str().expect("a session description");
    let is_kept = |line: &&str| !line.starts_with("a=candidate:") || line.contains(&format!(" {FAR} "));
    let kept: String = text.split_inclusive("\r\n").filter(is_kept).collect();
    json!({ "type": description["type"], "sdp": kept })
}

pub fn a_call_of_two_browsers_goes_on(world: &World) {
    world.shell(
        Side::Server,
        &format!("ip link add call0 type veth peer name call1; ip address add {FAR}/32 dev call0; ip link set call0 up; ip link set call1 up"),
    );
    let carrier = world.carry(Way::Tunnel);
    let mut near = End::start(carrier.command("node"), "offer");
    let mut far = End::start(world.network.command(Side::Server, "node"), "answer");
    let answer = far.ask(&near.hear());
    assert_eq!(near.ask(&reachable(&answer)), json!("connecting"));
    let pictures = |end: &mut End| end.ask(&json!("report"))["pictures"].as_u64().expect("a count");
    until("both see each other", || pictures(&mut near) > 0 && pictures(&mut far) > 0);
    world.troubles(|what| world.carried(EACH_OF_CALL, what, &mut near.child));
    for end in [&mut near, &mut far] {
        let before = pictures(end);
        until("pictures go on", || pictures(end) >= before + MORE_PICTURES);
    }
    let sent = near.ask(&json!("stop"))["messages"].as_u64().expect("a count");
    until("every message was answered", || near.ask(&json!("report"))["answered"] == json!(sent));
    let report = near.ask(&json!("report"));
    println!("{report}");
    assert!(sent > 0 && report["in_order"] == json!(true), "{report}");
    assert_eq!((&report["remote"], &report["state"]), (&json!(FAR), &json!("connected")));
    near.end();
    far.end();
    carrier.end();
}
