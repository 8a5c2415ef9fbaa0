//! When the next window is loaded, by the published rule and by the released program's rule.

use core::time::Duration;

use tributary_types::Bitrate;

use super::*;
use crate::scheduler::NumberedStream;
use crate::scheduler::one_at_a_time::tests::view;

const WINDOW: usize = 1 << 20;
const SEGMENTS: usize = WINDOW / SEGMENT;

/// Two subflows with round trips of 2 and 8 ms; the first is the more reliable one.
fn subflows() -> [SubflowView; 2] {
    [view(0, 2, 1), SubflowView { rank: 1, ..view(1, 8, 1) }]
}

/// A window of which each subflow has taken half, and the data behind it.
fn loaded(rule: &mut FbdtPaper) -> NumberedStream {
    let mut stream = NumberedStream::new(8 << 20);
    stream.allow(8 << 20);
    stream.write(4 << 20);
    let now = Instant::ZERO;
    let load = rule.load(now, &stream.view(WINDOW), &subflows()).unwrap();
    let (first, end) = stream.load(load, load.segment);
    rule.on_event(now, SchedulerEvent::Loaded { first, end });
    for turn in 0..SEGMENTS {
        // The congestion window of the other one is full.
        let full = |s: &SubflowView| s.id.0 as usize != turn % 2;
        let one = subflows().map(|s| SubflowView {
            in_flight: if full(&s) { WINDOW as u64 } else { 0 },
            room: usize::from(!full(&s)),
            ..s
        });
        let taken = rule.assign(now, &stream.view(WINDOW), &one).unwrap();
        let expected = if turn % 2 == 0 { turn / 2 } else { SEGMENTS - 1 - turn / 2 };
        assert_eq!(taken.segment, DataSeq(expected as u64), "upwards and downwards in turn");
        stream.sent(now, taken.segment, taken.subflow, 0);
    }
    stream
}

#[test]
fn the_release_loads_the_next_window_when_all_of_this_one_was_accepted() {
    let mut rule = FbdtPaper::released();
    let stream = loaded(&mut rule);
    let view = stream.view(WINDOW);
    assert_eq!(rule.assign(Instant::ZERO, &view, &subflows()), None);
    assert!(rule.load(Instant::ZERO, &view, &subflows()).is_some());
    assert_eq!(rule.poll_timeout(), None);
}

#[test]
fn the_paper_waits_for_the_acknowledgement_of_the_window() {
    let mut rule = FbdtPaper::published();
    let mut stream = loaded(&mut rule);
    assert_eq!(rule.assign(Instant::ZERO, &stream.view(WINDOW), &subflows()), None);
    assert!(rule.load(Instant::ZERO, &stream.view(WINDOW), &subflows()).is_none());
    stream.acknowledge(WINDOW as u64);
    assert_eq!(rule.assign(Instant::ZERO, &stream.view(WINDOW), &subflows()), None);
    assert!(rule.load(Instant::ZERO, &stream.view(WINDOW), &subflows()).is_some());
}

#[test]
fn the_paper_sends_the_others_part_after_its_round_trip_and_loads_the_next_window() {
    let mut rule = FbdtPaper::published();
    let mut stream = loaded(&mut rule);
    // The forward half has arrived.
    stream.acknowledge(WINDOW as u64 / 2);
    let at = |ms| Instant::from_millis(ms);
    assert_eq!(rule.assign(at(1), &stream.view(WINDOW), &subflows()), None);
    assert_eq!(rule.poll_timeout(), Some(at(1) + Duration::from_millis(8)), "the other's round trip");
    assert_eq!(rule.assign(at(8), &stream.view(WINDOW), &subflows()), None);
    for seq in SEGMENTS / 2..SEGMENTS {
        let again = rule.assign(at(9), &stream.view(WINDOW), &subflows()).unwrap();
        assert_eq!((again.subflow, again.segment), (SubflowId(0), DataSeq(seq as u64)));
        assert_eq!(again.kind, AssignmentKind::Redundant);
        stream.sent(at(9), again.segment, again.subflow, 0);
    }
    assert_eq!(rule.assign(at(9), &stream.view(WINDOW), &subflows()), None);
    assert!(rule.load(at(9), &stream.view(WINDOW), &subflows()).is_some(), "without their acknowledgement");
}

/// Loads a window and gives it to the subflows as `earliest_drained` says, with at most `room` bytes between two turns of the
/// driver. Returns how many segments each took.
fn taken(mut subflows: [SubflowView; 2], room: usize) -> [usize; 2] {
    let mut rule = FbdtPaper::published();
    let mut stream = NumberedStream::new(8 << 20);
    stream.allow(8 << 20);
    stream.write(4 << 20);
    let now = Instant::ZERO;
    let load = rule.load(now, &stream.view(WINDOW), &subflows).unwrap();
    let (first, end) = stream.load(load, load.segment);
    rule.on_event(now, SchedulerEvent::Loaded { first, end });
    let mut segments = [0; 2];
    for _turn in 0..2 * SEGMENTS {
        subflows.iter_mut().for_each(|s| s.room = room);
        while let Some(next) = rule.assign(now, &stream.view(WINDOW), &subflows) {
            stream.sent(now, next.segment, next.subflow, 0);
            let subflow = subflows.iter_mut().find(|s| s.id == next.subflow).unwrap();
            subflow.room = subflow.room.saturating_sub(SEGMENT);
            subflow.in_flight += SEGMENT as u64;
            segments[next.subflow.0 as usize] += 1;
        }
    }
    segments
}

/// WiFi and WiGig of the paper, with open congestion windows.
fn radios() -> [SubflowView; 2] {
    let radio = |id, rank, mbps| {
        let rate = Some(Bitrate::from_mbps(mbps));
        SubflowView { rank, cwnd: 2 * WINDOW as u64, rate, long_rate: rate, ..view(id, 1, 1) }
    };
    [radio(0, 0, 470), radio(1, 1, 1400)]
}

#[test]
fn each_cursor_takes_the_share_of_equation_1_whatever_its_transport_accepts_at_once() {
    // 470 of 1870 Mbit/s are a quarter.
    for room in [SEGMENT, WINDOW / 4, WINDOW] {
        assert_eq!(taken(radios(), room), [16, 48], "room {room}");
    }
}

#[test]
fn a_cursor_stops_at_its_congestion_window_and_the_other_goes_on() {
    let [wifi, wigig] = radios();
    let small = SubflowView { cwnd: 8 * SEGMENT as u64, ..wigig };
    assert_eq!(taken([wifi, small], WINDOW), [SEGMENTS - 8, 8]);
}

#[test]
fn nobody_waits_for_a_silent_subflow() {
    let [wifi, wigig] = radios();
    let subflows = [wifi, SubflowView { silent: true, ..wigig }];
    assert_eq!(taken(subflows, WINDOW)[1], 0, "a silent one is the last choice");
}

#[test]
fn the_wait_for_acknowledgements_is_announced_once() {
    let mut rule = FbdtPaper::published();
    let stream = loaded(&mut rule);
    assert!(!rule.take_wait());
    assert_eq!(rule.assign(Instant::ZERO, &stream.view(WINDOW), &subflows()), None);
    assert!(rule.take_wait());
    assert!(!rule.take_wait());
}
