//! Paths with a cap: their rate, the rest of the capacity, changes while data flows, and what the other end is told.

use core::time::Duration;

use tributary_types::{Bitrate, PathId};

use super::pair::{Pair, Sender, goodput, transfer};
use crate::LEAST_CAP;
use crate::scheduler::names;
use crate::session::UnknownPath;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const PLENTY: u64 = 1 << 40;

/// Two ends that speak of caps, with these paths in Mbit/s and ms, and their caps.
fn capped(scheduler: &str, paths: &[(u64, u64)], caps: &[Option<u64>]) -> Pair {
    let mut pair = Pair::new(scheduler, paths);
    for (path, cap) in caps.iter().enumerate() {
        set(&mut pair, path as u8, *cap);
    }
    pair.run(300 * MS);
    pair.ends[0].handle_peer_obeys_caps();
    pair.run(100 * MS);
    pair
}

fn set(pair: &mut Pair, path: u8, mbps: Option<u64>) {
    pair.ends[0].set_cap(pair.now, PathId(path), mbps.map(Bitrate::from_mbps)).unwrap();
}

/// Bytes that `side` has sent on a path.
fn sent(pair: &Pair, side: usize, path: u8) -> u64 {
    pair.ends[side].subflow_stats().filter(|stats| stats.path == PathId(path)).map(|stats| stats.sent).sum()
}

/// Mbit/s that `side` sends on a path while its sender has data for this time.
fn rate(pair: &mut Pair, sender: &mut Sender, (side, path): (usize, u8), time: Duration) -> f64 {
    let (before, from) = (sent(pair, side, path), pair.now);
    while pair.now < from + time {
        sender.feed(pair);
        pair.run(pair.step);
    }
    (sent(pair, side, path) - before) as f64 * 8.0 / time.as_secs_f64() / 1e6
}

#[test]
fn a_capped_path_carries_its_cap_and_the_others_the_rest() {
    for side in [0, 1] {
        let mut pair = capped("fbdt", &[(50, 5), (50, 10)], &[None, Some(10)]);
        let mut sender = Sender::new(&mut pair, side, PLENTY);
        rate(&mut pair, &mut sender, (side, 1), SECOND);
        let from = pair.now;
        let capped = rate(&mut pair, &mut sender, (side, 1), 4 * SECOND);
        assert!((9.5..=10.1).contains(&capped), "side {side}: {capped:.2} Mbit/s");
        let all = goodput(&pair, 1 - side, from, pair.now).as_mbps_f64();
        assert!(all > 55.0, "side {side}: {all:.1} of 60 Mbit/s");
        pair.ends[side].reset(sender.stream, 0);
    }
}

#[test]
fn every_scheduler_goes_on_with_a_cap_on_any_path() {
    for name in names() {
        for caps in [[Some(4), None], [None, Some(4)], [Some(4), Some(6)]] {
            let mut pair = capped(name, &[(40, 5), (40, 15)], &caps);
            let mut sender = Sender::new(&mut pair, 1, 2 << 20);
            transfer(&mut pair, &mut sender, 10 * SECOND);
        }
    }
}

#[test]
fn an_only_path_with_a_cap_is_neither_silent_nor_replaced() {
    let mut pair = capped("fbdt", &[(100, 10)], &[Some(2)]);
    let mut sender = Sender::new(&mut pair, 1, PLENTY);
    let carried = rate(&mut pair, &mut sender, (1, 0), 8 * SECOND);
    assert!((1.9..=2.1).contains(&carried), "{carried:.2} Mbit/s");
    assert_eq!((pair.ends[1].stats().silences, pair.opened), (0, 1));
    pair.ends[1].reset(sender.stream, 0);
    // Nothing is left to send, and no timer but that of the idle subflow.
    pair.run(2 * SECOND);
    let next = pair.ends[1].poll_timeout().unwrap();
    assert!(next > pair.now + SECOND, "{next} at {}", pair.now);
}

#[test]
fn a_cap_changes_while_data_flows_and_holds_for_the_next_connection() {
    let mut pair = capped("fbdt", &[(60, 5), (60, 5)], &[]);
    let mut sender = Sender::new(&mut pair, 1, PLENTY);
    let carried = |pair: &mut Pair, sender: &mut Sender| {
        rate(pair, sender, (1, 1), 300 * MS);
        rate(pair, sender, (1, 1), 2 * SECOND)
    };
    assert!(carried(&mut pair, &mut sender) > 50.0);
    for mbps in [5, 20] {
        set(&mut pair, 1, Some(mbps));
        let carried = carried(&mut pair, &mut sender);
        assert!((carried / mbps as f64 - 1.0).abs() < 0.05, "{carried:.2} of {mbps} Mbit/s");
    }
    pair.cut(PathId(1));
    let carried_again = carried(&mut pair, &mut sender);
    assert!(pair.opened > 2 && (18.0..=21.0).contains(&carried_again), "{carried_again:.2} Mbit/s");
    assert_eq!(pair.ends[0].cap(PathId(1)), Some(Bitrate::from_mbps(20)));
    set(&mut pair, 1, None);
    assert!(carried(&mut pair, &mut sender) > 50.0);
    pair.ends[1].reset(sender.stream, 0);
}

#[test]
fn a_server_that_does_not_obey_is_told_nothing() {
    let mut pair = Pair::new("fbdt", &[(50, 5)]);
    set(&mut pair, 0, Some(5));
    pair.run(300 * MS);
    let mut sender = Sender::new(&mut pair, 1, PLENTY);
    assert!(rate(&mut pair, &mut sender, (1, 0), 2 * SECOND) > 45.0);
    pair.ends[1].reset(sender.stream, 0);
    let mut sender = Sender::new(&mut pair, 0, PLENTY);
    let own = rate(&mut pair, &mut sender, (0, 0), 4 * SECOND);
    assert!((4.75..=5.25).contains(&own), "{own:.2} Mbit/s");
    pair.ends[0].reset(sender.stream, 0);
}

#[test]
fn a_removed_path_has_no_cap_and_an_unknown_one_gets_none() {
    let mut pair = capped("fbdt", &[(50, 5), (50, 5)], &[None, Some(5)]);
    pair.ends[0].remove_path(pair.now, PathId(1));
    assert_eq!(pair.ends[0].cap(PathId(1)), None);
    let refused = pair.ends[0].set_cap(pair.now, PathId(1), Some(Bitrate::from_mbps(5)));
    assert_eq!(refused, Err(UnknownPath(PathId(1))));
    pair.ends[0].add_path(pair.now, PathId(1));
    pair.run(300 * MS);
    let mut sender = Sender::new(&mut pair, 1, PLENTY);
    rate(&mut pair, &mut sender, (1, 1), 500 * MS);
    assert!(rate(&mut pair, &mut sender, (1, 1), SECOND) > 40.0);
    pair.ends[1].reset(sender.stream, 0);
}

#[test]
fn a_cap_of_almost_nothing_still_delivers() {
    let mut pair = Pair::new("fbdt", &[(50, 5)]);
    pair.ends[0].set_cap(pair.now, PathId(0), Some(Bitrate::from_bps(1))).unwrap();
    pair.run(300 * MS);
    pair.ends[0].handle_peer_obeys_caps();
    pair.run(100 * MS);
    let mut sender = Sender::new(&mut pair, 1, 100_000);
    let from = pair.now;
    transfer(&mut pair, &mut sender, 10 * SECOND);
    let carried = goodput(&pair, 0, from, pair.now);
    assert!(carried < Bitrate::from_bps(LEAST_CAP.as_bps() * 5 / 4), "{carried}");
}
