//! UDP datagrams in the IP packets of a TUN device: taken out of packets, super-frames and fragments, put into packets, and the
//! ICMP answer for those that are not carried. Pure: no system calls.
//!
//! Not here: where datagrams go. Sources: RFC 768; RFC 791 §3.2 and RFC 8200 §4.5 (fragments); RFC 792 and RFC 4443 §3.1
//! (unreachable), RFC 1122 §3.2.2 (what gets no ICMP answer); virtio 1.2 §5.1.6.

use crate::checksum::{fold, sum_of};
use crate::frame::{GSO_UDP, NEEDS_CHECKSUM, VIRTIO};
use core::time::Duration;
use etherparse::defrag::IpDefragBuf;
use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::icmpv6::DestUnreachableCode;
use etherparse::{
    Icmpv4Type, Icmpv6Type, IpEcn, IpFragOffset, IpNumber, IpSlice, Ipv4Header, Ipv6ExtensionSlice,
    Ipv6Header, PacketBuilder, UdpHeader, UdpSlice,
};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

#[cfg(test)]
mod tests;

/// Datagrams in fragments that are put together at once. One more drops the oldest.
const MOST_PARTIAL: usize = 16;
/// Time for all fragments of a datagram to arrive, as Linux has it for IPv4.
const FRAGMENTS: Duration = Duration::from_secs(30);
/// Bytes of the refused packet in an ICMP answer: both families allow this many in every answer.
const QUOTE: usize = 512;
const HOPS: u8 = 64;
/// The bits of an ECN codepoint.
const ECN: u8 = 3;
/// Bytes of a UDP header, and where its checksum is.
const UDP: usize = 8;
const CHECKSUM_AT: usize = 6;
/// The device has checked the checksum.
const CHECKSUM_VALID: u8 = 2;
const ECHO_REQUEST: u8 = 8;
const ECHO_REQUEST_6: u8 = 128;

/// Source and destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// Who sent it.
    pub from: SocketAddr,
    /// Who is to get it.
    pub to: SocketAddr,
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from, self.to)
    }
}

/// What a packet contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// One datagram or several: all have `each` bytes, but the last may have fewer.
    Datagrams {
        /// Where from, where to.
        ends: Ends,
        /// The payload of all of them.
        bytes: &'a [u8],
        /// Bytes of each datagram; zero for one empty datagram.
        each: usize,
        /// ECN codepoint of all of them (RFC 3168 §5).
        ecn: u8,
    },
    /// Another protocol: its sender may be told, with [`write_unreachable`].
    Other {
        /// The protocol's number.
        protocol: u8,
        /// Who was to get it.
        to: IpAddr,
    },
    /// Nothing to carry and nobody to tell: a fragment of a datagram that is not complete, a packet to many receivers, ICMP, or a
    /// packet that contradicts its headers.
    Nothing,
}

/// Why a packet cannot go where it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// The host does not answer, or there is no route to it.
    Host,
    /// Nothing listens on the port.
    Port,
    /// It is not allowed, or not carried.
    Prohibited,
}

/// Fragments with the same key belong to one datagram.
type FragmentKey = (IpAddr, IpAddr, u32, u8);

/// Reads packets, and keeps fragments until their datagram is complete.
#[derive(Debug, Default)]
pub struct PacketReader {
    /// Datagrams that are not complete, and when their first fragment came.
    partial: BTreeMap<FragmentKey, (Duration, IpDefragBuf)>,
    whole: Vec<u8>,
}

impl PacketReader {
    /// Reads what a device delivered, a virtio header and a packet, at the time `now` of any clock that does not go back.
    pub fn read<'a>(&'a mut self, frame: &'a [u8], now: Duration) -> Packet<'a> {
        let Some((virtio, packet)) = frame.split_at_checked(VIRTIO) else { return Packet::Nothing };
        let Ok(ip) = IpSlice::from_slice(packet) else { return Packet::Nothing };
        let (from, to) = (ip.source_addr(), ip.destination_addr());
        if !is_one_host(from) || !is_one_host(to) {
            return Packet::Nothing;
        }
        let ecn = codepoint(&ip);
        let payload = ip.payload();
        let other = Packet::Other { protocol: payload.ip_number.0, to };
        match (payload.ip_number, payload.payload.first()) {
            (IpNumber::UDP, _) => {}
            (IpNumber::ICMP, Some(&ECHO_REQUEST)) | (IpNumber::IPV6_ICMP, Some(&ECHO_REQUEST_6)) => {
                return other;
            }
            // RFC 1122 §3.2.2: no answer to an ICMP error.
            (IpNumber::ICMP | IpNumber::IPV6_ICMP, _) => return Packet::Nothing,
            _ => return other,
        }
        if payload.fragmented {
            if !self.complete(&ip, now) {
                return Packet::Nothing;
            }
            return datagrams((from, to), &self.whole, (0, 0), ecn);
        }
        let segment = match virtio[1] {
            GSO_UDP => u16::from_ne_bytes([virtio[4], virtio[5]]),
            _ => 0,
        };
        datagrams((from, to), payload.payload, (virtio[0], segment), ecn)
    }

    /// Adds a fragment. Whether its datagram is complete in `whole` now.
    fn complete(&mut self, ip: &IpSlice<'_>, now: Duration) -> bool {
        let Some((identification, offset, more)) = fragment(ip) else { return false };
        self.partial.retain(|_, (since, _)| now.saturating_sub(*since) < FRAGMENTS);
        let number = ip.payload_ip_number();
        let key = (ip.source_addr(), ip.destination_addr(), identification, number.0);
        if self.partial.len() >= MOST_PARTIAL && !self.partial.contains_key(&key) {
            let oldest = self.partial.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| *key);
            oldest.and_then(|key| self.partial.remove(&key));
        }
        let new = || (now, IpDefragBuf::new(number, Vec::new(), Vec::new()));
        let (_, datagram) = self.partial.entry(key).or_insert_with(new);
        // A fragment that contradicts the others spoils its datagram.
        if datagram.add(offset, more, ip.payload().payload).is_err() {
            self.partial.remove(&key);
            return false;
        }
        if !datagram.is_complete() {
            return false;
        }
        let Some((_, datagram)) = self.partial.remove(&key) else { return false };
        self.whole = datagram.take_bufs().0;
        true
    }
}

/// Identification, offset, and whether more fragments follow.
fn fragment(ip: &IpSlice<'_>) -> Option<(u32, IpFragOffset, bool)> {
    match ip {
        IpSlice::Ipv4(four) => {
            let header = four.header();
            Some((header.identification().into(), header.fragments_offset(), header.more_fragments()))
        }
        IpSlice::Ipv6(six) => six.extensions().clone().into_iter().find_map(|extension| match extension {
            Ipv6ExtensionSlice::Fragment(fragment) => {
                let header = fragment.to_header();
                Some((header.identification, header.fragment_offset, header.more_fragments))
            }
            _ => None,
        }),
    }
}

/// ECN codepoint of a packet.
fn codepoint(ip: &IpSlice<'_>) -> u8 {
    match ip {
        IpSlice::Ipv4(four) => four.header().ecn().value(),
        IpSlice::Ipv6(six) => six.header().ecn().value(),
    }
}

/// The datagrams of a UDP packet, with the flags of its virtio header and the payload of each segment of a super-frame.
fn datagrams((from, to): (IpAddr, IpAddr), bytes: &[u8], (flags, segment): (u8, u16), ecn: u8) -> Packet<'_> {
    let Ok(udp) = UdpSlice::from_slice(bytes) else { return Packet::Nothing };
    let is_checked = flags & (NEEDS_CHECKSUM | CHECKSUM_VALID) != 0;
    // Carried on, a damaged datagram would get a valid checksum.
    if udp.destination_port() == 0 || !is_checked && !has_valid_checksum((from, to), &udp) {
        return Packet::Nothing;
    }
    let ends = Ends {
        from: SocketAddr::new(from, udp.source_port()),
        to: SocketAddr::new(to, udp.destination_port()),
    };
    let bytes = udp.payload();
    let each = if segment == 0 { bytes.len() } else { usize::from(segment) };
    Packet::Datagrams { ends, bytes, each, ecn }
}

fn has_valid_checksum((from, to): (IpAddr, IpAddr), udp: &UdpSlice<'_>) -> bool {
    if udp.checksum() == 0 {
        return from.is_ipv4(); // RFC 8200 §8.1: IPv6 needs one
    }
    let address = |address: IpAddr| match address {
        IpAddr::V4(four) => sum_of(&four.octets()),
        IpAddr::V6(six) => sum_of(&six.octets()),
    };
    let pseudo = address(from) + address(to) + u32::from(IpNumber::UDP.0) + udp.slice().len() as u32;
    fold(pseudo + sum_of(udp.slice())) == 0xffff
}

/// Whether the address is that of one host: not of many, and not unspecified.
fn is_one_host(address: IpAddr) -> bool {
    !address.is_unspecified() && !address.is_multicast() && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Appends a virtio header and a packet with one datagram that is not capable of ECN, as [`write_headers`].
pub fn write_datagram(out: &mut Vec<u8>, ends: Ends, payload: &[u8]) -> bool {
    let is_written = write_headers(out, ends, (payload.len(), payload.len()), 0);
    out.extend_from_slice(payload);
    is_written
}

/// Appends a virtio header and the headers of a packet whose datagrams follow: `bytes` in all, `each` in each of them, but the last may
/// have fewer; `ecn` is their codepoint. With several it is a super-frame, which the kernel cuts (Linux 6.2). It completes the checksums, too. `false`, and nothing
/// useful appended, when the ends are of different families or the packet is too long for them.
pub fn write_headers(out: &mut Vec<u8>, ends: Ends, (bytes, each): (usize, usize), ecn: u8) -> bool {
    let Ok(length) = u16::try_from(UDP + bytes) else { return false };
    let begin = out.len();
    out.resize(begin + VIRTIO, 0);
    let addresses = match (ends.from.ip(), ends.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (from, to) = (from.octets(), to.octets());
            let Ok(mut header) = Ipv4Header::new(length, HOPS, IpNumber::UDP, from, to) else { return false };
            header.ecn = IpEcn::try_new(ecn & ECN).unwrap_or_default();
            header.header_checksum = header.calc_header_checksum();
            out.extend_from_slice(&header.to_bytes());
            sum_of(&from) + sum_of(&to)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let (source, destination) = (from.octets(), to.octets());
            let header = Ipv6Header {
                payload_length: length,
                next_header: IpNumber::UDP,
                hop_limit: HOPS,
                traffic_class: ecn & ECN,
                source,
                destination,
                ..Ipv6Header::default()
            };
            out.extend_from_slice(&header.to_bytes());
            sum_of(&source) + sum_of(&destination)
        }
        _ => return false,
    };
    let transport = out.len() - begin - VIRTIO;
    let checksum = fold(addresses + u32::from(IpNumber::UDP.0) + u32::from(length));
    let (source_port, destination_port) = (ends.from.port(), ends.to.port());
    out.extend_from_slice(&UdpHeader { source_port, destination_port, length, checksum }.to_bytes());
    let virtio = &mut out[begin..begin + VIRTIO];
    virtio[0] = NEEDS_CHECKSUM;
    let (headers, segment) = if each < bytes {
        virtio[1] = GSO_UDP;
        (transport + UDP, each)
    } else {
        (0, 0)
    };
    for (at, value) in [(2, headers), (4, segment), (6, transport), (8, CHECKSUM_AT)] {
        virtio[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
    }
    true
}

/// Appends a virtio header and the ICMP answer that says why this packet does not arrive, from its destination. `false` for bytes that
/// are not a packet.
pub fn write_unreachable(out: &mut Vec<u8>, packet: &[u8], why: Unreachable) -> bool {
    let Ok(ip) = IpSlice::from_slice(packet) else { return false };
    out.extend_from_slice(&[0; VIRTIO]);
    let quote = &packet[..packet.len().min(QUOTE)];
    let written = match (ip.destination_addr(), ip.source_addr()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let kind = Icmpv4Type::DestinationUnreachable(match why {
                Unreachable::Host => DestUnreachableHeader::Host,
                Unreachable::Port => DestUnreachableHeader::Port,
                Unreachable::Prohibited => DestUnreachableHeader::FilterProhibited,
            });
            PacketBuilder::ipv4(from.octets(), to.octets(), HOPS).icmpv4(kind).write(out, quote)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let kind = Icmpv6Type::DestinationUnreachable(match why {
                Unreachable::Host => DestUnreachableCode::Address,
                Unreachable::Port => DestUnreachableCode::Port,
                Unreachable::Prohibited => DestUnreachableCode::Prohibited,
            });
            PacketBuilder::ipv6(from.octets(), to.octets(), HOPS).icmpv6(kind).write(out, quote)
        }
        _ => return false,
    };
    written.is_ok()
}

/// As [`write_unreachable`], for a datagram of which only the ends are known.
pub fn write_refusal(out: &mut Vec<u8>, ends: Ends, why: Unreachable) -> bool {
    let mut refused = Vec::new();
    write_datagram(&mut refused, ends, &[]) && write_unreachable(out, &refused[VIRTIO..], why)
}
