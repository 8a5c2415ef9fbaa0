//! Inspects the IP packets that a node carries: the flow, and the segment size announced in a TCP SYN.
//! Sources: RFC 791, RFC 8200, RFC 9293 §3.2, RFC 1624 (checksum update), RFC 2473 for the reason to clamp.

use std::net::{IpAddr, SocketAddr};
use tributary_tun::fold;

/// A number that is the same for all packets of a flow: addresses, protocol, ports (FNV-1a).
pub(crate) fn flow(packet: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: Option<&[u8]>| {
        for byte in bytes.unwrap_or_default() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    };
    match packet.first().map(|first| first >> 4) {
        Some(4) => {
            let header = usize::from(packet[0] & 0x0f) * 4;
            add(packet.get(12..20));
            let Some(protocol) = packet.get(9) else { return hash };
            add(Some(&[*protocol]));
            // A fragment beyond the first has no ports.
            let is_whole = packet.get(6..8).is_some_and(|field| field[0] & 0x3f == 0 && field[1] == 0);
            if is_whole && matches!(protocol, 6 | 17) {
                add(packet.get(header..header + 4));
            }
        }
        Some(6) => {
            add(packet.get(8..40));
            add(packet.get(6..7));
            if matches!(packet.get(6), Some(6 | 17)) {
                add(packet.get(40..44));
            }
        }
        _ => {}
    }
    hash
}

/// The source address of an IP packet.
pub(crate) fn source(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => packet.get(12..16)?.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        6 => packet.get(8..24)?.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    }
}

/// The address of these that a UDP datagram is for, if any.
pub(crate) fn is_datagram_to(
    packet: &[u8],
    mut addresses: impl Iterator<Item = SocketAddr>,
) -> Option<SocketAddr> {
    let (to, ports): (IpAddr, usize) = match packet.first()? >> 4 {
        4 if packet.get(9) == Some(&17) => {
            let to: [u8; 4] = *packet.get(16..20)?.first_chunk()?;
            (to.into(), usize::from(packet[0] & 0x0f) * 4)
        }
        6 if packet.get(6) == Some(&17) => {
            let to: [u8; 16] = *packet.get(24..40)?.first_chunk()?;
            (to.into(), 40)
        }
        _ => return None,
    };
    let port = packet.get(ports + 2..ports + 4)?;
    let port = u16::from_be_bytes([port[0], port[1]]);
    addresses.find(|known| known.port() == port && known.ip().to_canonical() == to)
}

/// Whether the packet is a TCP acknowledgement that a later one replaces: without payload, SACK blocks or flags.
pub(crate) fn is_bare_acknowledgement(packet: &[u8]) -> bool {
    let transport = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.get(9) == Some(&6) => usize::from(packet[0] & 0x0f) * 4,
        Some(6) if packet.get(6) == Some(&6) => 40,
        _ => return false,
    };
    let Some(segment) = packet.get(transport..).filter(|segment| segment.len() >= 20) else { return false };
    // At most the timestamp option, and nothing behind the header.
    let header = usize::from(segment[12] >> 4) * 4;
    header <= 32 && segment.len() == header && segment[13] == 0x10
}

/// Lowers the segment size announced in a TCP SYN so that segments fit into packets of `mtu` bytes. Returns
/// whether it did.
pub(crate) fn clamp_segment_size(packet: &mut [u8], mtu: usize) -> bool {
    let (transport, fixed) = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.get(9) == Some(&6) => (usize::from(packet[0] & 0x0f) * 4, 40),
        Some(6) if packet.get(6) == Some(&6) => (40, 60),
        _ => return false,
    };
    let is_first_fragment = packet[0] >> 4 == 6 || packet[6] & 0x1f == 0 && packet[7] == 0;
    let Some(segment) = packet.get_mut(transport..).filter(|segment| segment.len() >= 20) else {
        return false;
    };
    if !is_first_fragment || segment[13] & 0x02 == 0 {
        return false;
    }
    let end = (usize::from(segment[12] >> 4) * 4).min(segment.len());
    let most = u16::try_from(mtu.saturating_sub(fixed)).unwrap_or(u16::MAX);
    let mut at = 20;
    while at + 1 < end {
        match segment[at] {
            0 => return false,
            1 => at += 1,
            2 if segment[at + 1] == 4 && at + 4 <= end => {
                let announced = u16::from_be_bytes([segment[at + 2], segment[at + 3]]);
                if announced <= most {
                    return false;
                }
                segment[at + 2..at + 4].copy_from_slice(&most.to_be_bytes());
                let sum = u16::from_be_bytes([segment[16], segment[17]]);
                // An option at an odd offset has its bytes in the other halves of the checksum's words.
                let swap = |value: u16| if at % 2 == 1 { value.swap_bytes() } else { value };
                let changed = u32::from(!sum) + u32::from(!swap(announced)) + u32::from(swap(most));
                segment[16..18].copy_from_slice(&(!fold(changed)).to_be_bytes());
                return true;
            }
            _ if segment[at + 1] < 2 => return false,
            _ => at += usize::from(segment[at + 1]),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tributary_tun::sum_of;

    /// A SYN with a segment size option after `pads` NOPs, with a correct checksum.
    fn syn(v6: bool, pads: usize, size: u16) -> Vec<u8> {
        let ip = if v6 { 40 } else { 20 };
        let mut bytes = vec![0; ip + 40];
        bytes[0] = if v6 { 0x60 } else { 0x45 };
        bytes[if v6 { 6 } else { 9 }] = 6;
        (ip - 8..ip + 4).for_each(|i| bytes[i] = i as u8);
        bytes[ip + 12] = 0xa0;
        bytes[ip + 13] = 2;
        bytes[ip + 20..ip + 20 + pads].fill(1);
        bytes[ip + 20 + pads..ip + 22 + pads].copy_from_slice(&[2, 4]);
        bytes[ip + 22 + pads..ip + 24 + pads].copy_from_slice(&size.to_be_bytes());
        let sum = !sum(&bytes, v6);
        bytes[ip + 16..ip + 18].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn sum(packet: &[u8], v6: bool) -> u16 {
        let (ip, addresses) = if v6 { (40, 8..40) } else { (20, 12..20) };
        fold(sum_of(&packet[addresses]) + 6 + (packet.len() - ip) as u32 + sum_of(&packet[ip..]))
    }

    #[test]
    fn a_syn_announces_no_more_than_fits_and_its_checksum_stays_right() {
        for (v6, pads) in [(false, 0), (false, 1), (true, 0), (true, 3)] {
            let mut packet = syn(v6, pads, 1460);
            assert!(clamp_segment_size(&mut packet, 1362), "{v6} {pads}");
            assert_eq!(sum(&packet, v6), 0xffff);
            let at = if v6 { 62 } else { 42 } + pads;
            let fits = if v6 { 1302 } else { 1322 };
            assert_eq!(u16::from_be_bytes([packet[at], packet[at + 1]]), fits);
            assert!(!clamp_segment_size(&mut packet, 1362), "once is enough");
        }
    }

    #[test]
    fn only_acknowledgements_that_carry_nothing_else_are_bare() {
        for v6 in [false, true] {
            let at = if v6 { 40 } else { 20 };
            let segment = |header: usize, flags: u8, payload: usize| {
                let mut bytes = syn(v6, 0, 1460);
                (bytes[at + 12], bytes[at + 13]) = ((header as u8 / 4) << 4, flags);
                bytes.resize(at + header + payload, 0);
                bytes
            };
            assert!(is_bare_acknowledgement(&segment(20, 0x10, 0)));
            assert!(is_bare_acknowledgement(&segment(32, 0x10, 0)), "with a timestamp");
            assert!(!is_bare_acknowledgement(&segment(44, 0x10, 0)), "with a SACK block");
            assert!(!is_bare_acknowledgement(&segment(20, 0x10, 1)), "with payload");
            assert!(!is_bare_acknowledgement(&segment(20, 0x11, 0)), "FIN");
            assert!(!is_bare_acknowledgement(&segment(20, 0x02, 0)), "SYN");
        }
        assert!(!is_bare_acknowledgement(&[]));
    }

    #[test]
    fn packets_of_a_flow_share_a_number_and_flows_differ() {
        let (a, mut b) = (syn(false, 0, 1460), syn(false, 0, 1460));
        b[40] = 9;
        assert_eq!(flow(&a), flow(&b));
        b[23] ^= 1;
        assert_ne!(flow(&a), flow(&b), "another port");
        assert_ne!(flow(&a), flow(&syn(true, 0, 1460)));
    }

    #[test]
    fn source_and_receiver_of_a_packet_are_read() {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 99, 0, 2, 192, 0, 2, 1];
        packet.extend_from_slice(&[0, 1, 0x1c, 0x20, 0, 8, 0, 0]);
        let to = SocketAddr::from(([192, 0, 2, 1], 7200));
        assert_eq!(source(&packet), Some([10, 99, 0, 2].into()));
        assert_eq!(is_datagram_to(&packet, [to].into_iter()), Some(to));
        let others = [([192, 0, 2, 1], 7201).into(), ([192, 0, 2, 2], 7200).into()];
        assert_eq!(is_datagram_to(&packet, others.into_iter()), None);
        packet[9] = 6;
        assert_eq!(is_datagram_to(&packet, [to].into_iter()), None, "TCP");
        let mut packet = vec![0; 48];
        (packet[0], packet[6]) = (0x60, 17);
        (packet[23], packet[39], packet[43]) = (2, 1, 9);
        let [from, to] = [2, 1].map(|last| IpAddr::from([0, 0, 0, 0, 0, 0, 0, last]));
        assert_eq!(source(&packet), Some(from));
        assert_eq!(is_datagram_to(&packet, [SocketAddr::new(to, 9)].into_iter()), Some((to, 9).into()));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..100), six: bool, udp: bool, mtu in 0..2000_usize) {
            if let Some(first) = bytes.first_mut() {
                *first = if six { 0x60 } else { *first & 0x0f | 0x40 };
            }
            if let Some(protocol) = bytes.get_mut(if six { 6 } else { 9 }) {
                *protocol = if udp { 17 } else { 6 };
            }
            flow(&bytes);
            source(&bytes);
            is_datagram_to(&bytes, [SocketAddr::from(([0; 4], 0))].into_iter());
            is_bare_acknowledgement(&bytes);
            clamp_segment_size(&mut bytes, mtu);
        }
    }
}
