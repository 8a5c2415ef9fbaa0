//! Real TCP through a real tunnel: server, gateway, two access points and a device in namespaces.
//!
//! Without the right to create namespaces nothing runs: the program prints the reason, and fails when `CI=true`.

use core::time::Duration;
use socket2::{Domain, SockRef, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use tributary_emu::{Host, RelayNetwork};
use tributary_lab::tunnel::Tunnel;
use tributary_link::{LinkSpec, LossSpec, PathSpec, Scenario};
use tributary_nodes::{Coding, Mode, Status};
use tributary_testing::until;
use tributary_tun::Netlink;
use tributary_types::Bitrate;

const CASES: [(&str, fn()); 9] = [
    ("tcp_passes_in_every_mode_and_loss_is_repaired", tcp_passes_in_every_mode_and_loss_is_repaired),
    ("bursts_without_loss_arrive_whole", bursts_without_loss_arrive_whole),
    ("uploads_and_ipv6_pass", uploads_and_ipv6_pass),
    ("what_an_attacker_sends_changes_nothing", what_an_attacker_sends_changes_nothing),
    ("a_recorded_handshake_blocks_no_other", a_recorded_handshake_blocks_no_other),
    ("foreign_sources_are_dropped_and_counted", foreign_sources_are_dropped_and_counted),
    ("an_access_point_that_dies_interrupts_nothing", an_access_point_that_dies_interrupts_nothing),
    ("every_node_may_restart", every_node_may_restart),
    ("datagrams_longer_than_the_mtu_arrive", datagrams_longer_than_the_mtu_arrive),
];

fn main() -> ExitCode {
    tributary_testing::run_cases(&CASES, tributary_emu::isolate, |case, ()| case())
}

/// Two radios of 100 Mbit/s with 10 ms round trip; the first loses packets.
fn radios(loss: f64) -> RelayNetwork {
    let link = |loss| {
        let link = LinkSpec::constant(Bitrate::from_mbps(100));
        LinkSpec { loss: if loss > 0.0 { LossSpec::Bernoulli(loss) } else { LossSpec::None }, ..link }
    };
    let scenario = Scenario::new("two")
        .with_path(PathSpec::symmetric("wifi", link(loss)))
        .with_path(PathSpec::symmetric("wigig", link(0.0)))
        .with_rtt(Duration::from_millis(10));
    RelayNetwork::start(&scenario).expect("an isolated process may start a network")
}

fn tunnel(loss: f64, mode: Mode) -> Tunnel {
    let coding = Coding { mode, ..Coding::default() };
    Tunnel::start(radios(loss), &coding).expect("the nodes find each other")
}

/// Bytes of a transfer; each depends on its position.
fn content(length: usize) -> Vec<u8> {
    (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

fn listener(tunnel: &Tunnel, host: Host, address: IpAddr) -> TcpListener {
    let bind = || TcpListener::bind((address, 0)).expect("the host has the address");
    tunnel.network().run(host, bind).expect("the host runs")
}

/// Sends `length` bytes over TCP from a listener's host to a client on `to`, and checks them. A small
/// `buffer` at the receiver keeps the flow below the links' rate.
fn transfer(tunnel: &Tunnel, listener: &TcpListener, to: Host, length: usize, buffer: Option<usize>) {
    let mut stream = connect(tunnel, listener, to, buffer);
    let (mut sender, _) = listener.accept().expect("the client is there");
    std::thread::scope(|scope| {
        scope.spawn(|| sender.write_all(&content(length)).expect("the connection stays"));
        let mut got = vec![0; length];
        stream.read_exact(&mut got).expect("everything arrives");
        assert!(got == content(length), "the bytes are those that were sent");
    });
}

/// A connection from a host, with timeouts.
fn connect(tunnel: &Tunnel, listener: &TcpListener, from: Host, buffer: Option<usize>) -> TcpStream {
    let address = listener.local_addr().expect("it is bound");
    let limit = Duration::from_secs(60);
    let connect = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
        if let Some(bytes) = buffer {
            socket.set_recv_buffer_size(bytes).expect("a buffer can be set");
        }
        socket.connect_timeout(&address.into(), limit).expect("the tunnel carries a connection");
        socket.set_read_timeout(Some(limit)).expect("a limit can be set");
        socket.into()
    };
    tunnel.network().run(from, connect).expect("the host runs")
}

fn download(tunnel: &Tunnel, length: usize) {
    let listener = listener(tunnel, Host::Server, RelayNetwork::SERVER.into());
    transfer(tunnel, &listener, Host::Device, length, None);
}

fn status(tunnel: &Tunnel, role: &str) -> Status {
    let statuses = tunnel.statuses().expect("the nodes run");
    statuses.into_iter().find(|status| status.role == role).expect("the node runs")
}

fn tcp_passes_in_every_mode_and_loss_is_repaired() {
    for mode in [Mode::Systematic, Mode::Paper, Mode::Off] {
        let tunnel = tunnel(0.02, mode);
        let listener = listener(&tunnel, Host::Server, RelayNetwork::SERVER.into());
        // 32 kB in 12 ms leave the links spare time for redundant packets.
        transfer(&tunnel, &listener, Host::Device, 2_000_000, Some(16_000));
        download(&tunnel, 4_000_000);
        let device = status(&tunnel, "device").coding;
        println!("{mode:?}: {device:?}, gateway {:?}", status(&tunnel, "gateway").coding);
        assert_eq!(device.received > 0, mode != Mode::Off);
        assert!(device.recovered > 0 || mode == Mode::Off, "about one percent is lost: {device:?}");
        assert_eq!((device.malformed, device.mislabelled, device.ahead), (0, 0, 0), "{device:?}");
    }
}

/// A UDP socket of a host.
fn udp(tunnel: &Tunnel, host: Host, address: Ipv4Addr) -> UdpSocket {
    let bind = || UdpSocket::bind((address, 0)).expect("the host has the address");
    tunnel.network().run(host, bind).expect("the host runs")
}

/// Without loss nothing but the nodes themselves can lose a packet, or wait for one that does not come.
fn bursts_without_loss_arrive_whole() {
    for mode in [Mode::Systematic, Mode::Paper] {
        let tunnel = tunnel(0.0, mode);
        let server = udp(&tunnel, Host::Server, RelayNetwork::SERVER);
        let device = udp(&tunnel, Host::Device, RelayNetwork::tunnel(2));
        device.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit can be set");
        // Small packets, so that the receiver's buffer holds a whole burst. The nodes count each as a full one.
        SockRef::from(&device).set_recv_buffer_size(1 << 20).expect("a buffer can be set");
        let (to, mut buffer) = (device.local_addr().expect("bound"), [0; 200]);
        let mut burst = |packets: usize| {
            for _ in 0..packets {
                server.send_to(&[7; 100], to).expect("it leaves");
            }
            let arrived = (0..packets).take_while(|_| device.recv(&mut buffer).is_ok()).count();
            assert_eq!(arrived, packets, "{mode:?}: {:?}", tunnel.statuses());
        };
        // Bursts that do not fill the links, before and after their rate is known.
        [60, 400, 120, 160, 400].into_iter().for_each(&mut burst);
        download(&tunnel, 8_000_000);
        [160, 400, 60, 400].into_iter().for_each(&mut burst);
    }
}

fn uploads_and_ipv6_pass() {
    let tunnel = tunnel(0.0, Mode::Systematic);
    let listener = listener(&tunnel, Host::Server, RelayNetwork::SERVER6.into());
    transfer(&tunnel, &listener, Host::Device, 3_000_000, None);
    // The device listens and the server reads: data takes the uncoded direction.
    let device = self::listener(&tunnel, Host::Device, RelayNetwork::tunnel(2).into());
    transfer(&tunnel, &device, Host::Server, 3_000_000, None);
    let gateway = status(&tunnel, "gateway");
    assert!(gateway.inner.clamped > 0, "the server's SYN announces 1460");
    assert!(gateway.inner.duplicate > 0, "acknowledgements come over both access points");
}

/// An attacker between the device and access point 1: forwards everything and adds copies, truncated and
/// changed datagrams, and noise.
fn attacker(socket: UdpSocket, point: SocketAddr, ends: Arc<AtomicBool>, added: Arc<AtomicU64>) {
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a limit can be set");
    let (mut device, mut buffer) = (None, vec![0; 65_536]);
    while !ends.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let to = if from == point { device } else { Some(point) };
        device = if from == point { device } else { Some(from) };
        let Some(to) = to else { continue };
        let datagram = &buffer[..length];
        let mut changed = datagram.to_vec();
        changed[length / 2] ^= 0x40;
        let noise = vec![0xc1; length];
        for bytes in [datagram, &changed, &datagram[..length / 2], datagram, &noise, &[]] {
            // A full socket drops it, as a link would.
            let _ = socket.send_to(bytes, to);
        }
        added.fetch_add(1, Ordering::Relaxed);
    }
}

fn what_an_attacker_sends_changes_nothing() {
    let network = radios(0.0);
    let (address, _) = RelayNetwork::radio(0);
    let bind = || UdpSocket::bind((address, 7300)).expect("a free port");
    let socket = network.run(Host::AccessPoint(0), bind).expect("the host runs");
    let (ends, added) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let attacking = std::thread::spawn({
        let (ends, added) = (ends.clone(), added.clone());
        move || attacker(socket, (address, 7200).into(), ends, added)
    });
    let detours = [(0, (address, 7300).into())];
    let tunnel =
        Tunnel::start_with_detours(network, &Coding::default(), &detours).expect("the nodes find each other");
    download(&tunnel, 4_000_000);
    for (role, link) in [("device", "ap1"), ("access-point", "device")] {
        let link =
            status(&tunnel, role).links.into_iter().find(|known| known.name == link).expect("the link");
        println!("{role}: {link:?}, {} datagrams copied", added.load(Ordering::Relaxed));
        let refused = link.refused;
        assert!(refused.replayed > 0 && refused.forged > 0 && refused.malformed > 0, "{refused:?}");
        assert_eq!(link.sessions, 1, "the session held");
    }
    let device = status(&tunnel, "device").coding;
    assert_eq!(
        (device.malformed, device.mislabelled, device.ahead, device.stale),
        (0, 0, 0, 0),
        "{device:?}"
    );
    drop(tunnel);
    ends.store(true, Ordering::Relaxed);
    attacking.join().expect("the attacker ends");
}

/// Between the device and access point 1: forwards everything, and hands over the device's first datagram.
fn observer(socket: UdpSocket, point: SocketAddr, ends: Arc<AtomicBool>, first: mpsc::Sender<Vec<u8>>) {
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a limit can be set");
    let (mut device, mut buffer) = (None, vec![0; 65_536]);
    while !ends.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        if from != point {
            if device.is_none() {
                first.send(buffer[..length].to_vec()).expect("the test waits for it");
            }
            device = Some(from);
        }
        let Some(to) = (if from == point { device } else { Some(point) }) else { continue };
        // A full socket drops it, as a link would.
        let _ = socket.send_to(&buffer[..length], to);
    }
}

fn a_recorded_handshake_blocks_no_other() {
    let network = radios(0.0);
    let (address, _) = RelayNetwork::radio(0);
    let point = SocketAddr::from((address, 7200));
    let bind = |port| move || UdpSocket::bind((address, port)).expect("a free port");
    let socket = network.run(Host::AccessPoint(0), bind(7300)).expect("the host runs");
    let replaying = network.run(Host::AccessPoint(0), bind(0)).expect("the host runs");
    let (ends, (sender, first)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let observing = std::thread::spawn({
        let ends = ends.clone();
        move || observer(socket, point, ends, sender)
    });
    let detours = [(0, (address, 7300).into())];
    let mut tunnel =
        Tunnel::start_with_detours(network, &Coding::default(), &detours).expect("the nodes find each other");
    let init = first.recv().expect("the device begins");
    let replayed = std::thread::spawn({
        let ends = ends.clone();
        move || {
            let mut count = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                replaying.send_to(&init, point).expect("the network takes it");
                count += 1;
                // real time: the attacker's rate, not a wait for something
                std::thread::sleep(Duration::from_millis(1));
            }
            count
        }
    });
    for _ in 0..5 {
        tunnel.start_node(Host::Device).expect("it starts again");
        tunnel.wait_for_sessions().expect("no replay blocks a handshake");
    }
    ends.store(true, Ordering::Relaxed);
    let replayed = replayed.join().expect("the attacker ends");
    observing.join().expect("the observer ends");
    let points = tunnel.statuses().expect("the nodes run");
    let refused =
        points.iter().filter(|status| status.role == "access-point").flat_map(|status| &status.links);
    let refused: u64 = refused.map(|link| link.refused.replayed).sum();
    println!("{replayed} replays, {refused} refused");
    assert!(refused > 0);
}

fn foreign_sources_are_dropped_and_counted() {
    const FOREIGN: u64 = 10;
    let tunnel = tunnel(0.0, Mode::Systematic);
    let foreign = Ipv4Addr::new(10, 66, 0, 1);
    let bind = |host, address: Ipv4Addr| {
        let bind = || UdpSocket::bind((address, 0)).expect("the host has the address");
        tunnel.network().run(host, bind).expect("the host runs")
    };
    let add = || Netlink::open()?.add_address("cotag0", foreign.into(), 32);
    tunnel.network().run(Host::Device, add).expect("the host runs").expect("the device is there");
    let server = bind(Host::Server, RelayNetwork::SERVER);
    let to = server.local_addr().expect("bound");
    let (false_one, true_one) = (bind(Host::Device, foreign), bind(Host::Device, RelayNetwork::tunnel(2)));
    for _ in 0..FOREIGN {
        false_one.send_to(b"false", to).expect("it leaves");
    }
    true_one.send_to(b"true", to).expect("it leaves");
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit can be set");
    let (_, from) = server.recv_from(&mut [0; 16]).expect("the device's own packet arrives");
    assert_eq!(from, true_one.local_addr().expect("bound"));
    until("every false packet is counted", || status(&tunnel, "gateway").inner.forbidden >= FOREIGN);
    server.set_nonblocking(true).expect("it can be set");
    assert!(server.recv_from(&mut [0; 16]).is_err(), "nothing else has arrived");
}

fn an_access_point_that_dies_interrupts_nothing() {
    let mut tunnel = tunnel(0.0, Mode::Systematic);
    let listener = listener(&tunnel, Host::Server, RelayNetwork::SERVER.into());
    let mut stream = connect(&tunnel, &listener, Host::Device, None);
    let (mut sender, _) = listener.accept().expect("the client is there");
    let length = 8_000_000;
    std::thread::scope(|scope| {
        scope.spawn(|| sender.write_all(&content(length)).expect("the connection stays"));
        let mut got = vec![0; length];
        stream.read_exact(&mut got[..length / 2]).expect("the first half arrives");
        tunnel.stop_node(Host::AccessPoint(1));
        stream.read_exact(&mut got[length / 2..]).expect("the second half arrives over the other one");
        assert!(got == content(length), "the bytes are those that were sent");
    });
    tunnel.start_node(Host::AccessPoint(1)).expect("it starts again");
    tunnel.wait_for_sessions().expect("it is found again");
    download(&tunnel, 2_000_000);
    let link =
        status(&tunnel, "gateway").links.into_iter().find(|link| link.name == "ap2").expect("the link");
    assert_eq!(link.sessions, 2);
}

fn every_node_may_restart() {
    let mut tunnel = tunnel(0.0, Mode::Systematic);
    download(&tunnel, 1_000_000);
    for host in [Host::Gateway, Host::Device, Host::AccessPoint(0), Host::Gateway] {
        tunnel.start_node(host).expect("it starts again");
        tunnel.wait_for_sessions().expect("it is found again");
        download(&tunnel, 1_000_000);
        println!("after {host:?}: {:?}", status(&tunnel, "device").coding);
    }
}

fn datagrams_longer_than_the_mtu_arrive() {
    let tunnel = tunnel(0.0, Mode::Systematic);
    let mtu = status(&tunnel, "gateway").mtu;
    assert_eq!(mtu, 1362);
    // A datagram that fits passes whole, one of 3000 bytes in fragments.
    let server = udp(&tunnel, Host::Server, RelayNetwork::SERVER);
    let device = udp(&tunnel, Host::Device, RelayNetwork::tunnel(2));
    device.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit can be set");
    let to = device.local_addr().expect("bound");
    let mut buffer = [0; 4000];
    for length in [1, mtu - 28, 3000] {
        server.send_to(&content(length), to).expect("it leaves");
        let (got, _) = device.recv_from(&mut buffer).expect("it arrives");
        assert!(buffer[..got] == content(length), "{length} bytes");
    }
}
