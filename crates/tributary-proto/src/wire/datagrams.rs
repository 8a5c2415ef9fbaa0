//! Datagrams inside a segment: each is a length, its ECN codepoint and its bytes.
//!
//! Not here: which datagrams share a segment (`send/flow.rs`), and when they are delivered (`receive/flow.rs`).

use bytes::{Buf, Bytes};

use super::varint;
use crate::work::step;

/// Longest datagram, bytes: the longest payload of UDP over IPv4 (65 535 less both headers). It fits a segment.
pub const MAX_DATAGRAM: usize = 65_507;
/// Most bytes in front of a datagram.
pub const MAX_PREFIX: usize = 4;
/// The codepoint is in this many low bits.
const ECN_BITS: u32 = 2;

/// Explicit congestion notification of a datagram: the two bits of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not capable: congestion is shown by dropping it.
    #[default]
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0).
    Capable0 = 2,
    /// Congestion experienced.
    Congested = 3,
}

impl Ecn {
    /// The codepoint in the two low bits of an IP header's traffic class.
    #[must_use]
    pub fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::Congested,
        }
    }

    /// Whether congestion may be shown by a mark.
    #[must_use]
    pub fn is_capable(self) -> bool {
        self != Self::NotCapable
    }
}

/// What stands in front of a datagram of `length` bytes.
pub(crate) fn encode_prefix(length: usize, ecn: Ecn, put: impl FnMut(&[u8])) {
    varint::write((length as u64) << ECN_BITS | ecn as u64, put);
}

/// The first datagram's length and codepoint; `input` moves to its bytes. `None` unless all of it is there.
fn prefix(input: &mut &[u8]) -> Option<(usize, Ecn)> {
    let value = varint::read(input)?;
    let length = usize::try_from(value >> ECN_BITS).ok()?;
    (length <= MAX_DATAGRAM.min(input.len())).then(|| (length, Ecn::from_bits(value as u8)))
}

/// Whether the bytes are whole datagrams, none too long, and nothing else.
pub(crate) fn are_datagrams(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        step();
        let Some((length, _)) = prefix(&mut bytes) else { return false };
        bytes = &bytes[length..];
    }
    true
}

/// Takes the first datagram off the front of `bytes`.
pub(crate) fn next_datagram(bytes: &mut Bytes) -> Option<(Bytes, Ecn)> {
    let mut rest: &[u8] = bytes;
    let (length, ecn) = prefix(&mut rest)?;
    bytes.advance(bytes.len() - rest.len());
    Some((bytes.split_to(length), ecn))
}
