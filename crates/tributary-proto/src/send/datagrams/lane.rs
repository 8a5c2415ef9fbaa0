//! One lane of a flow's queue: datagrams in the order in which they are sent.
//!
//! They are copied, behind their lengths, into blocks from which segments are cut without another copy.

use core::time::Duration;
use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use tributary_types::Instant;

use crate::wire::{Ecn, MAX_PREFIX, encode_prefix};
use crate::work::step;

/// A segment holds datagrams of about this many bytes at most, or a single longer one: on a slow path a segment is delivered when all
/// of it has arrived (8 KiB take 3 ms at 20 Mbit/s).
const SEGMENT: usize = 8 << 10;
/// Datagrams of one segment have deadlines that differ by less than this, because they are dropped together.
const TOGETHER: Duration = Duration::from_millis(5);
/// Blocks grow with the queue, bytes.
const BLOCK: (usize, usize) = (2 << 10, 64 << 10);

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Bytes with the length in front.
    bytes: usize,
    deadline: Instant,
}

/// The datagrams.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// No datagram is in two blocks.
    blocks: VecDeque<BytesMut>,
    entries: VecDeque<Entry>,
    bytes: usize,
}

impl Lane {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all datagrams, with their lengths.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the first datagram, with its length; 0 if there is none.
    pub fn first(&self) -> usize {
        self.entries.front().map_or(0, |entry| entry.bytes)
    }

    /// When the first datagram's deadline is.
    pub fn expires(&self) -> Option<Instant> {
        self.entries.front().map(|entry| entry.deadline)
    }

    /// Adds a datagram; returns its bytes, with its length.
    pub fn push(&mut self, (datagram, ecn): (&[u8], Ecn), deadline: Instant) -> usize {
        let most = datagram.len() + MAX_PREFIX;
        let fits = |block: &BytesMut| block.capacity() - block.len() >= most;
        if !self.blocks.back().is_some_and(fits) {
            if self.blocks.back().is_some_and(BytesMut::is_empty) {
                self.blocks.pop_back();
            }
            let block = (2 * self.bytes).clamp(BLOCK.0, BLOCK.1).max(most);
            self.blocks.push_back(BytesMut::with_capacity(block));
        }
        let block = self.blocks.back_mut().expect("one was just added");
        let before = block.len();
        encode_prefix(datagram.len(), ecn, |prefix| block.extend_from_slice(prefix));
        block.extend_from_slice(datagram);
        let bytes = block.len() - before;
        self.entries.push_back(Entry { bytes, deadline });
        self.bytes += bytes;
        bytes
    }

    /// Takes the first datagrams for a segment, at most `most` bytes unless the first one is longer. Returns them, the
    /// earliest deadline, and their number.
    pub fn take(&mut self, most: usize) -> Option<(Bytes, Instant, u64)> {
        let first = *self.entries.front()?;
        let block = self.blocks.front().map_or(0, BytesMut::len);
        let (mut bytes, mut deadline, mut count) = (0, first.deadline, 0);
        while let Some(entry) = self.entries.front()
            && (bytes == 0 || bytes + entry.bytes <= most.min(SEGMENT).min(block))
            && entry.deadline < first.deadline + TOGETHER
            && first.deadline < entry.deadline + TOGETHER
        {
            step();
            bytes += entry.bytes;
            deadline = deadline.min(entry.deadline);
            count += 1;
            self.entries.pop_front();
        }
        let segment =
            self.blocks.front_mut().expect("a queued datagram is in a block").split_to(bytes).freeze();
        self.removed(bytes);
        Some((segment, deadline, count))
    }

    /// Drops the first datagram; returns its bytes, 0 if there is none.
    pub fn drop_first(&mut self) -> usize {
        let Some(Entry { bytes, .. }) = self.entries.pop_front() else { return 0 };
        self.blocks.front_mut().expect("a queued datagram is in a block").advance(bytes);
        self.removed(bytes);
        bytes
    }

    /// Drops the first datagrams whose deadline has passed. Returns their number and bytes.
    pub fn expire(&mut self, now: Instant) -> (u32, usize) {
        let (mut count, mut bytes) = (0, 0);
        while self.entries.front().is_some_and(|entry| entry.deadline <= now) {
            step();
            count += 1;
            bytes += self.drop_first();
        }
        (count, bytes)
    }

    /// Bytes have left the first block.
    fn removed(&mut self, bytes: usize) {
        self.bytes -= bytes;
        if self.blocks.len() > 1 && self.blocks.front().is_some_and(BytesMut::is_empty) {
            self.blocks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::next_datagram;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// The first byte of each datagram of a segment.
    fn contents((mut segment, ..): (Bytes, Instant, u64)) -> Vec<u8> {
        std::iter::from_fn(|| next_datagram(&mut segment)).map(|(datagram, _)| datagram[0]).collect()
    }

    #[test]
    fn a_segment_holds_whole_datagrams_up_to_a_limit_or_one_that_is_longer() {
        let mut queue = Lane::default();
        for n in 0..20 {
            queue.push((&[n; 1200], Ecn::NotCapable), at(100));
        }
        queue.push((&[20; 60_000], Ecn::NotCapable), at(100));
        let (mut seen, mut count) = (Vec::new(), 0);
        while let Some(taken) = queue.take(1 << 16) {
            count += taken.2;
            assert!(taken.0.len() <= SEGMENT || taken.0.len() > 60_000);
            seen.extend(contents(taken));
        }
        assert!(seen.iter().copied().eq(0..=20));
        assert_eq!((queue.bytes, queue.first(), count), (0, 0, 21));
    }

    #[test]
    fn datagrams_with_other_deadlines_are_in_other_segments_and_late_ones_in_none() {
        let mut queue = Lane::default();
        for (n, deadline) in [(0, 50), (1, 100), (2, 104), (3, 105), (4, 101)] {
            queue.push((&[n; 100], Ecn::NotCapable), at(deadline));
        }
        assert_eq!(queue.expire(at(50)), (1, 102));
        let taken = queue.take(1 << 16).unwrap();
        assert_eq!(taken.1, at(100));
        assert_eq!(contents(taken), [1, 2]);
        let taken = queue.take(1 << 16).unwrap();
        assert_eq!((taken.1, contents(taken)), (at(101), vec![3, 4]));
        assert_eq!(queue.expire(at(1000)), (0, 0));
        // An expired datagram does not take the one before it, with a later deadline, along.
        for (n, deadline) in [(5, 60_000), (6, 1000)] {
            queue.push((&[n; 100], Ecn::NotCapable), at(deadline));
        }
        let taken = queue.take(1 << 16).unwrap();
        assert_eq!((taken.1, contents(taken)), (at(60_000), vec![5]));
    }

    #[test]
    fn few_blocks_are_made_for_many_datagrams() {
        let mut queue = Lane::default();
        for n in 0..1000_u32 {
            queue.push((&[n as u8; 1200], Ecn::NotCapable), at(100));
        }
        assert!(queue.blocks.len() <= 30, "{} blocks for 1000 datagrams", queue.blocks.len());
        assert_eq!(queue.drop_first(), 1202);
        while queue.drop_first() > 0 {}
        assert!(queue.take(1).is_none() && queue.is_empty() && queue.bytes() == 0);
    }
}
