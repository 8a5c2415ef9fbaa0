//! Kernel features through the network: IPv6, offloads, ECN marks, MPTCP, link events.

use crate::support::{isolated, network, two_paths};
use core::time::Duration;
use socket2::{MaybeUninitSlice, MsgHdrMut, Socket};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use tributary_emu::control::{Request, State};
use tributary_emu::traffic::TcpFlow;
use tributary_emu::{CommandOptions, Network, Side, VethNetwork, run_command};
use tributary_link::{Direction, LossSpec};
use tributary_testing::until;
use tributary_tun::{Netlink, Tun, TunError};

fn pattern(i: usize) -> u8 {
    (i * 31 + i / 253) as u8
}

/// Sends `length` patterned bytes down the flow and checks every one.
fn assert_intact(network: &Network, flow: &TcpFlow, length: usize) {
    let mut connection = flow.connect(network).unwrap();
    let (mut server, client) = (connection.server.try_clone().unwrap(), &mut connection.client);
    let sent: Vec<u8> = (0..length).map(pattern).collect();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            server.write_all(&sent).unwrap();
            server.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        assert_eq!(received.len(), length);
        assert!(received.iter().enumerate().all(|(i, byte)| *byte == pattern(i)));
    });
}

pub fn ipv6_streams_are_intact_under_loss() {
    let mut scenario = two_paths(300, 300);
    scenario.paths[0].down.loss = LossSpec::Bernoulli(0.01);
    let network = network(&scenario);
    for v6 in [false, true] {
        assert_intact(
            &network,
            &TcpFlow { v6, port: 5000 + u16::from(v6), ..TcpFlow::on_path(0) },
            8_000_000,
        );
    }
    let stats = network.audit().unwrap().links[0].stats;
    assert!(stats.lost.packets > 0 && stats.offered.packets > 2 * 8_000_000 / 1500, "{stats:?}");
}

/// linux/udp.h: payload of each datagram of a super-frame.
const UDP_SEGMENT: i32 = 103;

pub fn udp_super_frames_and_ecn_marks_pass() {
    let network = network(&two_paths(300, 300));
    for v6 in [false, true] {
        let address = |side: Side| -> SocketAddr {
            if v6 { (side.address6(0), 7000).into() } else { (side.address(0), 7000).into() }
        };
        let bind = |side: Side| network.run(side, || UdpSocket::bind(address(side))).unwrap().unwrap();
        let (server, client) = (bind(Side::Server), Socket::from(bind(Side::Client)));
        let sender = Socket::from(server.try_clone().unwrap());
        if v6 {
            sender.set_tclass_v6(0x02).unwrap();
            client.set_recv_tclass_v6(true).unwrap();
        } else {
            sender.set_tos_v4(0x02).unwrap();
            client.set_recv_tos_v4(true).unwrap();
        }
        let size: libc::c_int = 1000;
        // SAFETY: the option takes one int, valid for the call.
        let set = unsafe {
            libc::setsockopt(server.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, (&raw const size).cast(), 4)
        };
        assert_eq!(set, 0);
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let payload: Vec<u8> = (0..20_500).map(pattern).collect();
        server.send_to(&payload, address(Side::Client)).unwrap();
        let mut received = Vec::new();
        while received.len() < payload.len() {
            let (datagram, mark) = receive_marked(&client);
            assert_eq!(datagram.len(), 1000.min(payload.len() - received.len()));
            assert_eq!(mark & 3, 2, "ECT(0) arrives unchanged");
            received.extend(datagram);
        }
        assert_eq!(received, payload);
    }
}

/// One datagram and its traffic class.
fn receive_marked(socket: &Socket) -> (Vec<u8>, i32) {
    let mut bytes = Vec::with_capacity(2000);
    let mut control = Vec::with_capacity(64);
    let (length, control_length) = {
        let mut parts = [MaybeUninitSlice::new(bytes.spare_capacity_mut())];
        let mut message =
            MsgHdrMut::new().with_buffers(&mut parts).with_control(control.spare_capacity_mut());
        let length = socket.recvmsg(&mut message, 0).expect("a datagram within two seconds");
        (length, message.control_len())
    };
    // SAFETY: recvmsg has filled this many bytes of both buffers.
    unsafe {
        bytes.set_len(length);
        control.set_len(control_length);
    }
    // struct cmsghdr is 16 bytes; the traffic class follows, a byte (IPv4) or an int (IPv6).
    let control: &[u8] = &control;
    (bytes, i32::from(*control.get(16).expect("the traffic class was asked for")))
}

/// Announces the client's second path and allows it; MPTCP then joins over it.
fn prepare_mptcp(network: &Network) {
    let ip = |side, arguments: &[&str]| {
        let status = network.command(side, "ip").args(arguments).status().expect("iproute2 is installed");
        assert!(status.success(), "ip {arguments:?}");
    };
    for side in [Side::Client, Side::Server] {
        ip(side, &["mptcp", "limits", "set", "subflows", "4", "add_addr_accepted", "4"]);
    }
    ip(Side::Client, &["mptcp", "endpoint", "add", "10.77.2.2", "dev", "wigig", "subflow"]);
}

/// A counter of `MPTcpExt` on one side.
fn mptcp_counter(network: &Network, side: Side, name: &str) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let table = network.run(side, read).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("MPTcpExt:")).collect();
    let position = rows[0].split_whitespace().position(|word| word == name).expect("the kernel counts this");
    rows[1].split_whitespace().nth(position).unwrap().parse().unwrap()
}

fn mptcp() -> TcpFlow {
    TcpFlow { mptcp: true, ..TcpFlow::on_path(0) }
}

pub fn mptcp_joins_and_uses_both_paths() {
    let network = network(&two_paths(50, 150));
    prepare_mptcp(&network);
    let goodput = mptcp().run(&network).unwrap();
    println!("kernel MPTCP over 50 + 150 Mbit/s: {goodput}");
    assert_eq!(mptcp_counter(&network, Side::Server, "MPJoinAckRx"), 1);
    assert_eq!(mptcp_counter(&network, Side::Client, "MPFallbackTokenInit"), 0);
    let carried = |lane: usize| network.audit().unwrap().links[lane].stats.delivered.bytes;
    assert!(carried(0) > 5_000_000 && carried(2) > 15_000_000, "{} and {}", carried(0), carried(2));
}

pub fn mptcp_with_checksums_is_intact() {
    let mut scenario = two_paths(100, 300);
    scenario.paths[1].down.loss = LossSpec::Bernoulli(0.005);
    let network = network(&scenario);
    prepare_mptcp(&network);
    for side in [Side::Client, Side::Server] {
        let enable = || std::fs::write("/proc/sys/net/mptcp/checksum_enabled", "1");
        network.run(side, enable).unwrap().unwrap();
    }
    assert_intact(&network, &mptcp(), 8_000_000);
    for side in [Side::Client, Side::Server] {
        assert_eq!(mptcp_counter(&network, side, "DataCsumErr"), 0);
    }
}

pub fn veth_pairs_join_two_namespaces() {
    isolated();
    let network = VethNetwork::create(2).unwrap();
    for path in 0..network.paths() {
        let name = VethNetwork::interface(path);
        // The other path's server address is also one hop away from the client's address of this path.
        for server in [Side::Server.address(path), Side::Server.address(1 - path)] {
            let (from, to) = (Side::Client.address(path).to_string(), server.to_string());
            let route = ["route", "get", &to, "from", &from];
            let output = network.command(Side::Client, "ip").args(route).output().unwrap();
            let route = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(route.contains(&format!("dev {name}")), "{route}");
        }
        let listed = network.command(Side::Server, "ip").args(["-brief", "address", "show", &name]).output();
        let listed = String::from_utf8_lossy(&listed.unwrap().stdout).into_owned();
        assert!(
            listed.contains(&Side::Server.address(path).to_string()) && listed.contains("UP"),
            "{listed}"
        );
    }
}

pub fn an_unplugged_interface_comes_back() {
    let network = network(&two_paths(100, 300));
    for up in [false, true] {
        for side in [Side::Client, Side::Server] {
            network.set_link_state(side, "wigig", up).unwrap();
        }
        let flow = TcpFlow { v6: true, port: 5000 + u16::from(up), ..TcpFlow::on_path(1) };
        assert_eq!(flow.connect(&network).is_ok(), up);
    }
    // What the kernel drops because an interface goes down says nothing about the emulator.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = network.run(Side::Client, || UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
            while !done.load(Ordering::Relaxed) {
                // Fails while the interface is down.
                let _ = socket.send_to(&[0; 100], (Side::Server.address(1), 9));
                // real time: packets come slowly enough for the emulator.
                std::thread::sleep(Duration::from_micros(20));
            }
        });
        for up in [false, true].repeat(30) {
            network.set_link_state(Side::Client, "wigig", up).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(network.audit().unwrap().ring_full, 0);
    let error = network.set_link_state(Side::Client, "lte", false).unwrap_err().to_string();
    assert!(error.contains("`lte`") && error.contains("wifi, wigig"), "{error}");
}

pub fn commands_find_the_network() {
    isolated();
    let script = "test $TRIBUTARY_SERVER_WIGIG = 10.77.2.1 && test \"$TRIBUTARY_PATHS\" = 'wifi wigig' \
                  && test $TRIBUTARY_CLIENT6_WIFI = fd77:1::2 && test -d /sys && grep -q wigig /proc/net/dev \
                  && exit 7";
    let command = ["sh", "-c", script].map(Into::into);
    let server = CommandOptions { server: Some("sleep 1000"), ..CommandOptions::default() };
    let run = run_command(&two_paths(47, 140), &command, server).unwrap();
    assert_eq!(run.code, 7);
    let alone = CommandOptions::default();
    let missing = run_command(&two_paths(47, 140), &["no-such-program".into()], alone).unwrap_err();
    assert!(missing.to_string().contains("no-such-program"), "{missing}");
}

pub fn a_capture_has_what_each_side_sends_and_receives() {
    isolated();
    let network = network(&two_paths(47, 140));
    let directory = tempfile::tempdir().unwrap();
    let bind = |side: Side| {
        let bind = || UdpSocket::bind((side.address(1), 5000)).unwrap();
        network.run(side, bind).unwrap()
    };
    let (client, server) = (bind(Side::Client), bind(Side::Server));
    for side in [Side::Client, Side::Server] {
        let file = directory.path().join("run.pcapng");
        let capture = network.capture(&file, side).unwrap();
        for number in 0..5_u8 {
            client.send_to(&[number; 300], (Side::Server.address(1), 5000)).unwrap();
            server.recv_from(&mut [0; 400]).unwrap();
        }
        let captured = network.end_capture(capture).unwrap();
        assert_eq!(captured.missed, 0);
        // Raw IPv4 packets of 328 bytes, their payload included up to the limit.
        let bytes = std::fs::read(&file).unwrap();
        for number in 0..5_u8 {
            assert!(bytes.windows(100).any(|part| part == [number; 100]), "{number} at the {side:?}");
        }
        assert!(captured.packets >= 5, "{captured:?}");
    }
}

pub fn a_running_network_is_changed_by_command() {
    isolated();
    let directory = tempfile::tempdir().unwrap();
    let [socket, done] = ["radios", "done"].map(|name| directory.path().join(name));
    let asking = std::thread::spawn({
        let (socket, done) = (socket.clone(), done.clone());
        move || {
            until("the socket is there", || socket.exists());
            let before = Request::default().send(&socket).unwrap();
            let request = Request {
                path: Some("wigig".to_owned()),
                direction: Some(Direction::Down),
                rate_mbps: Some(5.0),
                loss: Some(0.5),
                blocked: true,
            };
            let changed = request.send(&socket).unwrap();
            let back = Request { path: request.path.clone(), ..Request::default() }.send(&socket).unwrap();
            let refused = [
                Request { path: Some("lte".to_owned()), ..Request::default() },
                Request { loss: Some(1.5), ..request.clone() },
                Request { path: None, ..request },
            ];
            let refused = refused.map(|request| request.send(&socket).unwrap_err().to_string());
            std::fs::write(done, "").unwrap();
            (before, changed, back, refused)
        }
    });
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done", done.display());
    let command = ["sh".into(), "-c".into(), script.into()];
    let control = CommandOptions { control: Some(&socket), ..CommandOptions::default() };
    let run = run_command(&two_paths(47, 140), &command, control).unwrap();
    let (before, changed, back, refused) = asking.join().unwrap();
    assert_eq!((run.code, socket.exists()), (0, false));
    let wigig =
        |state: &State| state.links[2..].iter().map(|l| (l.rate_mbps, l.loss, l.blocked)).collect::<Vec<_>>();
    assert_eq!(wigig(&before), [(140.0, 0.0, false); 2]);
    assert_eq!(wigig(&changed), [(5.0, 0.5, true), (140.0, 0.0, false)]);
    assert_eq!((wigig(&back), &back.links[..2]), (wigig(&before), &before.links[..2]));
    for (refused, word) in refused.iter().zip(["`lte`", "loss: 1.5", "`path`"]) {
        assert!(refused.contains(word), "{refused}");
    }
}

pub fn tun_queues_share_a_devices_packets() {
    isolated();
    let queues = Tun::create_queues("multi", true, 2).expect("an isolated process may create devices");
    let mut netlink = Netlink::open().expect("a route socket");
    netlink.set_link("multi", true, None).expect("the device is there");
    netlink.add_address("multi", Ipv4Addr::new(10, 80, 0, 1).into(), 24).expect("a free address");
    let socket = UdpSocket::bind("10.80.0.1:0").expect("the address is there");
    let hosts = 2..66_u8;
    hosts
        .clone()
        .for_each(|host| _ = socket.send_to(b"x", (Ipv4Addr::new(10, 80, 0, host), 9)).expect("a route"));
    let (mut buffer, mut seen) = (vec![0; tributary_tun::BUFFER], [(); 2].map(|()| BTreeSet::new()));
    while seen.iter().map(BTreeSet::len).sum::<usize>() < hosts.len() {
        for (queue, seen) in queues.iter().zip(&mut seen) {
            // Packets that IPv6 sends by itself are ignored.
            if let Ok(length @ 30..) = queue.read(&mut buffer)
                && buffer[..length][tributary_tun::VIRTIO] == 0x45
            {
                seen.insert(buffer[tributary_tun::VIRTIO + 19]);
            }
        }
    }
    assert!(seen.iter().all(|seen| !seen.is_empty()), "64 flows and one queue without any");
    let _single = Tun::create("single", false).expect("another name is free");
    let taken = Tun::create("single", false).expect_err("it is taken");
    assert!(matches!(taken, TunError::Busy { .. }), "{taken}");
}
