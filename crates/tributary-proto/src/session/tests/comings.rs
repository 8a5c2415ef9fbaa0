//! Paths that are removed, and paths that are metered.

use core::time::Duration;

use tributary_types::{Bitrate, PathId};

use super::pair::{Pair, Sender, transfer};
use crate::event::Event;
use crate::scheduler::names;
use crate::session::Side;

const MIB: u64 = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

#[test]
fn the_server_learns_of_a_removed_path_and_sends_its_data_on_the_others() {
    for name in names() {
        let mut pair = Pair::new(name, &[(47, 2), (140, 10)]);
        pair.run(300 * MS);
        let mut sender = Sender::new(&mut pair, 1, 8 * MIB);
        for _ in 0..200 {
            sender.feed(&mut pair);
            pair.run(MS);
        }
        let silences = pair.ends[1].stats().silences;
        // The interface is gone: no packet passes, not even the end of the connection.
        pair.paths.get_mut(&PathId(1)).unwrap().dead = true;
        let now = pair.now;
        pair.ends[0].remove_path(now, PathId(1));
        pair.run(10 * MS);
        let removed = Event::PathRemoved { path: PathId(1) };
        assert!(pair.events.iter().all(|events| events.contains(&removed)), "{name}");
        assert_eq!(pair.ends[1].subflow_stats().count(), 1, "{name}");
        transfer(&mut pair, &mut sender, 10 * SECOND);
        assert_eq!(pair.ends[1].stats().silences, silences, "{name}: nobody had to notice it");
    }
}

#[test]
fn the_removal_of_the_only_path_is_reported_on_the_next_one() {
    let mut pair = Pair::new("fbdt", &[(47, 2), (140, 10)]);
    let now = pair.now;
    pair.ends[0].remove_path(now, PathId(1));
    pair.run(300 * MS);
    let mut sender = Sender::new(&mut pair, 1, 8 * MIB);
    for _ in 0..100 {
        sender.feed(&mut pair);
        pair.run(MS);
    }
    pair.paths.get_mut(&PathId(0)).unwrap().dead = true;
    let now = pair.now;
    pair.ends[0].remove_path(now, PathId(0));
    pair.ends[0].add_path(now, PathId(1));
    transfer(&mut pair, &mut sender, 10 * SECOND);
    assert!(pair.events[1].contains(&Event::PathRemoved { path: PathId(0) }));
    assert_eq!(pair.ends[1].side(), Side::Server);
}

/// A free and a metered path with these rates in Mbit/s.
fn metered(name: &str, free: u64, metered: u64) -> Pair {
    let mut pair = Pair::new(name, &[(free, 5), (metered, 20)]);
    pair.ends[0].set_metered(PathId(1), true).unwrap();
    pair.run(300 * MS);
    pair.ends[1].set_metered(PathId(1), true).unwrap();
    assert_eq!(pair.ends[1].subflow_stats().count(), 2, "it is connected");
    pair
}

/// Payload that the server has sent on the metered path.
fn cost(pair: &Pair) -> u64 {
    pair.ends[1].subflow_stats().filter(|stats| stats.path == PathId(1)).map(|stats| stats.sent).sum()
}

/// Writes this many bytes each millisecond, as a live source does.
fn live(pair: &mut Pair, bytes: usize, time: Duration) -> tributary_types::StreamId {
    let stream = pair.ends[1].open_stream(0).unwrap();
    let until = pair.now + time;
    let mut at = 0;
    while pair.now < until {
        let mut chunk = super::pair::payload(at, bytes);
        if let Ok(taken) = pair.ends[1].write(stream, &mut chunk) {
            at += taken as u64;
        }
        pair.run(MS);
    }
    stream
}

#[test]
fn a_metered_path_carries_nothing_while_the_other_carries_what_is_asked() {
    for name in names() {
        let mut pair = metered(name, 20, 50);
        // 10 Mbit/s for three seconds.
        let stream = live(&mut pair, 1250, 3 * SECOND);
        assert_eq!(cost(&pair), 0, "{name}");
        pair.run(SECOND);
        assert!(pair.checked(0, stream) > 3_000_000, "{name}");
        pair.ends[1].finish(stream).unwrap();
    }
}

#[test]
fn a_metered_path_takes_over_when_the_other_falls_silent_and_stops_when_it_is_back() {
    let mut pair = metered("fbdt", 20, 50);
    live(&mut pair, 1250, SECOND);
    pair.paths.get_mut(&PathId(0)).unwrap().rate = Bitrate::ZERO;
    live(&mut pair, 1250, SECOND);
    let cost_of_the_outage = cost(&pair);
    assert!(cost_of_the_outage > 1_000_000, "{cost_of_the_outage}");
    assert!(pair.longest_silence(0) <= Duration::from_millis(3 * 40 + 50), "{:?}", pair.longest_silence(0));
    pair.paths.get_mut(&PathId(0)).unwrap().rate = Bitrate::from_mbps(20);
    live(&mut pair, 1250, SECOND);
    let cost_until_back = cost(&pair);
    live(&mut pair, 1250, SECOND);
    assert_eq!(cost(&pair), cost_until_back);
}

#[test]
fn a_metered_path_helps_when_data_has_waited_for_two_seconds() {
    for name in ["fbdt", "min-rtt", "greedy-sticky"] {
        let mut pair = metered(name, 8, 20);
        let began = pair.now;
        let mut sender = Sender::new(&mut pair, 1, 6 * MIB);
        while pair.now < began + 1900 * MS {
            sender.feed(&mut pair);
            pair.run(MS);
        }
        assert_eq!(cost(&pair), 0, "{name}");
        transfer(&mut pair, &mut sender, 20 * SECOND);
        assert!(cost(&pair) > 2 * MIB, "{name}: {}", cost(&pair));
    }
}
