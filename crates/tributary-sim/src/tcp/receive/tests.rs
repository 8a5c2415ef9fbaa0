//! Reassembly, blocks, duplicates, the end of the stream.

use super::*;

fn data(seq: u64, length: u32) -> TcpSegment {
    TcpSegment { seq, length, timestamp: Instant::from_millis(seq), ..TcpSegment::default() }
}

fn receiver() -> Receiver {
    let mut receiver = Receiver::new(&TcpConfig::default());
    receiver.start(Instant::ZERO, &TcpSegment::default());
    receiver.announce(&mut TcpSegment::default());
    receiver
}

fn acknowledgement(receiver: &mut Receiver) -> TcpSegment {
    let mut segment = TcpSegment::default();
    receiver.acknowledge(Instant::ZERO, &mut segment);
    segment
}

fn blocks(segment: &TcpSegment) -> Vec<(u64, u64)> {
    segment.sack_blocks().iter().map(|block| (block.from, block.to)).collect()
}

#[test]
fn blocks_are_reported_newest_first_and_vanish_when_the_gap_is_filled() {
    let mut receiver = receiver();
    for seq in [101, 301, 501, 201] {
        receiver.handle(Instant::ZERO, &data(seq, 100), 1);
    }
    let ack = acknowledgement(&mut receiver);
    assert_eq!((ack.ack, blocks(&ack)), (1, vec![(101, 401), (501, 601)]));
    receiver.handle(Instant::ZERO, &data(1, 100), 1);
    let ack = acknowledgement(&mut receiver);
    assert_eq!((ack.ack, blocks(&ack)), (401, vec![(501, 601)]));
    assert_eq!((receiver.readable(), receiver.held()), (400, 500));
}

#[test]
fn duplicates_are_reported_once_and_at_once() {
    let mut receiver = receiver();
    receiver.handle(Instant::ZERO, &data(1, 100), 1);
    acknowledgement(&mut receiver);
    receiver.handle(Instant::ZERO, &data(1, 100), 1);
    assert!(receiver.wants_to_acknowledge());
    assert_eq!(blocks(&acknowledgement(&mut receiver)), [(1, 101)]);
    assert!(acknowledgement(&mut receiver).sack_blocks().is_empty());
    receiver.handle(Instant::ZERO, &data(301, 100), 1);
    acknowledgement(&mut receiver);
    receiver.handle(Instant::ZERO, &data(301, 100), 1);
    assert_eq!(blocks(&acknowledgement(&mut receiver)), [(301, 401), (301, 401)]);
    assert_eq!(receiver.duplicates(), 200);
}

#[test]
fn the_end_counts_one_and_waits_for_what_is_before_it() {
    let mut receiver = receiver();
    let fin = TcpSegment { is_fin: true, ..data(101, 100) };
    receiver.handle(Instant::ZERO, &fin, 1);
    assert!(!receiver.is_finished());
    receiver.handle(Instant::ZERO, &data(1, 100), 1);
    assert!(receiver.is_finished() && !receiver.is_finished_reading());
    assert_eq!(acknowledgement(&mut receiver).ack, 202);
    receiver.read(Instant::ZERO, 200);
    assert!(receiver.is_finished_reading());
}

#[test]
fn data_beyond_the_window_or_in_too_many_pieces_is_refused() {
    let mut receiver = receiver();
    receiver.handle(Instant::ZERO, &data(70_000, 100), 1);
    assert_eq!(receiver.held(), 0);
    for seq in 0..30_000 {
        receiver.handle(Instant::ZERO, &data(3 + 2 * seq, 1), 1);
    }
    assert_eq!(receiver.ahead.count(), MOST_RANGES);
}

#[test]
fn data_beyond_the_end_of_the_stream_does_not_count() {
    let mut receiver = receiver();
    receiver.handle(Instant::ZERO, &data(201, 300), 1);
    receiver.handle(Instant::ZERO, &data(601, 100), 1);
    receiver.handle(Instant::ZERO, &TcpSegment { is_fin: true, ..data(101, 150) }, 1); // FIN is 251
    assert_eq!(receiver.held(), 150);
    acknowledgement(&mut receiver); // reports the overlap too
    assert_eq!(blocks(&acknowledgement(&mut receiver)), [(101, 251)]);
    receiver.handle(Instant::ZERO, &data(1, 100), 1);
    assert!(receiver.is_finished());
    assert_eq!((acknowledgement(&mut receiver).ack, receiver.readable()), (252, 250));
    receiver.handle(Instant::ZERO, &data(252, 100), 1);
    assert_eq!((acknowledgement(&mut receiver).ack, receiver.readable()), (252, 250));
}
