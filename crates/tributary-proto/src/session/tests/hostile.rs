//! A peer that breaks the rules: it causes a typed error and the end of the session, and neither a panic nor
//! unbounded memory use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tributary_types::{DataSeq, Instant, PathId, StreamId, SubflowId};

use crate::config::Config;
use crate::event::Event;
use crate::session::{CODE_PROTOCOL, ProtocolError, ReadError, Session, Side};
use crate::wire::{Ack, Control, DecodeError, SegmentHead, SegmentKind, encode_control, encode_segment_head};

pub(super) const ON: SubflowId = SubflowId(3);
const NOW: Instant = Instant::from_millis(5);

pub(super) fn server() -> Session {
    let config = Config { receive_credit: 1 << 20, max_streams: 4, ..Config::default() };
    let mut session = Session::new(Side::Server, config, 1, Instant::ZERO).unwrap();
    session.handle_subflow_open(NOW, ON, PathId(0)).unwrap();
    session
}

pub(super) fn segment(seq: u64, stream: u32, kind: SegmentKind) -> Bytes {
    let head = SegmentHead { seq: DataSeq(seq), stream: StreamId(stream), kind };
    let mut out = BytesMut::from(encode_segment_head(&head).as_slice());
    if let SegmentKind::Data { length, .. } = kind {
        out.resize(out.len() + length as usize, 7);
    }
    out.freeze()
}

pub(super) fn data(seq: u64, stream: u32, offset: u64, length: u32) -> Bytes {
    segment(seq, stream, SegmentKind::Data { offset, length, fin: false })
}

fn ack(ack: Ack) -> Bytes {
    let mut out = BytesMut::new();
    encode_control(&Control::Ack(ack), &mut out);
    out.freeze()
}

fn refused(inputs: &[Bytes], expected: &ProtocolError) {
    let mut session = server();
    let mut last = Ok(());
    for input in inputs {
        last = session.handle_input(NOW, ON, input.clone());
    }
    assert_eq!(last.as_ref(), Err(expected));
    assert!(session.is_closed());
    session.handle_room(ON, 10_000);
    let close = session.poll_transmit(NOW).expect("the peer is told");
    assert!(String::from_utf8_lossy(&close.payload).contains(&expected.to_string()));
    let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
    assert!(events.iter().any(|e| matches!(e, Event::Closed { code: CODE_PROTOCOL, by_peer: false, .. })));
    assert!(events.contains(&Event::CloseSubflow { subflow: ON, abort: false }));
    // Later input is ignored.
    assert_eq!(session.handle_input(NOW, ON, data(9, 0, 0, 10)), Err(ProtocolError::UnknownSubflow(ON)));
    assert_eq!(session.poll_timeout(), None);
}

/// The stream whose end was moved, if the last input causes this error.
pub(super) fn end_moved(inputs: &[Bytes]) -> Option<StreamId> {
    let mut session = server();
    match inputs.iter().try_for_each(|input| session.handle_input(NOW, ON, input.clone())) {
        Err(ProtocolError::EndMoved(id)) => Some(id),
        _ => None,
    }
}

#[test]
fn each_protocol_violation_is_named() {
    let fin = |seq, length| segment(seq, 0, SegmentKind::Data { offset: 0, length, fin: true });
    refused(&[Bytes::from_static(&[0x99])], &DecodeError::UnknownType(0x99).into());
    refused(&[data(0, 0, 1 << 30, 10)], &ProtocolError::CreditExceeded(StreamId(0)));
    refused(&[data(1 << 40, 0, 0, 10)], &ProtocolError::TooFarAhead);
    refused(&[data(0, 1, 0, 10)], &ProtocolError::UnknownStream(StreamId(1)));
    refused(&[data(0, 1000, 0, 10)], &ProtocolError::TooManyStreams(4));
    refused(&[fin(0, 10), data(1, 0, 10, 10)], &ProtocolError::EndMoved(StreamId(0)));
    refused(&[fin(0, 10), fin(1, 9)], &ProtocolError::EndMoved(StreamId(0)));
    refused(&[ack(Ack { next: DataSeq(1), ..Ack::default() })], &ProtocolError::AckUnsent);
    let ranges = vec![(DataSeq(0), DataSeq(5))];
    refused(&[ack(Ack { ranges, ..Ack::default() })], &ProtocolError::AckUnsent);
}

#[test]
fn a_flood_of_unread_data_ends_at_the_credit() {
    let mut session = server();
    let mut offsets = [0_u64; 4];
    let mut outcome = Ok(());
    for seq in 0..10_000 {
        let stream = (seq % 4) as usize;
        outcome = session.handle_input(NOW, ON, data(seq, stream as u32 * 2, offsets[stream], 16_384));
        offsets[stream] += 16_384;
        assert!(session.stats().receive_held <= 1 << 20 | 16_384);
        if outcome.is_err() {
            break;
        }
    }
    assert!(matches!(outcome, Err(ProtocolError::CreditExceeded(_))), "{outcome:?}");
}

#[test]
fn many_small_segments_with_gaps_are_refused() {
    let config = Config { receive_credit: 64 << 20, ..Config::default() };
    let mut session = Session::new(Side::Server, config, 1, Instant::ZERO).unwrap();
    session.handle_subflow_open(NOW, ON, PathId(0)).unwrap();
    let outcome = (0..200_000).map(|seq| session.handle_input(NOW, ON, data(seq, 0, 1 + seq * 2, 1)));
    assert_eq!(outcome.filter_map(Result::err).next(), Some(ProtocolError::TooFarAhead));
}

/// A receive block that counts when it is released.
struct Block(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Block {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends `count` pieces of `length` bytes on 64 streams, each in its own block, filled up with pings. Returns the number of
/// blocks that are still in use.
fn blocks_pinned(count: u64, length: u32, offset: impl Fn(u64) -> u64) -> usize {
    let config = Config { receive_credit: 64 << 20, ..Config::default() };
    let mut session = Session::new(Side::Server, config, 1, Instant::ZERO).unwrap();
    session.handle_subflow_open(NOW, ON, PathId(0)).unwrap();
    let alive = Arc::new(AtomicUsize::new(0));
    for seq in 0..count {
        let mut bytes = BytesMut::from(
            data(seq, seq as u32 % 64 * 2, offset(seq / 64) * u64::from(length), length).as_ref(),
        );
        while bytes.len() < 4 * length as usize + 4096 {
            encode_control(&Control::Ping(0), &mut bytes);
        }
        alive.fetch_add(1, Ordering::Relaxed);
        let block = Bytes::from_owner(Block(bytes.to_vec(), alive.clone()));
        session.handle_input(NOW, ON, block).unwrap();
    }
    alive.load(Ordering::Relaxed)
}

#[test]
fn small_segments_cannot_pin_whole_receive_blocks() {
    for length in [1, 4096] {
        let ahead = blocks_pinned(2000, length, |seq| 1 + seq * 2);
        let in_order = blocks_pinned(2000, length, |seq| seq);
        assert!(ahead <= 96 && in_order <= 96, "{ahead} blocks ahead of order, {in_order} in order");
    }
}

#[test]
fn streams_opened_and_ended_for_ever_leave_nothing_behind() {
    let mut session = server();
    for i in 0..5_000_u32 {
        let kind = SegmentKind::Data { offset: 0, length: 5, fin: true };
        session.handle_input(NOW, ON, segment(u64::from(i), i * 2, kind)).unwrap();
        let id = StreamId(i * 2);
        assert!(session.read(id).unwrap().is_some());
        assert_eq!(session.read(id), Ok(None));
        session.finish(id).unwrap();
        session.handle_room(ON, 100_000);
        while session.poll_transmit(NOW).is_some() {}
        while session.poll_event().is_some() {}
        let next = DataSeq(u64::from(i) + 1);
        session.handle_input(NOW, ON, ack(Ack { next, ..Ack::default() })).unwrap();
    }
    assert_eq!(session.stats().receive_held, 0);
    assert_eq!(session.stats().send_held, 0);
}

/// Only the stream that has the gap waits: nothing is counted, and the others go on.
#[test]
fn a_skipped_segment_without_a_reset_leaves_a_gap_in_its_own_stream_only() {
    let mut session = server();
    let void = segment(0, 0, SegmentKind::Void { length: 100 });
    for input in [void.clone(), void, data(1, 0, 100, 10), data(2, 2, 0, 10)] {
        session.handle_input(NOW, ON, input).unwrap();
    }
    assert_eq!(session.read(StreamId(0)), Err(ReadError::Blocked));
    assert_eq!(session.read(StreamId(2)).unwrap().map(|bytes| bytes.len()), Some(10));
    assert_eq!(session.stats().receive_held, 10);
    let unknown = ProtocolError::UnknownStream(StreamId(1));
    refused(&[segment(0, 1, SegmentKind::Void { length: 1 })], &unknown);
}

#[test]
fn a_subflow_identifier_is_never_used_again() {
    let mut session = server();
    session.handle_subflow_closed(NOW, ON);
    assert!(session.handle_subflow_open(NOW, ON, PathId(0)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Well-formed frames in any order, with small numbers so that they often hit each other.
    #[test]
    fn frames_out_of_protocol_order_never_panic(frames in prop::collection::vec((0..9_u8, 0..12_u64, 0..8_u32, 0..60_u64), 1..80)) {
        let mut session = server();
        let own = session.open_stream(0).unwrap();
        session.write_slice(own, &[1; 5000]).unwrap();
        for (what, a, b, c) in frames {
            session.handle_room(ON, 3000);
            while session.poll_transmit(NOW).is_some() {}
            if session.is_closed() {
                break;
            }
            let input = match what {
                0 | 1 => data(a, b, c, (c % 20) as u32),
                2 => segment(a, b, SegmentKind::Data { offset: c, length: 3, fin: true }),
                3 => segment(a, b, SegmentKind::Reset { code: 1, end: c }),
                4 => segment(a, b, SegmentKind::Stop { code: 1 }),
                5 => segment(a, b, SegmentKind::Credit { limit: c * 1000 }),
                6 => ack(Ack { next: DataSeq(a), progress: vec![(ON, c)], ..Ack::default() }),
                7 => segment(a, b, SegmentKind::Void { length: c as u32 * 1000 }),
                _ => {
                    let ranges = vec![(DataSeq(a + 1), DataSeq(a + 1 + c))];
                    ack(Ack { next: DataSeq(a), ranges, ..Ack::default() })
                }
            };
            let _ = match c % 3 {
                0 => session.handle_overtaking(NOW, ON, &mut input.clone()),
                _ => session.handle_input(NOW, ON, input),
            };
            while let Some(event) = session.poll_event() {
                if let Event::StreamReadable(id) = event {
                    while let Ok(Some(_)) = session.read(id) {}
                }
            }
            prop_assert!(session.stats().receive_held <= 1 << 20);
        }
    }
}
