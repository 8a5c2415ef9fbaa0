//! Redundant flows and streams: the first copy counts, the peer sees each once, and nothing else waits for long.

use core::time::Duration;

use tributary_types::{Bitrate, DataSeq, Instant, PathId, StreamId};

use super::pair::{Pair, Sender, goodput};
use crate::flow::FlowConfig;
use crate::scheduler::names;
use crate::wire::Ecn;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const PLENTY: u64 = 1 << 40;

fn started(scheduler: &str, paths: &[(u64, u64)]) -> Pair {
    let mut pair = Pair::new(scheduler, paths);
    pair.run(300 * MS);
    pair
}

fn flow(pair: &mut Pair, redundant: bool) -> StreamId {
    pair.ends[1].open_flow(pair.now, FlowConfig { redundant, ..FlowConfig::default() }).unwrap()
}

/// Sends a datagram of 100 bytes every 10 ms for this time, beside bulk if there is any, and carries out `act` at each one.
fn game(
    pair: &mut Pair,
    flow: StreamId,
    (time, mut bulk): (Duration, Option<&mut Sender>),
    mut act: impl FnMut(&mut Pair, u64),
) -> u64 {
    let count = (time.as_millis() / 10) as u64;
    for number in 0..count {
        act(pair, number);
        let at = pair.now.saturating_since(Instant::ZERO).as_micros() as u64;
        let datagram = [&number.to_be_bytes()[..], &at.to_be_bytes(), &[7; 84]].concat();
        pair.ends[1].send_datagram(pair.now, flow, &datagram, Ecn::NotCapable).unwrap();
        let until = pair.now + 10 * MS;
        while pair.now < until {
            bulk.iter_mut().for_each(|bulk| bulk.feed(pair));
            pair.run(pair.step);
        }
    }
    pair.run(500 * MS);
    count
}

/// Numbers and delays of the datagrams that arrived at the client.
fn arrived(pair: &Pair, flow: StreamId) -> Vec<(u64, Duration)> {
    let of_flow = pair.datagrams[0].iter().filter(|(_, id, _)| *id == flow);
    let word = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let read = |(at, _, datagram): &(Instant, _, crate::flow::Datagram)| {
        let sent = Instant::ZERO + Duration::from_micros(word(&datagram.bytes[8..16]));
        (word(&datagram.bytes[..8]), at.saturating_since(sent))
    };
    of_flow.map(read).collect()
}

fn longest(arrived: &[(u64, Duration)]) -> Duration {
    arrived.iter().map(|(_, delay)| *delay).max().unwrap()
}

#[test]
fn a_stall_of_the_first_path_delays_no_datagram() {
    for scheduler in ["fbdt", "avira+fbdt", "min-rtt"] {
        let run = |redundant| {
            let mut pair = started(scheduler, &[(50, 5), (20, 15)]);
            let flow = flow(&mut pair, redundant);
            let count = game(&mut pair, flow, (2 * SECOND, None), |pair, number| {
                let rate = if (60..120).contains(&number) { Bitrate::ZERO } else { Bitrate::from_mbps(50) };
                pair.paths.get_mut(&PathId(0)).unwrap().rate = rate;
            });
            let arrived = arrived(&pair, flow);
            let mut numbers: Vec<_> = arrived.iter().map(|(number, _)| *number).collect();
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..count), "{scheduler}: each once");
            longest(&arrived)
        };
        let (once, everywhere) = (run(false), run(true));
        // The second path's delay is 15 ms.
        assert!(everywhere < 20 * MS, "{scheduler}: {everywhere:?}");
        // AVIRA copies small segments to a path that is nearly as good.
        assert!(once > 25 * MS || scheduler == "avira+fbdt", "{scheduler}: without copies {once:?}");
    }
}

#[test]
fn copies_are_dropped_by_the_receiver_and_cost_their_rate_once_more() {
    let mut pair = started("fbdt", &[(50, 5), (50, 10), (50, 20)]);
    let flow = flow(&mut pair, true);
    let count = game(&mut pair, flow, (2 * SECOND, None), |_, _| {});
    assert_eq!(arrived(&pair, flow).len() as u64, count);
    let sent = pair.ends[1].stats();
    let (each, copies) = (sent.sent / count, sent.sent_again / count);
    assert!((100..=110).contains(&each) && copies == 2 * each, "{sent:?}");
    let received = pair.ends[0].stats();
    assert_eq!((received.received, received.duplicates), (sent.sent, sent.sent_again));
}

#[test]
fn a_redundant_stream_is_copied_too_until_it_is_told_otherwise() {
    // A scheduler that copies nothing by itself.
    let mut pair = started("min-rtt", &[(50, 5), (20, 15)]);
    let stream = pair.ends[1].open_stream(7).unwrap();
    for redundant in [true, false] {
        pair.ends[1].set_redundant(stream, redundant);
        let before = pair.ends[0].stats();
        for _ in 0..10 {
            pair.ends[1].write_slice(stream, &[7; 6000]).unwrap();
            pair.run(20 * MS);
        }
        let after = pair.ends[0].stats();
        assert_eq!(after.received - before.received, 60_000);
        let copies = after.duplicates - before.duplicates;
        let expected = if redundant { 60_000..=60_000 } else { 0..=6000 };
        assert!(expected.contains(&copies), "{redundant}: {copies} bytes of copies");
    }
    pair.ends[1].finish(stream).unwrap();
}

#[test]
fn bulk_goes_on_beside_a_flood_of_redundant_datagrams() {
    for scheduler in names() {
        let mut pair = started(scheduler, &[(20, 5), (20, 10)]);
        let config = FlowConfig { redundant: true, priority: Some(9), ..FlowConfig::default() };
        let flow = pair.ends[1].open_flow(pair.now, config).unwrap();
        let mut bulk = Sender::new(&mut pair, 1, PLENTY);
        let from = pair.now;
        while pair.now < from + 3 * SECOND {
            for _ in 0..4 {
                pair.ends[1].send_datagram(pair.now, flow, &[7; 1200], Ecn::NotCapable).unwrap();
            }
            bulk.feed(&mut pair);
            pair.run(MS);
        }
        let rate = goodput(&pair, 0, from + SECOND, pair.now).as_mbps_f64();
        // Three bytes of the flood for one of bulk, each of the three on both paths: a seventh of 40 Mbit/s.
        assert!(rate > 4.0, "{scheduler}: {rate:.1} Mbit/s of bulk");
        assert!(pair.ends[1].copies.len() <= super::super::copies::MOST_WAITING);
        pair.ends[1].reset(bulk.stream, 0);
        pair.ends[1].reset(flow, 0);
    }
}

#[test]
fn late_copies_and_those_of_a_path_that_ended_are_not_sent() {
    let mut pair = started("fbdt", &[(50, 5), (50, 5)]);
    let config = FlowConfig { redundant: true, lifetime: Some(30 * MS), ..FlowConfig::default() };
    let flow = pair.ends[1].open_flow(pair.now, config).unwrap();
    pair.ends[1].send_datagram(pair.now, flow, b"begins", Ecn::NotCapable).unwrap();
    pair.run(100 * MS);
    // Nothing that is sent arrives, so that the copies stay in question; the second path has no room.
    pair.paths.values_mut().for_each(|path| path.rate = Bitrate::ZERO);
    let last = pair.ends[1].send.end();
    pair.ends[1].send_datagram(pair.now, flow, b"late", Ecn::NotCapable).unwrap();
    pair.run(MS);
    let sends = |pair: &Pair, seq: DataSeq| pair.ends[1].send.segment(seq).map(|segment| segment.sends);
    assert_eq!(sends(&pair, last), Some(2), "both paths have room");
    let on = pair.ends[1].subflow_stats().map(|stats| stats.subflow).next().unwrap();
    pair.ends[1].copies.push(last, on);
    pair.ends[1].copies.push(DataSeq(0), on);
    pair.run(50 * MS);
    assert_eq!((sends(&pair, last), pair.ends[1].copies.len()), (Some(2), 0));
}
