//! The queue of future events: a heap of packed keys.
//!
//! Time, insertion number and target share one 128-bit integer, so that a comparison is one instruction, and
//! events with the same time are processed in the order in which they were scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tributary_types::Instant;

const TARGET_BITS: u32 = 24;
const NUMBER_BITS: u32 = 40;

/// Target of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Link(u32),
    Host(u32),
}

/// Most links, and most hosts, of a world.
pub(crate) const MOST_TARGETS: u32 = 1 << (TARGET_BITS - 1);

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<u128>>,
    number: u64,
}

impl EventQueue {
    pub fn push(&mut self, at: Instant, target: Target) {
        let (index, kind) = match target {
            Target::Link(index) => (index, 0),
            Target::Host(index) => (index, 1),
        };
        // The number is unique for 2^40 events, days of virtual time at a million events a second. The run's
        // event budget ends it earlier.
        self.number += 1;
        let low = (self.number & ((1 << NUMBER_BITS) - 1)) << TARGET_BITS | u64::from(index << 1 | kind);
        self.heap.push(Reverse(u128::from(at.as_nanos()) << 64 | u128::from(low)));
    }

    /// The next event no later than `until`.
    pub fn pop(&mut self, until: Instant) -> Option<(Instant, Target)> {
        let Reverse(key) = *self.heap.peek()?;
        let at = Instant::from_nanos((key >> 64) as u64);
        if at > until {
            return None;
        }
        self.heap.pop();
        let target = key as u32 & ((1 << TARGET_BITS) - 1);
        let index = target >> 1;
        Some((at, if target & 1 == 0 { Target::Link(index) } else { Target::Host(index) }))
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_ties_keep_their_order() {
        let mut queue = EventQueue::default();
        let at = Instant::from_millis;
        queue.push(at(2), Target::Host(1));
        queue.push(at(1), Target::Link(7));
        queue.push(at(2), Target::Link(0));
        queue.push(at(1), Target::Host(3));
        assert_eq!(queue.pop(at(9)), Some((at(1), Target::Link(7))));
        assert_eq!(queue.pop(at(1)), Some((at(1), Target::Host(3))));
        assert_eq!(queue.pop(at(1)), None);
        assert_eq!(queue.pop(at(9)), Some((at(2), Target::Host(1))));
        assert_eq!(queue.pop(at(9)), Some((at(2), Target::Link(0))));
        assert_eq!(queue.len(), 0);
    }
}
