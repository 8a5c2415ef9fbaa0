//! A set of data sequence numbers: a cumulative number and the ranges above it. The receiver keeps which segments
//! have arrived in it, and which bytes of a flow of datagrams; the sender which segments are acknowledged.
//!
//! Adding a range takes time for what is new in it and for the ranges that it joins, not for what was there already, so
//! that a peer which repeats a long range costs nothing.

use std::collections::BTreeMap;

use tributary_types::DataSeq;

use crate::wire::MAX_AHEAD;
use crate::work::step;

/// Set of numbers.
#[derive(Debug, Default)]
pub(crate) struct NumberSet {
    next: u64,
    /// First number and one past the last, not adjacent, all above `next`.
    ranges: BTreeMap<u64, u64>,
}

impl NumberSet {
    /// The lowest number that is not in the set.
    pub fn next(&self) -> DataSeq {
        DataSeq(self.next)
    }

    /// Ranges above it, ascending, half-open.
    pub fn ranges(&self) -> impl Iterator<Item = (DataSeq, DataSeq)> + '_ {
        self.ranges.iter().map(|(&start, &end)| (DataSeq(start), DataSeq(end)))
    }

    /// Number of ranges above it.
    pub fn gaps(&self) -> usize {
        self.ranges.len()
    }

    /// Whether `seq` is near enough to be accepted; bounds the ranges held.
    pub fn allows(&self, seq: DataSeq) -> bool {
        seq.0 < self.next.saturating_add(MAX_AHEAD)
    }

    /// Whether `seq` is in the set.
    pub fn contains(&self, seq: DataSeq) -> bool {
        let below = self.ranges.range(..=seq.0).next_back();
        seq.0 < self.next || below.is_some_and(|(_, &end)| seq.0 < end)
    }

    /// Adds `seq`; false when it was there.
    pub fn insert(&mut self, seq: DataSeq) -> bool {
        let mut new = false;
        self.add(seq, seq.next(), |_, _| new = true);
        new
    }

    /// Adds `start..end`. Calls `each` with every part of it that was not in the set, in ascending order.
    pub fn add(&mut self, start: DataSeq, end: DataSeq, mut each: impl FnMut(DataSeq, DataSeq)) {
        let (start, end) = (start.0.max(self.next), end.0);
        if start >= end {
            return;
        }
        let (mut low, mut high, mut at) = (start, end, start);
        if let Some((&first, &last)) = self.ranges.range(..=start).next_back()
            && last >= start
        {
            (low, high, at) = (first, high.max(last), last);
        }
        // Joins the ranges that begin in the new one or directly behind it.
        while at <= end
            && let Some((&first, &last)) = self.ranges.range(at..=end).next()
            && first > low
        {
            step();
            if at < first {
                each(DataSeq(at), DataSeq(first));
            }
            self.ranges.remove(&first);
            (high, at) = (high.max(last), last);
        }
        if at < end {
            each(DataSeq(at), DataSeq(end));
        }
        if low > self.next {
            self.ranges.insert(low, high);
        } else {
            self.next = high;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::work::steps;

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_set(ranges in prop::collection::vec((0..200_u64, 0..9_u64), 0..200)) {
            let (mut set, mut plain) = (NumberSet::default(), BTreeSet::new());
            for (start, length) in ranges {
                prop_assert_eq!(set.contains(DataSeq(start)), plain.contains(&start));
                let mut new = Vec::new();
                set.add(DataSeq(start), DataSeq(start + length), |from, to| new.extend(from.0..to.0));
                let expected: Vec<u64> = (start..start + length).filter(|n| plain.insert(*n)).collect();
                prop_assert_eq!(new, expected);
                let next = (0..).find(|n| !plain.contains(n)).expect("the set is finite");
                prop_assert_eq!(set.next(), DataSeq(next));
                let above: Vec<u64> = set.ranges().flat_map(|(from, to)| from.0..to.0).collect();
                prop_assert_eq!(above, plain.range(next..).copied().collect::<Vec<_>>());
                let apart = set.ranges().zip(set.ranges().skip(1)).all(|(a, b)| a.1 < b.0);
                prop_assert!(apart && set.ranges().all(|(from, to)| from.0 > next && from < to));
            }
        }
    }

    #[test]
    fn a_range_that_is_known_takes_no_steps() {
        let mut set = NumberSet::default();
        (1..10_000).for_each(|n| assert!(set.insert(DataSeq(2 * n))));
        assert_eq!(steps(|| set.add(DataSeq(4), DataSeq(5), |_, _| ())), 0);
        assert!(steps(|| set.add(DataSeq(1), DataSeq(20_000), |_, _| ())) <= 10_000);
        assert_eq!(steps(|| set.add(DataSeq(1), DataSeq(20_000), |_, _| ())), 0);
    }
}
