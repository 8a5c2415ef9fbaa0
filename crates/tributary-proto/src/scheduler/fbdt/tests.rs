//! When the end of the data is copied, how far ahead a less reliable subflow works, and what differs on slow links.

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

/// Two subflows that are measured at these rates, kbit/s, and whose congestion windows allow so many times as much.
fn measured(rates: [u64; 2], allowed: u64) -> [SubflowView; 2] {
    let mut subflows = [0, 1].map(|id| subflow(id, id as u8, Duration::from_millis(120)));
    for (subflow, rate) in subflows.iter_mut().zip(rates) {
        subflow.rate = Some(Bitrate::from_bps(rate * 1000));
        subflow.long_rate = subflow.rate;
        subflow.cwnd = allowed * rate * 120 / 8;
    }
    subflows
}

/// A scheduler and 128 KiB, numbered for two subflows with these rates in kbit/s. The less reliable one has room.
fn numbered(rates: [u64; 2]) -> (Fbdt, NumberedStream, [SubflowView; 2], DataSeq) {
    let (mut rule, mut stream) = (Fbdt::default(), NumberedStream::new(WINDOW));
    stream.allow(WINDOW as u64);
    stream.write(128 << 10);
    let mut subflows = measured(rates, 1);
    subflows[1].room = 1;
    for ms in [1500, 2500, 3500] {
        assert_eq!(rule.assign(Instant::from_millis(ms), &stream.view(WINDOW), &subflows), None);
    }
    let now = Instant::from_millis(4000);
    let load = rule.load(now, &stream.view(WINDOW), &subflows).expect("nothing is numbered yet");
    let (first, end) = stream.load(load, load.segment);
    rule.on_event(now, SchedulerEvent::Loaded { first, end });
    rule.on_event(now, SchedulerEvent::Acknowledged { first });
    (rule, stream, subflows, first)
}

/// Segments that the other subflow copies up to so many ms after all data was sent on the less reliable one, and of how many.
fn copies(rates: [u64; 2], silent: bool, after: u64) -> (usize, usize) {
    let (mut rule, mut stream, mut subflows, _) = numbered(rates);
    let now = Instant::from_millis(4000);
    let mut sent = 0;
    // Only the less reliable subflow takes part until everything is under way.
    while let Some(taken) = rule.assign(now, &stream.view(WINDOW), &subflows[1..]) {
        let bytes = u64::from(stream.extent(taken.segment).expect("it is held").1);
        stream.sent(now, taken.segment, taken.subflow, subflows[1].in_flight + bytes);
        subflows[1].in_flight += bytes;
        sent += 1;
    }
    (subflows[0].room, subflows[1].room) = (1, 0);
    (subflows[1].oldest_sent, subflows[1].silent) = (Some(now), silent);
    let at = now + Duration::from_millis(after);
    let mut copied = 0;
    while let Some(copy) = rule.assign(at, &stream.view(WINDOW), &subflows) {
        assert_eq!((copy.subflow, copy.kind), (SubflowId(0), AssignmentKind::Reinjection));
        stream.sent(at, copy.segment, copy.subflow, 0);
        copied += 1;
    }
    (copied, sent)
}

#[test]
fn slow_links_carry_no_copies_of_the_end() {
    let (copied, sent) = copies([1300, 650], false, 0);
    assert!(copied == 0 && sent > 0, "{copied} of {sent}");
    let (copied, sent) = copies([130_000, 65_000], false, 0);
    assert!(copied == sent && sent > 0, "{copied} of {sent}");
}

#[test]
fn slow_links_copy_what_holds_up_delivery_and_in_the_end_everything_of_a_silent_subflow() {
    assert_eq!(copies([1300, 650], true, 0).0, 1, "the first unacknowledged segment of a silent subflow");
    let (copied, sent) = copies([1300, 650], true, 1001);
    assert_eq!(copied, sent, "a second later, all of them");
}

#[test]
fn slow_links_are_sent_in_order() {
    for (rates, in_order) in [([1300, 650], true), ([130_000, 65_000], false)] {
        let (mut rule, stream, subflows, first) = numbered(rates);
        let taken = rule.assign(Instant::from_millis(4000), &stream.view(WINDOW), &subflows);
        let taken = taken.map(|taken| taken.segment);
        assert_eq!(taken == Some(first), in_order, "{rates:?} kbit/s: {taken:?}");
    }
}

#[test]
fn links_are_slow_when_data_has_waited_for_them_for_two_seconds() {
    let is_slow = |bytes, allowed, decisions: &[u64]| {
        let (mut rule, mut stream) = (Fbdt::default(), NumberedStream::new(WINDOW));
        stream.allow(WINDOW as u64);
        stream.write(bytes);
        let subflows = measured([1300, 650], allowed);
        for &ms in decisions {
            assert_eq!(rule.assign(Instant::from_millis(ms), &stream.view(WINDOW), &subflows), None);
        }
        rule.is_slow(Instant::from_millis(4000))
    };
    assert!(is_slow(1000, 1, &[1000, 2500, 3000]));
    assert!(!is_slow(1000, 1, &[1001, 2500, 3000]));
    assert!(!is_slow(0, 1, &[1000, 2500, 3000]), "nothing waits");
    assert!(!is_slow(1000, 3, &[1000, 2500, 3000]), "the windows allow 5.9 Mbit/s");
    assert!(!is_slow(1000, 1, &[0, 1000, 3000]), "a pause of 2 s");
    assert!(!is_slow(1000, 1, &[0, 1000, 2000]), "nothing has waited for 2 s");
}
