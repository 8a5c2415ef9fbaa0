//! Compares the C controllers with their Rust references: both get the same events and must have the same
//! window after each event, within one segment.
//!
//! The controllers' code is compiled for user space (`bpf/replay.c`), so neither privileges nor clang
//! are needed. Events come from a closed loop of the reference over two paths with queues, losses,
//! timeouts, spurious losses and times when the application limits the sender.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tributary_cc::{Ack, CongestionController, Loss, LossKind, Setup, Siblings, create};
use tributary_types::{Instant, Rng};

const MSS: u64 = 1448;
/// Milliseconds of each recording.
const LENGTH: u64 = 60_000;

/// One subflow under its reference controller, over a path of its own.
struct Flow {
    reference: Box<dyn CongestionController>,
    /// Round-trip time without a queue, microseconds.
    base: u64,
    /// Segments per millisecond, times 1000.
    rate: u64,
    /// Segments in the queue, times 1000, and the queue's capacity.
    queue: u64,
    room: u64,
    /// Segments acknowledged but not yet reported, times 1000.
    due: u64,
    /// Smoothed round-trip time, 1/8 µs, as the kernel stores it.
    srtt: u64,
    recovering_until: Option<u64>,
    /// The current loss was detected by the timer: slow start continues during recovery.
    timed_out: bool,
    round_until: u64,
}

impl Flow {
    fn new(name: &str, base: u64, rate: u64, room: u64) -> Self {
        let reference = create(name, Setup::new(MSS).without_idle_restart()).unwrap();
        Self {
            reference,
            base,
            rate,
            queue: 0,
            room,
            due: 0,
            srtt: 0,
            recovering_until: None,
            timed_out: false,
            round_until: 0,
        }
    }

    fn rtt(&self) -> u64 {
        self.base + self.queue * 1000 / self.rate
    }
}

/// A recording and the reference's result: (event, subflow's window in bytes).
struct Recording {
    lines: Vec<String>,
    windows: Vec<u64>,
}

struct World {
    flows: Vec<Flow>,
    rng: Rng,
    recording: Recording,
    millis: u64,
}

impl World {
    fn new(name: &str, flows: Vec<Flow>, seed: u64) -> Self {
        let first = format!("use {name} {} {MSS} 10", flows.len());
        let recording = Recording { lines: vec![first], windows: Vec::new() };
        Self { flows, rng: Rng::new(seed), recording, millis: 0 }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_millis(self.millis)
    }

    fn record(&mut self, at: usize, line: String) {
        self.recording.lines.push(line);
        self.recording.windows.push(self.flows[at].reference.window());
    }

    fn run(mut self) -> Recording {
        for millis in 1..=LENGTH {
            self.millis = millis;
            for at in 0..self.flows.len() {
                self.step(at);
            }
        }
        self.recording
    }

    fn step(&mut self, at: usize) {
        let millis = self.millis;
        let flow = &mut self.flows[at];
        if flow.recovering_until.is_some_and(|until| until <= millis) {
            flow.recovering_until = None;
            let now = Instant::ZERO + Duration::from_millis(millis);
            flow.reference.on_recovery_end(now);
            self.record(at, format!("end {at}"));
        }
        let flow = &mut self.flows[at];
        let rtt = flow.rtt();
        // Window over round-trip time, in thousandths of a segment per millisecond.
        let sent = flow.reference.window() * 1_000_000 / MSS / rtt;
        flow.queue = (flow.queue + sent).saturating_sub(flow.rate);
        flow.due += sent.min(flow.rate);
        let segments = flow.due / 1000;
        if segments > 0 {
            flow.due %= 1000;
            self.acknowledge(at, segments, rtt);
        }
        // Delay-based controllers fill no queue, so their losses are random.
        let lost = self.flows[at].queue > self.flows[at].room || self.rng.below(1000) == 0;
        if lost && self.flows[at].recovering_until.is_none() {
            self.lose(at);
        }
    }

    fn acknowledge(&mut self, at: usize, segments: u64, rtt: u64) {
        let (now, millis) = (self.now(), self.millis);
        let views: Vec<_> = self.flows.iter().map(|flow| flow.reference.view()).collect();
        let flow = &mut self.flows[at];
        flow.srtt = if flow.srtt == 0 { rtt * 8 } else { flow.srtt - flow.srtt / 8 + rtt };
        let round_ended = millis >= flow.round_until;
        if round_ended {
            flow.round_until = millis + rtt / 1000;
        }
        // In one second out of eleven the application has nothing to send.
        let cwnd_limited = millis / 1000 % 11 != 7;
        let in_recovery = flow.recovering_until.is_some() && !flow.timed_out;
        let ack = Ack {
            now,
            bytes: segments * MSS,
            in_flight_before: flow.reference.window(),
            in_flight: flow.reference.window(),
            rtt: Some(Duration::from_micros(rtt)),
            srtt: Duration::from_nanos(flow.srtt * 125),
            min_rtt: Duration::from_micros(flow.base),
            rate: None,
            cwnd_limited,
            in_recovery,
            round_ended,
        };
        flow.reference.on_ack(&ack, Siblings::new(&views, at));
        let (srtt, base) = (flow.srtt, flow.base);
        let flags = [cwnd_limited, in_recovery, round_ended].map(u8::from);
        let [limited, recovery, round] = flags;
        self.record(at, format!("ack {at} {segments} {rtt} {srtt} {base} {limited} {recovery} {round}"));
    }

    fn lose(&mut self, at: usize) {
        let (now, millis) = (self.now(), self.millis);
        let views: Vec<_> = self.flows.iter().map(|flow| flow.reference.view()).collect();
        let kind = if self.rng.below(8) == 0 { LossKind::Timeout } else { LossKind::Fast };
        let spurious = kind == LossKind::Fast && self.rng.below(10) == 0;
        let flow = &mut self.flows[at];
        let loss = Loss { now, kind, bytes: MSS, in_flight: flow.reference.window() };
        flow.reference.on_loss(&loss, Siblings::new(&views, at));
        flow.queue = 0;
        flow.recovering_until = Some(millis + flow.rtt() / 1000 + 1);
        flow.timed_out = kind == LossKind::Timeout;
        let word = if kind == LossKind::Timeout { "timeout" } else { "fast" };
        self.record(at, format!("{word} {at}"));
        if spurious {
            let flow = &mut self.flows[at];
            flow.reference.on_spurious_loss(now);
            flow.recovering_until = None;
            self.record(at, format!("undo {at}"));
            self.flows[at].reference.on_recovery_end(now);
            self.record(at, format!("end {at}"));
        }
    }
}

/// The replay program, compiled with the system's C compiler.
fn program(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/replay.c");
    let program = directory.join("replay");
    let status =
        Command::new("cc").args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source).status();
    assert!(status.expect("a C compiler (scripts/setup installs gcc)").success());
    program
}

/// (window, threshold) after each line but the first, in segments.
fn replay(program: &Path, lines: &[String]) -> Vec<(u64, u64)> {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("just compiled");
    let text = lines.join("\n") + "\n";
    let mut input = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("runs to its end");
    writer.join().expect("does not panic").expect("the program reads everything");
    assert!(output.status.success());
    let parse = |line: &str| line.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let text = String::from_utf8(output.stdout).expect("digits");
    text.lines().map(|line| parse(line).expect("two numbers")).collect()
}

/// Greatest difference between C and reference in whole segments, as the kernel counts windows, and the
/// first event with a difference of more than one.
fn difference(recording: &Recording, replayed: &[(u64, u64)]) -> (u64, usize) {
    assert_eq!(recording.windows.len(), replayed.len(), "one answer for each event");
    let apart = |at: usize| (recording.windows[at] / MSS).abs_diff(replayed[at].0);
    let first = (0..replayed.len()).find(|at| apart(*at) > 1).unwrap_or_default();
    ((0..replayed.len()).map(apart).max().unwrap_or_default(), first)
}

/// Two paths that differ, two equal paths, and one path.
fn worlds(name: &str) -> Vec<World> {
    let wifi = || Flow::new(name, 20_000, 2_000, 30_000);
    let lte = || Flow::new(name, 60_000, 800, 40_000);
    let fast = || Flow::new(name, 5_000, 8_000, 60_000);
    vec![
        World::new(name, vec![wifi(), lte()], 1),
        World::new(name, vec![wifi(), wifi()], 2),
        World::new(name, vec![fast(), lte(), wifi()], 3),
        World::new(name, vec![lte()], 4),
    ]
}

fn agrees(name: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = program(directory.path());
    for (index, world) in worlds(name).into_iter().enumerate() {
        let flows = world.flows.len();
        let recording = world.run();
        let losses = recording.lines.iter().filter(|line| !line.starts_with("ack")).count();
        assert!(losses > 20, "{name}, world {index}: the recording has {losses} losses");
        let replayed = replay(&program, &recording.lines);
        let (most, at) = difference(&recording, &replayed);
        println!("{name}, {flows} subflows: {} events, at most {most} segments apart", replayed.len());
        let around = &recording.lines[at.saturating_sub(5)..=at + 1];
        let windows = (recording.windows[at] / MSS, replayed[at].0);
        assert!(
            most <= 1,
            "{name}, world {index}: {most} segments apart, first {windows:?} after event {at}: {around:#?}"
        );
    }
}

#[test]
fn lia_is_its_reference() {
    agrees("lia");
}

#[test]
fn olia_is_its_reference() {
    agrees("olia");
}

#[test]
fn balia_is_its_reference() {
    agrees("balia");
}

#[test]
fn compound_is_its_reference() {
    agrees("compound");
}

#[test]
fn wvegas_is_its_reference() {
    agrees("wvegas");
}

#[test]
fn the_last_socket_to_close_removes_the_group() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = program(directory.path());
    let lines = [
        "use lia 3 1448 10",
        "ack 0 2 10000 80000 10000 1 0 0",
        "ack 1 2 10000 80000 10000 1 0 0",
        "close 0",
        "close 2",
        "close 1",
    ];
    let replayed = replay(&program, &lines.map(str::to_owned));
    let left: Vec<u64> = replayed[2..].iter().map(|(groups, _)| *groups).collect();
    assert_eq!(
        left,
        [1, 1, 0],
        "the group stays for its second member, and a socket that never joined changes nothing"
    );
}
