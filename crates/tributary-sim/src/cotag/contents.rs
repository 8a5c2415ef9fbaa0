//! The inner packets behind the coded ones.
//!
//! The machines of `tributary_cotag` code real bytes. In virtual time an inner packet is represented
//! by the eight bytes of its number, so that coefficients, ranks and losses are real and payload costs no
//! time. Decoded numbers are looked up here. Sizes on links are those of the whole packets, including the
//! padding of combinations.

use std::collections::BTreeMap;

use bytes::Bytes;
use tributary_coding::rlnc::Vector;
use tributary_cotag::{Mode, Payload, decode};
use tributary_types::Instant;

use crate::packet::Packet;

/// Bytes of a number.
const NUMBER: usize = 8;
/// Bytes of length in front of a packet inside a symbol.
const LENGTH: usize = 2;
/// IPv4, UDP, and the overhead of a hop of the real tunnel (16 bytes of header, 16 of tag).
const ENVELOPE: usize = 20 + 8 + 32;
/// An inner packet counts as lost when this many have entered after it.
const MOST: u64 = 1 << 18;
/// Number of cohorts whose longest packet is kept.
const LABELS: usize = 256;

/// Bytes that coding and a hop add to an inner packet at most: envelope, header, the bitmap of a mix, length.
pub(super) fn overhead(mode: Mode) -> usize {
    let bitmap = if mode == Mode::Paper { 160 } else { 32 };
    ENVELOPE + 24 + bitmap + LENGTH
}

/// An inner packet.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    /// The packet, with its route after the device.
    pub packet: Packet,
    /// When it entered the gateway.
    pub entered: Instant,
}

/// All inner packets between gateway and device.
#[derive(Debug, Default)]
pub(super) struct Contents {
    next: u64,
    held: BTreeMap<u64, Inner>,
    /// By cohort: the size of its longest packet, which is the size of its combinations.
    longest: BTreeMap<u32, u32>,
}

impl Contents {
    /// Stores a packet that enters cohort `label` and returns the bytes that represent it.
    pub fn put(&mut self, now: Instant, label: u32, packet: Packet) -> [u8; NUMBER] {
        let number = self.next;
        self.next += 1;
        let longest = self.longest.entry(label).or_default();
        *longest = packet.size.max(*longest);
        while self.longest.len() > LABELS {
            self.longest.pop_first();
        }
        self.held.insert(number, Inner { packet, entered: now });
        while let Some(first) = self.held.first_entry().filter(|first| first.key() + MOST < self.next) {
            first.remove();
        }
        number.to_be_bytes()
    }

    /// The packet for delivered bytes; `None` if it is unknown or was delivered before.
    pub fn take(&mut self, delivered: &[u8]) -> Option<Inner> {
        self.held.remove(&number(delivered)?)
    }

    /// Size on the wire of a coded packet between the nodes; of no bytes, that of the envelope.
    pub fn wire_size(&self, bytes: &Bytes) -> u32 {
        let inner = match decode(bytes) {
            Ok((header, Payload::Coded(vector, body))) => {
                let own = || self.held.get(&number(body.get(LENGTH..)?)?).map(|inner| inner.packet.size);
                let own = if matches!(vector, Vector::Original(_)) { own() } else { None };
                own.or_else(|| self.longest.get(&header.label).copied())
            }
            _ => return (bytes.len() + ENVELOPE) as u32,
        };
        (bytes.len() - NUMBER + ENVELOPE) as u32 + inner.unwrap_or(0)
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}
