//! When the end of the data is copied.

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
