//! IPv4, TCP and UDP headers for a capture (RFC 791, RFC 9293, RFC 7323, RFC 2018, RFC 768). Checksums
//! are right; a TCP payload, which has no content here, counts as zeros.

use tributary_link::Direction;

use crate::multipath::incarnation_and_way;
use crate::packet::Segment;
use crate::run::RouteUse;

/// Port of the server.
const PORT: u16 = 7000;
/// Ports of the clients: this one for the first subflow of the first connection.
const CLIENT_PORT: u16 = 40_000;
/// Ports of each connection: a path's fresh connections have other ports than its old ones.
const PORTS: u32 = 64;
/// Shift of the window field (RFC 7323 §2.2): 64 MiB fit.
const WINDOW_SHIFT: u8 = 10;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// Appends the headers of a segment; returns the packet's length with its payload.
pub(super) fn tcp(out: &mut Vec<u8>, used: RouteUse, segment: &Segment) -> u32 {
    let mut options = Vec::with_capacity(40);
    if segment.is_syn {
        options.extend([2, 4, 0x05, 0xb4]); // MSS 1460
        options.extend([4, 2, 1, 1]); // selective acknowledgements permitted
        options.extend([3, 3, WINDOW_SHIFT, 1]);
    }
    options.extend([1, 1, 8, 10]); // two pads, timestamps
    options.extend(micros(segment.timestamp.as_nanos()).to_be_bytes());
    options.extend(micros(segment.echo.as_nanos()).to_be_bytes());
    let blocks = if segment.is_syn { &[] } else { segment.sack_blocks() };
    if !blocks.is_empty() {
        options.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for block in blocks {
            options.extend((block.from as u32).to_be_bytes());
            options.extend((block.to as u32).to_be_bytes());
        }
    }
    let header = 20 + options.len() as u32;
    let length = 20 + header + segment.length;
    ip(out, used, (length, 6));
    let (from, to) = ports(used, segment.connection);
    out.extend(from.to_be_bytes());
    out.extend(to.to_be_bytes());
    out.extend((segment.seq as u32).to_be_bytes()); // 64 bits wide here, 32 on the wire
    out.extend(if segment.is_ack { segment.ack as u32 } else { 0 }.to_be_bytes());
    out.push((header as u8 / 4) << 4);
    out.push(flags(segment));
    let shift = if segment.is_syn { 0 } else { WINDOW_SHIFT };
    let window = u16::try_from(segment.window >> shift).unwrap_or(u16::MAX);
    out.extend(window.to_be_bytes());
    out.extend([0; 4]); // checksum, urgent pointer
    out.extend(options);
    seal(out, (length - 20, 6), 16);
    length
}

/// Appends a datagram; returns its length.
pub(super) fn udp(out: &mut Vec<u8>, used: RouteUse, payload: &[u8]) -> u32 {
    let length = 28 + payload.len() as u32;
    ip(out, used, (length, 17));
    let (from, to) = ports(used, 0);
    out.extend(from.to_be_bytes());
    out.extend(to.to_be_bytes());
    out.extend(((length - 20) as u16).to_be_bytes());
    out.extend([0; 2]);
    out.extend(payload);
    seal(out, (length - 20, 17), 6);
    length
}

fn ip(out: &mut Vec<u8>, used: RouteUse, (length, protocol): (u32, u8)) {
    let start = out.len();
    let [from, to] = match used.direction {
        Direction::Down => [1, 2],
        Direction::Up => [2, 1],
    };
    let path = used.path + 1;
    out.extend([0x45, 0]);
    out.extend((length.min(u32::from(u16::MAX)) as u16).to_be_bytes());
    out.extend([0, 0, 0x40, 0, 64, protocol, 0, 0]); // not to be fragmented, TTL 64
    out.extend([10, 77, path, from, 10, 77, path, to]);
    let sum = checksum(&out[start..]);
    out[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
}

/// Enters the checksum of what follows the IPv4 header, over the pseudo-header too (RFC 9293 §3.1).
fn seal(out: &mut [u8], (length, protocol): (u32, u32), place: usize) {
    let addresses = out[12..20].to_vec();
    let mut words = addresses;
    words.extend([0, protocol as u8]);
    words.extend((length as u16).to_be_bytes());
    words.extend(&out[20..]);
    let sum = checksum(&words);
    out[20 + place..22 + place].copy_from_slice(&sum.to_be_bytes());
}

fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Source and destination: a port of the client for each connection and subflow.
fn ports(used: RouteUse, subflow: u32) -> (u16, u16) {
    let (incarnation, way) = incarnation_and_way(subflow);
    let subflow = incarnation.wrapping_mul(8).wrapping_add(way as u32) % PORTS;
    let client = CLIENT_PORT.wrapping_add(used.connection.wrapping_mul(PORTS).wrapping_add(subflow) as u16);
    match used.direction {
        Direction::Down => (PORT, client),
        Direction::Up => (client, PORT),
    }
}

fn flags(segment: &Segment) -> u8 {
    let set = |condition, flag| if condition { flag } else { 0 };
    set(segment.is_fin, FIN)
        | set(segment.is_syn, SYN)
        | set(segment.is_reset, RST)
        | set(segment.length > 0, PSH)
        | set(segment.is_ack, ACK)
}

/// The clock of timestamps.
fn micros(nanos: u64) -> u32 {
    (nanos / 1000) as u32
}
