//! When the end of the data is copied, and how far ahead a less reliable subflow works.

use super::*;
use crate::scheduler::NumberedStream;
use crate::scheduler::one_at_a_time::tests::view;

const WINDOW: usize = 1 << 20;

/// A subflow with this round trip and 100 Mbit/s.
fn subflow(id: u32, rank: u8, round_trip: Duration) -> SubflowView {
    let (srtt, min_rtt, least_delay) = (round_trip, round_trip, round_trip);
    let rate = Some(Bitrate::from_mbps(100));
    SubflowView { srtt, min_rtt, least_delay, rate, rank, ..view(id, 1, 0) }
}

/// Sends all data on the less reliable of two subflows with this round trip. Returns the milliseconds after which the more
/// reliable one copies a segment.
fn copied_after(round_trip: Duration) -> Option<u64> {
    let (mut rule, mut stream) = (Fbdt::default(), NumberedStream::new(WINDOW));
    stream.allow(WINDOW as u64);
    stream.write(4096);
    let mut subflows = [subflow(0, 0, round_trip), subflow(1, 1, round_trip)];
    subflows[1].room = 1;
    let now = Instant::from_millis(1000);
    let load = rule.load(now, &stream.view(WINDOW), &subflows).expect("nothing is numbered yet");
    let (first, end) = stream.load(load, load.segment);
    rule.on_event(now, SchedulerEvent::Loaded { first, end });
    rule.on_event(now, SchedulerEvent::Acknowledged { first });
    let taken = rule.assign(now, &stream.view(WINDOW), &subflows).expect("it has room");
    assert_eq!((taken.subflow, taken.kind), (SubflowId(1), AssignmentKind::Fresh));
    stream.sent(now, taken.segment, taken.subflow, 4096);
    (subflows[0].room, subflows[1].room) = (1, 0);
    (subflows[1].in_flight, subflows[1].oldest_sent) = (4096, Some(now));
    (0..100).find(|ms| {
        let copy = rule.assign(now + Duration::from_millis(*ms), &stream.view(WINDOW), &subflows);
        copy.is_some_and(|copy| copy.kind == AssignmentKind::Reinjection)
    })
}

#[test]
fn the_end_of_the_data_is_copied_at_once_on_radios_and_when_it_is_late_on_wires() {
    assert_eq!(copied_after(Duration::from_millis(5)), Some(0));
    assert_eq!(copied_after(Duration::from_micros(1000)), Some(0));
    assert_eq!(copied_after(Duration::from_micros(100)), Some(31));
}

/// Bytes that the less reliable subflow leaves to the other one before its first segment.
fn left_free(usual_blockage: Duration) -> u64 {
    let (mut rule, mut stream) = (Fbdt::default(), NumberedStream::new(8 * WINDOW));
    stream.allow(8 * WINDOW as u64);
    stream.write(8 * WINDOW as u64);
    let mut subflows = [5, 5].map(|ms| subflow(0, 0, Duration::from_millis(ms)));
    subflows[1] = SubflowView { id: SubflowId(1), rank: 1, room: 1, usual_blockage, ..subflows[1] };
    let now = Instant::from_millis(1000);
    loop {
        if let Some(taken) = rule.assign(now, &stream.view(WINDOW), &subflows) {
            assert_eq!((taken.subflow, taken.kind), (SubflowId(1), AssignmentKind::Fresh));
            return stream.extent(taken.segment).expect("it is held").0;
        }
        let load =
            rule.load(now, &stream.view(WINDOW), &subflows).expect("it wants data that is needed later");
        let (first, end) = stream.load(load, load.segment);
        rule.on_event(now, SchedulerEvent::Loaded { first, end });
    }
}

#[test]
fn the_lead_covers_the_usual_blockage() {
    // At 100 Mbit/s, in segments of 16 KiB.
    for (blockage, lead) in [(0, 30.0), (20, 30.0), (40, 45.0), (60, 67.5)] {
        let ms = left_free(Duration::from_millis(blockage)) as f64 / 12_500.0;
        assert!((lead - 3.0..lead).contains(&ms), "{blockage} ms: {ms}");
    }
}
