//! Random trials. The same seed gives the same trial everywhere.
//!
//! Everything is small, so that a trial takes milliseconds: rates up to 20 Mbit/s, some hundred kilobytes on each stream, ten
//! seconds. In most trials nothing happens to the first path, so that the liveness rule holds all the time.

use tributary_types::Rng;

use super::script::{Act, End, Operation, Trial, TrialPath, Way};

/// Operations on the network begin in this time, milliseconds.
const NETWORK_TIME: u64 = 6000;
/// Operations of the applications begin in this time.
const APPLICATION_TIME: u64 = 4000;
/// How long a writer that never pauses writes.
const BULK_TIME: u64 = 8500;

impl Trial {
    /// The trial of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::new(seed).child("trial");
        let bulk = rng.chance(0.12);
        let count = 1 + rng.below(4) as usize;
        let paths: Vec<_> = (0..count).map(|path| draw_path(&mut rng, path, bulk)).collect();
        let first = usize::from(count > 1 && rng.chance(0.6));
        let mut operations: Vec<_> = (0..rng.below(7)).map(|_| draw_fault(&mut rng, first, count)).collect();
        if bulk {
            let end = any_end(&mut rng);
            operations.push(at(rng.below(500), Act::Bulk { end, stream: 0, for_ms: BULK_TIME }));
        } else {
            if rng.chance(0.05) {
                operations.push(at(rng.below(NETWORK_TIME), Act::Restart { end: any_end(&mut rng) }));
            }
            if rng.chance(0.05) {
                let act = Act::Suspend { end: any_end(&mut rng), for_ms: spread(&mut rng, 30, 4000) };
                operations.push(at(rng.below(NETWORK_TIME), act));
            }
            (0..1 + rng.below(5) as u8).for_each(|stream| draw_stream(&mut rng, stream, &mut operations));
        }
        operations.sort_by_key(|operation| operation.at_ms);
        let pick = |rng: &mut Rng, among: &[u64]| among[rng.below(among.len() as u64) as usize];
        Self {
            seed,
            scheduler: draw_scheduler(&mut rng),
            congestion: draw_congestion(&mut rng),
            tls: rng.chance(0.7),
            early: rng.chance(0.3),
            receive_credit: pick(&mut rng, &[256 << 10, 1 << 20, 64 << 20, 64 << 20]),
            send_buffer: pick(&mut rng, &[64 << 10, 1 << 20, 44 << 20, 44 << 20]),
            paths,
            operations,
        }
    }
}

fn at(at_ms: u64, act: Act) -> Operation {
    Operation { at_ms, act }
}

fn any_end(rng: &mut Rng) -> End {
    if rng.chance(0.5) { End::Client } else { End::Server }
}

/// From `least` to `most`, each octave alike.
fn spread(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let octave = least << rng.below(u64::from((most / least).ilog2()) + 1);
    (octave + rng.below(octave)).min(most)
}

fn draw_scheduler(rng: &mut Rng) -> String {
    match rng.below(10) {
        0 => "avira+fbdt",
        1 => "min-rtt",
        _ => "fbdt",
    }
    .to_owned()
}

fn draw_congestion(rng: &mut Rng) -> String {
    let all = tributary_cc::names();
    if rng.chance(0.7) { "cubic".to_owned() } else { all[rng.below(all.len() as u64) as usize].to_owned() }
}

fn draw_path(rng: &mut Rng, path: usize, bulk: bool) -> TrialPath {
    let down_kbps = spread(rng, 500, if bulk { 2500 } else { 20_000 });
    let up_kbps = down_kbps / if bulk { 1 } else { 1 << rng.below(3) };
    let rtt_ms = spread(rng, 4, 300);
    let product = down_kbps * rtt_ms / 8;
    let queue = (product * (1 + rng.below(4)) / 2).clamp(24_000, 300_000);
    let lossy = path > 0 && rng.chance(0.3);
    TrialPath {
        up_kbps,
        down_kbps,
        rtt_ms,
        queue,
        loss_ppm: if lossy { rng.below(20_000) as u32 } else { 0 },
    }
}

/// Something that happens to one of the paths `first..count`, or that is harmless to any.
fn draw_fault(rng: &mut Rng, first: usize, count: usize) -> Operation {
    let path = (first as u64 + rng.below((count - first) as u64)) as u8;
    let any = rng.below(count as u64) as u8;
    let for_ms = spread(rng, 30, 4000);
    let way = [Way::Up, Way::Down, Way::Both][rng.below(3) as usize];
    let per_mille = spread(rng, 5, 400) as u32;
    let act = match rng.below(15) {
        0 | 1 => Act::Absent { path, both_told: rng.chance(0.5), for_ms },
        2..=4 => Act::Dead { path, way, for_ms },
        5 => Act::Rate { path, way, kbps: if rng.chance(0.3) { 0 } else { spread(rng, 10, 500) }, for_ms },
        6 => Act::Delay { path, way, ms: spread(rng, 5, 800), for_ms },
        7 => Act::Loss { path, per_mille, for_ms },
        8 => Act::Reorder { path, per_mille, late_ms: spread(rng, 1, 60), for_ms },
        9 => Act::Duplicate { path, per_mille, for_ms },
        10 => Act::Refuse { path, for_ms },
        11 => Act::Reset { path: any, end: any_end(rng), guesses: true },
        12 => Act::Rebind { path, answers: rng.chance(0.5) },
        13 => Act::Mtu { path, way, bytes: spread(rng, 300, 1499), for_ms },
        _ if rng.chance(0.5) => Act::Reset { path, end: any_end(rng), guesses: false },
        _ => Act::Metered { path: any, metered: rng.chance(0.7) },
    };
    at(rng.below(NETWORK_TIME), act)
}

/// What applications do with one stream or flow.
fn draw_stream(rng: &mut Rng, stream: u8, operations: &mut Vec<Operation>) {
    let (opener, begins) = (any_end(rng), rng.below(APPLICATION_TIME));
    let mut add = |rng: &mut Rng, act| operations.push(at(begins + rng.below(3000), act));
    if rng.chance(0.15) {
        let (size, count) = (spread(rng, 1, 1200), spread(rng, 1, 150) as u32);
        let act = Act::Datagrams { end: opener, stream, size, count, every_ms: 1 + rng.below(30) };
        add(rng, act);
        return;
    }
    let write = |rng: &mut Rng, end| Act::Write {
        end,
        stream,
        bytes: spread(rng, 1, 400_000),
        priority: if rng.chance(0.6) { 0 } else { rng.below(8) as u8 },
        finish: rng.chance(0.7),
    };
    let first = write(rng, opener);
    add(rng, first);
    for _ in 0..rng.below(3) {
        let end = any_end(rng);
        let more = write(rng, end);
        add(rng, more);
    }
    let end = any_end(rng);
    let for_ms = spread(rng, 50, 4000);
    let act = match rng.below(10) {
        0 | 1 => Act::Stall { end, stream, for_ms },
        2 => Act::Pace { end, stream, bytes: spread(rng, 10, 20_000), for_ms },
        3 => Act::Abort { end, stream },
        4 => Act::Stop { end, stream },
        5 => Act::Priority { end, stream, priority: rng.below(8) as u8 },
        6 => Act::Finish { end, stream },
        _ => return,
    };
    add(rng, act);
}
