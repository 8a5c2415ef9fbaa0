//! Splitting super-frames: every chunk equals its segments one by one.

use super::*;
use proptest::prelude::*;

const TCP_OPTIONS: usize = 12;

/// A super-frame as the kernel delivers it: partial checksum, all flags set.
fn super_frame(v6: bool, udp: bool, segment: usize, payload: usize) -> Vec<u8> {
    let ip = if v6 { 40 } else { 20 };
    let transport = if udp { 8 } else { 20 + TCP_OPTIONS };
    let mut bytes = vec![0; VIRTIO + ip + transport];
    let kind = if udp {
        GSO_UDP
    } else if v6 {
        GSO_TCP6
    } else {
        GSO_TCP4
    };
    bytes[0] = NEEDS_CHECKSUM;
    bytes[1] = kind | if udp { 0 } else { GSO_ECN };
    bytes[4..6].copy_from_slice(&(segment as u16).to_ne_bytes());
    bytes[6..8].copy_from_slice(&(ip as u16).to_ne_bytes());
    bytes[8..10].copy_from_slice(&(if udp { 6_u16 } else { 16 }).to_ne_bytes());
    let total = ip + transport + payload;
    let packet = &mut bytes[VIRTIO..];
    let protocol = if udp { 17 } else { 6 };
    if v6 {
        packet[..2].copy_from_slice(&[0x60, 0x20]); // ECN ECT(0)
        packet[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        packet[6] = protocol;
        (8..40).for_each(|i| packet[i] = i as u8);
    } else {
        packet[..2].copy_from_slice(&[0x45, 0x02]); // ECN ECT(0)
        packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&0xffff_u16.to_be_bytes());
        packet[9] = protocol;
        (12..20).for_each(|i| packet[i] = i as u8);
    }
    let header = &mut packet[ip..];
    if udp {
        header[4..6].copy_from_slice(&((8 + payload) as u16).to_be_bytes());
    } else {
        header[4..8].copy_from_slice(&0xffff_ff00_u32.to_be_bytes());
        header[12] = ((transport / 4) as u8) << 4;
        header[13] = 0x10 | TCP_FIN_PSH | TCP_CWR;
    }
    bytes.extend((0..payload).map(|i| (i * 7 + i / 251) as u8));
    bytes
}

fn frame(bytes: &[u8]) -> Result<Frame, Malformed> {
    let mut buffer = bytes.to_vec();
    buffer.resize(BUFFER, 0);
    Frame::take(&mut buffer, bytes.len(), &Rc::default())
}

fn chunk(frame: &Frame, first: u32, count: u32) -> Vec<u8> {
    let mut scratch = Scratch::new();
    let (head, tail) = frame.chunk(first, count, &mut scratch);
    [head, tail].concat()
}

/// Checks lengths, numbers, flags and sums of a chunk; returns its payload.
fn payload_of(bytes: &[u8], v6: bool, udp: bool, (first, segment, last): (u32, usize, bool)) -> Vec<u8> {
    let (virtio, packet) = bytes.split_at(VIRTIO);
    let ip = if v6 { 40 } else { 20 };
    let transport = &packet[ip..];
    if v6 {
        assert_eq!((be16(packet, 4) + 40, packet[1] & 0x30), (packet.len(), 0x20));
    } else {
        assert_eq!((be16(packet, 2), packet[1]), (packet.len(), 2));
        assert_eq!(be16(packet, 4) as u16, 0xffff_u16.wrapping_add(first as u16));
        assert_eq!(fold(sum_of(&packet[..20])), 0xffff, "header checksum");
    }
    let addresses = if v6 { &packet[8..40] } else { &packet[12..20] };
    let pseudo = fold(sum_of(addresses) + if udp { 17 } else { 6 } + transport.len() as u32);
    let header = if udp { 8 } else { 20 + TCP_OPTIONS };
    if udp {
        assert_eq!((be16(transport, 4), be16(transport, 6)), (transport.len(), usize::from(pseudo)));
    } else {
        let sequence = u32::from_be_bytes(transport[4..8].try_into().unwrap());
        assert_eq!(sequence, 0xffff_ff00_u32.wrapping_add(first * segment as u32));
        assert_eq!(be16(transport, 16), usize::from(pseudo));
        assert_eq!(transport[13] & TCP_FIN_PSH == TCP_FIN_PSH, last);
        assert_eq!(transport[13] & TCP_CWR != 0, first == 0);
    }
    let payload = transport[header..].to_vec();
    let plain = payload.len() <= segment;
    assert_eq!(virtio[1] & !GSO_ECN == GSO_NONE, plain);
    assert_eq!(ne16(virtio, 4), if plain { 0 } else { segment });
    payload
}

proptest! {
    #[test]
    fn chunks_join_to_the_original_packet(
        v6: bool, udp: bool, segment in 100..1448_usize, payload in 1..20_000_usize, cuts in prop::collection::vec(1..9_u32, 1..200)
    ) {
        prop_assume!(payload > segment);
        let whole = super_frame(v6, udp, segment, payload);
        let frame = frame(&whole).unwrap();
        let segments = payload.div_ceil(segment) as u32;
        let (mut first, mut joined) = (0, Vec::new());
        for count in cuts.into_iter().chain(std::iter::repeat(40)) {
            let count = count.min(segments - first);
            if count == 0 {
                break;
            }
            let last = first + count == segments;
            joined.extend(payload_of(&chunk(&frame, first, count), v6, udp, (first, segment, last)));
            first += count;
        }
        prop_assert_eq!(&joined[..], &whole[whole.len() - payload..]);
        prop_assert_eq!(frame.segments(), segments);
        prop_assert_eq!(frame.shape(), Some((whole.len() - VIRTIO - payload, segment)));
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..8_u8, flags in 0..2_u8) {
        if bytes.len() > 8 {
            (bytes[0], bytes[1]) = (flags, kind);
            bytes[7] = 0; // a small transport offset in native little-endian order
        }
        if let Ok(frame) = frame(&bytes) {
            let _ = frame.udp_probe();
            for first in 0..3 {
                chunk(&frame, first, 2);
                frame.write_segment(first, &mut Scratch::new(), &mut Vec::new());
            }
        }
    }
}

/// The checksum a receiver computes over an IP packet's transport part; zero when it is right.
fn receivers_sum(packet: &[u8], v6: bool, udp: bool) -> u16 {
    let (ip, addresses) = if v6 { (40, 8..40) } else { (20, 12..20) };
    let pseudo = sum_of(&packet[addresses]) + if udp { 17 } else { 6 } + (packet.len() - ip) as u32;
    !fold(pseudo + sum_of(&packet[ip..]))
}

proptest! {
    #[test]
    fn segments_are_complete_packets(v6: bool, udp: bool, segment in 100..1448_usize, payload in 1..9_000_usize) {
        prop_assume!(payload > segment);
        let whole = super_frame(v6, udp, segment, payload);
        let mut whole = whole;
        if !udp {
            whole[1] &= !GSO_ECN;
        }
        let ip = if v6 { 40 } else { 20 };
        let frame = frame(&whole).unwrap();
        let (mut scratch, mut joined) = (Scratch::new(), Vec::new());
        for index in 0..frame.segments() {
            let mut packet = vec![9; 3];
            frame.write_segment(index, &mut scratch, &mut packet);
            let packet = &packet[3..];
            prop_assert_eq!(receivers_sum(packet, v6, udp), 0);
            joined.extend_from_slice(&packet[ip + if udp { 8 } else { 20 + TCP_OPTIONS }..]);
        }
        prop_assert_eq!(&joined[..], &whole[whole.len() - payload..]);
    }
}

#[test]
fn plain_packets_pass_untouched() {
    let mut bytes = super_frame(false, true, 1000, 500);
    bytes[1] = GSO_NONE;
    let frame = frame(&bytes).unwrap();
    assert_eq!(chunk(&frame, 0, 1), bytes);
}

#[test]
fn invalid_headers_are_refused() {
    let good = super_frame(false, false, 1000, 5000);
    let refused = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        assert_eq!(frame(&bytes).err(), Some(Malformed));
    };
    refused(|bytes| bytes.truncate(5));
    refused(|bytes| bytes.truncate(VIRTIO));
    refused(|bytes| bytes.truncate(VIRTIO + 30));
    refused(|bytes| bytes[0] = 0); // no partial checksum
    refused(|bytes| bytes[1] = 3); // fragmentation offload, never asked for
    refused(|bytes| bytes[1] = GSO_TCP6); // in an IPv4 packet
    refused(|bytes| bytes[4..6].fill(0)); // no segment size
    refused(|bytes| bytes[7] = 0xff); // transport header out of bounds
    refused(|bytes| bytes[VIRTIO + 20 + 12] = 0); // TCP header of no length
}
