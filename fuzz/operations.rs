//! Fuzz target `operations`: a script for both ends of a session and the network between them, in the simulator. Included by `entry.rs`.

use tributary_sim::trial::{Act, End, Operation, Trial, TrialPath, Way, run};

/// More operations make a trial longer, and not other ones.
const MOST: usize = 24;

/// Every script keeps the rules of trials (`docs/guide/faults.md`): each byte once and in order, progress while a path lives, and
/// everything delivered at the end.
///
/// Input: a byte for the paths, one for the settings, then operations of four bytes: what happens, when in steps of 20 ms, to what
/// (bit 0 the end, bits 1–2 the stream, bits 3–4 the path, bits 5–7 more), and how long or how much.
pub fn operations(data: &[u8]) {
    let [paths, settings, script @ ..] = data else { return };
    let paths: Vec<_> = (0..1 + paths % 3).map(|number| path(paths >> (2 * number + 2))).collect();
    let count = paths.len() as u8;
    let operations: Vec<_> = script
        .as_chunks()
        .0
        .iter()
        .take(MOST)
        .map(|&[kind, at, to, much]| Operation { at_ms: 20 * u64::from(at), act: act(kind, to, much, count) })
        .collect();
    let trial = Trial {
        seed: 1,
        scheduler: ["fbdt", "avira+fbdt", "min-rtt", "fbdt"][usize::from(settings & 3)].to_owned(),
        congestion: "cubic".to_owned(),
        tls: settings & 4 != 0,
        early: settings & 8 != 0,
        receive_credit: if settings & 16 != 0 { 256 << 10 } else { 64 << 20 },
        send_buffer: if settings & 32 != 0 { 64 << 10 } else { 44 << 20 },
        paths,
        operations,
    };
    if let Err(fault) = run(&trial) {
        panic!("{fault}\n{}", trial.text());
    }
}

fn path(bits: u8) -> TrialPath {
    let (kbps, rtt_ms) = [(1000, 20), (8000, 10), (4000, 60), (2000, 150)][usize::from(bits & 3)];
    TrialPath { up_kbps: kbps, down_kbps: kbps, rtt_ms, queue: 64_000, loss_ppm: 0 }
}

fn act(kind: u8, to: u8, much: u8, paths: u8) -> Act {
    let end = if to & 1 == 0 { End::Client } else { End::Server };
    let (stream, path, more) = (to >> 1 & 3, (to >> 3 & 3) % paths, to >> 5);
    // What concerns a path has no end and no stream: those bits say how much.
    let amount = usize::from(to & 7);
    let way = [Way::Up, Way::Down, Way::Both, Way::Both][usize::from(more & 3)];
    let for_ms = 16 * u64::from(much);
    let per_mille = [5, 20, 50, 100, 200, 400, 700, 1000][amount];
    match kind % 32 {
        0..=3 | 16..=19 => Act::Write {
            end,
            stream,
            bytes: 1 + 1000 * u64::from(much),
            priority: more,
            finish: kind & 16 != 0,
        },
        4 => Act::Stall { end, stream, for_ms },
        5 => Act::Pace { end, stream, bytes: 10 + 80 * u64::from(much), for_ms: 2000 },
        6 => Act::Abort { end, stream },
        7 => Act::Stop { end, stream },
        8 => Act::Priority { end, stream, priority: more },
        9 => Act::Finish { end, stream },
        // A number of its own: a stream's number is not a flow's.
        10 => Act::Datagrams { end, stream: 4 + stream, size: 5 * u64::from(much), count: 40, every_ms: 10 },
        11 => Act::Absent { path, both_told: more & 4 != 0, for_ms },
        12 => Act::Dead { path, way, for_ms },
        13 => Act::Reset { path, end, guesses: more & 4 != 0 },
        14 => Act::Metered { path, metered: more & 4 != 0 },
        20 => Act::Rate { path, way, kbps: [0, 10, 50, 100, 200, 500, 2000, 20_000][amount], for_ms },
        21 => Act::Delay { path, way, ms: 5 << amount, for_ms },
        22 => Act::Loss { path, per_mille, for_ms },
        23 => Act::Reorder { path, per_mille, late_ms: 1 << (2 + more), for_ms },
        24 => Act::Duplicate { path, per_mille, for_ms },
        25 => Act::Mtu { path, way, bytes: 200 + 180 * amount as u64, for_ms },
        26 => Act::Refuse { path, for_ms },
        27 => Act::Rebind { path, answers: more & 4 != 0 },
        // Long enough for the rule about the best path.
        28 => Act::Bulk { end, stream, for_ms: 2 * for_ms },
        29 => Act::Suspend { end, for_ms },
        30 => Act::Abandon { end, code: 1 + u32::from(much) },
        _ => Act::Restart { end },
    }
}
