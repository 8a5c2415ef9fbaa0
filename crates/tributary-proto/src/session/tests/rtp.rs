//! Flows of RTP: key frames are sent before other packets, and dropped after them.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::{Instant, StreamId};

use super::hostile::{ON, server};
use crate::flow::{FlowConfig, RtpFormat, Sent};
use crate::wire::{Decoder, Ecn, Item};

const MS: Duration = Duration::from_millis(1);
const KEY: u8 = 0x65;
const OTHER: u8 = 0x41;

const VIDEO: fn() -> FlowConfig = || FlowConfig { rtp: Some(RtpFormat::H264), ..FlowConfig::default() };

/// A packet of H.264 with this kind of NAL unit and this number.
fn packet(nal: u8, number: u16, length: usize) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    [&[0x80, 96, high, low, 0, 0, 0, 9, 0, 0, 0, 7, nal][..], &vec![1; length]].concat()
}

/// Flows in the order in which their segments are sent.
fn order(session: &mut crate::session::Session, now: Instant) -> Vec<(StreamId, Bytes)> {
    let (mut decoder, mut sent) = (Decoder::default(), Vec::new());
    while let Some(transmit) = session.poll_transmit(now) {
        let mut bytes = Bytes::from([transmit.head.as_slice(), &transmit.payload].concat());
        while let Some(item) = decoder.next_item(&mut bytes).unwrap() {
            if let Item::Segment { head, piece, .. } = item {
                sent.push((head.stream, piece));
            }
        }
    }
    sent
}

#[test]
fn key_frames_of_one_flow_go_before_other_packets_of_every_flow_of_its_priority() {
    let mut session = server();
    let now = Instant::from_millis(10);
    let [first, second] = [(); 2].map(|()| session.open_flow(now, VIDEO()).unwrap());
    let send = |session: &mut crate::session::Session, flow, nal, number| {
        session.send_datagram(now, flow, &packet(nal, number, 100), Ecn::NotCapable).unwrap();
    };
    // Nothing overtakes a flow's first datagram.
    send(&mut session, first, OTHER, 0);
    send(&mut session, second, KEY, 0);
    session.handle_room(ON, 1 << 20);
    assert_eq!(order(&mut session, now).len(), 2);
    for (flow, nal, number) in [(first, OTHER, 1), (second, OTHER, 2), (second, KEY, 3), (first, KEY, 4)] {
        send(&mut session, flow, nal, number);
    }
    let sent = order(&mut session, now);
    let numbers: Vec<_> = sent.iter().map(|(flow, segment)| (*flow, segment[2 + 3])).collect();
    assert_eq!(numbers, [(second, 3), (first, 4), (second, 2), (first, 1)]);
}

#[test]
fn a_full_queue_drops_other_packets_for_key_frames_and_keeps_the_key_frames() {
    let mut session = server();
    let now = Instant::from_millis(10);
    let flow = session.open_flow(now, VIDEO()).unwrap();
    session.send.allow_stream(flow, 1 << 20);
    let mut send =
        |nal, number| session.send_datagram(now, flow, &packet(nal, number, 1000), Ecn::NotCapable).unwrap();
    // No rate is known: the queue holds 32 KiB of each kind.
    for number in 0..40 {
        assert_eq!(send(OTHER, number), Sent::Queued, "the newest replaces the oldest");
    }
    for number in 0..42 {
        assert_eq!(send(KEY, number), Sent::Queued);
    }
    for number in 40..60 {
        assert_eq!(send(OTHER, number), Sent::Queued);
    }
    session.handle_room(ON, 1 << 20);
    let sent = order(&mut session, now);
    let kinds = |nal: u8| {
        let of_kind =
            |segment: &Bytes| segment.chunks(2 + 1013).filter(|packet| packet[2 + 12] == nal).count();
        sent.iter().map(|(_, segment)| of_kind(segment)).sum::<usize>()
    };
    // 32 of the others fit. The first one is sent before the key frames, and eleven make room for the last of these.
    assert_eq!((kinds(KEY), kinds(OTHER)), (42, 21));
    let stats = session.flow_stats(flow).unwrap();
    assert_eq!((stats.offered, stats.sent, stats.dropped), (102, 63, 39));
}

#[test]
fn key_frames_may_wait_four_times_as_long_as_other_packets() {
    let mut session = server();
    let now = Instant::from_millis(10);
    let flow = session.open_flow(now, FlowConfig { lifetime: Some(100 * MS), ..VIDEO() }).unwrap();
    for nal in [OTHER, KEY] {
        session.send_datagram(now, flow, &packet(nal, 1, 100), Ecn::NotCapable).unwrap();
    }
    let expired = [99, 100, 399, 400].map(|ms| {
        session.send.expire(now + ms * MS, |_, _, _| {});
        session.flow_stats(flow).unwrap().expired
    });
    assert_eq!(expired, [0, 1, 1, 2]);
}
