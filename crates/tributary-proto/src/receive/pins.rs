//! Counts the driver's receive blocks that are pinned by payload waiting for its reader.
//!
//! The session does not see blocks; the driver says when one begins.

use std::collections::VecDeque;

/// Blocks that may be pinned at most; payload that would pin another is copied. 24 MiB with blocks of 256 KiB.
pub(crate) const MOST_BLOCKS: usize = 96;
/// Bytes of receive window for each block that may be pinned, and the fewest blocks.
const WINDOW_PER_BLOCK: u64 = (40 << 20) / MOST_BLOCKS as u64;
const FEWEST_BLOCKS: usize = 2;
/// Most blocks between the oldest pinned one and the present one; bounds the memory of the counts.
const SPAN: usize = 4096;

/// The number of a block that a piece pins.
#[derive(Debug)]
#[must_use = "dropped, the block counts as pinned for ever"]
pub(crate) struct Pin(u64);

/// Number of blocks that may be pinned when the receive window has so many bytes.
#[must_use]
pub fn blocks_for(window: u64) -> usize {
    usize::try_from(window / WINDOW_PER_BLOCK).unwrap_or(MOST_BLOCKS).clamp(FEWEST_BLOCKS, MOST_BLOCKS)
}

/// Pieces held, by block.
#[derive(Debug)]
pub(crate) struct Pins {
    /// Blocks that may be pinned.
    limit: usize,
    /// Number of the block that input comes from now.
    block: u64,
    /// Number of the block that began last.
    last: u64,
    /// Pieces of each block.
    pieces: VecDeque<u32>,
    /// Number of the first entry.
    first: u64,
    /// Blocks of which pieces are held.
    blocks: usize,
}

impl Default for Pins {
    fn default() -> Self {
        let pieces = VecDeque::new();
        Self { limit: MOST_BLOCKS, block: 0, last: 0, pieces, first: 0, blocks: 0 }
    }
}

impl Pins {
    /// Sets the number of blocks that may be pinned. Blocks that are pinned already stay pinned.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The limit on pinned blocks, or the number of pinned blocks if that is higher.
    pub fn most(&self) -> usize {
        self.limit.max(self.blocks)
    }

    /// A new block begins; returns its number.
    pub fn begin(&mut self) -> u64 {
        self.last += 1;
        self.block = self.last;
        self.block
    }

    /// Input continues with a block that began before.
    pub fn go_on(&mut self, block: u64) {
        self.block = block;
    }

    /// Pins the present block for a piece; `None` if the piece must be copied.
    pub fn hold(&mut self) -> Option<Pin> {
        if self.pieces.is_empty() {
            self.first = self.block;
        }
        // Older than every pinned block.
        let at = usize::try_from(self.block.checked_sub(self.first)?).ok()?;
        if at >= SPAN {
            return None;
        }
        let known = self.pieces.get(at).is_some_and(|&pieces| pieces > 0);
        if !known && self.blocks >= self.limit {
            return None;
        }
        if self.pieces.len() <= at {
            self.pieces.resize(at + 1, 0);
        }
        self.blocks += usize::from(!known);
        self.pieces[at] += 1;
        Some(Pin(self.block))
    }

    /// A piece is released.
    pub fn release(&mut self, pin: Pin) {
        let at = (pin.0 - self.first) as usize;
        self.pieces[at] -= 1;
        self.blocks -= usize::from(self.pieces[at] == 0);
        while self.pieces.front() == Some(&0) {
            self.pieces.pop_front();
            self.first += 1;
        }
    }

    /// Blocks pinned.
    #[cfg(test)]
    pub fn blocks(&self) -> usize {
        self.blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_once_and_until_its_last_piece_is_gone() {
        let mut pins = Pins::default();
        let first = pins.begin();
        let mut held: Vec<_> = (0..2).map_while(|_| pins.hold()).collect();
        pins.begin();
        let other = pins.hold().expect("there is room");
        pins.go_on(first);
        held.extend(pins.hold());
        assert_eq!((held.len(), pins.blocks()), (3, 2));
        held.into_iter().for_each(|pin| pins.release(pin));
        assert_eq!(pins.blocks(), 1);
        pins.release(other);
        assert_eq!((pins.blocks(), pins.pieces.len()), (0, 0));
    }

    #[test]
    fn blocks_and_their_span_are_bounded() {
        let mut pins = Pins::default();
        let blocks = |pins: &mut Pins| {
            pins.begin();
            pins.hold()
        };
        let mut held: VecDeque<_> = (0..1000).map_while(|_| blocks(&mut pins)).collect();
        assert_eq!(held.len(), MOST_BLOCKS);
        // All pieces but the oldest are released, and new blocks begin again and again.
        let oldest = held.pop_front().expect("it is there");
        held.into_iter().for_each(|pin| pins.release(pin));
        let far = (0..2 * SPAN).filter_map(|_| blocks(&mut pins).map(|pin| pins.release(pin))).count();
        // The oldest block is the first of 96, and the block after these 96 was refused.
        assert_eq!(far, SPAN - MOST_BLOCKS - 1);
        assert!(pins.pieces.len() <= SPAN);
        pins.release(oldest);
        let newest = blocks(&mut pins);
        assert!(newest.is_some());
        pins.go_on(1);
        assert!(pins.hold().is_none(), "the block is older than the counts reach");
    }
}
