//! Flows of datagrams between two sessions: what arrives, in which order and how late, and what a bad peer causes.

use core::time::Duration;
use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tributary_types::{Bitrate, Instant, PathId, Rng, StreamId};

use super::hostile::{ON, segment, server};
use super::pair::{Pair, Sender};
use crate::event::Event;
use crate::flow::{FlowConfig, Form, SendDatagramError, Sent, Traffic};
use crate::session::{OpenStreamError, ProtocolError, ReadError, Session, WriteError};
use crate::wire::{Ecn, FIRST_FLOW, MAX_DATAGRAM, SegmentKind, encode_prefix};
use crate::work::steps;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn started(scheduler: &str, paths: &[(u64, u64)]) -> Pair {
    let mut pair = Pair::new(scheduler, paths);
    pair.run(300 * MS);
    pair
}

/// A datagram that says its number and when it was sent.
fn numbered(number: u64, now: Instant, length: usize) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.extend_from_slice(&now.saturating_since(Instant::ZERO).as_micros().to_be_bytes());
    bytes.resize(length.max(24), 7);
    bytes
}

/// Numbers of the datagrams that were received at `side` on a flow, and how long each took.
fn received(pair: &Pair, side: usize, flow: StreamId) -> Vec<(u64, Duration)> {
    let of_flow = pair.datagrams[side].iter().filter(|(_, id, _)| *id == flow);
    let read = |(at, _, datagram): &(Instant, StreamId, crate::flow::Datagram)| {
        let number = u64::from_be_bytes(datagram.bytes[..8].try_into().unwrap());
        let sent = u128::from_be_bytes(datagram.bytes[8..24].try_into().unwrap());
        (number, at.saturating_since(Instant::ZERO + Duration::from_micros(sent as u64)))
    };
    of_flow.map(read).collect()
}

/// The delay that a part of the datagrams does not exceed.
fn quantile(delays: &[(u64, Duration)], part: f64) -> Duration {
    let mut sorted: Vec<_> = delays.iter().map(|(_, delay)| *delay).collect();
    sorted.sort_unstable();
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// Sends a datagram of `length` bytes every `gap` on a flow of the server for `time`, beside bulk if there is any. Returns how
/// many were given to the flow.
fn stream(
    pair: &mut Pair,
    flow: StreamId,
    (length, gap): (usize, Duration),
    time: Duration,
    bulk: Option<&mut Sender>,
) -> u64 {
    let (until, mut bulk) = (pair.now + time, bulk);
    let (mut number, mut next) = (0, pair.now);
    while pair.now < until {
        while next <= pair.now {
            let datagram = numbered(number, pair.now, length);
            pair.ends[1].send_datagram(pair.now, flow, &datagram, Ecn::NotCapable).unwrap();
            (number, next) = (number + 1, next + gap);
        }
        if let Some(bulk) = &mut bulk {
            bulk.feed(pair);
        }
        pair.run(pair.step);
    }
    number
}

#[test]
fn datagrams_of_every_length_arrive_whole_and_once_over_several_paths() {
    for form in [Form::AsTheyArrive, Form::InOrder] {
        let mut pair = started("fbdt", &[(47, 4), (140, 2), (20, 30)]);
        let config = FlowConfig { form: Some(form), ..FlowConfig::default() };
        let flow = pair.ends[0].open_flow(pair.now, config).unwrap();
        let mut sent = Vec::new();
        for round in 0..40_usize {
            for length in [0, 1, 200, 1200, 1472, 9000, MAX_DATAGRAM] {
                let (datagram, ecn) = (vec![(round + length) as u8; length], Ecn::from_bits(round as u8));
                let outcome = pair.ends[0].send_datagram(pair.now, flow, &datagram, ecn).unwrap();
                assert_eq!(outcome, Sent::Queued, "{form:?} {round} {length}");
                sent.push((datagram, ecn));
                pair.run(8 * MS);
            }
        }
        pair.ends[0].finish(flow).unwrap();
        pair.run_until(SECOND, |pair| pair.ended[1].contains(&flow));
        assert!(pair.events[1].contains(&Event::FlowOpened(flow)));
        let got: Vec<_> = pair.datagrams[1].iter().map(|(.., d)| (d.bytes.to_vec(), d.ecn)).collect();
        if form == Form::InOrder {
            assert!(got == sent, "in order");
        }
        let sorted = |mut all: Vec<(Vec<u8>, Ecn)>| {
            all.sort_by(|a, b| (a.0.len(), &a.0, a.1 as u8).cmp(&(b.0.len(), &b.0, b.1 as u8)));
            all
        };
        assert!(sorted(got) == sorted(sent), "{form:?}");
        // The flow disappears when the other end has ended its direction, too.
        pair.ends[1].finish(flow).unwrap();
        pair.run(SECOND);
        assert_eq!((pair.ends[0].streams().own, pair.ends[1].streams().peers), (0, 0));
        assert_eq!(pair.ends[0].stats().send_held + pair.ends[1].stats().receive_held, 0);
    }
}

#[test]
fn a_new_flow_and_a_new_stream_need_no_round_trip_before_their_first_bytes() {
    let delay = 50;
    let mut pair = started("fbdt", &[(47, delay), (140, 200)]);
    let sent = pair.now;
    let flow = pair.ends[0].open_flow(sent, FlowConfig::default()).unwrap();
    pair.ends[0].send_datagram(sent, flow, b"question", Ecn::NotCapable).unwrap();
    let mut stream = Sender::new(&mut pair, 0, 100);
    stream.feed(&mut pair);
    pair.run_until(SECOND, |pair| !pair.datagrams[1].is_empty() && !pair.received[1].is_empty());
    // The path's delay, and what the bytes need at its rate.
    assert!(pair.now.saturating_since(sent) < Duration::from_millis(delay) + 2 * MS, "{}", pair.now);
    let answered = pair.now;
    pair.ends[1].send_datagram(answered, flow, b"answer", Ecn::NotCapable).unwrap();
    pair.run_until(SECOND, |pair| !pair.datagrams[0].is_empty());
    assert!(pair.now.saturating_since(answered) < Duration::from_millis(delay) + 2 * MS, "{}", pair.now);
}

#[test]
fn the_first_datagram_is_received_first_whatever_path_it_takes() {
    let mut pair = started("redundant", &[(47, 4), (140, 2)]);
    for path in [0, 1] {
        let config = FlowConfig { form: Some(Form::AsTheyArrive), ..FlowConfig::default() };
        let flow = pair.ends[0].open_flow(pair.now, config).unwrap();
        pair.ends[0].send_datagram(pair.now, flow, b"first", Ecn::NotCapable).unwrap();
        pair.run(pair.step);
        // It is under way on both paths when they break, and is sent again behind what follows.
        pair.cut(PathId(path));
        pair.ends[0].send_datagram(pair.now, flow, b"second", Ecn::NotCapable).unwrap();
        pair.run(pair.step);
        pair.cut(PathId(1 - path));
        pair.run(SECOND);
        let got = pair.datagrams[1].iter().filter(|(_, id, _)| *id == flow);
        assert!(got.map(|(.., datagram)| &datagram.bytes[..]).eq([&b"first"[..], b"second"]));
    }
}

#[test]
fn a_lost_path_costs_an_ordered_flow_nothing() {
    let mut pair = started("fbdt", &[(47, 4), (140, 2)]);
    let config = FlowConfig { form: Some(Form::InOrder), ..FlowConfig::default() };
    let flow = pair.ends[1].open_flow(pair.now, config).unwrap();
    let mut offered = 0;
    for round in 0..6_u8 {
        let n = stream(&mut pair, flow, (1200, 200 * MS / 1000), 100 * MS, None);
        offered += n;
        pair.cut(PathId(round % 2));
    }
    pair.run(SECOND);
    assert_eq!(received(&pair, 0, flow).len() as u64, offered);
    assert!(pair.ends[1].flow_stats(flow).unwrap().dropped == 0);
}

/// As fast as it can, a sender without congestion control: the queue must show it what the paths carry.
fn flood(scheduler: &str, paths: &[(u64, u64)], ecn: Ecn) -> (Pair, StreamId, f64) {
    let mut pair = started(scheduler, paths);
    let flow = pair.ends[1].open_flow(pair.now, FlowConfig::default()).unwrap();
    let mut number = 0;
    let together: u64 = paths.iter().map(|path| path.0).sum();
    // A tenth more than the paths carry.
    let gap =
        Bitrate::from_mbps(together * 11 / 10).time_for(tributary_types::DataSize::from_bytes(1200)).unwrap();
    let (begin, mut next) = (pair.now, pair.now);
    while pair.now < begin + 4 * SECOND {
        while next <= pair.now {
            let datagram = numbered(number, pair.now, 1200);
            pair.ends[1].send_datagram(pair.now, flow, &datagram, ecn).unwrap();
            (number, next) = (number + 1, next + gap);
        }
        pair.run(pair.step);
    }
    let late = |at: Instant| at >= begin + SECOND;
    let bytes = pair.datagrams[0].iter().filter(|(at, ..)| late(*at)).count() as f64 * 1200.0;
    let share = bytes * 8.0 / 3e6 / together as f64;
    (pair, flow, share)
}

#[test]
fn bulk_uses_all_paths_in_order_and_its_queue_is_bounded_by_time() {
    for scheduler in ["fbdt", "avira+fbdt"] {
        for paths in [[(50, 20), (50, 20)], [(100, 20), (10, 40)], [(200, 8), (5, 60)]] {
            let (pair, flow, share) = flood(scheduler, &paths, Ecn::NotCapable);
            let got = received(&pair, 0, flow);
            assert!(got.is_sorted_by(|a, b| a.0 < b.0), "{scheduler} {paths:?}: not in order");
            let stats = pair.ends[1].flow_stats(flow).unwrap();
            assert_eq!(pair.ends[1].flow_traffic(flow), Some(Traffic::Bulk));
            assert!(stats.dropped > 0 && stats.marked == 0, "{stats:?}");
            assert!(share > 0.9, "{scheduler} {paths:?}: {share} of the sum");
            // The slower way, 50 ms in the flow's queue, and what the subflows hold: half a round trip more than their paths, what
            // is not sent, and the lead of the less reliable one.
            let slow = paths.iter().map(|path| path.1).max().unwrap() as u32 * MS;
            let worst = quantile(&got[got.len() / 4..], 0.99);
            assert!(worst <= slow + 50 * MS + 80 * MS, "{scheduler} {paths:?}: {worst:?}");
        }
    }
}

#[test]
fn a_flow_that_is_capable_of_ecn_is_marked_before_it_is_dropped() {
    let (pair, flow, _) = flood("fbdt", &[(50, 10), (50, 20)], Ecn::Capable0);
    let stats = pair.ends[1].flow_stats(flow).unwrap();
    let marked = pair.datagrams[0].iter().filter(|(.., d)| d.ecn == Ecn::Congested).count() as u64;
    // Nobody answers to the marks, so the bound drops as well.
    assert!(stats.marked > 10 && stats.dropped > 0, "{stats:?}");
    assert!(marked > 0 && marked <= stats.marked, "{marked} of {}", stats.marked);
}

#[test]
fn small_flows_do_not_wait_behind_bulk() {
    for scheduler in ["fbdt", "avira+fbdt", "min-rtt"] {
        for (what, length, gap) in
            [(Traffic::Sparse, 200, 16 * MS), (Traffic::ConstantRate, 1316, 3509 * MS / 1000)]
        {
            let mut pair = started(scheduler, &[(47, 4), (140, 2)]);
            let mut bulk = Sender::new(&mut pair, 1, 1 << 30);
            let flow = pair.ends[1].open_flow(pair.now, FlowConfig::default()).unwrap();
            let offered = stream(&mut pair, flow, (length, gap), 4 * SECOND, Some(&mut bulk));
            assert_eq!(pair.ends[1].flow_traffic(flow), Some(what), "{scheduler}");
            let got = received(&pair, 0, flow);
            assert!(got.len() as u64 + 20 >= offered, "{scheduler}: {} of {offered}", got.len());
            let last: Vec<_> = got.iter().copied().filter(|(n, _)| *n >= offered / 2).collect();
            assert!(quantile(&last, 0.99) <= 25 * MS, "{scheduler} {what:?}: {:?}", quantile(&last, 0.99));
            assert!(pair.checked(0, bulk.stream) > 40 << 20, "bulk goes on");
        }
    }
}

#[test]
fn nothing_of_a_datagram_past_its_deadline_is_sent_and_the_flow_goes_on() {
    for form in [Form::AsTheyArrive, Form::InOrder] {
        let mut pair = started("fbdt", &[(47, 4)]);
        let config = FlowConfig { form: Some(form), lifetime: Some(50 * MS), ..FlowConfig::default() };
        let flow = pair.ends[1].open_flow(pair.now, config).unwrap();
        let before = stream(&mut pair, flow, (500, 2 * MS), 100 * MS, None);
        pair.paths.values_mut().for_each(|path| path.dead = true);
        // Some have been numbered when the path is cut, and become orphans.
        stream(&mut pair, flow, (500, 2 * MS), 100 * MS, None);
        pair.cut(PathId(0));
        let dead = stream(&mut pair, flow, (500, 2 * MS), 400 * MS, None);
        pair.paths.values_mut().for_each(|path| path.dead = false);
        let back = pair.now;
        pair.run(10 * SECOND);
        let on_time = pair.datagrams[0].iter().all(|(at, _, d)| {
            let sent = u128::from_be_bytes(d.bytes[8..24].try_into().unwrap());
            let sent = Instant::ZERO + Duration::from_micros(sent as u64);
            // A step, the way, and a segment's time on it.
            at.saturating_since(sent) <= 50 * MS + 10 * MS || *at < back
        });
        assert!(on_time, "{form:?}");
        let got = pair.datagrams[0].len() as u64;
        assert!(got >= before && got < before + dead, "{form:?} {got}");
        assert!(pair.ends[1].flow_stats(flow).unwrap().expired > 100, "{form:?}");
        let again = stream(&mut pair, flow, (500, 2 * MS), 100 * MS, None);
        pair.run(SECOND);
        assert_eq!(pair.datagrams[0].len() as u64, got + again, "{form:?}: the flow goes on");
        assert_eq!((pair.ends[1].stats().send_held, pair.ends[0].stats().receive_held), (0, 0));
    }
}

#[test]
fn a_flow_that_nobody_reads_holds_up_nobody_and_its_queue_stays_short() {
    let mut pair = started("fbdt", &[(47, 4), (140, 2)]);
    let flow = pair.ends[1].open_flow(pair.now, FlowConfig::default()).unwrap();
    pair.slow.insert(flow, 0);
    let mut bulk = Sender::new(&mut pair, 1, 1 << 30);
    let offered = stream(&mut pair, flow, (1200, MS / 4), 3 * SECOND, Some(&mut bulk));
    assert!(pair.checked(0, bulk.stream) > 40 << 20, "{}", pair.checked(0, bulk.stream));
    let stats = pair.ends[1].flow_stats(flow).unwrap();
    assert!(stats.dropped + stats.expired > offered / 2, "{stats:?} of {offered}");
    let held = pair.ends[1].send.streams[&flow].unsent();
    // What the paths carry in 50 ms.
    assert!(held <= 187_000_000 / 8 / 20 * 11 / 10, "{held} bytes wait");
    pair.slow.remove(&flow);
    pair.run(SECOND);
    stream(&mut pair, flow, (200, 16 * MS), SECOND, None);
    pair.run(SECOND);
    assert!(received(&pair, 0, flow).len() > 60, "it goes on once it is read");
}

#[test]
fn a_flow_follows_its_traffic_and_a_rule_overrides() {
    let mut pair = started("fbdt", &[(47, 4)]);
    let rule = FlowConfig { form: Some(Form::InOrder), priority: Some(3), ..FlowConfig::default() };
    for config in [FlowConfig::default(), rule] {
        let flow = pair.ends[1].open_flow(pair.now, config).unwrap();
        let treated = |pair: &Pair| pair.ends[1].send.streams[&flow].flow.as_ref().unwrap().treatment;
        let sparse = treated(&pair);
        stream(&mut pair, flow, (1200, MS / 4), SECOND, None);
        let bulk = treated(&pair);
        if config == rule {
            assert_eq!(
                (sparse.form, sparse.priority, bulk.form, bulk.priority),
                (Form::InOrder, 3, Form::InOrder, 3)
            );
        } else {
            assert!(sparse.form == Form::AsTheyArrive && sparse.priority > 0);
            assert!(bulk.form == Form::InOrder && bulk.priority == 0 && bulk.lifetime > sparse.lifetime);
            pair.ends[1].configure_flow(flow, rule);
            assert_eq!(treated(&pair).priority, 3);
        }
    }
}

#[test]
fn calls_that_cannot_work_say_why() {
    let mut pair = started("fbdt", &[(47, 4)]);
    let (now, config) = (pair.now, FlowConfig::default());
    let session = &mut pair.ends[0];
    let flow = session.open_flow(now, config).unwrap();
    let stream = session.open_stream(0).unwrap();
    let send =
        |session: &mut Session, id, bytes| session.send_datagram(now, id, &vec![0; bytes], Ecn::NotCapable);
    let error = send(session, flow, MAX_DATAGRAM + 1).unwrap_err();
    assert_eq!(error.to_string(), "the datagram has 65508 bytes; at most 65507 are allowed");
    assert_eq!(send(session, stream, 1), Err(SendDatagramError::NotOpen));
    assert_eq!(session.recv_datagram(stream), Err(ReadError::NotOpen));
    assert_eq!(session.write_slice(flow, &[1]), Err(WriteError::NotOpen));
    assert_eq!(session.read(flow), Err(ReadError::NotOpen));
    assert_eq!(session.recv_datagram(flow), Err(ReadError::Blocked));
    session.finish(flow).unwrap();
    assert_eq!(send(session, flow, 1), Err(SendDatagramError::NotOpen));
    let refused =
        std::iter::from_fn(|| session.open_flow(now, config).err().or(Some(OpenStreamError::Closed)));
    assert!(matches!(refused.take(2000).last(), Some(OpenStreamError::TooMany(1024))), "the peer's limit");
    let other = pair.ends[1].open_flow(now, config).unwrap();
    pair.ends[1].send_datagram(now, other, b"x", Ecn::NotCapable).unwrap();
    pair.run(50 * MS);
    pair.ends[0].stop(other, 9);
    pair.run(50 * MS);
    assert_eq!(send(&mut pair.ends[1], other, 1), Err(SendDatagramError::Stopped(9)));
}

// ---- a bad peer

pub(super) fn flow_segment(seq: u64, flow: u32, offset: u64, datagrams: &[&[u8]], in_order: bool) -> Bytes {
    let mut payload = BytesMut::new();
    for datagram in datagrams {
        encode_prefix(datagram.len(), Ecn::NotCapable, |prefix| payload.extend_from_slice(prefix));
        payload.extend_from_slice(datagram);
    }
    raw_segment(seq, flow, offset, &payload, in_order)
}

fn raw_segment(seq: u64, flow: u32, offset: u64, payload: &[u8], in_order: bool) -> Bytes {
    let kind = SegmentKind::Datagrams { offset, length: payload.len() as u32, in_order };
    let head = segment(seq, FIRST_FLOW + flow, kind);
    [&head[..], payload].concat().into()
}

fn skip(seq: u64, flow: u32, offset: u64, length: u32) -> Bytes {
    segment(seq, FIRST_FLOW + flow, SegmentKind::Skip { offset, length })
}

fn outcome(inputs: &[Bytes]) -> Result<(), ProtocolError> {
    let mut session = server();
    inputs.iter().try_for_each(|input| session.handle_input(Instant::from_millis(5), ON, input.clone()))
}

#[test]
fn a_peer_that_breaks_the_rules_of_flows_is_named() {
    let flow = StreamId(FIRST_FLOW);
    let none = ProtocolError::NoDatagrams(flow);
    let overlap = ProtocolError::DatagramsOverlap(flow);
    let long = vec![0; MAX_DATAGRAM + 1];
    assert_eq!(outcome(&[flow_segment(0, 0, 0, &[&long], false)]), Err(none.clone()), "too long");
    assert_eq!(outcome(&[raw_segment(0, 0, 0, &[0x14, 1, 2], false)]), Err(none.clone()), "cut short");
    assert_eq!(outcome(&[raw_segment(0, 0, 0, &[0x80], true)]), Err(none.clone()), "a part of a length");
    assert_eq!(outcome(&[raw_segment(0, 0, 0, &[], true)]), Err(none), "empty");
    let bytes = segment(0, FIRST_FLOW, SegmentKind::Data { offset: 0, length: 3, fin: false });
    assert_eq!(outcome(&[bytes]), Err(ProtocolError::BytesOnFlow(flow)));
    let ten: &[u8] = &[1; 10];
    let first = flow_segment(0, 0, 0, &[ten], false);
    for again in
        [flow_segment(1, 0, 5, &[ten], false), flow_segment(1, 0, 0, &[ten], true), skip(1, 0, 10, 5)]
    {
        assert_eq!(outcome(&[first.clone(), again]), Err(overlap.clone()));
    }
    assert_eq!(
        outcome(&[flow_segment(0, 1, 0, &[ten], false)]),
        Err(ProtocolError::UnknownStream(StreamId(FIRST_FLOW + 1)))
    );
    assert_eq!(
        outcome(&[flow_segment(0, 0, 1 << 30, &[ten], false)]),
        Err(ProtocolError::CreditExceeded(flow))
    );
    assert_eq!(outcome(&[skip(0, 0, 1 << 30, 1)]), Err(ProtocolError::CreditExceeded(flow)));
    // A server of four streams: a flood of flows ends the session, and opens none of them.
    assert_eq!(outcome(&[flow_segment(0, 1000, 0, &[ten], false)]), Err(ProtocolError::TooManyStreams(4)));
    // A copy of a segment is no fault.
    assert_eq!(outcome(&[first.clone(), first]), Ok(()));
}

#[test]
fn a_copy_is_delivered_once_also_in_pieces_on_two_subflows() {
    let mut session = server();
    let now = Instant::from_millis(5);
    let other = tributary_types::SubflowId(4);
    session.handle_subflow_open(now, other, PathId(1)).unwrap();
    let whole = flow_segment(0, 0, 0, &[b"one", b"", b"three"], false);
    for at in 0..whole.len() {
        for on in [ON, other] {
            session.handle_input(now, on, whole.slice(at..=at)).unwrap();
        }
    }
    let mut got = Vec::new();
    assert_eq!(session.recv_datagrams(StreamId(FIRST_FLOW), 10, &mut got), Ok(3));
    let got: Vec<_> = got.iter().map(|datagram| &datagram.bytes[..]).collect();
    assert_eq!(got, [&b"one"[..], b"", b"three"]);
    assert_eq!(session.recv_datagram(StreamId(FIRST_FLOW)), Err(ReadError::Blocked));
    assert_eq!(session.stats().receive_held, 0);
}

#[test]
fn datagrams_in_order_wait_for_those_before_and_a_skip_ends_the_wait() {
    let mut session = server();
    let (now, flow) = (Instant::from_millis(5), StreamId(FIRST_FLOW));
    let take = |session: &mut Session, input: Bytes| {
        session.handle_input(now, ON, input).unwrap();
        let mut got = Vec::new();
        let _ = session.recv_datagrams(flow, 10, &mut got);
        got.iter().map(|datagram| datagram.bytes[0]).collect::<Vec<_>>()
    };
    let one = |seq, offset, byte: u8, in_order| flow_segment(seq, 0, offset, &[&[byte]], in_order);
    assert_eq!(take(&mut session, one(2, 4, 3, true)), []);
    assert_eq!(take(&mut session, one(3, 6, 4, false)), [4], "as it arrives");
    assert_eq!(take(&mut session, one(0, 0, 1, true)), [1]);
    assert_eq!(take(&mut session, skip(1, 0, 2, 2)), [3]);
    assert_eq!(take(&mut session, one(4, 8, 5, true)), [5]);
    assert_eq!(session.stats().receive_held, 0);
}

#[test]
fn a_segment_costs_what_its_datagrams_cost_and_gaps_are_bounded() {
    let now = Instant::from_millis(5);
    let mut session = server();
    let empty: Vec<&[u8]> = vec![&[]; 10_000];
    let cost = steps(|| session.handle_input(now, ON, flow_segment(0, 0, 0, &empty, false)).unwrap());
    assert!(cost <= 10_000 + 8, "{cost} steps for 10 000 datagrams");
    let mut session = server();
    let mut worst = 0;
    let flood = (0..200_000).map(|seq| {
        let input = flow_segment(seq, 0, 2 + 4 * seq, &[b"x"], false);
        let mut result = Ok(());
        worst = worst.max(steps(|| result = session.handle_input(now, ON, input)));
        while session.recv_datagram(StreamId(FIRST_FLOW)).is_ok() {}
        result
    });
    assert_eq!(flood.filter_map(Result::err).next(), Some(ProtocolError::TooFarAhead));
    assert!(worst <= 8, "{worst} steps for a segment");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever paths, sizes and cuts: no datagram arrives twice or changed, ordered flows keep their order, and nothing is
    /// left behind. The pair checks liveness all the time.
    #[test]
    fn datagrams_arrive_once_or_not_at_all(
        seed in 0..1000_u64,
        paths in prop::collection::vec((5..100_u64, 1..40_u64), 1..4),
        sizes in prop::collection::vec((24..4000_usize, 0..6_u64, any::<bool>()), 20..200),
        cuts in prop::collection::vec(0..200_usize, 0..3),
        overtaking in any::<bool>(),
    ) {
        let mut pair = Pair::new(if seed % 2 == 0 { "fbdt" } else { "avira+fbdt" }, &paths);
        pair.overtaking = overtaking.then(|| Rng::new(seed));
        pair.run(300 * MS);
        let form = |form| FlowConfig { form: Some(form), ..FlowConfig::default() };
        let flows = [Form::AsTheyArrive, Form::InOrder].map(|f| pair.ends[1].open_flow(pair.now, form(f)).unwrap());
        for (at, (size, pause, ordered)) in sizes.iter().enumerate() {
            let datagram = numbered(at as u64, pair.now, *size);
            pair.ends[1].send_datagram(pair.now, flows[usize::from(*ordered)], &datagram, Ecn::Capable1).unwrap();
            pair.run(*pause as u32 * MS);
            if cuts.contains(&at) {
                pair.cut(PathId((at % paths.len()) as u8));
            }
        }
        flows.iter().for_each(|flow| pair.ends[1].finish(*flow).unwrap());
        pair.run_until(20 * SECOND, |pair| flows.iter().all(|flow| pair.ended[0].contains(flow)));
        for (flow, ordered) in flows.into_iter().zip([false, true]) {
            let got = received(&pair, 0, flow);
            let once: BTreeSet<_> = got.iter().map(|(number, _)| *number).collect();
            prop_assert_eq!(once.len(), got.len());
            prop_assert!(!ordered || got.is_sorted());
            let mut lengths = pair.datagrams[0].iter().filter(|(_, id, _)| *id == flow);
            let unchanged = lengths.all(|(.., d)| {
                let number = u64::from_be_bytes(d.bytes[..8].try_into().unwrap()) as usize;
                sizes[number].0 == d.bytes.len() && sizes[number].2 == ordered
            });
            prop_assert!(unchanged);
        }
        flows.iter().for_each(|flow| pair.ends[0].finish(*flow).unwrap());
        pair.run(2 * SECOND);
        prop_assert_eq!(pair.ends[1].stats().send_held, 0);
        prop_assert_eq!(pair.ends[0].streams().peers, 0);
    }
}
