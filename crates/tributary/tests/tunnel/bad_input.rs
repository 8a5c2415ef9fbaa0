//! Networks and programs that a tunnel must withstand: no UDP and no long packets on the radios, one family of addresses only, answers of
//! strangers, and a flood of flows.
//!
//! Not here: what is missing on the machine, destinations that are refused, routes that lead back, and datagrams of every length (the
//! other cases of this program).

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use tributary_emu::{Side, VethNetwork};

use crate::World;
use crate::far_side::{self, NAME, PAGE, WEB, WEB_6, listening, said};
use crate::running::Running;

/// Flows that a tunnel has at once.
const MOST_FLOWS: usize = 512;

fn on(world: &World, side: Side, script: &str) {
    said(&world.network.command(side, "sh").args(["-ec", script]).output().expect("sh"), 0);
}

fn python(world: &World, script: &str) -> String {
    said(&world.on_client(&["python3", "-c", script]), 0)
}

/// Datagrams of every length come back from the far side.
fn datagrams_pass(world: &World) {
    assert_eq!(python(world, &far_side::echo_client(world.web)), "all\n");
}

pub fn datagrams_pass_where_udp_is_blocked(world: &World) {
    let block = "table inet block {
        chain arriving { type filter hook input priority 0; iifname \"path*\" meta l4proto udp drop; }
    }";
    for side in [Side::Client, Side::Server] {
        on(world, side, &format!("nft '{block}'"));
    }
    let tunnel = world.tunnel(&[]);
    datagrams_pass(world);
    assert_eq!(said(&world.page(NAME), 0), PAGE);
    assert_eq!(tunnel.end(), Some(0));
    for side in [Side::Client, Side::Server] {
        on(world, side, "nft delete table inet block");
    }
}

pub fn an_upload_passes_radios_that_drop_long_packets(world: &World) {
    const BYTES: usize = 8 << 20;
    for radio in 0..world.network.paths() {
        let (name, address) = (VethNetwork::interface(radio), Side::Server.address(radio));
        // With segmentation offload the kernel would hand over several segments as one packet, which is not dropped.
        on(world, Side::Client, &format!("ip link set {name} gso_max_segs 1"));
        // The far end drops long packets, and its route announces the segments of a longer MTU.
        let network = format!("10.77.{}.0/24", radio + 1);
        on(
            world,
            Side::Server,
            &format!(
                "ip link set {name} mtu 1280; ip route replace {network} dev {name} src {address} advmss 1460"
            ),
        );
    }
    let listener = world.network.run(Side::Server, || TcpListener::bind((WEB, 0)).expect("its own address"));
    let listener = listener.expect("a thread");
    let port = listener.local_addr().expect("bound").port();
    let sink = thread::spawn(move || {
        let (mut tcp, _) = listener.accept().expect("a connection");
        let mut got = Vec::new();
        tcp.read_to_end(&mut got).map(|_| got)
    });
    let tunnel = world.tunnel(&[]);
    python(
        world,
        &format!(
            "import socket; s = socket.create_connection(('{WEB}', {port})); s.sendall(bytes([7]) * {BYTES})"
        ),
    );
    let got = sink.join().expect("a thread").expect("the connection stays");
    assert!(got.len() == BYTES && got.iter().all(|byte| *byte == 7), "{} bytes", got.len());
    datagrams_pass(world);
    assert_eq!(tunnel.end(), Some(0));
    for radio in 0..world.network.paths() {
        let (name, address) = (VethNetwork::interface(radio), Side::Server.address(radio));
        on(world, Side::Client, &format!("ip link set {name} gso_max_segs 65535"));
        let network = format!("10.77.{}.0/24", radio + 1);
        on(
            world,
            Side::Server,
            &format!("ip link set {name} mtu 1500; ip route replace {network} dev {name} src {address}"),
        );
    }
}

pub fn radios_with_ipv6_only_carry_both_families(world: &World) {
    let name = VethNetwork::interface(0);
    let (near, far) = (Side::Client.address6(0), Side::Server.address6(0));
    on(
        world,
        Side::Client,
        &format!("ip address add {near}/64 dev {name} nodad; ip address del 10.77.1.2/24 dev {name}"),
    );
    on(world, Side::Server, &format!("ip address add {far}/64 dev {name} nodad"));
    let mut command = world.ends.serve(world.network.command(Side::Server, "unshare"));
    let mut server = Running::start(command.args(["--listen", &format!("[{far}]:0")]));
    let path = format!("{name}={}", listening(&mut server.0));
    let mut command = world.program();
    command.args(["tunnel", "--path", &path, "--shared-key"]).arg(world.ends.at("key"));
    let tunnel = world.start(command, false);
    for host in [NAME.to_owned(), WEB.to_string(), format!("[{WEB_6}]")] {
        assert_eq!(said(&world.page(&host), 0), PAGE, "{host}");
    }
    datagrams_pass(world);
    assert_eq!(tunnel.end(), Some(0));
    on(
        world,
        Side::Client,
        &format!("ip address del {near}/64 dev {name}; ip address add 10.77.1.2/24 dev {name}"),
    );
    on(world, Side::Client, &format!("ip route replace default dev {name} scope link table 101"));
    on(world, Side::Server, &format!("ip address del {far}/64 dev {name}"));
}

pub fn a_machine_without_ipv6_has_a_tunnel_for_ipv4(world: &World) {
    let switch = |off: u8| {
        on(world, Side::Client, &format!("echo {off} > /proc/sys/net/ipv6/conf/all/disable_ipv6"));
    };
    switch(1);
    let tunnel = world.tunnel(&[]);
    for host in [NAME.to_owned(), WEB.to_string()] {
        assert_eq!(said(&world.page(&host), 0), PAGE, "{host}");
    }
    assert_eq!(world.page(format!("[{WEB_6}]")).status.code(), Some(7), "no route");
    assert_eq!(tunnel.end(), Some(0));
    switch(0);
}

pub fn a_family_that_the_server_does_not_reach_is_refused(world: &World) {
    // Public addresses that the server has no route for, of either family. Linux tells a program that a host is unreachable only if it
    // asks for errors (IP_RECVERR, IPV6_RECVERR), as QUIC's do.
    let tunnel = world.tunnel(&[]);
    let script = "import socket, errno
for family, host, level, option in [(socket.AF_INET, '192.0.2.200', 0, 11), (socket.AF_INET6, '2001:db8:9::1', 41, 25)]:
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(level, option, 1)
    s.settimeout(60)
    s.connect((host, 443))
    s.send(b'x')
    try: s.recv(1)
    except OSError as error: print(errno.errorcode[error.errno])";
    assert_eq!(python(world, script), "EHOSTUNREACH\nEHOSTUNREACH\n");
    for host in ["192.0.2.200", "[2001:db8:9::1]"] {
        // curl: 7, 52 or 56, the connection was reset.
        let refused = world.page(host);
        assert!(matches!(refused.status.code(), Some(7 | 52 | 56)), "{refused:?}");
    }
    assert_eq!(tunnel.end(), Some(0));
}

/// A UDP socket of the far side.
fn far_socket(world: &World) -> (UdpSocket, SocketAddr) {
    let socket = world.network.run(Side::Server, || UdpSocket::bind((WEB, 0)).expect("its own address"));
    let socket = socket.expect("a thread");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

pub fn answers_of_strangers_reach_no_program(world: &World) {
    let (asked, address) = far_socket(world);
    let (stranger, _) = far_socket(world);
    thread::spawn(move || {
        let (_, from) = asked.recv_from(&mut [0; 16]).expect("a question");
        for _ in 0..10 {
            // The second one may learn that nobody takes them.
            let _ = stranger.send_to(b"false", from);
        }
        asked.send_to(b"true", from).expect("it leaves");
    });
    let tunnel = world.tunnel(&[]);
    let script = format!(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60)
s.sendto(b'who', ('{WEB}', {})); print(*s.recvfrom(16))",
        address.port()
    );
    assert_eq!(python(world, &script), format!("b'true' ('{WEB}', {})\n", address.port()));
    assert_eq!(tunnel.end(), Some(0));
}

pub fn a_flood_of_flows_is_bounded_and_an_old_one_goes_on(world: &World) {
    let (echo, address) = far_socket(world);
    let sources = Arc::new(Mutex::new(BTreeSet::new()));
    thread::spawn({
        let sources = sources.clone();
        move || {
            let mut datagram = [0; 16];
            while let Ok((length, from)) = echo.recv_from(&mut datagram) {
                sources.lock().expect("no panic").insert(from);
                let _ = echo.send_to(&datagram[..length], from);
            }
        }
    });
    let tunnel = world.tunnel(&[]);
    let script = format!(
        "import socket
to = ('{WEB}', {})
def flow():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(60)
    return s
first = flow()
def ask(n):
    first.sendto(b'%d' % n, to)
    assert first.recv(16) == b'%d' % n
ask(0)
for n in range(1, 3001):
    flow().sendto(b'flood', to)
    if n % 100 == 0: ask(n)
print('all')",
        address.port()
    );
    assert_eq!(python(world, &script), "all\n");
    let flows = sources.lock().expect("no panic").len();
    assert!((2..=MOST_FLOWS).contains(&flows), "{flows} flows");
    assert_eq!(tunnel.end(), Some(0));
}
