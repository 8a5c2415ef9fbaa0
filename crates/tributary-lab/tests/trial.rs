//! Trials on real sockets: some that break no rule, and for each rule one that breaks it.
//!
//! Without the right to create namespaces nothing runs: the program prints the reason, and fails when `CI=true`.

use core::time::Duration;
use std::process::ExitCode;
use tributary_lab::trial::{Bounds, Tried, judged, run};
use tributary_sim::trial::{Act, End, Operation, Rule, Trial, TrialPath, Way};

const CASES: [(&str, fn()); 2] = [
    ("trials_break_no_rule", trials_break_no_rule),
    ("each_rule_is_broken_by_what_it_does_not_know", each_rule_is_broken_by_what_it_does_not_know),
];

fn main() -> ExitCode {
    // The ends of a trial are this program, started again.
    if std::env::args().nth(1).as_deref() == Some("endpoint") {
        return ExitCode::from(u8::from(!tributary_lab::endpoint::run()));
    }
    tributary_testing::run_cases(&CASES, tributary_emu::isolate, |case, ()| case())
}

fn trial(paths: usize, acts: &[(u64, Act)]) -> Trial {
    let path = TrialPath { up_kbps: 4000, down_kbps: 4000, rtt_ms: 40, queue: 40_000, loss_ppm: 0 };
    Trial {
        seed: 1,
        scheduler: "fbdt".to_owned(),
        congestion: "cubic".to_owned(),
        tls: true,
        early: false,
        receive_credit: 64 << 20,
        send_buffer: 44 << 20,
        paths: vec![path; paths],
        operations: acts.iter().cloned().map(|(at_ms, act)| Operation { at_ms, act }).collect(),
    }
}

fn write(end: End, stream: u8, bytes: u64) -> (u64, Act) {
    (0, Act::Write { end, stream, bytes, priority: stream, finish: true })
}

/// Faults on the second path and on streams; both ends write on each of three streams, and one sends datagrams.
fn faults() -> Trial {
    use End::{Client, Server};
    let (path, for_ms) = (1, 300);
    let mut acts = vec![
        (0, Act::Datagrams { end: Client, stream: 9, size: 500, count: 50, every_ms: 20 }),
        (100, Act::Loss { path, per_mille: 100, for_ms }),
        (200, Act::Stall { end: Client, stream: 0, for_ms: 1000 }),
        (300, Act::Pace { end: Server, stream: 1, bytes: 3000, for_ms: 500 }),
        (400, Act::Dead { path, way: Way::Up, for_ms }),
        (500, Act::Abort { end: Client, stream: 2 }),
        (700, Act::Dead { path, way: Way::Down, for_ms }),
        (800, Act::Priority { end: Server, stream: 1, priority: 0 }),
        (1000, Act::Rate { path, way: Way::Both, kbps: 100, for_ms }),
        (1300, Act::Delay { path, way: Way::Both, ms: 100, for_ms }),
        (1600, Act::Absent { path, both_told: true, for_ms }),
        (1700, Act::Refuse { path, for_ms }),
        (2400, Act::Reset { path, end: Server, guesses: false }),
        (2700, Act::Rebind { path, answers: false }),
        (2900, Act::Rebind { path, answers: true }),
        (3000, Act::Absent { path, both_told: false, for_ms }),
        (3400, Act::Suspend { end: Client, for_ms }),
        (3800, Act::Suspend { end: Server, for_ms }),
    ];
    for stream in 0..3 {
        acts.extend([write(Client, stream, 200_000), write(Server, stream, 800_000)]);
    }
    trial(2, &acts)
}

fn restart(end: End) -> Trial {
    trial(2, &[write(End::Server, 0, 2_000_000), write(End::Client, 1, 20_000), (900, Act::Restart { end })])
}

fn trials_break_no_rule() {
    let abandoned =
        trial(1, &[write(End::Server, 0, 9_000_000), (800, Act::Abandon { end: End::Client, code: 4 })]);
    let too_soon =
        trial(1, &[write(End::Server, 0, 400_000), (5, Act::Abandon { end: End::Client, code: 4 })]);
    let plain = Trial { tls: false, early: true, ..faults() };
    let all = [
        ("faults", faults()),
        ("faults without TLS, early", plain),
        ("the server is started again", restart(End::Server)),
        ("the client is started again", restart(End::Client)),
        ("the client abandons the session", abandoned),
        ("the client abandons it before there is one", too_soon),
    ];
    std::thread::scope(|scope| {
        for (name, trial) in &all {
            scope.spawn(move || match run(trial).unwrap_or_else(|error| panic!("{name}: {error}")) {
                Tried::Passed(outcome, _) => assert!(outcome.read > 200_000, "{name}: {outcome:?}"),
                Tried::Broken(fault) => panic!("{name}: {fault}"),
                Tried::Inexact(audit) => panic!("{name}: not judged, {}", audit.reasons.join(", ")),
            });
        }
    });
}

fn each_rule_is_broken_by_what_it_does_not_know() {
    let download = trial(1, &[write(End::Server, 0, 1_500_000)]);
    let with = |more: (u64, Act)| {
        let mut trial = download.clone();
        trial.operations.push(Operation { at_ms: more.0, act: more.1 });
        trial
    };
    let dead = with((500, Act::Dead { path: 0, way: Way::Both, for_ms: 8000 }));
    // On a path with losses liveness promises nothing.
    let mut lossy = [download.clone(), dead.clone()];
    lossy.iter_mut().for_each(|trial| trial.paths[0].loss_ppm = 1);
    let bulk = |more: &[(u64, Act)]| {
        let writes = (0, Act::Bulk { end: End::Client, stream: 0, for_ms: 6500 });
        trial(2, &[&[writes], more].concat())
    };
    let slow = |path| (0, Act::Rate { path, way: Way::Up, kbps: 500, for_ms: 6500 });
    let (bounds, none) = (Bounds::default(), Duration::ZERO);
    let lossy_bounds = Bounds { delivery: Duration::from_secs(1), ..bounds };
    // More than the application has bytes for: it panics.
    let sends =
        |size| with((500, Act::Datagrams { end: End::Client, stream: 1, size, count: 1, every_ms: 1 }));
    let all = [
        (Rule::Panic, sends(10), sends(1 << 30), bounds),
        (Rule::Content, download.clone(), with(write(End::Client, 1, 1000)), bounds),
        (Rule::Liveness, download.clone(), dead, bounds),
        (Rule::Delivery, lossy[0].clone(), lossy[1].clone(), lossy_bounds),
        (Rule::Memory, download.clone(), download.clone(), Bounds { memory: 0, ..bounds }),
        (Rule::Places, download.clone(), download.clone(), Bounds { lingering: none, ..bounds }),
        (Rule::Closed, download.clone(), with((500, Act::Restart { end: End::Server })), bounds),
        (Rule::BestPath, bulk(&[]), bulk(&[slow(0), slow(1)]), bounds),
    ];
    std::thread::scope(|scope| {
        for (rule, known, happens, bounds) in &all {
            scope.spawn(move || {
                // After a session its connections are left for milliseconds, which the first look may come too late for.
                let mut looks = if *rule == Rule::Places { 5 } else { 1 };
                loop {
                    looks -= 1;
                    match judged(known, happens, bounds).expect("the trial can be carried out") {
                        Tried::Broken(fault) => return assert_eq!(fault.rule, *rule, "{fault}"),
                        Tried::Passed(outcome, _) => {
                            assert!(looks > 0, "{rule:?} is not broken: {outcome:?}")
                        }
                        Tried::Inexact(audit) => panic!("{rule:?}: not judged, {}", audit.reasons.join(", ")),
                    }
                }
            });
        }
    });
}
