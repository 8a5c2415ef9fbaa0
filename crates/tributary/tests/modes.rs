//! Modes of flows as an operator sets them: datagrams alone, and key frames first over a path that is too slow.

#[expect(dead_code, reason = "these programs are only started")]
#[path = "common/program.rs"]
mod program;

use program::Program;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use tributary_testing::{HANG, text, until};
use tributary_tun::ReceiveBatch;

/// A server with the target `camera`, which is the test's socket, and a client without a listener for connections.
struct World {
    directory: TempDir,
    target: UdpSocket,
    _server: Program,
    client: Program,
}

impl World {
    /// `path`: the local end of the client's path; `more`: further arguments of the client.
    fn new(path: &str, more: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        let key = at("key");
        let mut keygen = Command::new(env!("CARGO_BIN_EXE_tributary"));
        assert!(keygen.args(["keygen", "--shared", "--out", text(&key)]).status().unwrap().success());
        let target = UdpSocket::bind("127.0.0.1:0").unwrap();
        target.set_read_timeout(Some(HANG)).unwrap();
        let camera = format!("camera={}", target.local_addr().unwrap());
        let serve = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--forward",
            "127.0.0.1:9",
            "--udp",
            &camera,
            "--shared-key",
            text(&key),
        ];
        let server = Program::start(&serve, &at("server.log"));
        let path = format!("{path}={}", server.listening);
        let connect = ["connect", "--path", &path, "--udp", "127.0.0.1:0=camera", "--shared-key", text(&key)];
        let client = Program::start(&[&connect, more].concat(), &at("client.log"));
        Self { directory, target, _server: server, client }
    }

    /// A socket of an application, connected to the client.
    fn application(&self) -> UdpSocket {
        let application = UdpSocket::bind("127.0.0.1:0").unwrap();
        application.connect(self.client.listening.strip_suffix(" (UDP)").expect("a UDP address")).unwrap();
        application.set_read_timeout(Some(HANG)).unwrap();
        application
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("client.log")).unwrap()
    }
}

#[test]
fn datagrams_need_no_listener_for_connections() {
    let world = World::new("127.0.0.2", &[]);
    let application = world.application();
    application.send(b"question").unwrap();
    let mut buffer = [0; 100];
    let (length, from) = world.target.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"question", "{}", world.log());
    world.target.send_to(b"answer", from).unwrap();
    let length = application.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"answer");
    let refused =
        Command::new(env!("CARGO_BIN_EXE_tributary")).args(["connect", "--path", "auto"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("--listen") && said.contains("--udp") && said.contains("--socks"), "{said}");
}

/// Receives a datagram: its bytes, its ECN codepoint and its sender.
fn received(socket: &tributary_tun::UdpSocket<UdpSocket>) -> (Vec<u8>, u8, SocketAddr) {
    let (mut batch, mut all) = (ReceiveBatch::default(), Vec::new());
    until("a datagram arrives", || {
        if socket.fill(&mut batch).is_ok() {
            let runs =
                batch.runs().flat_map(|(from, run)| run.map(move |(bytes, ecn)| (bytes.to_vec(), ecn, from)));
            all.extend(runs);
        }
        !all.is_empty()
    });
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn ecn_codepoints_arrive_in_both_directions() {
    let world = World::new("127.0.0.2", &[]);
    let socket = |socket: UdpSocket| tributary_tun::UdpSocket::new(socket).unwrap();
    let application = world.application();
    let to = application.peer_addr().unwrap();
    let (application, target) = (socket(application), socket(world.target.try_clone().unwrap()));
    for ecn in [0, 1, 2, 3] {
        application.try_send(to, b"question", 8, ecn).unwrap();
        let (bytes, arrived, from) = received(&target);
        assert_eq!((&bytes[..], arrived), (&b"question"[..], ecn));
        target.try_send(from, b"answer", 6, 3 - ecn).unwrap();
        let (bytes, arrived, _) = received(&application);
        assert_eq!((&bytes[..], arrived), (&b"answer"[..], 3 - ecn));
    }
}

const KEY: u8 = 0x65;
const OTHER: u8 = 0x41;
const SECONDS: u8 = 4;
/// Packets of a key frame, one a second, and of each of the 29 other frames. 1000 bytes each: 1.7 Mbit/s.
const OF_KEY: u8 = 30;
const OF_OTHER: u8 = 6;

/// Packets of each key frame, and of others, that arrive when a video of 1.7 Mbit/s is sent over a path with a cap of 1 Mbit/s.
fn through_a_slow_path(rules: &[&str]) -> ([u8; SECONDS as usize], usize) {
    let world = World::new("127.0.0.2,cap=1", rules);
    let (application, target) = (world.application(), world.target.try_clone().unwrap());
    let receiving = std::thread::spawn(move || {
        let (mut keys, mut others, mut buffer) = ([0; SECONDS as usize], 0, [0; 2000]);
        loop {
            let length = target.recv(&mut buffer).unwrap();
            match (length, buffer[12]) {
                (13, 0) => return (keys, others),
                (_, KEY) => {
                    let time = u32::from_be_bytes([buffer[4], buffer[5], buffer[6], buffer[7]]);
                    keys[time as usize / 90_000] += 1;
                }
                _ => others += 1,
            }
        }
    });
    for frame in 0..u32::from(SECONDS) * 30 {
        let (packets, nal) = if frame % 30 == 0 { (OF_KEY, KEY) } else { (OF_OTHER, OTHER) };
        for _ in 0..packets {
            let time = (frame * 3000).to_be_bytes();
            application
                .send(&[&[0x80, 96, 0, 0][..], &time, &[0, 0, 0, 7, nal], &[1; 987]].concat())
                .unwrap();
        }
        // real time: a camera's frames.
        std::thread::sleep(Duration::from_millis(33));
    }
    // What waits for the path lives for a second at most; the last datagram then finds an empty queue.
    std::thread::sleep(Duration::from_millis(1500)); // real time: the lifetime of a key frame.
    application.send(&[0; 13]).unwrap();
    receiving.join().unwrap()
}

#[test]
fn key_frames_arrive_over_a_path_that_is_too_slow_for_the_video() {
    let all_others = usize::from(SECONDS) * 29 * usize::from(OF_OTHER);
    let (keys, others) = through_a_slow_path(&["--priority", "camera=5:rtp-h264"]);
    assert_eq!(keys, [OF_KEY; SECONDS as usize], "and {others} others");
    assert!(others > all_others / 4 && others < all_others, "{others} of {all_others} others");
    let (keys, others) = through_a_slow_path(&[]);
    assert_ne!(keys, [OF_KEY; SECONDS as usize], "without the rule, and {others} of {all_others} others");
}
