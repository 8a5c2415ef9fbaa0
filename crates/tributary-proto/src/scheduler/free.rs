//! Numbered segments that no subflow has taken yet.

use std::collections::VecDeque;

use tributary_types::DataSeq;

/// Ranges of segments, ascending. They do not touch, and none is empty.
#[derive(Debug, Default)]
pub(super) struct Free {
    ranges: VecDeque<Range>,
    len: u64,
}

/// Segments `low..high`.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: u64,
    high: u64,
}

impl Free {
    /// Adds the segments `first..end`, which follow all earlier ones.
    pub fn add(&mut self, first: DataSeq, end: DataSeq) {
        if first >= end {
            return;
        }
        self.len += end.0 - first.0;
        match self.ranges.back_mut() {
            Some(last) if last.high == first.0 => last.high = end.0,
            _ => self.ranges.push_back(Range { low: first.0, high: end.0 }),
        }
    }

    /// Number of segments.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The lowest segment.
    pub fn lowest(&self) -> Option<DataSeq> {
        self.ranges.front().map(|range| DataSeq(range.low))
    }

    /// Takes the segment that has `below` free segments below it, or the highest one if there are fewer.
    pub fn take(&mut self, below: u64) -> Option<DataSeq> {
        let mut below = below.min(self.len.checked_sub(1)?);
        let mut at = 0;
        while let Some(size) = self.ranges.get(at).map(|range| range.high - range.low).filter(|n| below >= *n)
        {
            below -= size;
            at += 1;
        }
        let Range { low, high } = *self.ranges.get(at)?;
        let taken = low + below;
        self.len -= 1;
        match (taken > low, taken + 1 < high) {
            (false, false) => drop(self.ranges.remove(at)),
            (false, true) => self.ranges[at].low += 1,
            (true, false) => self.ranges[at].high -= 1,
            (true, true) => {
                self.ranges[at].high = taken;
                self.ranges.insert(at + 1, Range { low: taken + 1, high });
            }
        }
        Some(DataSeq(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn takes_what_a_sorted_list_takes(
            operations in prop::collection::vec(prop_oneof![(1..40_u64).prop_map(Ok), (0..200_u64).prop_map(Err)], 1..200),
        ) {
            let (mut free, mut list, mut end) = (Free::default(), Vec::new(), 7);
            for operation in operations {
                match operation {
                    Ok(added) => {
                        free.add(DataSeq(end), DataSeq(end + added));
                        list.extend(end..end + added);
                        end += added;
                    }
                    Err(below) => {
                        let at = (below as usize).min(list.len().saturating_sub(1));
                        let expected = (!list.is_empty()).then(|| DataSeq(list.remove(at)));
                        prop_assert_eq!(free.take(below), expected);
                    }
                }
                prop_assert_eq!(free.len(), list.len() as u64);
                prop_assert_eq!(free.is_empty(), list.is_empty());
                prop_assert_eq!(free.lowest(), list.first().copied().map(DataSeq));
                prop_assert!(free.ranges.iter().all(|range| range.low < range.high));
            }
        }
    }
}
