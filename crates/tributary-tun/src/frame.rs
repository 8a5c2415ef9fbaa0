//! Packets from a TUN device: a virtio header, then an IP packet that may be a
//! super-frame of many TCP segments or UDP datagrams. Splits super-frames by rewriting headers; payload
//! is never copied. Pure: no system calls.
//!
//! Sources: virtio 1.2 §5.1.6 (header), RFC 791 and 8200 (IP), RFC 9293 (TCP), RFC 3168 §6.1.2 (CWR).

use crate::checksum::{fold, sum_of};
use std::cell::RefCell;
use std::rc::Rc;

#[cfg(test)]
mod tests;

/// Bytes of the virtio header.
pub const VIRTIO: usize = 10;
/// Largest packet with its virtio header.
pub const BUFFER: usize = VIRTIO + 65_536;
/// Packets above this size keep their read buffer; smaller ones are copied to a buffer of their own size.
const KEEP_ABOVE: usize = 16 * 1024;
/// Longest network and transport header that is accepted; longer ones are malformed.
const MAX_HEADER: usize = 256;

pub(crate) const NEEDS_CHECKSUM: u8 = 1;
pub(crate) const GSO_NONE: u8 = 0;
pub(crate) const GSO_TCP4: u8 = 1;
pub(crate) const GSO_TCP6: u8 = 4;
pub(crate) const GSO_UDP: u8 = 5;
const GSO_ECN: u8 = 0x80;

const TCP_FIN_PSH: u8 = 0x01 | 0x08;
const TCP_CWR: u8 = 0x80;

/// Read buffers, returned when a frame is dropped.
#[derive(Debug, Default)]
pub struct Pool {
    free: RefCell<Vec<Vec<u8>>>,
}

impl Pool {
    /// Maximum number of buffers kept.
    const KEPT: usize = 256;

    /// A buffer of `BUFFER` bytes.
    pub fn take(&self) -> Vec<u8> {
        self.free.borrow_mut().pop().unwrap_or_else(|| vec![0; BUFFER])
    }

    fn give(&self, buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if buffer.len() == BUFFER && free.len() < Self::KEPT {
            free.push(buffer);
        }
    }
}

/// The layout of a super-frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    /// Offset of the transport header from the IP header.
    transport: usize,
    /// Offset of the payload from the IP header.
    payload: usize,
    /// Payload of every segment but the last.
    segment: usize,
    udp: bool,
    v6: bool,
}

/// A packet or super-frame.
#[derive(Debug)]
pub struct Frame {
    buffer: Vec<u8>,
    /// Valid bytes of `buffer`.
    length: usize,
    cut: Option<Cut>,
    pool: Rc<Pool>,
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.pool.give(core::mem::take(&mut self.buffer));
    }
}

/// The packet contradicts its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet contradicts its virtio or IP header")]
pub struct Malformed;

fn be16(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]))
}

fn ne16(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]))
}

impl Cut {
    /// Reads the headers of a super-frame; `None` for a plain packet.
    fn of(virtio: &[u8], packet: &[u8]) -> Result<Option<Self>, Malformed> {
        let kind = virtio[1] & !GSO_ECN;
        if kind == GSO_NONE {
            return Ok(None);
        }
        let (segment, transport) = (ne16(virtio, 4), ne16(virtio, 6));
        let v6 = packet[0] >> 4 == 6;
        let udp = kind == GSO_UDP;
        let known = matches!((kind, v6), (GSO_TCP4, false) | (GSO_TCP6, true) | (GSO_UDP, _));
        let least = transport + if udp { 8 } else { 20 };
        let ip_least = if v6 { 40 } else { 20 };
        let sound = known && virtio[0] & NEEDS_CHECKSUM != 0 && segment > 0 && transport >= ip_least;
        if !sound || packet.len() <= least {
            return Err(Malformed);
        }
        let options = if udp { 8 } else { usize::from(packet[transport + 12] >> 4) * 4 };
        let payload = transport + options;
        if options < least - transport || payload >= packet.len() || payload > MAX_HEADER {
            return Err(Malformed);
        }
        Ok(Some(Self { transport, payload, segment, udp, v6 }))
    }
}

impl Frame {
    /// Takes the first `length` bytes of `buffer`; leaves a buffer to read the next packet into.
    ///
    /// # Errors
    /// The bytes are not a packet, or the virtio header contradicts it.
    pub fn take(buffer: &mut Vec<u8>, length: usize, pool: &Rc<Pool>) -> Result<Self, Malformed> {
        let bytes = buffer.get(..length).ok_or(Malformed)?;
        let (virtio, packet) = bytes.split_at_checked(VIRTIO).ok_or(Malformed)?;
        if packet.is_empty() {
            return Err(Malformed);
        }
        let cut = Cut::of(virtio, packet)?;
        let kept = if length > KEEP_ABOVE { core::mem::replace(buffer, pool.take()) } else { bytes.to_vec() };
        Ok(Self { buffer: kept, length, cut, pool: pool.clone() })
    }

    /// The packet, or the super-frame as one packet.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.buffer[VIRTIO..self.length]
    }

    /// Bytes of the packet: all segments, with the header counted once.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length - VIRTIO
    }

    /// Header bytes that every segment repeats, and the payload of every segment but the last; `None` for a
    /// plain packet.
    #[must_use]
    pub fn shape(&self) -> Option<(usize, usize)> {
        self.cut.map(|cut| (cut.payload, cut.segment))
    }

    /// Number of packets it represents, at least one.
    #[must_use]
    pub fn segments(&self) -> u32 {
        let count = |cut: Cut| (self.length() - cut.payload).div_ceil(cut.segment) as u32;
        self.cut.map_or(1, count)
    }

    /// Appends segment `index` to `out` as a complete IP packet, its checksum computed.
    pub fn write_segment(&self, index: u32, scratch: &mut Scratch, out: &mut Vec<u8>) {
        let begin = out.len();
        let (head, tail) = self.chunk(index, 1, scratch);
        let (virtio, headers) = head.split_at(VIRTIO);
        out.extend_from_slice(headers);
        out.extend_from_slice(tail);
        if virtio[0] & NEEDS_CHECKSUM == 0 {
            return;
        }
        // The field contains the sum of the pseudo header, so the sum over everything is correct.
        let (start, field) = (ne16(virtio, 6), ne16(virtio, 6) + ne16(virtio, 8));
        let packet = &mut out[begin..];
        if start < packet.len() && field + 2 <= packet.len() {
            let sum = match !fold(sum_of(&packet[start..])) {
                0 if field == start + 6 => 0xffff, // RFC 768: zero means that there is no checksum
                sum => sum,
            };
            packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// The UDP destination port and the first eight payload bytes, if it is one plain UDP datagram.
    #[must_use]
    pub fn udp_probe(&self) -> Option<(u16, u64)> {
        let packet = self.packet();
        let (protocol, transport) = match packet[0] >> 4 {
            4 => (*packet.get(9)?, usize::from(packet[0] & 0x0f) * 4),
            6 => (*packet.get(6)?, 40),
            _ => return None,
        };
        if protocol != libc::IPPROTO_UDP as u8 || self.cut.is_some() {
            return None;
        }
        let datagram = packet.get(transport..)?;
        let number = datagram.get(8..16)?;
        Some((be16(datagram, 2) as u16, u64::from_be_bytes(number.try_into().ok()?)))
    }

    /// Head (virtio header included) and tail of segments `first .. first + count` as one packet for a TUN device. `scratch`
    /// holds the rewritten head.
    pub fn chunk<'a>(&'a self, first: u32, count: u32, scratch: &'a mut Scratch) -> (&'a [u8], &'a [u8]) {
        let Some(cut) = self.cut else {
            return (&self.buffer[..VIRTIO], self.packet());
        };
        let packet = self.packet();
        let body = &packet[cut.payload..];
        let begin = (first as usize * cut.segment).min(body.len());
        let end = (begin + count as usize * cut.segment).min(body.len());
        let tail = &body[begin..end];
        let head = &mut scratch.0[..VIRTIO + cut.payload];
        head.copy_from_slice(&self.buffer[..VIRTIO + cut.payload]);
        let (virtio, headers) = head.split_at_mut(VIRTIO);
        if tail.len() <= cut.segment {
            virtio[1] = GSO_NONE;
            virtio[4..6].copy_from_slice(&[0, 0]);
        }
        rewrite_ip(headers, &cut, tail.len(), first);
        let is_last = end == body.len();
        rewrite_transport(headers, &cut, tail.len(), begin, is_last);
        if !cut.udp && begin > 0 {
            virtio[1] &= !GSO_ECN; // the CWR mark went with the first segment
        }
        (head, tail)
    }
}

/// Room for a rewritten head.
#[derive(Debug)]
pub struct Scratch([u8; VIRTIO + MAX_HEADER]);

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// Empty room.
    #[must_use]
    pub fn new() -> Self {
        Self([0; VIRTIO + MAX_HEADER])
    }
}

/// Sets the lengths, the IPv4 identification of segment `first`, and the IPv4 header checksum.
fn rewrite_ip(headers: &mut [u8], cut: &Cut, payload: usize, first: u32) {
    let total = cut.payload + payload;
    if cut.v6 {
        headers[4..6].copy_from_slice(&((total - 40) as u16).to_be_bytes());
        return;
    }
    headers[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    let identification = (be16(headers, 4) as u16).wrapping_add(first as u16);
    headers[4..6].copy_from_slice(&identification.to_be_bytes());
    headers[10..12].copy_from_slice(&[0, 0]);
    let ip_header = (usize::from(headers[0] & 0x0f) * 4).clamp(20, cut.transport);
    let sum = !fold(sum_of(&headers[..ip_header]));
    headers[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Sets sequence number and flags (TCP) or length (UDP), and the pseudo-header sum, which is in the
/// checksum field until a device completes it.
fn rewrite_transport(headers: &mut [u8], cut: &Cut, payload: usize, begin: usize, is_last: bool) {
    let length = cut.payload - cut.transport + payload;
    let (protocol, checksum_at) = if cut.udp { (libc::IPPROTO_UDP, 6) } else { (libc::IPPROTO_TCP, 16) };
    let addresses = if cut.v6 { &headers[8..40] } else { &headers[12..20] };
    let pseudo = sum_of(addresses) + protocol as u32 + length as u32;
    let transport = &mut headers[cut.transport..];
    if cut.udp {
        transport[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    } else {
        let sequence = u32::from_be_bytes([transport[4], transport[5], transport[6], transport[7]]);
        transport[4..8].copy_from_slice(&sequence.wrapping_add(begin as u32).to_be_bytes());
        if !is_last {
            transport[13] &= !TCP_FIN_PSH;
        }
        if begin > 0 {
            transport[13] &= !TCP_CWR; // RFC 3168 §6.1.2: once
        }
    }
    transport[checksum_at..checksum_at + 2].copy_from_slice(&fold(pseudo).to_be_bytes());
}
