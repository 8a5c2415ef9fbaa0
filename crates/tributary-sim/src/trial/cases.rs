//! One fault at a time in a download of known length, with the longest time that it may take: as picoquic's multipath tests have.

use core::time::Duration;

use super::script::{Act, End, Operation, Trial, TrialPath, Way};

/// A trial with a limit.
#[derive(Clone, Debug)]
pub struct Case {
    /// What happens.
    pub name: &'static str,
    /// The trial.
    pub trial: Trial,
    /// The last byte is read within this time, or both ends know that the session was abandoned.
    pub within: Duration,
}

/// Bytes of the download: 2.2 s at the rate of both paths without heads, 3.3 s on the first, 6.7 s on the second.
const BYTES: u64 = 4_000_000;
/// A fault that does not end while the download runs.
const FOR_GOOD: u64 = 30_000;
/// When the fault begins.
const AT: u64 = 1000;

/// 10 Mbit/s with a round trip of 20 ms, and 5 Mbit/s with 60 ms.
fn paths() -> Vec<TrialPath> {
    let path =
        |kbps, rtt_ms| TrialPath { up_kbps: kbps, down_kbps: kbps, rtt_ms, queue: 100_000, loss_ppm: 0 };
    vec![path(10_000, 20), path(5_000, 60)]
}

fn case(name: &'static str, within_ms: u64, paths: Vec<TrialPath>, acts: &[(u64, Act)]) -> Case {
    let write = Act::Write { end: End::Server, stream: 0, bytes: BYTES, priority: 0, finish: true };
    let acts: Vec<_> = [(0, write)].into_iter().chain(acts.iter().cloned()).collect();
    of_acts(name, within_ms, paths, &acts)
}

fn of_acts(name: &'static str, within_ms: u64, paths: Vec<TrialPath>, acts: &[(u64, Act)]) -> Case {
    let trial = Trial {
        seed: 1,
        scheduler: "fbdt".to_owned(),
        congestion: "cubic".to_owned(),
        tls: true,
        early: true,
        receive_credit: 64 << 20,
        send_buffer: 44 << 20,
        paths,
        operations: acts.iter().cloned().map(|(at_ms, act)| Operation { at_ms, act }).collect(),
    };
    Case { name, trial, within: Duration::from_millis(within_ms) }
}

/// Every case. A limit is what the paths that are left need, the time until the session notices, and some more.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = broken_paths();
    cases.extend(disturbed_paths());
    cases.extend(of_the_kernel());
    cases.extend(abandoned_sessions());
    cases
}

fn dead(path: u8, way: Way, for_ms: u64) -> Act {
    Act::Dead { path, way, for_ms }
}

/// Paths that carry nothing.
fn broken_paths() -> Vec<Case> {
    let both = Way::Both;
    let absent = |path, both_told, for_ms| Act::Absent { path, both_told, for_ms };
    let one = || paths()[..1].to_vec();
    vec![
        case("nothing", 2700, paths(), &[]),
        case("only one path, nothing", 3800, one(), &[]),
        case("the fast path breaks", 5700, paths(), &[(AT, dead(0, both, FOR_GOOD))]),
        case("the slow path breaks", 3700, paths(), &[(AT, dead(1, both, FOR_GOOD))]),
        case("the fast path breaks for 1 s and is back", 4000, paths(), &[(AT, dead(0, both, 1000))]),
        case(
            "both break for 2 s and are back",
            5700,
            paths(),
            &[(AT, dead(0, both, 2000)), (AT, dead(1, both, 2000))],
        ),
        case(
            "one breaks, then the other; the first is back",
            6500,
            paths(),
            &[(AT, dead(0, both, 2000)), (2000, dead(1, both, FOR_GOOD))],
        ),
        case("the only path breaks for 2 s", 6800, one(), &[(AT, dead(0, both, 2000))]),
        case(
            "nothing reaches the client on the fast path",
            5700,
            paths(),
            &[(AT, dead(0, Way::Down, FOR_GOOD))],
        ),
        case(
            "nothing reaches the server on the fast path",
            5700,
            paths(),
            &[(AT, dead(0, Way::Up, FOR_GOOD))],
        ),
        case(
            "the fast path is abandoned, the server is told",
            5500,
            paths(),
            &[(AT, absent(0, true, FOR_GOOD))],
        ),
        case(
            "the fast path is abandoned, the client alone knows",
            5500,
            paths(),
            &[(AT, absent(0, false, FOR_GOOD))],
        ),
    ]
}

/// Paths that change, and what others do to their connections.
fn disturbed_paths() -> Vec<Case> {
    let both = Way::Both;
    let sleeps = |end| Act::Suspend { end, for_ms: 2000 };
    let reset = |path, guesses| Act::Reset { path, end: End::Client, guesses };
    vec![
        case(
            "the address on the fast path changes silently",
            4000,
            paths(),
            &[(AT, Act::Rebind { path: 0, answers: false })],
        ),
        case(
            "the address changes on both paths",
            5000,
            paths(),
            &[(AT, Act::Rebind { path: 0, answers: false }), (AT, Act::Rebind { path: 1, answers: false })],
        ),
        case(
            "the address changes, old packets are answered by resets",
            3500,
            paths(),
            &[(AT, Act::Rebind { path: 0, answers: true })],
        ),
        case("somebody resets the fast path's connection", 3300, paths(), &[(AT, reset(0, false))]),
        case(
            "somebody resets it and refuses new ones for 2 s",
            4700,
            paths(),
            &[(AT, reset(0, false)), (AT, Act::Refuse { path: 0, for_ms: 2000 })],
        ),
        case("somebody guesses numbers for a reset", 2700, paths(), &[(AT, reset(0, true))]),
        case(
            "backup only: the fast path breaks, the other is metered",
            6000,
            paths(),
            &[(500, Act::Metered { path: 1, metered: true }), (AT, dead(0, both, FOR_GOOD))],
        ),
        case(
            "the fast path slows down to 100 kbit/s",
            6000,
            paths(),
            &[(AT, Act::Rate { path: 0, way: both, kbps: 100, for_ms: FOR_GOOD })],
        ),
        case(
            "the fast path has half a second more",
            6000,
            paths(),
            &[(AT, Act::Delay { path: 0, way: both, ms: 250, for_ms: FOR_GOOD })],
        ),
        case(
            "a tenth of the fast path's packets are lost",
            6000,
            paths(),
            &[(AT, Act::Loss { path: 0, per_mille: 100, for_ms: FOR_GOOD })],
        ),
        case(
            "packets above 1300 bytes vanish on the fast path",
            6500,
            paths(),
            &[(AT, Act::Mtu { path: 0, way: both, bytes: 1300, for_ms: FOR_GOOD })],
        ),
        case(
            "the only path loses packets above 1300 bytes for 2 s",
            6800,
            paths()[..1].to_vec(),
            &[(AT, Act::Mtu { path: 0, way: both, bytes: 1300, for_ms: 2000 })],
        ),
        case("the server sleeps for 2 s", 5700, paths(), &[(AT, sleeps(End::Server))]),
        case("the client sleeps for 2 s", 5700, paths(), &[(AT, sleeps(End::Client))]),
        case("the server is started again", 6500, paths(), &[(AT, Act::Restart { end: End::Server })]),
        case("the client is started again", 4500, paths(), &[(AT, Act::Restart { end: End::Client })]),
    ]
}

/// What Linux tests of MPTCP (`tools/testing/selftests/net/mptcp`): transfers over two paths at once take no longer than 111 % of
/// the ideal time and 0.45 s (`simult_flows.sh`), in both directions; one end finishes long before the other, or abandons its stream.
fn of_the_kernel() -> Vec<Case> {
    const ALL: u64 = 16 << 20;
    let two = |mbps: [u64; 2], rtt_ms: [u64; 2]| {
        let path = |at: usize| TrialPath {
            up_kbps: mbps[at] * 1000,
            down_kbps: mbps[at] * 1000,
            rtt_ms: rtt_ms[at],
            queue: 100_000,
            loss_ppm: 0,
        };
        vec![path(0), path(1)]
    };
    let within = |mbps: [u64; 2]| ALL * 8 * 111 / (100_000 * (mbps[0] + mbps[1])) + 450;
    let write = |end, bytes, finish| Act::Write { end, stream: 0, bytes, priority: 0, finish };
    let transfer = |name, end, mbps, rtt_ms| {
        of_acts(name, within(mbps), two(mbps, rtt_ms), &[(0, write(end, ALL, true))])
    };
    vec![
        transfer("16 MiB to the client over 10 and 10 Mbit/s", End::Server, [10, 10], [2, 2]),
        transfer("16 MiB to the server over 10 and 10 Mbit/s", End::Client, [10, 10], [2, 2]),
        transfer("16 MiB to the client over 30 and 10 Mbit/s", End::Server, [30, 10], [2, 2]),
        transfer(
            "16 MiB to the client over 30 and 10 Mbit/s, one 50 ms away",
            End::Server,
            [30, 10],
            [2, 50],
        ),
        transfer(
            "16 MiB to the client over 10 and 30 Mbit/s, one 50 ms away",
            End::Server,
            [10, 30],
            [2, 50],
        ),
        of_acts(
            "the client has finished, the server goes on for 1 s",
            2000,
            paths(),
            &[
                (0, write(End::Client, 100_000, true)),
                (500, write(End::Server, 100_000, false)),
                (1500, write(End::Server, 100_000, true)),
            ],
        ),
        of_acts(
            "the server abandons the stream, and the next one is whole",
            2500,
            paths(),
            &[
                (0, write(End::Server, BYTES, true)),
                (500, Act::Abort { end: End::Server, stream: 0 }),
                (
                    600,
                    Act::Write { end: End::Server, stream: 1, bytes: 1_000_000, priority: 0, finish: true },
                ),
            ],
        ),
    ]
}

/// One end abandons the session in the middle, and the other one learns the reason (`mptcp_join.sh`, fastclose).
fn abandoned_sessions() -> Vec<Case> {
    vec![
        abandoned("the server abandons the session in the middle", End::Server, &[]),
        abandoned("the client abandons the session in the middle", End::Client, &[]),
        abandoned("the server abandons it, and the fast path is dead", End::Server, &[DEAD]),
        abandoned("the client abandons it, and the fast path is dead", End::Client, &[DEAD]),
    ]
}

/// Before a session is abandoned.
const DEAD: (u64, Act) = (AT - 500, Act::Dead { path: 0, way: Way::Both, for_ms: FOR_GOOD });

/// A download whose session an end abandons. The limit is what TCP's queues on the slow path need, and some more.
fn abandoned(name: &'static str, end: End, acts: &[(u64, Act)]) -> Case {
    let acts: Vec<_> = acts.iter().cloned().chain([(AT, Act::Abandon { end, code: 77 })]).collect();
    case(name, AT + 500, paths(), &acts)
}
