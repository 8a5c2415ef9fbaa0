//! IPv4, TCP and UDP headers for a capture (RFC 791, RFC 9293, RFC 7323, RFC 2018, RFC 768). Checksums are
//! correct if the TCP payload is taken as zeros.

use std::collections::BTreeMap;

use tributary_link::Direction;

use crate::packet::TcpSegment;
use crate::run::RouteUse;

/// Port of the server.
const PORT: u16 = 7000;
/// Port of the first connection or subflow that is seen; the next ones count up.
const CLIENT_PORT: u16 = 40_000;
/// The first port used after the last has been assigned: above the well-known ports.
const FIRST_PORT: u16 = 1024;
/// Shift of the window field (RFC 7323 §2.2): 64 MiB fit.
const WINDOW_SHIFT: u8 = 10;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// The client's port of each connection and subflow, in the order of their first packets.
#[derive(Debug, Default)]
pub(super) struct Ports {
    known: BTreeMap<(u32, u32), u16>,
}

impl Ports {
    /// The port of a subflow, by its number within the connection. There are 64 511 ports; then they repeat.
    fn of(&mut self, connection: u32, subflow: u32) -> u16 {
        let taken = self.known.len();
        *self.known.entry((connection, subflow)).or_insert_with(|| nth_port(taken))
    }
}

/// Client ports in the order of assignment; never the server's.
fn nth_port(number: usize) -> u16 {
    let all = usize::from(u16::MAX - FIRST_PORT); // one is the server's
    let above = usize::from(u16::MAX - CLIENT_PORT) + 1;
    let number = number % all;
    if number < above {
        return CLIENT_PORT + number as u16;
    }
    let port = FIRST_PORT + (number - above) as u16;
    if port < PORT { port } else { port + 1 }
}

/// Appends the headers of a segment; returns the packet's length with its payload.
pub(super) fn tcp(out: &mut Vec<u8>, table: &mut Ports, used: RouteUse, segment: &TcpSegment) -> u32 {
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
    let (from, to) = ports(used, table.of(used.connection, segment.connection));
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
pub(super) fn udp(out: &mut Vec<u8>, table: &mut Ports, used: RouteUse, payload: &[u8]) -> u32 {
    let length = 28 + payload.len() as u32;
    ip(out, used, (length, 17));
    let (from, to) = ports(used, table.of(used.connection, 0));
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

/// Fills in the checksum of what follows the IPv4 header, including the pseudo-header (RFC 9293 §3.1).
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

/// Source and destination.
fn ports(used: RouteUse, client: u16) -> (u16, u16) {
    match used.direction {
        Direction::Down => (PORT, client),
        Direction::Up => (client, PORT),
    }
}

fn flags(segment: &TcpSegment) -> u8 {
    let set = |condition, flag| if condition { flag } else { 0 };
    set(segment.is_fin, FIN)
        | set(segment.is_syn, SYN)
        | set(segment.is_reset, RST)
        | set(segment.length > 0, PSH)
        | set(segment.is_ack, ACK)
}

/// The timestamp clock, in µs.
fn micros(nanos: u64) -> u32 {
    (nanos / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_of_64511_subflows_share_a_port_and_none_has_the_server_s() {
        let mut ports = Ports::default();
        let given: Vec<u16> = (0..64_511).map(|number| ports.of(number / 100, number % 100)).collect();
        let mut apart = given.clone();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!((apart.len(), given[0], apart[0]), (64_511, CLIENT_PORT, FIRST_PORT));
        assert!(!apart.contains(&PORT));
        assert_eq!(ports.of(3, 7), given[307]);
        assert_eq!(ports.of(1000, 0), CLIENT_PORT);
    }
}
