//! Datagrams of every length in packets, super-frames and fragments; what is damaged or not carried; any bytes.

use super::*;
use crate::frame::{BUFFER, Frame, Pool, Scratch};
use etherparse::{IpFragOffset, Ipv4Header, Ipv6FragmentHeader, Ipv6Header};
use proptest::prelude::*;
use std::rc::Rc;

const NOW: Duration = Duration::from_secs(100);

fn ends(six: bool) -> Ends {
    let (from, to) = if six { ("[fd00::1]:7", "[2001:db8::2]:443") } else { ("10.0.0.1:7", "192.0.2.2:443") };
    Ends { from: from.parse().unwrap(), to: to.parse().unwrap() }
}

fn packet(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    assert!(write_datagram(&mut frame, ends, payload));
    cut(frame).remove(0)
}

/// What the kernel makes of a packet or super-frame: its packets, with their checksums.
fn cut(mut frame: Vec<u8>) -> Vec<Vec<u8>> {
    let (pool, mut scratch, length) = (Rc::new(Pool::default()), Scratch::new(), frame.len());
    frame.resize(length.max(BUFFER), 0);
    let frame = Frame::take(&mut frame, length, &pool).expect("sound headers");
    let packets = (0..frame.segments()).map(|index| {
        let mut out = vec![0; VIRTIO];
        frame.write_segment(index, &mut scratch, &mut out);
        out
    });
    packets.collect()
}

/// The packet as fragments of at most `most` bytes of payload, a multiple of eight.
fn fragments(frame: &[u8], most: usize) -> Vec<Vec<u8>> {
    let packet = &frame[VIRTIO..];
    let header = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let pieces: Vec<&[u8]> = packet[header..].chunks(most).collect();
    let last = pieces.len() - 1;
    let made = pieces.iter().enumerate().map(|(n, piece)| {
        let offset = IpFragOffset::try_new((n * most / 8) as u16).unwrap();
        let mut out = vec![0; VIRTIO];
        if header == 20 {
            let mut head = Ipv4Header::from_slice(packet).unwrap().0;
            (head.identification, head.fragment_offset, head.more_fragments) = (9, offset, n < last);
            (head.dont_fragment, head.total_len) = (false, (20 + piece.len()) as u16);
            head.header_checksum = head.calc_header_checksum();
            head.write(&mut out).unwrap();
        } else {
            let mut head = Ipv6Header::from_slice(packet).unwrap().0;
            (head.next_header, head.payload_length) =
                (IpNumber::IPV6_FRAGMENTATION_HEADER, (8 + piece.len()) as u16);
            head.write(&mut out).unwrap();
            Ipv6FragmentHeader::new(IpNumber::UDP, offset, n < last, 9).write(&mut out).unwrap();
        }
        out.extend_from_slice(piece);
        out
    });
    made.collect()
}

#[test]
fn a_datagram_of_every_length_is_found_in_its_packet() {
    for six in [false, true] {
        for length in [0, 1, 1472, 65_507] {
            let payload = vec![7; length];
            let frame = packet(ends(six), &payload);
            let read = Packet::Datagrams { ends: ends(six), bytes: &payload, each: length, ecn: 0 };
            assert_eq!(PacketReader::default().read(&frame, NOW), read);
        }
    }
    let mixed = Ends { from: ends(true).from, to: ends(false).to };
    assert!(
        !write_datagram(&mut Vec::new(), mixed, b"")
            && !write_datagram(&mut Vec::new(), ends(false), &[0; 65_508])
    );
}

#[test]
fn a_super_frame_is_many_datagrams() {
    let mut frame = packet(ends(false), &[1; 2500]);
    (frame[0], frame[1]) = (NEEDS_CHECKSUM, GSO_UDP);
    frame[4..6].copy_from_slice(&1000_u16.to_ne_bytes());
    let mut reader = PacketReader::default();
    let Packet::Datagrams { bytes, each, .. } = reader.read(&frame, NOW) else { panic!("no datagrams") };
    assert_eq!(bytes.chunks(each).map(<[u8]>::len).collect::<Vec<_>>(), [1000, 1000, 500]);
}

#[test]
fn written_headers_are_cut_into_the_datagrams_with_their_checksums() {
    for six in [false, true] {
        for length in [0, 1, 1400, 2801, 4200, 60_000] {
            let payload: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
            let mut frame = Vec::new();
            assert!(write_headers(&mut frame, ends(six), (length, 1400.min(length)), 2));
            frame.extend_from_slice(&payload);
            let read = Packet::Datagrams { ends: ends(six), bytes: &payload, each: 1400.min(length), ecn: 2 };
            assert_eq!(PacketReader::default().read(&frame, NOW), read);
            let datagrams = if length == 0 { vec![&[][..]] } else { payload.chunks(1400).collect() };
            let packets = cut(frame);
            assert_eq!(packets.len(), datagrams.len());
            for (packet, datagram) in packets.iter().zip(datagrams) {
                let read =
                    Packet::Datagrams { ends: ends(six), bytes: datagram, each: datagram.len(), ecn: 2 };
                assert_eq!(PacketReader::default().read(packet, NOW), read, "{length}");
            }
        }
    }
}

#[test]
fn fragments_become_their_datagram_in_any_order_and_within_bounds() {
    for six in [false, true] {
        let payload: Vec<u8> = (0..65_507_u32).map(|n| n as u8).collect();
        let mut parts = fragments(&packet(ends(six), &payload), 1448);
        parts.swap(0, 20);
        let (last, first) = parts.split_last().unwrap();
        let mut reader = PacketReader::default();
        for part in first {
            assert_eq!(reader.read(part, NOW), Packet::Nothing);
        }
        let whole = Packet::Datagrams { ends: ends(six), bytes: &payload, each: payload.len(), ecn: 0 };
        assert_eq!(reader.read(last, NOW), whole);
        assert!(reader.partial.is_empty());
        // The first fragments of many datagrams: the oldest is forgotten.
        let begun: Vec<Vec<u8>> = (0..=MOST_PARTIAL as u16)
            .map(|n| {
                let from = SocketAddr::new(ends(six).from.ip(), n);
                let to = match ends(six).to.ip() {
                    IpAddr::V4(four) => IpAddr::V4(Ipv4Addr::from_bits(four.to_bits() + u32::from(n))),
                    IpAddr::V6(long) => IpAddr::V6((long.to_bits() + u128::from(n)).into()),
                };
                let frame = packet(Ends { from, to: SocketAddr::new(to, 443) }, &payload[..2000]);
                fragments(&frame, 1448)
            })
            .map(|mut parts| {
                reader.read(&parts[0], NOW + Duration::from_millis(reader.partial.len() as u64));
                parts.remove(1)
            })
            .collect();
        assert_eq!(reader.partial.len(), MOST_PARTIAL);
        assert_eq!(reader.read(&begun[0], NOW), Packet::Nothing, "forgotten");
        assert!(matches!(reader.read(&begun[MOST_PARTIAL], NOW), Packet::Datagrams { .. }));
        assert_eq!(reader.read(&begun[MOST_PARTIAL - 1], NOW + FRAGMENTS * 2), Packet::Nothing, "too late");
    }
}

#[test]
fn what_is_damaged_or_for_many_is_not_carried() {
    for six in [false, true] {
        let frame = packet(ends(six), b"text");
        let changed = |at: usize| {
            let mut frame = frame.clone();
            frame[at] ^= 1;
            PacketReader::default().read(&frame, NOW) == Packet::Nothing
        };
        let last = frame.len() - 1;
        assert!(changed(last), "checksum");
        let mut partial = frame.clone();
        (partial[0], partial[last]) = (NEEDS_CHECKSUM, b'T');
        assert!(
            matches!(PacketReader::default().read(&partial, NOW), Packet::Datagrams { .. }),
            "not computed yet"
        );
        for length in 0..frame.len() {
            assert_eq!(PacketReader::default().read(&frame[..length], NOW), Packet::Nothing, "{length}");
        }
    }
    for to in ["224.0.0.251:5353", "255.255.255.255:67", "0.0.0.0:1", "192.0.2.2:0"] {
        let frame = packet(Ends { to: to.parse().unwrap(), ..ends(false) }, b"text");
        assert_eq!(PacketReader::default().read(&frame, NOW), Packet::Nothing, "{to}");
    }
}

#[test]
fn the_sender_of_what_is_not_carried_is_told() {
    let mut ping = vec![0; VIRTIO];
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [192, 0, 2, 2], 64);
    builder.icmpv4_echo_request(1, 1).write(&mut ping, b"ping").unwrap();
    let other = Packet::Other { protocol: 1, to: ends(false).to.ip() };
    assert_eq!(PacketReader::default().read(&ping, NOW), other);
    let mut answer = Vec::new();
    assert!(write_unreachable(&mut answer, &ping[VIRTIO..], Unreachable::Prohibited));
    let bytes = &answer[VIRTIO..];
    assert_eq!((&bytes[12..16], &bytes[16..20]), (&[192, 0, 2, 2][..], &[10, 0, 0, 1][..]));
    assert_eq!((bytes[9], bytes[20], bytes[21]), (1, 3, 13));
    assert_eq!(bytes[28..], ping[VIRTIO..]);
    assert_eq!(PacketReader::default().read(&answer, NOW), Packet::Nothing, "no answer to an answer");
    let mut answer = Vec::new();
    assert!(write_refusal(&mut answer, ends(true), Unreachable::Port));
    let bytes = &answer[VIRTIO..];
    assert_eq!((bytes[6], bytes[40], bytes[41], bytes.len()), (58, 1, 4, 40 + 8 + 48));
    assert!(!write_unreachable(&mut Vec::new(), b"none", Unreachable::Host));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300), six in any::<bool>(), is_udp in any::<bool>(),
    ) {
        let mut reader = PacketReader::default();
        reader.read(&bytes, NOW);
        // A valid header before any bytes.
        bytes.resize(bytes.len().max(80), 0);
        let mut frame = packet(ends(six), &[0; 8]);
        let header = VIRTIO + if six { 40 } else { 20 };
        frame.truncate(header);
        frame.extend_from_slice(&bytes);
        let length = bytes.len() as u16 + if six { 0 } else { 20 };
        let at = VIRTIO + if six { 4 } else { 2 };
        frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
        frame[..VIRTIO].copy_from_slice(&bytes[..VIRTIO]);
        if !is_udp {
            frame[VIRTIO + if six { 6 } else { 9 }] = bytes[0];
        }
        if let Packet::Datagrams { bytes, each, .. } = reader.read(&frame, NOW) {
            prop_assert!(bytes.is_empty() || each > 0);
        }
        write_unreachable(&mut Vec::new(), &frame[VIRTIO..], Unreachable::Host);
    }
}
