//! Disjoint ranges of numbers in ascending order, for data that arrived or was acknowledged out of order.
//! Usually few, and changed at either end; holds no bytes.

use std::collections::VecDeque;

/// Ranges `[from, to)`, merged where they touch.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet {
    ranges: VecDeque<(u64, u64)>,
}

impl RangeSet {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    pub fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }

    /// From the highest downwards.
    pub fn descending(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ranges.iter().rev().copied()
    }

    /// Adds `[from, to)`, calls `gap` for each part that was missing, in ascending order, and returns the
    /// merged range.
    pub fn insert(&mut self, from: u64, to: u64, mut gap: impl FnMut(u64, u64)) -> (u64, u64) {
        if from >= to {
            return (from, to);
        }
        // The usual case: at or beyond the end.
        let begin = match self.ranges.back() {
            Some(&(_, last)) if last < from => self.ranges.len(),
            None => 0,
            Some(_) => self.ranges.partition_point(|&(_, end)| end < from),
        };
        let (mut low, mut high, mut at) = (from, to, from);
        let mut end = begin;
        while let Some(&(other_from, other_to)) = self.ranges.get(end) {
            if other_from > to {
                break;
            }
            if at < other_from {
                gap(at, other_from.min(to));
            }
            at = at.max(other_to);
            low = low.min(other_from);
            high = high.max(other_to);
            end += 1;
        }
        if at < to {
            gap(at, to);
        }
        if begin == end {
            self.ranges.insert(begin, (low, high));
        } else {
            self.ranges[begin] = (low, high);
            self.ranges.drain(begin + 1..end);
        }
        (low, high)
    }

    /// Removes everything below `limit`.
    pub fn remove_below(&mut self, limit: u64) {
        while let Some((from, to)) = self.ranges.front_mut() {
            if *to > limit {
                *from = limit.max(*from);
                return;
            }
            self.ranges.pop_front();
        }
    }

    /// Removes everything from `limit` on; returns how many numbers that were.
    pub fn remove_from(&mut self, limit: u64) -> u64 {
        let mut removed = 0;
        while let Some((from, to)) = self.ranges.back_mut().filter(|(_, to)| *to > limit) {
            removed += *to - limit.max(*from);
            *to = limit;
            if *from < limit {
                break;
            }
            self.ranges.pop_back();
        }
        removed
    }

    pub fn contains_range(&self, from: u64, to: u64) -> bool {
        let at = self.ranges.partition_point(|&(_, end)| end < to);
        self.ranges.get(at).is_some_and(|&(begin, end)| begin <= from && to <= end)
    }

    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with a set of numbers.
        #[test]
        fn ranges_agree_with_a_bitmap(steps in prop::collection::vec((0_u64..60, 0_u64..12, 0_u64..4), 1..40)) {
            let mut set = RangeSet::default();
            let mut map = [false; 80];
            for (from, length, cut) in steps {
                let to = from + length;
                let mut fresh = Vec::new();
                let (low, high) = set.insert(from, to, |a, b| fresh.extend(a..b));
                let expected: Vec<u64> = (from..to).filter(|n| !map[*n as usize]).collect();
                prop_assert_eq!(fresh, expected);
                map[from as usize..to as usize].fill(true);
                prop_assert!(low <= from && to <= high);
                prop_assert!((low..high).all(|n| map[n as usize]));
                if cut == 0 {
                    set.remove_below(from / 2);
                    map[..(from / 2) as usize].fill(false);
                }
                if cut == 1 {
                    let above = map[to as usize..].iter().filter(|held| **held).count() as u64;
                    prop_assert_eq!(set.remove_from(to), above);
                    map[to as usize..].fill(false);
                }
                let held: Vec<u64> = set.ranges.iter().flat_map(|&(a, b)| a..b).collect();
                let expected: Vec<u64> = (0..80).filter(|n| map[*n as usize]).collect();
                prop_assert_eq!(held, expected);
                prop_assert!(set.ranges.iter().zip(set.ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0));
                prop_assert_eq!(set.contains_range(20, 24), map[20..24].iter().all(|held| *held));
            }
        }
    }
}
