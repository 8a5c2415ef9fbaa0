//! Every scheduler delivers everything; then the properties of `fbdt`.

use core::time::Duration;

use tributary_types::{Bitrate, Instant, PathId};

use super::pair::{Hole, Pair, Sender, goodput, rng, transfer};
use crate::config::Config;
use crate::event::Event;
use crate::scheduler::names;
use crate::session::{ReadError, WriteError};

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

fn started(scheduler: &str, paths: &[(u64, u64)]) -> Pair {
    let mut pair = Pair::new(scheduler, paths);
    pair.run(Duration::from_millis(300));
    pair
}

#[test]
fn every_scheduler_delivers_everything_over_one_to_eight_paths() {
    for name in names() {
        for count in 1..=8 {
            let paths: Vec<_> = (0..count).map(|i| (20 + 15 * i, 1 + 3 * i)).collect();
            let mut pair = started(name, &paths);
            let mut sender = Sender::new(&mut pair, 1, 3 * MIB + 17);
            transfer(&mut pair, &mut sender, 20 * SECOND);
        }
    }
}

#[test]
fn every_scheduler_survives_paths_that_come_and_go() {
    for name in names() {
        for seed in 0..6 {
            let mut rng = rng(seed);
            let mut pair = started(name, &[(47, 2), (140, 5), (30, 20)]);
            let mut sender = Sender::new(&mut pair, 1, 8 * MIB);
            let end = pair.now + 20 * SECOND;
            while !pair.ended[0].contains(&sender.stream) {
                assert!(pair.now < end, "{name} seed {seed} hangs: {:?}", pair.ends[1].stats());
                sender.feed(&mut pair);
                pair.run(Duration::from_millis(1 + rng.below(60)));
                let path = PathId(1 + rng.below(2) as u8); // Path 0 stays up.
                match rng.below(4) {
                    0 => pair.cut(path),
                    1 => pair.paths.get_mut(&path).unwrap().rate = Bitrate::ZERO,
                    _ => pair.paths.get_mut(&path).unwrap().rate = Bitrate::from_mbps(100),
                }
            }
            assert_eq!(pair.checked(0, sender.stream), 8 * MIB, "{name} seed {seed}");
        }
    }
}

#[test]
fn both_directions_at_once_and_many_streams() {
    let mut pair = started("fbdt", &[(47, 2), (140, 5)]);
    let mut senders: Vec<_> =
        (0..40).map(|i| Sender::new(&mut pair, i % 2, 100_000 + 7 * i as u64)).collect();
    for sender in &mut senders {
        transfer(&mut pair, sender, 10 * SECOND);
    }
}

#[test]
fn fbdt_reaches_the_sum_of_two_radios() {
    let mut pair = started("fbdt", &[(47, 2), (140, 10)]);
    let mut sender = Sender::new(&mut pair, 1, 64 * MIB);
    let start = pair.now;
    for _ in 0..2000 {
        sender.feed(&mut pair);
        pair.run(Duration::from_millis(1));
    }
    let rate = goodput(&pair, 0, start + Duration::from_millis(200), start + 2 * SECOND);
    assert!(rate > Bitrate::from_mbps(187 * 97 / 100), "{rate}");
    let stats = pair.ends[1].stats();
    assert!(stats.sent_again * 100 <= stats.sent * 3, "{stats:?}");
}

#[test]
fn fbdt_through_a_blackout_never_falls_below_the_living_radio() {
    let mut pair = started("fbdt", &[(47, 2), (140, 10)]);
    let mut sender = Sender::new(&mut pair, 1, 256 * MIB);
    let start = pair.now;
    for ms in 0..6000 {
        let up = ms % 2500 < 1500;
        let rate = if up { Bitrate::from_mbps(140) } else { Bitrate::ZERO };
        pair.paths.get_mut(&PathId(1)).unwrap().rate = rate;
        sender.feed(&mut pair);
        pair.run(Duration::from_millis(1));
    }
    for second in 0..5 {
        let from = start + SECOND * second + Duration::from_millis(200);
        let rate = goodput(&pair, 0, from, from + SECOND);
        assert!(rate > Bitrate::from_mbps(45), "second {second}: {rate}");
    }
    assert!(pair.longest_silence(0) < Duration::from_millis(120), "{:?}", pair.longest_silence(0));
}

#[test]
fn a_path_that_dies_silently_costs_three_round_trips_and_is_used_again() {
    for coupled in [false, true] {
        dies_silently(&Config { coupled, ..Config::default() });
    }
}

fn dies_silently(config: &Config) {
    let mut pair = Pair::with(config, &[(47, 2), (140, 10)]);
    pair.run(Duration::from_millis(300));
    let mut sender = Sender::new(&mut pair, 1, 256 * MIB);
    let mut dead_at = Instant::ZERO;
    for ms in 0..5000 {
        if ms == 1000 {
            dead_at = pair.now;
        }
        pair.paths.get_mut(&PathId(1)).unwrap().dead = (1000..3000).contains(&ms);
        sender.feed(&mut pair);
        pair.run(Duration::from_millis(1));
    }
    assert!(pair.longest_silence(0) <= Duration::from_millis(3 * 20 + 50), "{:?}", pair.longest_silence(0));
    let back = goodput(&pair, 0, dead_at + 3 * SECOND, dead_at + 4 * SECOND);
    assert!(back > Bitrate::from_mbps(150), "{back}");
}

/// Mbit/s and one-way milliseconds of a slow and a fast path; the sender of the fast one, or the path itself,
/// falls to a few Mbit/s for four seconds. Returns how many connections were opened beyond the first two.
fn replacements(coupled: bool, collapse: impl FnOnce(&mut Pair)) -> usize {
    let mut pair = Pair::with(&Config { coupled, ..Config::default() }, &[(47, 5), (140, 5)]);
    pair.run(Duration::from_millis(300));
    let mut sender = Sender::new(&mut pair, 1, 60 * MIB);
    let mut collapse = Some(collapse);
    let began = pair.now;
    while !pair.ended[0].contains(&sender.stream) {
        if pair.now >= began + SECOND
            && let Some(collapse) = collapse.take()
        {
            collapse(&mut pair);
        }
        assert!(pair.now < began + 20 * SECOND, "hangs: {:?}", pair.ends[1].stats());
        sender.feed(&mut pair);
        pair.run(Duration::from_millis(1));
    }
    assert_eq!(pair.checked(0, sender.stream), 60 * MIB);
    pair.opened - 2
}

#[test]
fn a_connection_that_is_stuck_is_replaced_and_one_on_a_slow_radio_is_not() {
    let fast = |pair: &mut Pair, change: &dyn Fn(&mut super::pair::Path)| {
        change(pair.paths.get_mut(&PathId(1)).unwrap());
    };
    let stuck = replacements(false, |pair| fast(pair, &|path| path.cwnd = 6000));
    assert!((1..=4).contains(&stuck), "{stuck} fresh connections for a stuck sender");
    let slow = replacements(false, |pair| fast(pair, &|path| path.rate = Bitrate::from_mbps(50)));
    assert_eq!(slow, 0, "fresh connections for a path that is merely slower");
    let coupled = replacements(true, |pair| fast(pair, &|path| path.cwnd = 6000));
    assert_eq!(coupled, 0, "fresh connections for a subflow to which coupled control gives little");
}

#[test]
fn a_coupled_subflow_with_one_segment_of_window_is_not_silent() {
    let fresh = |coupled| {
        let config = Config { coupled, scheduler: "min-rtt".to_owned(), ..Config::default() };
        let mut pair = Pair::with(&config, &[(20, 25), (20, 25)]);
        pair.run(SECOND);
        pair.paths.get_mut(&PathId(1)).unwrap().cwnd = 1448;
        let mut sender = Sender::new(&mut pair, 1, 64 * MIB);
        for _ in 0..5000 {
            sender.feed(&mut pair);
            pair.run(Duration::from_millis(1));
        }
        pair.opened - 2
    };
    assert!(fresh(false) > 0, "a segment takes longer than the silence that counts");
    assert_eq!(fresh(true), 0, "its transport delivers all the time");
}

#[test]
fn a_small_object_is_as_fast_as_on_the_faster_radio() {
    for (size, paths) in [(100_u64 << 10, [(47, 2), (140, 10)]), (100 << 10, [(47, 1), (140, 1)])] {
        let alone = paths.map(|path| {
            let mut pair = started("fbdt", &[path]);
            time_of(&mut pair, size)
        });
        let mut pair = started("fbdt", &paths);
        let both = time_of(&mut pair, size);
        let best = alone[0].min(alone[1]);
        assert!(both <= best * 6 / 5, "{both:?} with both, {alone:?} alone");
    }
}

fn time_of(pair: &mut Pair, size: u64) -> Duration {
    let mut last = Duration::ZERO;
    for _ in 0..3 {
        let mut sender = Sender::new(pair, 1, size);
        let start = pair.now;
        transfer(pair, &mut sender, 5 * SECOND);
        last = pair.now.saturating_since(start);
        pair.run(Duration::from_millis(500));
    }
    last
}

#[test]
fn a_reader_that_stops_holds_back_its_stream_and_nothing_else() {
    let config = Config { receive_credit: 4 << 20, ..Config::default() };
    let mut pair = Pair::with(&config, &[(100, 1), (100, 2)]);
    pair.run(Duration::from_millis(300));
    pair.reading = false;
    let mut stuck = Sender::new(&mut pair, 1, 32 * MIB);
    for _ in 0..2000 {
        stuck.feed(&mut pair);
        pair.run(Duration::from_millis(1));
    }
    assert!(pair.ends[0].stats().receive_held <= 4 << 20, "{:?}", pair.ends[0].stats());
    assert!(stuck.written() < 16 * MIB, "the writer is held back");
    let mut other = Sender::new(&mut pair, 1, MIB);
    pair.resume_reading_only(other.stream);
    transfer(&mut pair, &mut other, 5 * SECOND);
}

#[test]
fn close_delivers_everything_first() {
    let mut pair = started("fbdt", &[(47, 2), (140, 10)]);
    let mut sender = Sender::new(&mut pair, 0, 2 * MIB);
    sender.feed(&mut pair);
    let now = pair.now;
    pair.ends[0].close(now, 0, "done");
    assert_eq!(pair.ends[0].finish(sender.stream), Err(WriteError::Closed));
    pair.run_until(5 * SECOND, |p| p.ends[1].is_closed() && p.ends[0].is_closed());
    assert_eq!(pair.checked(1, sender.stream), 2 * MIB);
    let closed =
        |e: &Event| matches!(e, Event::Closed { code: 0, reason, by_peer: true } if reason == "done");
    assert!(pair.events[1].iter().any(closed), "{:?}", pair.events[1].last());
}

#[test]
fn reset_and_stop_reach_the_other_side() {
    let mut pair = started("fbdt", &[(47, 2)]);
    let sender = Sender::new(&mut pair, 0, 8 * MIB);
    let id = sender.stream;
    pair.ends[0].write_slice(id, b"hello").unwrap();
    pair.run(Duration::from_millis(50));
    pair.ends[1].stop(id, 9);
    pair.run(Duration::from_millis(50));
    assert_eq!(pair.ends[0].write_slice(id, b"more"), Err(WriteError::Stopped(9)));
    pair.ends[1].reset(id, 4);
    pair.run(Duration::from_millis(50));
    assert!(pair.events[0].contains(&Event::StreamStopped(id, 9)));
    // The reader has seen the reset, and the stream is gone on both sides.
    assert_eq!(pair.ends[0].read(id), Err(ReadError::NotOpen));
    assert_eq!(pair.ends[1].read(id), Err(ReadError::NotOpen));
}

#[test]
fn the_same_seed_gives_the_same_events() {
    let run = || {
        let mut pair = started("fbdt", &[(47, 2), (140, 10)]);
        let mut sender = Sender::new(&mut pair, 1, 4 * MIB);
        transfer(&mut pair, &mut sender, 5 * SECOND);
        (format!("{:?}", pair.events), pair.now)
    };
    assert_eq!(run(), run());
}

#[test]
fn an_idle_session_sets_no_timer_below_a_second() {
    let mut pair = started("fbdt", &[(47, 2), (140, 10)]);
    let mut sender = Sender::new(&mut pair, 1, MIB);
    transfer(&mut pair, &mut sender, 5 * SECOND);
    pair.run(SECOND);
    for end in &pair.ends {
        let next = end.poll_timeout().unwrap();
        assert!(next >= pair.now + SECOND, "{:?}", next.saturating_since(pair.now));
    }
}

/// The client's connections in order: their paths, and whether they use small segments.
fn segments(pair: &Pair) -> Vec<(PathId, bool)> {
    let of = |event: &Event| match *event {
        Event::SmallSegments { path, small } => Some((path, small)),
        _ => None,
    };
    pair.events[0].iter().filter_map(of).collect()
}

#[test]
fn a_path_that_drops_long_packets_is_connected_with_small_segments() {
    // Uploads and downloads, on one bad path alone and next to a good path. The server accepts a fresh connection
    // when the previous one is three seconds old. A client with only such a path receives nothing of a download:
    // two connections must be given up because they are silent, 20 s each.
    for (paths, side, most) in [(1, 0, 12), (2, 0, 12), (2, 1, 12), (1, 1, 60)] {
        let mut pair = Pair::new("fbdt", &[(50, 5), (5, 8)][..paths]);
        pair.step = Duration::from_millis(1);
        pair.paths.get_mut(&PathId(0)).unwrap().hole = Hole::Long;
        pair.run(Duration::from_millis(300));
        let mut sender = Sender::new(&mut pair, side, 12 * MIB);
        transfer(&mut pair, &mut sender, most * SECOND);
        assert_eq!(segments(&pair), [(PathId(0), true)], "{paths} paths, side {side}");
        let carried = pair.ends[side].subflow_stats().filter(|stats| stats.path == PathId(0));
        assert!(carried.map(|stats| stats.sent).sum::<u64>() > MIB, "{paths} paths, side {side}");
    }
}

#[test]
fn small_segments_that_are_stuck_as_well_are_given_up_and_a_blocked_radio_gets_none() {
    let mut pair = Pair::new("fbdt", &[(50, 5), (5, 8)]);
    pair.step = Duration::from_millis(1);
    pair.paths.get_mut(&PathId(0)).unwrap().hole = Hole::Payload;
    pair.run(Duration::from_millis(300));
    let mut sender = Sender::new(&mut pair, 0, 9 * MIB);
    transfer(&mut pair, &mut sender, 30 * SECOND);
    let segments_of_hole = segments(&pair);
    assert!(segments_of_hole.len() >= 2, "{segments_of_hole:?}");
    assert_eq!(segments_of_hole[..2], [(PathId(0), true), (PathId(0), false)]);

    let mut pair = started("fbdt", &[(50, 5), (50, 8)]);
    let mut sender = Sender::new(&mut pair, 0, 24 * MIB);
    for _ in 0..4 {
        sender.feed(&mut pair);
        pair.run(Duration::from_millis(150));
        for rate in [Bitrate::ZERO, Bitrate::from_mbps(50)] {
            pair.paths.get_mut(&PathId(0)).unwrap().rate = rate;
            sender.feed(&mut pair);
            pair.run(Duration::from_millis(400));
        }
    }
    transfer(&mut pair, &mut sender, 20 * SECOND);
    assert_eq!(segments(&pair), []);
}
