//! Counts the driver's receive blocks that are pinned by payload waiting for its reader.
//!
//! The session does not see blocks; the driver says when one begins. Streams whose reader has stopped pin at most half of
//! the blocks, so that the payload of those that are read need not be copied.

/// Blocks that may be pinned at most; payload that would pin another is copied. 24 MiB with blocks of 256 KiB.
pub(crate) const MOST_BLOCKS: usize = 96;
/// Bytes of receive window for each block that may be pinned, and the fewest blocks.
const WINDOW_PER_BLOCK: u64 = (40 << 20) / MOST_BLOCKS as u64;
const FEWEST_BLOCKS: usize = 2;

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
    /// The pinned blocks, ascending, and how many pieces of each are held.
    pinned: Vec<(u64, u32)>,
}

impl Default for Pins {
    fn default() -> Self {
        Self { limit: MOST_BLOCKS, block: 0, last: 0, pinned: Vec::new() }
    }
}

impl Pins {
    /// Sets the number of blocks that may be pinned. Blocks that are pinned already stay pinned.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The limit on pinned blocks, or the number of pinned blocks if that is higher.
    pub fn most(&self) -> usize {
        self.limit.max(self.pinned.len())
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

    /// Pins the present block for a piece; `None` if the piece must be copied. `read`: the reader of its stream keeps
    /// up.
    pub fn hold(&mut self, read: bool) -> Option<Pin> {
        let most = if read { self.limit } else { self.limit / 2 };
        // Input nearly always comes from the block that was pinned last.
        let at = match self.pinned.last() {
            Some(&(last, _)) if last < self.block => Err(self.pinned.len()),
            _ => self.pinned.binary_search_by_key(&self.block, |(block, _)| *block),
        };
        match at {
            Ok(at) => self.pinned[at].1 += 1,
            Err(_) if self.pinned.len() >= most => return None,
            Err(at) => self.pinned.insert(at, (self.block, 1)),
        }
        Some(Pin(self.block))
    }

    /// A piece is released.
    pub fn release(&mut self, pin: Pin) {
        let at = self.pinned.binary_search_by_key(&pin.0, |(block, _)| *block);
        let at = at.expect("a pinned block is counted until its last piece is released");
        self.pinned[at].1 -= 1;
        if self.pinned[at].1 == 0 {
            self.pinned.remove(at);
        }
    }

    /// Blocks pinned.
    #[cfg(test)]
    pub fn blocks(&self) -> usize {
        self.pinned.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_once_and_until_its_last_piece_is_gone() {
        let mut pins = Pins::default();
        let first = pins.begin();
        let mut held: Vec<_> = (0..2).map_while(|_| pins.hold(true)).collect();
        pins.begin();
        let other = pins.hold(true).expect("there is room");
        pins.go_on(first);
        held.extend(pins.hold(true));
        assert_eq!((held.len(), pins.blocks()), (3, 2));
        held.into_iter().for_each(|pin| pins.release(pin));
        assert_eq!(pins.blocks(), 1);
        pins.release(other);
        assert_eq!(pins.blocks(), 0);
    }

    fn in_new_block(pins: &mut Pins, read: bool) -> Option<Pin> {
        pins.begin();
        pins.hold(read)
    }

    #[test]
    fn streams_that_are_not_read_pin_half_of_the_blocks_and_the_others_the_rest() {
        let mut pins = Pins::default();
        let stalled: Vec<_> = (0..1000).map_while(|_| in_new_block(&mut pins, false)).collect();
        assert_eq!(stalled.len(), MOST_BLOCKS / 2);
        // However long they stay pinned, readers go on without a copy.
        for _ in 0..10_000 {
            let pin = in_new_block(&mut pins, true).expect("half of the blocks are left");
            pins.release(pin);
        }
        let readers: Vec<_> = (0..1000).map_while(|_| in_new_block(&mut pins, true)).collect();
        assert_eq!(readers.len(), MOST_BLOCKS - MOST_BLOCKS / 2);
        pins.go_on(1);
        assert!(pins.hold(false).is_some(), "the block is pinned already");
    }
}
