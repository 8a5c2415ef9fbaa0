//! What is sent first, on which subflow, and that bulk is not starved.

use bytes::Bytes;
use tributary_types::{Bitrate, PathId, Rng, StreamId};

use super::*;
use crate::scheduler::{NumberedStream, create};
use crate::send::{SendBuffer, SendStream};

const BULK: StreamId = StreamId(0);
const MESSAGES: StreamId = StreamId(2);
const WINDOW: usize = 1 << 18;

fn view(id: u32, rtt: u64, room: usize) -> SubflowView {
    let rtt = Duration::from_millis(rtt);
    SubflowView {
        id: SubflowId(id),
        path: PathId(id as u8),
        room,
        srtt: rtt,
        rttvar: Duration::ZERO,
        min_rtt: rtt,
        least_delay: rtt,
        usual_blockage: Duration::ZERO,
        cwnd: 1 << 16,
        in_flight: 0,
        delivered: 0,
        rate: Some(Bitrate::from_mbps(100)),
        long_rate: None,
        sustained_rate: None,
        oldest_sent: None,
        silent: false,
        rank: id as u8,
    }
}

/// A sender with a bulk and a prioritised stream.
struct Sender {
    send: SendBuffer,
    scheduler: Box<dyn Scheduler>,
    now: Instant,
}

impl Sender {
    fn new(scheduler: &str) -> Self {
        let mut send = SendBuffer::new(64 << 20, u64::MAX / 2);
        send.streams.insert(BULK, SendStream::new(0, u64::MAX / 2));
        send.streams.insert(MESSAGES, SendStream::new(7, u64::MAX / 2));
        let mut scheduler = create(scheduler, Rng::new(1)).expect("the registry has it");
        for id in 0..3 {
            scheduler.on_event(Instant::ZERO, SchedulerEvent::SubflowUp(SubflowId(id)));
        }
        Self { send, scheduler, now: Instant::from_millis(1000) }
    }

    fn write(&mut self, stream: StreamId, bytes: usize) {
        self.send.push(stream, Bytes::from(vec![0; bytes]));
    }

    /// The next assignment, made as a session does it, with the segment's priority and bytes.
    fn next(&mut self, subflows: &[SubflowView]) -> Option<(Assignment, u8, u64)> {
        loop {
            let view = WindowView::new(&self.send, WINDOW);
            if let Some(assignment) = self.scheduler.assign(self.now, &view, subflows) {
                let segment = view.segment(assignment.segment).expect("it is held");
                let sent = self.send.segment_mut(assignment.segment).expect("it is held");
                sent.sent(assignment.subflow, self.now, 0);
                return Some((assignment, segment.priority, u64::from(segment.bytes)));
            }
            if !self.send.has_loadable() {
                return None;
            }
            let load = self.scheduler.load(self.now, &view, subflows)?;
            let (first, end, _) = self.send.load(load.bytes, load.segment);
            if first == end {
                return None;
            }
            self.scheduler.on_event(self.now, SchedulerEvent::Loaded { first, end });
        }
    }
}

#[test]
fn a_class_of_content_decides_between_a_near_and_a_fast_subflow() {
    // By the default weights the near one: 1/5 - 0.25/10 < 1 - 0.25.
    let classes = [(ContentClass::Mixed, 0), (ContentClass::Latency, 0), (ContentClass::Throughput, 1)];
    for (content, expected) in classes {
        for scheduler in ["avira", "avira+fbdt"] {
            let mut sender = Sender::new(scheduler);
            sender.send.set_content(MESSAGES, content);
            let near = SubflowView { rate: Some(Bitrate::from_mbps(10)), ..view(0, 10, 1 << 20) };
            let fast = SubflowView { rate: Some(Bitrate::from_mbps(100)), ..view(1, 50, 1 << 20) };
            sender.write(MESSAGES, 400);
            let (assignment, ..) = sender.next(&[near, fast]).expect("both have room");
            assert_eq!(assignment.subflow, SubflowId(expected), "{scheduler}, {content:?}");
        }
    }
}

#[test]
fn a_message_overtakes_numbered_bulk_on_the_best_subflow() {
    let mut sender = Sender::new("avira+fbdt");
    let subflows = [view(0, 40, 1 << 20), view(1, 10, 1 << 20)];
    sender.write(BULK, 1 << 20);
    assert_eq!(sender.next(&subflows).map(|(_, priority, _)| priority), Some(0));
    sender.write(MESSAGES, 200);
    let (assignment, priority, bytes) = sender.next(&subflows).expect("there is room");
    assert_eq!((assignment.subflow, assignment.kind), (SubflowId(1), AssignmentKind::Fresh));
    assert_eq!((priority, bytes), (7, 200));
    let decision = sender.scheduler.take_decision().expect("the segment was prioritised");
    assert_eq!((decision.choice, decision.onto), (PriorityChoice::Forecast, SubflowId(1)));
    assert!(decision.forecast >= Duration::from_millis(5), "{decision:?}");
    assert_eq!(sender.scheduler.take_decision(), None);
}

#[test]
fn without_room_on_the_best_subflow_a_message_uses_the_best_one_with_room() {
    let mut sender = Sender::new("avira+fbdt");
    sender.write(MESSAGES, 200);
    let subflows = [view(0, 10, 0), view(1, 80, 1 << 16), view(2, 40, 1 << 16)];
    let (assignment, ..) = sender.next(&subflows).expect("there is room");
    assert_eq!(assignment.subflow, SubflowId(2));
    assert_eq!(sender.scheduler.take_decision().map(|d| d.choice), Some(PriorityChoice::Fallback));
}

#[test]
fn small_messages_are_copied_when_the_second_best_is_close_and_large_ones_are_not() {
    for (bytes, other_rtt, copied) in [(200, 12, true), (200, 100, false), (8000, 12, false)] {
        let mut sender = Sender::new("avira+fbdt");
        sender.write(MESSAGES, bytes);
        let subflows = [view(0, 10, 1 << 20), view(1, other_rtt, 1 << 20)];
        let (first, ..) = sender.next(&subflows).expect("there is room");
        assert_eq!(first.subflow, SubflowId(0));
        let copy = sender.next(&subflows).map(|(a, ..)| (a.subflow, a.kind, a.segment));
        let expected = (SubflowId(1), AssignmentKind::Redundant, first.segment);
        assert_eq!(copy, copied.then_some(expected), "{bytes} bytes, {other_rtt} ms");
        assert_eq!(sender.next(&subflows), None);
    }
}

#[test]
fn a_late_message_goes_again_on_another_subflow_and_asks_to_be_woken_for_it() {
    let mut sender = Sender::new("avira+linux-default");
    let subflows = [view(0, 10, 1 << 20), view(1, 100, 1 << 20)];
    sender.write(MESSAGES, 200);
    let (first, ..) = sender.next(&subflows).expect("there is room");
    assert_eq!(sender.next(&subflows), None);
    let wake = sender.scheduler.poll_timeout().expect("the segment is watched");
    assert_eq!(wake, sender.now + Duration::from_millis(15));
    sender.now = wake;
    let (again, ..) = sender.next(&subflows).expect("it is late");
    assert_eq!((again.segment, again.kind), (first.segment, AssignmentKind::Reinjection));
    assert_eq!(again.subflow, SubflowId(1));
    assert_eq!(sender.scheduler.take_decision().map(|d| d.choice), Some(PriorityChoice::Late));
    assert!(sender.send.acknowledge(first.segment, first.segment.next(), |_| {}));
    sender.now += Duration::from_secs(1);
    assert_eq!(sender.next(&subflows), None);
    assert_eq!(sender.scheduler.poll_timeout(), None, "an idle scheduler has no timeout");
}

#[test]
fn a_late_message_takes_the_first_room_that_comes_before_bulk_does() {
    let mut sender = Sender::new("avira+linux-default");
    let mut subflows = [view(0, 10, 1 << 20), view(1, 100, 0)];
    sender.write(MESSAGES, 200);
    let (first, ..) = sender.next(&subflows).expect("there is room");
    sender.write(BULK, 1 << 20);
    subflows[0].room = 0;
    // The segment is late, and the scheduler is asked again and again while no other subflow has room. Room on the
    // segment's own subflow does not count.
    for _ in 0..20 {
        sender.now += Duration::from_millis(3);
        assert_eq!(sender.next(&subflows), None);
        assert!(sender.scheduler.poll_timeout().is_none_or(|at| at > sender.now), "it does not spin");
    }
    subflows[1].room = 1 << 16;
    let (again, ..) = sender.next(&subflows).expect("there is room now");
    assert_eq!((again.segment, again.subflow), (first.segment, SubflowId(1)));
}

#[test]
fn a_stream_that_never_rests_leaves_bulk_its_quarter() {
    for scheduler in ["avira+fbdt", "avira+linux-default", "avira", "fbdt", "min-rtt", "redundant"] {
        let mut sender = Sender::new(scheduler);
        let subflows = [view(0, 10, 1 << 20), view(1, 20, 1 << 20)];
        let mut sent = [0_u64; 2];
        for _ in 0..2_000 {
            for stream in [BULK, MESSAGES] {
                if sender.send.streams[&stream].unnumbered() < 1 << 20 {
                    sender.write(stream, 1 << 20);
                }
            }
            let Some((assignment, priority, bytes)) = sender.next(&subflows) else { continue };
            sent[usize::from(priority > 0)] += bytes;
            let seq = assignment.segment;
            assert!(sender.send.acknowledge(seq, seq.next(), |_| {}));
            let first = sender.send.first();
            sender.scheduler.on_event(sender.now, SchedulerEvent::Acknowledged { first });
            sender.now += Duration::from_micros(500);
        }
        let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
        assert!((0.2..0.6).contains(&share), "{scheduler}: the share of bulk is {share:.2} in {sent:?}");
    }
}

#[test]
fn without_priorities_it_is_the_bulk_scheduler() {
    let run = |name: &str| {
        let mut sender = Sender::new(name);
        let mut rng = Rng::new(3);
        let mut made = Vec::new();
        for _ in 0..400 {
            sender.write(BULK, 1 + rng.below(60_000) as usize);
            sender.now += Duration::from_micros(rng.below(9_000));
            let mut room = || rng.below(40_000) as usize;
            let mut subflows = [view(0, 10, room()), view(1, 30, room()), view(2, 60, room())];
            while let Some((assignment, _, bytes)) = sender.next(&subflows) {
                let subflow = &mut subflows[assignment.subflow.0 as usize];
                subflow.room = subflow.room.saturating_sub(bytes as usize);
                made.push(assignment);
            }
            let (first, end) = (sender.send.first(), sender.send.end());
            let upto = DataSeq(first.0 + (end.0 - first.0) / 2);
            let sent = |s: &u64| sender.send.segment(DataSeq(*s)).is_some_and(|s| s.sends > 0);
            let upto = DataSeq((first.0..upto.0).take_while(sent).last().map_or(first.0, |s| s + 1));
            assert!(sender.send.acknowledge(first, upto, |_| {}));
        }
        made
    };
    for name in ["fbdt", "linux-default", "ecf"] {
        assert_eq!(run(name), run(&format!("avira+{name}")), "{name}");
    }
}

#[test]
fn the_papers_form_redirects_prioritised_segments_of_a_single_stream() {
    let mut stream = NumberedStream::new(1 << 20);
    stream.allow(1 << 20);
    stream.prioritise_every(5);
    assert_eq!(stream.write(200_000), 200_000);
    let mut scheduler = create("avira", Rng::new(1)).expect("the registry has it");
    let subflows = [view(0, 40, 1 << 20), view(1, 30, 1 << 20), view(2, 20, 1 << 20)];
    let mut carriers = Vec::new();
    while carriers.len() < 20 {
        let window = stream.view(WINDOW);
        if let Some(assignment) = scheduler.assign(Instant::ZERO, &window, &subflows) {
            let prioritised = window.segment(assignment.segment).is_some_and(|s| s.priority > 0);
            carriers.push((assignment.subflow.0, prioritised));
            stream.sent(Instant::ZERO, assignment.segment, assignment.subflow, 0);
            continue;
        }
        let load = scheduler.load(Instant::ZERO, &window, &subflows).expect("there is room");
        let (first, end) = stream.load(load, 1000);
        scheduler.on_event(Instant::ZERO, SchedulerEvent::Loaded { first, end });
    }
    let of = |wanted: bool| carriers.iter().filter(move |(_, is)| *is == wanted).map(|(id, _)| *id);
    assert!(of(true).eq([2; 4]));
    let rest: Vec<_> = of(false).collect();
    assert!((0..3).all(|id| rest.iter().filter(|r| **r == id).count() >= 5), "in turn: {rest:?}");
}

#[test]
fn without_copies_a_small_segment_goes_once() {
    let subflows = [view(0, 10, 1 << 16), view(1, 11, 1 << 16)];
    let kinds = |scheduler: &str| {
        let mut sender = Sender::new(scheduler);
        sender.write(MESSAGES, 64);
        let mut kinds = Vec::new();
        while let Some((assignment, ..)) = sender.next(&subflows) {
            kinds.push(assignment.kind);
        }
        kinds
    };
    assert_eq!(kinds("avira+fbdt"), [AssignmentKind::Fresh, AssignmentKind::Redundant]);
    assert_eq!(kinds("avira-present+fbdt"), [AssignmentKind::Fresh, AssignmentKind::Redundant]);
    assert_eq!(kinds("avira-single+fbdt"), [AssignmentKind::Fresh]);
}
