//! Frames that arrive before what was written on their subflow before them.

use bytes::Bytes;
use tributary_types::{Instant, StreamId, SubflowId};

use super::datagrams::flow_segment;
use super::hostile::{ON, data, server};
use crate::flow::FlowConfig;
use crate::session::{PART, ProtocolError};
use crate::wire::{Decoder, Ecn, FIRST_FLOW, Item, SegmentKind};

const NOW: Instant = Instant::from_millis(5);

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

/// Acknowledgements may overtake; settings, pings and segments stay in order.
#[test]
fn acknowledgements_may_overtake() {
    let mut session = server();
    let input = [data(0, 0, 0, 10), data(1, 0, 10, 10)].concat();
    session.handle_input(NOW, ON, input.into()).unwrap();
    let flow = session.open_flow(NOW, FlowConfig::default()).unwrap();
    let mut seen = [0; 3];
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
                Item::Control(control) => {
                    matches!(control, crate::wire::Control::Ack(_) | crate::wire::Control::Pong(_))
                }
                Item::Segment { .. } => false,
            });
            assert_eq!(transmit.may_overtake, overtakes, "{items:?}");
            for item in &items {
                seen[match item {
                    Item::Control(_) => 0,
                    Item::Segment { head, .. } if matches!(head.kind, SegmentKind::Data { .. }) => 1,
                    Item::Segment { .. } => 2,
                }] += 1;
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 3), "{seen:?}");
}
