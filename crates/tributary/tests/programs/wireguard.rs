//! WireGuard in user space inside the tunnel: both of its ends see UDP only.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;

use tributary_emu::Side;
use tributary_testing::{HANG, until};

use crate::far_side::WEB;
use crate::running::Running;
use crate::world::{Way, World, content};

const PORT: u16 = 51820;
/// Addresses inside WireGuard.
const NEAR: &str = "10.99.0.1";
const FAR: &str = "10.99.0.2";
const BYTES: u32 = 8_000_000;
const EACH: u64 = 600_000;

/// Starts both ends; the near one has its peer's address at the server's side.
fn peers(world: &World) -> [Running; 2] {
    let key = |name: &str| world.at(name).display().to_string();
    let sides = [(Side::Client, "wg-near", NEAR), (Side::Server, "wg-far", FAR)];
    for (side, name, _) in sides {
        world.shell(side, &format!("umask 077; wg genkey > {0}; wg pubkey < {0} > {0}.pub", key(name)));
    }
    std::array::from_fn(|own| {
        let ((side, name, inside), (_, peer, peer_inside)) = (sides[own], sides[1 - own]);
        let mut command = world.network.command(side, "wireguard-go");
        let running =
            Running::start(command.args(["-f", name]).env("LOG_LEVEL", "error").stderr(Stdio::null()));
        let socket = format!("/var/run/wireguard/{name}.sock");
        until("WireGuard is ready", || Path::new(&socket).exists());
        let (listen, endpoint) = match side {
            Side::Client => (String::new(), format!("endpoint {WEB}:{PORT}")),
            Side::Server => (format!("listen-port {PORT}"), String::new()),
        };
        let (file, peer_key) = (key(name), key(peer) + ".pub");
        world.shell(
            side,
            &format!(
                "wg set {name} private-key {file} {listen} peer $(cat {peer_key}) allowed-ips {peer_inside}/32 {endpoint}
                 ip address add {inside}/24 dev {name}; ip link set {name} mtu 1420 up"
            ),
        );
        running
    })
}

/// So many echoes come back.
fn ping(world: &World, count: u32) {
    let text =
        world.on(Side::Client, &["ping", "-q", "-i", "0.1", "-W", "30", "-c", &count.to_string(), FAR]);
    assert!(text.contains(&format!("{count} received")), "{text}");
}

/// Sends to whoever connects, and returns the port.
fn source(world: &World) -> u16 {
    let listener = world.network.run(Side::Server, || TcpListener::bind((FAR, 0)).expect("its own address"));
    let listener = listener.expect("a thread");
    let port = listener.local_addr().expect("bound").port();
    thread::spawn(move || {
        let (mut tcp, _) = listener.accept().expect("the client connects");
        tcp.write_all(&content(BYTES)).expect("the client reads");
    });
    port
}

pub fn wireguard_runs_inside(world: &World) {
    let carrier = world.carry(Way::Tunnel);
    let mut peers = peers(world);
    ping(world, 5);
    let port = source(world);
    let near = world.network.run(Side::Client, || TcpStream::connect((FAR, port)).expect("it listens"));
    let mut near = near.expect("a thread");
    near.set_read_timeout(Some(HANG)).expect("a socket");
    let reading = thread::spawn(move || {
        let mut got = Vec::new();
        near.read_to_end(&mut got).map(|_| got)
    });
    let child: &mut Child = &mut peers[0].0;
    world.troubles(|what| {
        world.carried(EACH, what, child);
        assert!(!reading.is_finished(), "everything was there before: {what}");
    });
    let got = reading.join().expect("a thread").expect("the connection stays");
    assert!(got == content(BYTES), "{} bytes", got.len());
    ping(world, 5);
    drop(peers);
    carrier.end();
}
