//! Numbering, credit and memory accounting of the send buffer.

use bytes::Bytes;
use tributary_types::{DataSeq, Instant, StreamId, SubflowId};

use super::*;

fn buffer(streams: &[(u32, u64)]) -> SendBuffer {
    let mut buffer = SendBuffer::new(1 << 20, 1 << 20);
    for &(id, limit) in streams {
        buffer.streams.insert(StreamId(id), SendStream::new(0, limit));
    }
    buffer
}

fn send_all(buffer: &mut SendBuffer) {
    for seq in (buffer.first().0..buffer.end().0).map(DataSeq) {
        buffer.segment_mut(seq).unwrap().sent(SubflowId(0), Instant::ZERO, 0);
    }
}

#[test]
fn streams_take_turns_and_the_end_rides_on_the_last_segment() {
    let mut buffer = buffer(&[(0, 1 << 20), (2, 1 << 20)]);
    buffer.push(StreamId(0), Bytes::from(vec![1; 25]));
    buffer.push_slice(StreamId(2), &[2; 15]);
    buffer.finish(StreamId(2));
    let (first, end, bytes) = buffer.load(1000, 10);
    assert_eq!((first, end, bytes), (DataSeq(0), DataSeq(5), 40));
    let heads: Vec<_> = (0..5).map(|i| buffer.segment(DataSeq(i)).unwrap().head).collect();
    assert_eq!(heads.iter().map(|h| h.stream.0).collect::<Vec<_>>(), [0, 2, 0, 2, 0]);
    assert_eq!(heads[3].kind, SegmentKind::Data { offset: 10, length: 5, fin: true });
    assert!(!buffer.is_flushed());
    assert!(!buffer.acknowledge(DataSeq(0), DataSeq(1), |_| {}), "it was never sent");
    send_all(&mut buffer);
    assert!(buffer.acknowledge(DataSeq(0), DataSeq(5), |_| {}));
    assert!(buffer.is_flushed());
    assert!(buffer.streams[&StreamId(2)].finished());
    assert_eq!(buffer.held(), 0);
}

#[test]
fn a_small_write_is_not_divided_and_takes_a_small_block() {
    let mut stream = SendStream::new(0, u64::MAX / 2);
    for _ in 0..100 {
        stream.push_slice(&[7; 1200]);
        assert!(stream.block() <= 16 << 10, "{}", stream.block());
        assert_eq!(stream.number(64 << 10, 0).unwrap().payload.len(), 1200);
    }
    // A stream with much to send gets large blocks, so that its segments are large.
    stream.push_slice(&[7; 100_000]);
    assert_eq!(stream.number(64 << 10, 0).unwrap().payload.len(), 64 << 10);
}

#[test]
fn a_stream_may_wait_with_a_whole_window() {
    let (mib, stream) = (1 << 20, StreamId(0));
    for (window, waiting) in [(mib, 4 * mib), (4 * mib, 4 * mib), (16 * mib, 16 * mib)] {
        let mut buffer = SendBuffer::new(64 * mib, u64::MAX / 2).with_window(window);
        buffer.open(stream, SendStream::new(0, u64::MAX / 2));
        assert_eq!(buffer.free_in_limits(&buffer.streams[&stream]), waiting);
        buffer.push(stream, Bytes::from(vec![1; waiting]));
        assert_eq!(buffer.load(window as u64, 64 << 10).2, window as u64);
    }
}

#[test]
fn bulk_leaves_credit_and_room_to_streams_with_a_priority() {
    let (limit, credit) = (8 << 20, 4 << 20);
    for priority in [0, 7] {
        let mut buffer = SendBuffer::new(limit, credit);
        buffer.open(StreamId(0), SendStream::new(0, u64::MAX / 2));
        buffer.open(StreamId(2), SendStream::new(0, u64::MAX / 2));
        buffer.set_priority(StreamId(2), priority);
        let reserved = if priority > 0 { RESERVED } else { 0 };
        let free = |buffer: &SendBuffer, id| buffer.free_in_limits(&buffer.streams[&StreamId(id)]);
        while free(&buffer, 0) > 0 {
            buffer.push(StreamId(0), Bytes::from(vec![1; free(&buffer, 0)]));
            buffer.load(u64::MAX, 64 << 10);
        }
        assert_eq!(buffer.held() as u64, limit as u64 - reserved);
        assert_eq!((buffer.credit(), buffer.available(), buffer.has_loadable()), (reserved, 0, false));
        assert_eq!(free(&buffer, 2) as u64, reserved);
        if priority > 0 {
            buffer.push(StreamId(2), Bytes::from(vec![2; 1000]));
            assert_eq!((buffer.available(), buffer.available_prioritised()), (1000, 1000));
            assert_eq!(buffer.load(u64::MAX, 64 << 10).2, 1000);
            assert!(!buffer.has_loadable());
        }
    }
}

#[test]
fn numbered_segments_that_were_not_sent_follow_a_priority_that_rises() {
    let mut buffer = SendBuffer::new(1 << 20, 1 << 20);
    for (stream, bytes) in [(0, 40), (2, 10)] {
        buffer.open(StreamId(stream), SendStream::new(0, u64::MAX / 2));
        buffer.push(StreamId(stream), Bytes::from(vec![1; bytes]));
    }
    let (first, end, _) = buffer.load(u64::MAX, 10);
    let of = |buffer: &SendBuffer, stream| -> Vec<DataSeq> {
        let segments = (first.0..end.0).map(DataSeq);
        segments.filter(|seq| buffer.segment(*seq).unwrap().head.stream == StreamId(stream)).collect()
    };
    let sent = |buffer: &mut SendBuffer, seq| {
        buffer.segment_mut(seq).unwrap().sent(SubflowId(0), Instant::ZERO, 0);
        buffer.taken(StreamId(0), 10);
    };
    let own = of(&buffer, 0);
    assert_eq!((own.len(), buffer.raised()), (4, None));
    // The scheduler also sends from the end.
    sent(&mut buffer, own[3]);
    buffer.set_priority(StreamId(0), 5);
    for (at, next) in [(0, Some(own[1])), (1, Some(own[2])), (2, None)] {
        assert_eq!(buffer.raised(), Some(own[at]));
        sent(&mut buffer, own[at]);
        assert_eq!(buffer.raised(), next);
    }
    buffer.set_priority(StreamId(0), 0);
    buffer.set_priority(StreamId(0), 7);
    assert_eq!(buffer.raised(), None, "all were sent");
    assert_eq!(buffer.segment(of(&buffer, 2)[0]).unwrap().priority, 0);
}

#[test]
fn bulk_goes_on_within_a_small_window_beside_a_stream_with_a_priority() {
    let window = 256 << 10;
    let mut buffer = SendBuffer::new(1 << 20, window);
    buffer.open(StreamId(0), SendStream::new(0, u64::MAX / 2));
    buffer.open(StreamId(2), SendStream::new(7, u64::MAX / 2));
    buffer.push(StreamId(0), Bytes::from(vec![1; 40 << 20]));
    // The peer reads everything and gives its window again: what is reserved does not grow with the bytes that have passed.
    let mut passed = 0;
    for _ in 0..100 {
        buffer.allow_data(passed + window);
        let loaded = buffer.load(u64::MAX, 64 << 10).2;
        assert_eq!(loaded, window - window / 16, "after {passed} bytes");
        passed += loaded;
    }
}

#[test]
fn credit_of_the_stream_and_of_the_session_both_hold() {
    let mut buffer = buffer(&[(0, 30)]);
    buffer.push(StreamId(0), Bytes::from(vec![1; 100]));
    assert_eq!(buffer.load(1000, 64).2, 30);
    assert_eq!(buffer.load(1000, 64).2, 0);
    buffer.allow_stream(StreamId(0), 100);
    assert_eq!(buffer.load(1000, 64).2, 70);

    let mut buffer = SendBuffer::new(1 << 20, 50);
    buffer.streams.insert(StreamId(0), SendStream::new(0, 1000));
    buffer.push(StreamId(0), Bytes::from(vec![1; 100]));
    assert_eq!(buffer.load(1000, 64).2, 50);
    assert!(!buffer.has_loadable());
    buffer.allow_data(60);
    assert_eq!(buffer.load(1000, 64).2, 10);
}

#[test]
fn an_empty_stream_ends_with_an_empty_segment() {
    let mut buffer = buffer(&[(0, 0)]);
    buffer.finish(StreamId(0));
    assert!(buffer.has_loadable());
    assert_eq!(buffer.load(1000, 64), (DataSeq(0), DataSeq(1), 0));
    assert!(!buffer.has_loadable());
}

#[test]
fn acknowledgements_out_of_order_free_payload_at_once_and_numbers_in_order() {
    let mut buffer = buffer(&[(0, 1 << 20)]);
    buffer.push(StreamId(0), Bytes::from(vec![1; 40]));
    buffer.load(40, 10);
    send_all(&mut buffer);
    assert!(buffer.acknowledge(DataSeq(2), DataSeq(4), |_| {}));
    assert_eq!((buffer.first(), buffer.held()), (DataSeq(0), 20));
    assert!(buffer.acknowledge(DataSeq(0), DataSeq(4), |_| {}));
    assert_eq!((buffer.first(), buffer.end(), buffer.held()), (DataSeq(4), DataSeq(4), 0));
}

#[test]
fn a_higher_priority_is_numbered_first_although_it_was_written_last() {
    let mut buffer = buffer(&[(0, 1 << 20), (2, 1 << 20)]);
    buffer.streams.insert(StreamId(4), SendStream::new(7, 1 << 20));
    buffer.push(StreamId(0), Bytes::from(vec![1; 20]));
    buffer.push(StreamId(2), Bytes::from(vec![1; 10]));
    buffer.push(StreamId(4), Bytes::from(vec![1; 20]));
    buffer.load(1000, 10);
    let order: Vec<_> = (0..5).map(|i| buffer.segment(DataSeq(i)).unwrap().head.stream.0).collect();
    assert_eq!(order, [4, 4, 0, 2, 0]);
}

#[test]
fn an_abandoned_stream_keeps_its_numbers_and_holds_nothing() {
    let mut buffer = buffer(&[(0, 1 << 20), (2, 1 << 20)]);
    buffer.push(StreamId(0), Bytes::from(vec![1; 50]));
    buffer.push(StreamId(2), Bytes::from(vec![2; 10]));
    buffer.finish(StreamId(0));
    assert_eq!(buffer.load(40, 10).2, 40);
    buffer.segment_mut(DataSeq(0)).unwrap().sent(SubflowId(0), Instant::ZERO, 0);
    buffer.reset(StreamId(0), 7);
    buffer.reset(StreamId(0), 8);
    let kinds: Vec<_> = (0..buffer.end().0).map(|i| buffer.segment(DataSeq(i)).unwrap().head.kind).collect();
    let (void, data) =
        (SegmentKind::Void { length: 10 }, SegmentKind::Data { offset: 0, length: 10, fin: false });
    assert_eq!(kinds, [void, data, void, void, SegmentKind::Reset { code: 7, end: 30 }]);
    assert_eq!((buffer.held(), buffer.unacknowledged(), buffer.acknowledged()), (10, 10, 0));
    assert_eq!(buffer.free_unsent(&buffer.streams[&StreamId(0)]), usize::MAX);
    send_all(&mut buffer);
    assert!(buffer.acknowledge(DataSeq(0), DataSeq(5), |_| {}));
    assert_eq!((buffer.acknowledged(), buffer.credit()), (10, (1 << 20) - 40));
    assert!(buffer.is_flushed() && buffer.streams[&StreamId(0)].finished());
    buffer.reset(StreamId(0), 9);
    assert_eq!(buffer.end(), DataSeq(5), "the peer has everything");
}
