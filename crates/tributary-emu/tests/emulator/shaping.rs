//! Rate, delay, loss and dead paths, measured with the kernel's sockets.

use crate::support::{meets, network, two_paths};
use core::time::Duration;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::Instant;
use tributary_emu::traffic::TcpFlow;
use tributary_emu::{Network, Side};
use tributary_link::{LossSpec, Moment};
use tributary_types::Bitrate;

/// Payload share of a full TCP segment with timestamps.
const PAYLOAD: f64 = 1448.0 / 1500.0;

pub fn tcp_reaches_the_rate() {
    let network = network(&two_paths(47, 400));
    for (path, mbps) in [(0, 47.0), (1, 400.0)] {
        let error = || {
            let goodput = TcpFlow::on_path(path).run(&network).unwrap();
            let error = goodput.as_mbps_f64() / (mbps * PAYLOAD) - 1.0;
            println!("path {path}: {goodput}, {:+.2} %", error * 100.0);
            assert!(error < 0.02, "{goodput} on {mbps} Mbit/s: the emulator must keep this rate");
            error
        };
        meets(&network, error, |error| *error > -0.02);
    }
}

/// Two connected UDP sockets across the first path: the server's and the client's.
fn udp_pair(network: &Network) -> (UdpSocket, UdpSocket) {
    let bind = |side: Side| {
        let socket = network.run(side, || UdpSocket::bind((side.address(0), 7000))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        socket
    };
    let (server, client) = (bind(Side::Server), bind(Side::Client));
    server.connect((Side::Client.address(0), 7000)).unwrap();
    client.connect((Side::Server.address(0), 7000)).unwrap();
    (server, client)
}

pub fn delay_is_as_asked() {
    let network = network(&two_paths(47, 400));
    let (server, client) = udp_pair(&network);
    // 1000 bytes take 170.2 µs each way, besides 10 ms of base RTT.
    let exact = Duration::from_nanos(10_340_425);
    let median = || {
        let mut trips: Vec<Duration> = (0..200).map(|_| round_trip(&server, &client)).collect();
        trips.sort();
        println!("median {:?}, least {:?}, exact {exact:?}", trips[100], trips[0]);
        assert!(trips[0] >= exact, "nothing may be early");
        trips[100]
    };
    meets(&network, median, |median| *median < exact + Duration::from_millis(1));
}

/// Time of 1000 bytes there and back.
fn round_trip(server: &UdpSocket, client: &UdpSocket) -> Duration {
    let mut buffer = [0; 1500];
    let begin = Instant::now();
    client.send(&[0; 972]).unwrap();
    server.recv(&mut buffer).unwrap();
    server.send(&[0; 972]).unwrap();
    client.recv(&mut buffer).unwrap();
    begin.elapsed() // real time: the emulator's delay is what is tested
}

pub fn loss_is_as_asked() {
    let mut scenario = two_paths(400, 400);
    scenario.paths[0].down.loss = LossSpec::Bernoulli(0.2);
    let network = network(&scenario);
    let (server, client) = udp_pair(&network);
    client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut buffer = [0; 1500];
    let mut received = 0;
    for _ in 0..20 {
        (0..100).for_each(|_| _ = server.send(&[0; 100]).unwrap());
        while client.recv(&mut buffer).is_ok() {
            received += 1;
        }
    }
    let audit = network.audit().unwrap();
    let stats = audit.links[0].stats;
    assert_eq!(stats.offered.packets, 2000);
    assert_eq!(stats.lost.packets + received, 2000);
    assert!(stats.is_conserved());
    assert!((300..500).contains(&stats.lost.packets), "{stats:?}");
}

pub fn a_dead_path_delivers_nothing() {
    let mut scenario = two_paths(47, 400);
    scenario.paths[0].dead = vec![(Moment::At(Duration::ZERO), Moment::At(Duration::from_secs(3600)))];
    let network = network(&scenario);
    let (server, client) = udp_pair(&network);
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    server.send(b"into the void").unwrap();
    assert_eq!(client.recv(&mut [0; 100]).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(network.audit().unwrap().links[0].stats.dead.packets, 1);
}

pub fn rewinding_starts_the_scenario_again() {
    let mut scenario = two_paths(47, 400);
    scenario.paths[0].dead =
        vec![(Moment::At(Duration::from_millis(300)), Moment::At(Duration::from_secs(3600)))];
    let network = network(&scenario);
    let (server, client) = udp_pair(&network);
    let passes = || {
        server.send(b"hello").unwrap();
        client.recv(&mut [0; 100]).is_ok()
    };
    while passes() {}
    assert!(network.now().as_nanos() >= 300_000_000);
    network.rewind().unwrap();
    assert!(passes() || network.now().as_nanos() >= 300_000_000);
    assert_eq!(
        network
            .total_capacity(
                tributary_link::Direction::Down,
                tributary_types::Instant::ZERO,
                tributary_types::Instant::from_millis(1000)
            )
            .as_bytes(),
        Bitrate::from_mbps(400).as_bps() / 8 + Bitrate::from_mbps(47).as_bps() / 8 * 3 / 10
    );
}
