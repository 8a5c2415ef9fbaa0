//! Each published rule with numbers computed by hand, and the recall of segments on silent subflows.

use core::time::Duration;

use tributary_types::{Bitrate, PathId, Rng};

use super::blest::Blest;
use super::ecf::Ecf;
use super::greedy_sticky::GreedySticky;
use super::linux_default::LinuxDefault;
use super::lowest_rtt::LowestRtt;
use super::min_rtt::MinRtt;
use super::musher::MuSher;
use super::random::Random;
use super::round_robin::RoundRobin;
use super::*;
use crate::scheduler::NumberedStream;

const NOW: Instant = Instant::ZERO;
const WINDOW: usize = 1 << 20;

pub(in crate::scheduler) fn view(id: u32, srtt_ms: u64, room: usize) -> SubflowView {
    let srtt = Duration::from_millis(srtt_ms);
    SubflowView {
        id: SubflowId(id),
        path: PathId(id as u8),
        room,
        srtt,
        rttvar: Duration::ZERO,
        min_rtt: srtt,
        least_delay: srtt,
        usual_blockage: Duration::ZERO,
        cwnd: 10 * MSS,
        in_flight: 0,
        delivered: 0,
        rate: None,
        long_rate: None,
        sustained_rate: None,
        oldest_sent: None,
        silent: false,
        rank: 0,
    }
}

/// `written` bytes of which one TCP segment is numbered; the connection's window is `allowed`.
fn data(written: u64, allowed: u64) -> NumberedStream {
    let mut stream = NumberedStream::new(8 << 20);
    stream.allow(allowed);
    stream.write(written);
    number(&mut stream, 1);
    stream
}

fn number(stream: &mut NumberedStream, segments: u64) -> (DataSeq, DataSeq) {
    stream.load(Load { bytes: segments * MSS, segment: MSS as usize }, MSS as usize)
}

fn pick(of: &mut impl Pick, now: Instant, stream: &NumberedStream, subflows: &[SubflowView]) -> Option<u32> {
    let picked = of.pick(now, &stream.view(WINDOW), subflows).map(|id| id.0);
    if let Some(id) = picked {
        of.assigned(SubflowId(id), MSS);
    }
    picked
}

#[test]
fn min_rtt_takes_the_least_smoothed_rtt_that_has_room() {
    let (mut rule, stream) = (MinRtt::default(), data(10 * MSS, 1 << 20));
    assert_eq!(pick(&mut rule, NOW, &stream, &[view(0, 20, 1), view(1, 10, 1), view(2, 5, 0)]), Some(1));
    assert_eq!(pick(&mut rule, NOW, &stream, &[view(0, 20, 1), view(1, 10, 0)]), Some(0));
}

#[test]
fn min_rtt_sends_a_blocking_head_again_when_its_carrier_is_four_times_slower_and_penalises_it() {
    let slow_of = |srtt| [view(0, 10, 1), view(1, srtt, 0)];
    for (srtt, allowed, again) in [(41, MSS, true), (40, MSS, false), (41, 1 << 20, false)] {
        let (mut rule, mut stream) = (MinRtt::default(), data(10 * MSS, allowed));
        let head = stream.view(WINDOW).first();
        stream.sent(NOW, head, SubflowId(1), MSS);
        let found = rule.reinject(NOW, &stream.view(WINDOW), &slow_of(srtt));
        assert_eq!(found, again.then_some((SubflowId(0), head)), "{srtt} ms, {allowed} allowed");
        assert_eq!(rule.take_penalty(), (allowed == MSS).then_some(SubflowId(1)));
        // At most once in a round trip of the fast subflow.
        let soon = NOW + Duration::from_millis(9);
        rule.reinject(soon, &stream.view(WINDOW), &slow_of(srtt));
        assert_eq!(rule.take_penalty(), None);
    }
}

#[test]
fn blest_waits_when_the_window_does_not_hold_what_the_fast_one_sends_meanwhile() {
    // A segment on the slow subflow is in flight for 40 ms, which are 5 rounds of 10 ms: (10 + 4/2) · 5 = 60
    // segments, times 1.2: 104 256 bytes.
    let subflows = [view(0, 10, 0), view(1, 40, 1)];
    let at = |allowed| pick(&mut Blest::default(), NOW, &data(10 * MSS, allowed), &subflows);
    assert_eq!(at(104_256 + MSS), Some(1));
    assert_eq!(at(104_256 + MSS - 1), None);
    // Bytes in flight on the slow subflow count: three segments. Its smoothed RTT has always been 40 ms.
    let subflows = [view(0, 10, 0), SubflowView { in_flight: 3 * MSS, ..view(1, 40, 1) }];
    let at = |allowed| pick(&mut Blest::default(), NOW, &data(10 * MSS, allowed), &subflows);
    assert_eq!(at(104_256 + 4 * MSS), Some(1));
    assert_eq!(at(104_256 + 4 * MSS - 1), None);
}

#[test]
fn blest_moves_lambda_once_a_round_trip_of_the_slow_one() {
    let subflows = [view(0, 10, 0), view(1, 40, 1)];
    let fits = |rule: &mut Blest, ms, needed: u64, again: bool| {
        let least = |allowed| {
            let mut stream = data(10 * MSS, allowed);
            for onto in 0..if again { 2 } else { 0 } {
                stream.sent(Instant::from_millis(ms), DataSeq(0), SubflowId(onto), MSS);
            }
            stream
        };
        let (enough, short) = (least(needed + MSS), least(needed + MSS - 1));
        let now = Instant::from_millis(ms);
        let picked = (pick(rule, now, &enough, &subflows), pick(rule, now, &short, &subflows));
        assert_eq!(picked, (Some(1), None), "{needed} bytes at {ms} ms");
    };
    let mut rule = Blest::default();
    fits(&mut rule, 39, 104_256, false); // λ = 1.2
    fits(&mut rule, 40, 103_387, false); // 1.19
    fits(&mut rule, 79, 103_387, true); // the head was sent again: not yet
    fits(&mut rule, 80, 106_862, false); // 1.23
    for round in 3..12 {
        let now = Instant::from_millis(40 * round);
        let mut stream = data(10 * MSS, 1 << 20);
        (0..2).for_each(|onto| _ = stream.sent(now, DataSeq(0), SubflowId(onto), MSS));
        pick(&mut rule, now, &stream, &subflows);
    }
    fits(&mut rule, 440, 112_944, false); // 1.3 at most
}

#[test]
fn ecf_waits_while_the_fast_one_delivers_the_rest_sooner() {
    // 10 ms · (k + cwnd) < 100 ms · cwnd while k < 9 cwnd; once waiting, 125 ms · cwnd: k < 11.5 cwnd.
    let subflows = [view(0, 10, 0), SubflowView { in_flight: 1, ..view(1, 100, 1) }];
    let cwnd = 10 * MSS;
    let mut rule = Ecf::default();
    // The peer allows only one segment, but k is everything that was written.
    let mut at = |written| pick(&mut rule, NOW, &data(written, MSS), &subflows);
    assert_eq!(at(9 * cwnd), Some(1));
    assert_eq!(at(9 * cwnd - 1), None);
    assert_eq!(at(11 * cwnd + cwnd / 2 - 1), None, "it waits already");
    assert_eq!(at(11 * cwnd + cwnd / 2), Some(1));
    assert_eq!(at(9 * cwnd), Some(1), "it waits no more");
}

#[test]
fn ecf_uses_the_slow_one_when_it_finishes_before_the_fast_one_has_room_again() {
    // δ = 10 ms: 10 · 2 < 12 + 10, but 12 ≥ 2 · 10 + 10 is false.
    let rttvar = Duration::from_millis(10);
    let subflows = [SubflowView { rttvar, ..view(0, 10, 0) }, view(1, 12, 1)];
    assert_eq!(pick(&mut Ecf::default(), NOW, &data(MSS, 1 << 20), &subflows), Some(1));
    // Without deviation: 9 · 2 < 20 and 20 ≥ 2 · 9.
    let subflows = [view(0, 9, 0), view(1, 20, 1)];
    assert_eq!(pick(&mut Ecf::default(), NOW, &data(MSS, 1 << 20), &subflows), None);
}

#[test]
fn ecf_forgets_the_rtt_that_an_idle_subflow_had() {
    // After a blockage: 400 ms where 10 ms are possible; the other one, 20 ms, is full.
    let after = SubflowView { min_rtt: Duration::from_millis(10), ..view(1, 400, 1) };
    let subflows = [view(0, 20, 0), after];
    let (mut rule, stream) = (Ecf::default(), data(MSS, 1 << 20));
    let mut at = |ms| pick(&mut rule, Instant::from_millis(ms), &stream, &subflows);
    assert_eq!(at(1000), None);
    assert_eq!(at(1079), None, "205 ms from 40 ms on: 20 · 2 < 205");
    assert_eq!(at(1240), Some(1), "10 ms + 390 ms / 2⁶ are less than 20 ms");
}

#[test]
fn greedy_sticky_stays_on_a_subflow_until_it_is_full() {
    let (mut rule, stream) = (GreedySticky::default(), data(10 * MSS, 1 << 20));
    let mut with =
        |rooms: [usize; 2]| pick(&mut rule, NOW, &stream, &[view(0, 10, rooms[0]), view(1, 50, rooms[1])]);
    assert_eq!(with([1, 1]), Some(0));
    assert_eq!(with([0, 1]), Some(1));
    assert_eq!(with([1, 1]), Some(1), "the faster one has room again");
    assert_eq!(with([1, 0]), Some(0));
    assert_eq!(with([0, 0]), None);
}

#[test]
fn linux_default_takes_what_drains_first_in_bursts() {
    let queued = |id, srtt, mbps, in_flight| SubflowView {
        rate: Some(Bitrate::from_mbps(mbps)),
        in_flight,
        ..view(id, srtt, 1)
    };
    let (mut rule, stream) = (LinuxDefault::default(), data(10 * MSS, 1 << 20));
    // 80 ms of queue against 8 ms, though its round trip is longer.
    assert_eq!(
        pick(&mut rule, NOW, &stream, &[queued(0, 10, 10, 100_000), queued(1, 50, 100, 100_000)]),
        Some(1)
    );
    // 65 428 bytes are 45.2 segments: the one that began it and 45 more, whatever drains first by then.
    let other = [queued(0, 10, 10, 0), queued(1, 50, 100, 100_000)];
    let burst = (0..60).take_while(|_| pick(&mut rule, NOW, &stream, &other) == Some(1)).count();
    assert_eq!(burst, 45);
}

#[test]
fn linux_default_waits_for_the_subflow_that_drains_first_though_another_has_room() {
    let (mut rule, stream) = (LinuxDefault::default(), data(10 * MSS, 1 << 20));
    let queued = |id, in_flight, room| {
        let rate = Some(Bitrate::from_mbps(8)); // one byte per microsecond
        SubflowView { rate, in_flight, ..view(id, 10, room) }
    };
    assert_eq!(pick(&mut rule, NOW, &stream, &[queued(0, 20_000, 0), queued(1, 30_000, 1)]), None);
    assert_eq!(pick(&mut rule, NOW, &stream, &[queued(0, 20_000, 0), queued(1, 10_000, 1)]), Some(1));
    // A subflow that is full with nothing in flight: no acknowledgement would ever report room.
    let mut rule = LinuxDefault::default();
    assert_eq!(pick(&mut rule, NOW, &stream, &[queued(0, 0, 0), queued(1, 30_000, 1)]), Some(1));
}

#[test]
fn round_robin_lowest_rtt_and_random() {
    let stream = data(10 * MSS, 1 << 20);
    let subflows = [view(0, 10, 1), view(1, 20, 1), view(2, 30, 0), view(3, 40, 1)];
    let mut turns = RoundRobin::default();
    let order: Vec<_> = (0..5).map(|_| pick(&mut turns, NOW, &stream, &subflows).unwrap()).collect();
    assert_eq!(order, [0, 1, 3, 0, 1]);
    assert_eq!(pick(&mut LowestRtt, NOW, &stream, &[view(0, 10, 0), view(1, 20, 1)]), None, "it waits");
    assert_eq!(pick(&mut LowestRtt, NOW, &stream, &subflows), Some(0));
    let mut random = Random(Rng::new(3));
    let mut drawn = [0; 4];
    (0..300).for_each(|_| drawn[pick(&mut random, NOW, &stream, &subflows).unwrap() as usize] += 1);
    assert_eq!(drawn[2], 0);
    assert!([0, 1, 3].iter().all(|at| (70..130).contains(&drawn[*at])), "{drawn:?}");
}

#[test]
fn musher_keeps_its_quotas_and_waits_at_them() {
    let (mut rule, stream) = (MuSher::default(), data(10 * MSS, 1 << 20));
    let open = [view(0, 50, 1), view(1, 10, 1)];
    let turns: Vec<_> = (0..100).map(|_| pick(&mut rule, NOW, &stream, &open).unwrap()).collect();
    assert_eq!((&turns[..50], &turns[50..]), (&[0; 50][..], &[1; 50][..]));
    let first_full = [view(0, 50, 0), view(1, 10, 1)];
    for _ in 0..50 {
        assert_eq!(pick(&mut rule, NOW, &stream, &first_full), Some(1));
    }
    assert_eq!(pick(&mut rule, NOW, &stream, &first_full), None, "the second is at its quota");
    assert_eq!(pick(&mut rule, NOW, &stream, &open), Some(0));
}

#[test]
fn musher_leaves_silent_subflows_out_while_another_moves() {
    let (mut rule, stream) = (MuSher::default(), data(10 * MSS, 1 << 20));
    let silent = |id, room| SubflowView { silent: true, ..view(id, 10, room) };
    assert_eq!(pick(&mut rule, NOW, &stream, &[silent(0, 1), view(1, 10, 1), view(2, 5, 1)]), Some(1));
    assert_eq!(pick(&mut rule, NOW, &stream, &[silent(0, 1), silent(1, 1), view(2, 90, 1)]), Some(2));
    assert_eq!(pick(&mut rule, NOW, &stream, &[silent(0, 1), silent(1, 1), view(2, 90, 0)]), None);
}

#[test]
fn musher_counts_long_segments_by_their_bytes() {
    let (mut rule, stream) = (MuSher::default(), data(10 * MSS, 1 << 20));
    let open = [view(0, 50, 1), view(1, 10, 1)];
    let mut bytes = [0_u64; 2];
    for _ in 0..1000 {
        let at = rule.pick(NOW, &stream.view(WINDOW), &open).unwrap();
        // A round of 100 TCP segments is 145 kB.
        let long = [16 << 10, 64 << 10][at.0 as usize];
        rule.assigned(at, long);
        bytes[at.0 as usize] += long;
    }
    assert!(bytes[0].abs_diff(bytes[1]) <= 100 * MSS, "{bytes:?}");
}

#[test]
fn musher_keeps_its_ratio_when_a_path_gets_a_new_subflow() {
    let (mut rule, stream) = (MuSher::default(), data(10 * MSS, 1 << 20));
    let on = |id, path, silent| SubflowView { path: PathId(path), silent, ..view(id, 10, 1) };
    // Subflow 2 is path 0's new one: it takes the first one's part, before subflow 1.
    let renewed = [on(0, 0, true), on(1, 1, false), on(2, 0, false)];
    let turns: Vec<_> = (0..100).map(|_| pick(&mut rule, NOW, &stream, &renewed).unwrap()).collect();
    assert_eq!((&turns[..50], &turns[50..]), (&[2; 50][..], &[1; 50][..]));
}

#[test]
fn segments_on_a_silent_subflow_are_reinjected_once_before_new_data() {
    let mut stream = data(100 * MSS, 1 << 20);
    number(&mut stream, 9);
    // The odd segments are on subflow 1, which falls silent.
    (0..10).for_each(|seq| _ = stream.sent(NOW, DataSeq(seq), SubflowId(seq as u32 % 2), MSS));
    let mut rule = OneAtATime::new(RoundRobin::default());
    let fresh = number(&mut stream, 1);
    rule.on_event(NOW, SchedulerEvent::Loaded { first: fresh.0, end: fresh.1 });
    let silent = |id, room| SubflowView { silent: true, ..view(id, 10, room) };
    let mut run = |rule: &mut OneAtATime<RoundRobin>, subflows: &[SubflowView]| {
        let mut again = Vec::new();
        while let Some(a) = rule.assign(NOW, &stream.view(WINDOW), subflows) {
            if a.kind == AssignmentKind::Fresh {
                break;
            }
            stream.sent(NOW, a.segment, a.subflow, MSS);
            again.push((a.segment.0, a.subflow.0));
        }
        again
    };
    assert_eq!(run(&mut rule, &[view(0, 10, 0), silent(1, 1)]), [], "no room");
    assert_eq!(
        run(&mut rule, &[view(0, 20, 1), silent(1, 1), view(2, 30, 1)]),
        [1, 3, 5, 7, 9].map(|seq| (seq, 0)),
        "the lowest first, on the least RTT"
    );
    // The next subflow falls silent too: every segment is sent again, once.
    let last = [silent(0, 1), silent(1, 1), view(2, 30, 1)];
    let all: Vec<_> = (0..10).map(|seq| (seq, 2)).collect();
    rule.fresh = None;
    assert_eq!(run(&mut rule, &last), all);
    assert_eq!(run(&mut rule, &last), []);
    assert_eq!(run(&mut rule, &[view(0, 20, 1), silent(1, 1), silent(2, 1)]), [], "it has everything");
}
