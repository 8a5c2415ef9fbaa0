//! Joins neighbouring TCP segments of a flow into super-frames for a TUN device, as a network card does (LRO),
//! because the kernel's cost is per packet.
//!
//! Segments are joined only if the super-frame can be split into exactly the same segments again: headers equal
//! except for lengths, numbers and checksums; in sequence; all of the same size except the last, which may be
//! shorter. Not here: UDP, which passes unchanged. Sources: RFC 9293 §3.1, RFC 791, RFC 8200; virtio 1.2 §5.1.6.

use crate::checksum::{fold, sum_of};
use crate::frame::{GSO_NONE, GSO_TCP4, GSO_TCP6, NEEDS_CHECKSUM, VIRTIO};

/// Flows that are merged at the same time.
const FLOWS: usize = 16;
/// Longest super-frame: the maximum of IPv4's length field.
const MAX: usize = 65_535;
/// virtio: the checksum was verified.
const CHECKSUM_VALID: u8 = 2;

const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// A TCP segment, as far as merging is concerned.
#[derive(Clone, Copy)]
struct TcpSegment {
    v6: bool,
    /// Where the TCP header begins.
    transport: usize,
    /// Where its payload begins.
    payload: usize,
    sequence: u32,
}

impl TcpSegment {
    /// Reads a packet; `None` when it cannot be merged.
    fn of(packet: &[u8]) -> Option<Self> {
        let be16 = |at: usize| packet.get(at..at + 2).map(|b| usize::from(u16::from_be_bytes([b[0], b[1]])));
        let (v6, transport) = match packet.first()? {
            // No options and no fragment.
            0x45 if be16(6)? & 0x3fff == 0 && *packet.get(9)? == 6 && be16(2)? == packet.len() => (false, 20),
            first if first >> 4 == 6 && *packet.get(6)? == 6 && be16(4)? + 40 == packet.len() => (true, 40),
            _ => return None,
        };
        let options = usize::from(packet.get(transport + 12)? >> 4) * 4;
        let payload = transport + options;
        if options < 20 || payload >= packet.len() || packet[transport + 13] & !(PSH) != ACK {
            return None;
        }
        let number = &packet[transport + 4..transport + 8];
        let sequence = u32::from_be_bytes([number[0], number[1], number[2], number[3]]);
        Some(Self { v6, transport, payload, sequence })
    }

    fn pseudo(&self, packet: &[u8]) -> u32 {
        let addresses = if self.v6 { &packet[8..40] } else { &packet[12..20] };
        sum_of(addresses) + 6 + (packet.len() - self.transport) as u32
    }

    /// Whether the TCP checksum is right, and for IPv4 the header's.
    fn is_intact(&self, packet: &[u8]) -> bool {
        let header = self.v6 || fold(sum_of(&packet[..20])) == 0xffff;
        header && fold(self.pseudo(packet) + sum_of(&packet[self.transport..])) == 0xffff
    }
}

/// A super-frame under construction.
struct Open {
    /// Virtio header and packet.
    bytes: Vec<u8>,
    head: TcpSegment,
    /// Payload of each segment but the last; the first one's.
    segment: usize,
    segments: usize,
    /// Sequence number that continues it.
    next: u32,
}

impl Open {
    fn packet(&self) -> &[u8] {
        &self.bytes[VIRTIO..]
    }

    /// Whether both are of the same flow.
    fn is_flow_of(&self, packet: &[u8], segment: &TcpSegment) -> bool {
        let own = self.packet();
        let addresses = if segment.v6 { 8..40 } else { 12..20 };
        let ports = segment.transport..segment.transport + 4;
        self.head.v6 == segment.v6
            && own[addresses.clone()] == packet[addresses]
            && own[ports.clone()] == packet[ports]
    }

    /// Whether the packet continues the super-frame.
    fn takes(&self, packet: &[u8], segment: &TcpSegment) -> bool {
        let own = self.packet();
        let (payload, transport) = (packet.len() - segment.payload, segment.transport);
        // Type of service and time to live; acknowledgement number; window; options.
        let network = if segment.v6 {
            own[..4] == packet[..4] && own[7] == packet[7]
        } else {
            own[1] == packet[1] && own[6..9] == packet[6..9]
        };
        network
            && segment.payload == self.head.payload
            && segment.sequence == self.next
            && payload <= self.segment
            && own.len() + payload <= MAX
            && own[transport + 8..transport + 13] == packet[transport + 8..transport + 13]
            && own[transport + 14..transport + 16] == packet[transport + 14..transport + 16]
            && own[transport + 20..segment.payload] == packet[transport + 20..segment.payload]
    }

    /// Appends a segment. Returns whether it must be the last.
    fn append(&mut self, packet: &[u8], segment: &TcpSegment) -> bool {
        let payload = &packet[segment.payload..];
        self.bytes.extend_from_slice(payload);
        self.segments += 1;
        self.next = self.next.wrapping_add(payload.len() as u32);
        let flags = packet[segment.transport + 13];
        self.bytes[VIRTIO + segment.transport + 13] |= flags & PSH;
        payload.len() < self.segment || flags & PSH != 0
    }

    /// Writes virtio header, lengths and checksums; returns what a TUN device takes.
    fn finish(&mut self) -> &[u8] {
        let TcpSegment { v6, transport, payload, .. } = self.head;
        if self.segments == 1 {
            self.bytes[..VIRTIO].fill(0);
            self.bytes[0] = CHECKSUM_VALID;
            return &self.bytes;
        }
        let (virtio, packet) = self.bytes.split_at_mut(VIRTIO);
        virtio[0] = NEEDS_CHECKSUM;
        virtio[1] = if v6 { GSO_TCP6 } else { GSO_TCP4 };
        for (at, value) in [(2, payload), (4, self.segment), (6, transport), (8, 16)] {
            virtio[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
        }
        let total = packet.len();
        if v6 {
            packet[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        } else {
            packet[2..4].copy_from_slice(&(total as u16).to_be_bytes());
            packet[10..12].fill(0);
            let sum = !fold(sum_of(&packet[..20]));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let pseudo = fold(self.head.pseudo(packet));
        packet[transport + 16..transport + 18].copy_from_slice(&pseudo.to_be_bytes());
        &self.bytes
    }
}

/// Merges the packets of one reader. Push packets as they come, and flush when none is left for the moment.
#[derive(Default)]
pub struct Merger {
    open: Vec<Open>,
    /// Buffers of emitted super-frames, for the next ones.
    spare: Vec<Vec<u8>>,
    plain: Vec<u8>,
}

impl core::fmt::Debug for Merger {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Merger").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

impl Merger {
    /// One without packets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a complete IP packet. Calls `emit` with what is ready for a TUN device: virtio header and packet.
    /// The order inside a flow stays.
    pub fn push(&mut self, packet: &[u8], emit: &mut impl FnMut(&[u8])) {
        let mergeable = TcpSegment::of(packet).filter(|segment| segment.is_intact(packet));
        let Some(segment) = mergeable else {
            self.pass(packet, emit);
            return;
        };
        let same = |open: &Open| open.is_flow_of(packet, &segment);
        if let Some(at) = self.open.iter().position(same) {
            if self.open[at].takes(packet, &segment) {
                if self.open[at].append(packet, &segment) {
                    self.close(at, emit);
                }
                return;
            }
            self.close(at, emit);
        }
        if packet[segment.transport + 13] & PSH != 0 {
            // Nothing may follow in its super-frame.
            self.begin(packet, segment);
            self.close(self.open.len() - 1, emit);
            return;
        }
        if self.open.len() == FLOWS {
            self.close(0, emit);
        }
        self.begin(packet, segment);
    }

    /// Emits everything held.
    pub fn flush(&mut self, emit: &mut impl FnMut(&[u8])) {
        while !self.open.is_empty() {
            self.close(0, emit);
        }
    }

    /// Emits a packet that is not merged, after the held packets of its flow.
    fn pass(&mut self, packet: &[u8], emit: &mut impl FnMut(&[u8])) {
        // A TCP packet without payload or with other flags; anything else has no flow here.
        let v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let transport = if v6 { 40 } else { 20 };
        if packet.len() >= transport + 20 {
            let segment = TcpSegment { v6, transport, payload: transport, sequence: 0 };
            if let Some(at) = self.open.iter().position(|open| open.is_flow_of(packet, &segment)) {
                self.close(at, emit);
            }
        }
        self.plain.clear();
        self.plain.resize(VIRTIO, GSO_NONE);
        self.plain.extend_from_slice(packet);
        emit(&self.plain);
    }

    fn begin(&mut self, packet: &[u8], head: TcpSegment) {
        let mut bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(VIRTIO + MAX));
        bytes.clear();
        bytes.resize(VIRTIO, 0);
        bytes.extend_from_slice(packet);
        let segment = packet.len() - head.payload;
        let next = head.sequence.wrapping_add(segment as u32);
        self.open.push(Open { bytes, head, segment, segments: 1, next });
    }

    fn close(&mut self, at: usize, emit: &mut impl FnMut(&[u8])) {
        let mut open = self.open.remove(at);
        emit(open.finish());
        self.spare.push(open.bytes);
    }
}

#[cfg(test)]
mod tests;
