//! Test content that contains its position: blocks of 64 KiB that begin with their number.
//!
//! The rest of the block is the same in all blocks. A full check is therefore one `memcmp` per block, and checking
//! only the numbers costs almost nothing at tens of Gbit/s. It does not protect against deliberate changes.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use tributary_types::Rng;

/// Bytes in a block.
pub(crate) const BLOCK: usize = 64 * 1024;
/// Number of blocks written at once.
const BATCH: usize = 16;
const STAMP: usize = 8;

/// Which part of the content a client checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Nothing.
    None,
    /// The number of every block: catches loss, duplication and reordering.
    #[default]
    Stamps,
    /// Every byte.
    Full,
}

fn filling() -> &'static [u8] {
    static FILLING: OnceLock<Vec<u8>> = OnceLock::new();
    FILLING.get_or_init(|| {
        let mut rng = Rng::new(0x7472_6962);
        (0..BLOCK / 8).flat_map(|_| rng.next_u64().to_be_bytes()).collect()
    })
}

/// Produces the pattern from its start.
pub(crate) struct Producer {
    batch: Vec<u8>,
    next_block: u64,
    sent: usize,
}

impl Producer {
    pub(crate) fn new() -> Self {
        let mut producer = Self { batch: filling().repeat(BATCH), next_block: 0, sent: 0 };
        producer.stamp();
        producer
    }

    fn stamp(&mut self) {
        for block in self.batch.chunks_exact_mut(BLOCK) {
            block[..STAMP].copy_from_slice(&self.next_block.to_be_bytes());
            self.next_block += 1;
        }
        self.sent = 0;
    }

    /// The bytes to send next; never empty.
    pub(crate) fn pending(&self) -> &[u8] {
        &self.batch[self.sent..]
    }

    /// Records that the first `count` pending bytes are sent.
    pub(crate) fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.batch.len() {
            self.stamp();
        }
    }
}

/// Checks arriving bytes against the pattern.
pub(crate) struct Checker {
    verify: Verify,
    place: u64,
    intact: bool,
}

impl Checker {
    pub(crate) fn new(verify: Verify) -> Self {
        Self { verify, place: 0, intact: true }
    }

    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        if self.verify == Verify::None {
            return;
        }
        while !bytes.is_empty() {
            let (block, within) = (self.place / BLOCK as u64, (self.place % BLOCK as u64) as usize);
            let (part, rest) = bytes.split_at(bytes.len().min(BLOCK - within));
            let stamp = block.to_be_bytes();
            let stamped = STAMP.saturating_sub(within).min(part.len());
            if stamped > 0 {
                self.intact &= part[..stamped] == stamp[within..within + stamped];
            }
            if self.verify == Verify::Full {
                self.intact &= part[stamped..] == filling()[within + stamped..within + part.len()];
            }
            self.place += part.len() as u64;
            bytes = rest;
        }
    }

    /// Whether all bytes so far were correct.
    pub(crate) fn intact(&self) -> bool {
        self.intact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn produced(length: usize) -> Vec<u8> {
        let mut producer = Producer::new();
        let mut out = Vec::new();
        while out.len() < length {
            let take = producer.pending().len().min(40_001).min(length - out.len());
            out.extend_from_slice(&producer.pending()[..take]);
            producer.advance(take);
        }
        out
    }

    #[test]
    fn any_cut_into_pieces_is_intact() {
        let bytes = produced(3 * BATCH * BLOCK + 17);
        for piece in [3, 7, 4099, BLOCK - 1, BLOCK, 1 << 20] {
            let mut checker = Checker::new(Verify::Full);
            bytes.chunks(piece).for_each(|p| checker.feed(p));
            assert!(checker.intact(), "pieces of {piece}");
        }
    }

    #[test]
    fn a_lost_byte_and_a_flipped_bit_are_detected() {
        let mut bytes = produced(4 * BLOCK);
        let mut checker = Checker::new(Verify::Stamps);
        checker.feed(&bytes[..100]);
        checker.feed(&bytes[101..]);
        assert!(!checker.intact());
        bytes[BLOCK + 999] ^= 1;
        let mut full = Checker::new(Verify::Full);
        full.feed(&bytes);
        assert!(!full.intact());
    }
}
