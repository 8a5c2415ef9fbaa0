//! Frames that arrive before what was written on their subflow before them.

use bytes::{Bytes, BytesMut};
use tributary_types::{DataSeq, Instant, StreamId, SubflowId};

use super::datagrams::flow_segment;
use super::hostile::{ON, data, server};
use crate::event::Event;
use crate::flow::FlowConfig;
use crate::session::{PART, ProtocolError, Session};
use crate::wire::{Ack, Control, Decoder, Ecn, FIRST_FLOW, Item, SegmentKind, encode_control};

const NOW: Instant = Instant::from_millis(5);

fn control(frame: &Control) -> Bytes {
    let mut out = BytesMut::new();
    encode_control(frame, &mut out);
    out.freeze()
}

/// The peer acknowledges everything up to this number.
fn arrive(session: &mut Session, now: Instant, last: DataSeq) {
    let ack = Ack { next: DataSeq(last.0 + 1), max_data: 1 << 20, ..Ack::default() };
    session.handle_input(now, ON, control(&Control::Ack(ack))).unwrap();
}

/// A session that has sent `count` datagrams apart on a subflow, and their numbers.
fn sent_apart(count: u8) -> (Session, Vec<DataSeq>) {
    let mut session = server();
    session.let_overtake(ON);
    session.handle_room(ON, 1 << 20);
    let flow = session.open_flow(NOW, FlowConfig::default()).unwrap();
    let mut sent = Vec::new();
    for n in 0..=count {
        session.send_datagram(NOW, flow, &[n], Ecn::NotCapable).unwrap();
        while let Some(transmit) = session.poll_transmit(NOW) {
            let mut bytes: Bytes = [transmit.head.as_slice(), &transmit.payload].concat().into();
            if let Some(Item::Segment { head, .. }) = Decoder::default().next_item(&mut bytes).unwrap() {
                assert_eq!(transmit.may_overtake, n > 0);
                sent.push(head.seq);
            }
        }
        if n == 0 {
            arrive(&mut session, NOW, sent[0]);
            let ack = Ack { next: DataSeq(1), max_data: 1 << 20, progress: vec![(ON, 1)], ..Ack::default() };
            session.handle_input(NOW, ON, control(&Control::Ack(ack))).unwrap();
        }
    }
    assert_eq!(sent.len(), usize::from(count) + 1);
    (session, sent.split_off(1))
}

/// The third datagram overtook the first two. When the subflow ends, these two are sent again, and not the third.
#[test]
fn segments_that_were_overtaken_are_sent_again_after_the_end_of_their_subflow() {
    let (mut session, sent) = sent_apart(3);
    let ranges = vec![(sent[2], DataSeq(sent[2].0 + 1))];
    let ack = Ack { next: sent[0], max_data: 1 << 20, ranges, progress: vec![(ON, 1)] };
    session.handle_input(NOW, ON, control(&Control::Ack(ack))).unwrap();
    session.handle_input(NOW, ON, control(&Control::Apart { subflow: ON, count: 1 })).unwrap();
    let in_flight = |session: &Session| session.subflow_stats().map(|stats| stats.in_flight).sum::<u64>();
    assert_eq!(in_flight(&session), 2 * 2, "two of three, each with its prefix");
    // A count that overtook a newer one changes nothing, nor does one beyond what was sent.
    session.handle_input(NOW, ON, control(&Control::Apart { subflow: ON, count: 0 })).unwrap();
    assert_eq!(in_flight(&session), 4);
    session.handle_subflow_closed(NOW, ON);
    let down = std::iter::from_fn(|| session.poll_event()).find_map(|event| match event {
        Event::SubflowDown { orphans, .. } => Some(orphans),
        _ => None,
    });
    assert_eq!(down, Some(2));
    let other = SubflowId(4);
    session.handle_subflow_open(NOW, other, tributary_types::PathId(1)).unwrap();
    session.handle_room(other, 1 << 20);
    let mut again = Vec::new();
    while let Some(transmit) = session.poll_transmit(NOW) {
        let mut bytes: Bytes = [transmit.head.as_slice(), &transmit.payload].concat().into();
        if let Some(Item::Segment { head, .. }) = Decoder::default().next_item(&mut bytes).unwrap() {
            again.push(head.seq);
        }
    }
    assert_eq!(again, sent[..2]);
}

/// What the peer counts of one order does not count for the other.
#[test]
fn counts_of_the_two_orders_are_apart() {
    let (mut session, sent) = sent_apart(2);
    session.handle_input(NOW, ON, control(&Control::Apart { subflow: ON, count: 1000 })).unwrap();
    let later = NOW + std::time::Duration::from_secs(1);
    session.handle_timeout(later);
    assert!(session.subflow_stats().all(|stats| stats.in_flight == 0 && !stats.silent));
    // The peer counts, but has not acknowledged them: they are not lost.
    session.handle_subflow_closed(later, ON);
    let lost = std::iter::from_fn(|| session.poll_event())
        .any(|event| matches!(event, Event::SubflowDown { orphans, .. } if orphans == sent.len()));
    assert!(lost);
}

/// The receiver counts segments that may overtake apart, also if they arrive in order.
#[test]
fn the_receiver_counts_them_apart() {
    let mut session = server();
    session.let_overtake(ON);
    session.handle_input(NOW, ON, flow_segment(0, 0, 0, &[b"first"], true)).unwrap();
    session.handle_input(NOW, ON, flow_segment(1, 0, 6, &[b"in order"], false)).unwrap();
    session.handle_overtaking(NOW, ON, &mut flow_segment(2, 0, 15, &[b"ahead"], false)).unwrap();
    session.handle_room(ON, 1 << 20);
    let later = NOW + std::time::Duration::from_millis(2);
    session.handle_timeout(later);
    let mut counts = Vec::new();
    while let Some(transmit) = session.poll_transmit(later) {
        let (mut bytes, mut decoder) = (transmit.payload, Decoder::default());
        while let Some(item) = decoder.next_item(&mut bytes).unwrap() {
            match item {
                Item::Control(Control::Ack(ack)) => counts.push(("in order", ack.progress[0].1)),
                Item::Control(Control::Apart { subflow: ON, count }) => counts.push(("apart", count)),
                _ => {}
            }
        }
    }
    assert_eq!(counts, [("apart", 2), ("in order", 1)]);
}

/// Datagrams are delivered while a segment of a stream has arrived half.
#[test]
fn a_datagram_overtakes_a_segment_that_is_arriving() {
    let mut session = server();
    let whole = data(0, 0, 0, 1000);
    session.handle_part(NOW, ON, &mut whole.slice(..500), true).unwrap();
    let mut frames = flow_segment(1, 0, 0, &[b"early"], false);
    session.handle_overtaking(NOW, ON, &mut frames).unwrap();
    assert!(frames.is_empty());
    let mut got = Vec::new();
    assert_eq!(session.recv_datagrams(StreamId(FIRST_FLOW), 10, &mut got), Ok(1));
    assert_eq!(got[0].bytes[..], *b"early");
    session.handle_part(NOW, ON, &mut whole.slice(500..), false).unwrap();
    assert_eq!(session.stats().received, 1000 + 6, "the segment, and the datagram with its prefix");
}

#[test]
fn frames_that_overtake_are_whole() {
    for cut in [1, 3, 8] {
        let mut session = server();
        let whole = flow_segment(0, 0, 0, &[b"early"], false);
        let outcome = session.handle_overtaking(NOW, ON, &mut whole.slice(..whole.len() - cut));
        assert_eq!(outcome, Err(ProtocolError::CutFrame), "without its last {cut} bytes");
        assert!(session.is_closed());
    }
    let unknown = server().handle_overtaking(NOW, SubflowId(99), &mut Bytes::new());
    assert_eq!(unknown, Err(ProtocolError::UnknownSubflow(SubflowId(99))));
}

/// A driver that limits its work gets the rest back, at the border of a frame.
#[test]
fn many_frames_are_handled_in_parts() {
    let mut session = server();
    let one = |seq: u64| flow_segment(seq, 0, seq * 2, &[b"x"], false);
    let all: Vec<u8> = (0..2 * PART as u64 + 1).flat_map(|seq| one(seq).to_vec()).collect();
    let (mut frames, mut calls) = (Bytes::from(all), 0);
    while !frames.is_empty() {
        session.handle_overtaking(NOW, ON, &mut frames).unwrap();
        calls += 1;
    }
    assert_eq!(calls, 3);
}

/// Acknowledgements may overtake, and datagrams that are delivered as they arrive if the transport lets them; settings, pings and
/// other segments stay in order.
#[test]
fn what_may_overtake() {
    for lets in [false, true] {
        what_may_overtake_when(lets);
    }
}

fn what_may_overtake_when(lets: bool) {
    let mut session = server();
    if lets {
        session.let_overtake(ON);
    }
    let input = [data(0, 0, 0, 10), data(1, 0, 10, 10)].concat();
    session.handle_input(NOW, ON, input.into()).unwrap();
    let flow = session.open_flow(NOW, FlowConfig::default()).unwrap();
    let mut seen = [0; 4];
    for round in 0..20 {
        let now = NOW + std::time::Duration::from_millis(round);
        session.handle_room(ON, 1 << 20);
        session.send_datagram(now, flow, b"now", Ecn::NotCapable).unwrap();
        session.write_slice(StreamId(0), &[1; 100]).unwrap();
        session.handle_input(now, ON, data(2 + round, 0, 20 + round * 10, 10)).unwrap();
        while let Some(transmit) = session.poll_transmit(now) {
            let mut bytes: Bytes = [transmit.head.as_slice(), &transmit.payload].concat().into();
            let mut decoder = Decoder::default();
            let items: Vec<_> = std::iter::from_fn(|| decoder.next_item(&mut bytes).unwrap()).collect();
            let overtakes = items.iter().all(|item| match item {
                Item::Control(control) => matches!(control, Control::Ack(_) | Control::Pong(_)),
                Item::Segment { head, .. } => lets && head.kind.may_overtake(),
            });
            assert_eq!(transmit.may_overtake, overtakes, "{items:?}");
            // The first segment of a flow goes in order until it is acknowledged.
            if let Some(Item::Segment { head, .. }) = items.first() {
                arrive(&mut session, now, head.seq);
            }
            for item in &items {
                seen[match item {
                    Item::Control(_) => 0,
                    Item::Segment { head, .. } if matches!(head.kind, SegmentKind::Data { .. }) => 1,
                    Item::Segment { head, .. } if head.kind.may_overtake() => 2,
                    Item::Segment { .. } => 3,
                }] += 1;
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}
