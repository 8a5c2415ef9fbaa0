//! The packets between the nodes, as bytes. All integers are big-endian.
//!
//! | bytes | meaning |
//! |---|---|
//! | 0 | protocol and version: 0xc1 |
//! | 1 | kind: 0 original, 1 Cauchy row, 2 random combination, 3 mix, 4 flush, 5 report |
//! | 2 | flags: bit 0 high priority; the others are zero |
//! | 3 | generation of the cohort |
//! | 4–7 | epoch: number of the gateway's start |
//! | 8–11 | label of the cohort |
//! | 12–13 | which original, row or combination; 0 for a mix |
//! | 14–15 | symbols of the generation; 0 where not known yet (originals, flush) |
//! | 16–17 | packets of the cohort before, systematic mode |
//! | 18 | generations of the cohort, at least 1 |
//! | 19 | bytes of the bitmap, mixes only |
//! | 20–23 | number of the mix |
//! | 24– | bitmap, then the payload |
//!
//! A report has at byte 24 entries of 8 bytes: label (4), generation (1), zero (1), packets needed (2).
//! A mix of a full generation costs 24 + 32 bytes. Not here: authentication (the nodes' envelope).

use super::{MAX_PACKET, PacketBuffer};
use bytes::{BufMut, Bytes};
use tributary_coding::rlnc::{Vector, VectorSet};

const VERSION: u8 = 0xc1;
const HEADER: usize = 24;
const HIGH: u8 = 1;
const ENTRY: usize = 8;
/// Bytes of a symbol before its packet.
pub(super) const LENGTH: usize = 2;
/// Most entries of one report.
pub(super) const MAX_NEEDS: usize = 64;

/// The header: what every packet tells about its cohort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Whether the packet is needed to decode the cohort, not redundant.
    pub high: bool,
    /// Generation of the cohort.
    pub generation: u8,
    /// Number of the gateway's start.
    pub epoch: u32,
    /// Label of the cohort.
    pub label: u32,
    /// Symbols of the generation; 0 if not yet known.
    pub symbols: u16,
    /// Packets in the previous cohort, in systematic mode.
    pub previous: u16,
    /// Generations of the cohort.
    pub generations: u8,
}

/// An entry of a report: packets missing in a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Label of the cohort.
    pub label: u32,
    /// Generation of the cohort.
    pub generation: u8,
    /// Number of innovative packets needed.
    pub packets: u16,
}

/// The content after the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A combination.
    Coded(Vector, Bytes),
    /// Nothing; shows that labels have advanced.
    Flush,
    /// The packets that the device needs.
    Report(Vec<Need>),
}

/// Why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Another protocol or version.
    #[error("first byte {0:#04x} is not COTAG version 1 (0xc1)")]
    Version(u8),
    /// The packet ends early.
    #[error("the packet is truncated at {0} bytes")]
    Truncated(usize),
    /// A field has an invalid value.
    #[error("field `{0}` has a value that the format does not allow")]
    Field(&'static str),
}

/// Whether a packet carries an original.
#[must_use]
pub fn is_original(packet: &[u8]) -> bool {
    matches!(packet, [VERSION, 0, ..])
}

/// Encodes a packet with a combination or a flush.
///
/// # Panics
/// When the payload is a report: see [`encode_report`].
#[must_use]
pub fn encode(header: &Header, payload: &Payload) -> Bytes {
    let empty = Bytes::new();
    let (kind, index, number, bitmap, body): (u8, u16, u32, &[u8], &Bytes) = match payload {
        Payload::Coded(Vector::Original(index), body) => (0, *index, 0, &[], body),
        Payload::Coded(Vector::Cauchy(row), body) => (1, *row, 0, &[], body),
        Payload::Coded(Vector::Random(number), body) => (2, *number, 0, &[], body),
        Payload::Coded(Vector::Recoded { number, over }, body) => (3, 0, *number, over.as_bytes(), body),
        Payload::Flush => (4, 0, 0, &[], &empty),
        Payload::Report(_) => panic!("a report is written by encode_report"),
    };
    let mut bytes = Vec::with_capacity(HEADER + bitmap.len() + body.len());
    put_header(&mut bytes, header, (kind, index, number), bitmap.len());
    bytes.extend_from_slice(bitmap);
    bytes.extend_from_slice(body);
    bytes.into()
}

/// Encodes an original whose symbol holds this packet, and returns it with the symbol, which shares its memory.
pub(super) fn encode_original(
    buffer: &mut PacketBuffer,
    header: &Header,
    index: u16,
    packet: &[u8],
) -> (Bytes, Bytes) {
    let bytes = buffer.write(HEADER + LENGTH + packet.len(), |bytes| {
        put_header(bytes, header, (0, index, 0), 0);
        put_symbol(bytes, packet);
    });
    let symbol = bytes.slice(HEADER..);
    (bytes, symbol)
}

/// Appends the symbol of a packet: its length and its bytes.
pub(super) fn put_symbol(bytes: &mut impl BufMut, packet: &[u8]) {
    bytes.put_u16(packet.len() as u16);
    bytes.put_slice(packet);
}

/// Encodes a report of at most 64 entries; further ones are left out.
#[must_use]
pub fn encode_report(epoch: u32, needs: &[Need]) -> Bytes {
    let needs = &needs[..needs.len().min(MAX_NEEDS)];
    let header = Header { epoch, generations: 1, ..Header::default() };
    let mut bytes = Vec::with_capacity(HEADER + needs.len() * ENTRY);
    put_header(&mut bytes, &header, (5, 0, 0), 0);
    for need in needs {
        bytes.extend_from_slice(&need.label.to_be_bytes());
        bytes.extend_from_slice(&[need.generation, 0]);
        bytes.extend_from_slice(&need.packets.to_be_bytes());
    }
    bytes.into()
}

fn put_header(bytes: &mut impl BufMut, header: &Header, which: (u8, u16, u32), bitmap: usize) {
    let (kind, index, number) = which;
    let mut head = [0; HEADER];
    head[..4].copy_from_slice(&[VERSION, kind, if header.high { HIGH } else { 0 }, header.generation]);
    head[4..8].copy_from_slice(&header.epoch.to_be_bytes());
    head[8..12].copy_from_slice(&header.label.to_be_bytes());
    head[12..14].copy_from_slice(&index.to_be_bytes());
    head[14..16].copy_from_slice(&header.symbols.to_be_bytes());
    head[16..18].copy_from_slice(&header.previous.to_be_bytes());
    head[18..20].copy_from_slice(&[header.generations, bitmap as u8]);
    head[20..].copy_from_slice(&number.to_be_bytes());
    bytes.put_slice(&head);
}

/// Decodes a packet. [`encode`] or [`encode_report`] restore accepted packets byte by byte.
///
/// # Errors
/// The bytes are not a packet of this version.
pub fn decode(packet: &Bytes) -> Result<(Header, Payload), PacketError> {
    let truncated = PacketError::Truncated(packet.len());
    let version = *packet.first().ok_or(truncated)?;
    if version != VERSION {
        return Err(PacketError::Version(version));
    }
    let head: &[u8; HEADER] = packet.first_chunk().ok_or(truncated)?;
    let short = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let header = Header {
        high: head[2] & HIGH != 0,
        generation: head[3],
        epoch: long(4),
        label: long(8),
        symbols: short(14),
        previous: short(16),
        generations: head[18],
    };
    let (kind, index, bitmap, number) = (head[1], short(12), usize::from(head[19]), long(20));
    check_fields(head, &header)?;
    if kind != 3 && (bitmap > 0 || number > 0) {
        return Err(PacketError::Field("mix"));
    }
    let body = packet.slice(HEADER..);
    let vector = match kind {
        0 => Vector::Original(index),
        1 => Vector::Cauchy(index),
        2 => Vector::Random(index),
        3 => {
            let bits = body.get(..bitmap).ok_or(truncated)?;
            let over = VectorSet::from_bytes(bits).filter(|over| !bits.is_empty() && over.as_bytes() == bits);
            let over = over.filter(|_| index == 0).ok_or(PacketError::Field("bitmap"))?;
            return coded(header, Vector::Recoded { number, over }, body.slice(bitmap..));
        }
        4 if body.is_empty() && index == 0 => return Ok((header, Payload::Flush)),
        5 => return report(header, head, &body),
        _ => return Err(PacketError::Field("kind")),
    };
    coded(header, vector, body)
}

fn check_fields(head: &[u8; HEADER], header: &Header) -> Result<(), PacketError> {
    if head[2] & !HIGH != 0 {
        return Err(PacketError::Field("flags"));
    }
    if header.generations == 0 || header.generation >= header.generations {
        return Err(PacketError::Field("generation"));
    }
    Ok(())
}

fn coded(header: Header, vector: Vector, body: Bytes) -> Result<(Header, Payload), PacketError> {
    let own = matches!(vector, Vector::Original(_));
    if header.symbols == 0 && !own {
        return Err(PacketError::Field("symbols"));
    }
    if body.is_empty() || body.len() > MAX_PACKET + 2 {
        return Err(PacketError::Field("payload"));
    }
    Ok((header, Payload::Coded(vector, body)))
}

fn report(header: Header, head: &[u8; HEADER], body: &Bytes) -> Result<(Header, Payload), PacketError> {
    let expected = Header { epoch: header.epoch, generations: 1, ..Header::default() };
    if header != expected || head[12..14] != [0, 0] {
        return Err(PacketError::Field("report"));
    }
    let (entries, rest) = body.as_chunks::<ENTRY>();
    if !rest.is_empty() {
        return Err(PacketError::Truncated(HEADER + body.len()));
    }
    if entries.len() > MAX_NEEDS || entries.iter().any(|entry| entry[5] != 0) {
        return Err(PacketError::Field("report"));
    }
    let need = |entry: &[u8; ENTRY]| Need {
        label: u32::from_be_bytes([entry[0], entry[1], entry[2], entry[3]]),
        generation: entry[4],
        packets: u16::from_be_bytes([entry[6], entry[7]]),
    };
    Ok((header, Payload::Report(entries.iter().map(need).collect())))
}
