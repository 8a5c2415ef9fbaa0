//! Which data sequence numbers have arrived: a cumulative number and the ranges above it.

use tributary_types::DataSeq;

use crate::wire::MAX_AHEAD;

/// Set of arrived numbers.
#[derive(Debug, Default)]
pub(crate) struct ArrivedNumbers {
    next: u64,
    /// Half-open, ascending, not adjacent, all above `next`.
    ranges: Vec<(u64, u64)>,
}

impl ArrivedNumbers {
    /// The lowest number that has not arrived.
    pub fn next(&self) -> DataSeq {
        DataSeq(self.next)
    }

    /// Ranges above it.
    pub fn ranges(&self) -> impl Iterator<Item = (DataSeq, DataSeq)> + '_ {
        self.ranges.iter().map(|&(start, end)| (DataSeq(start), DataSeq(end)))
    }

    /// Whether `seq` is near enough to be accepted; bounds the ranges held.
    pub fn allows(&self, seq: DataSeq) -> bool {
        seq.0 < self.next.saturating_add(MAX_AHEAD)
    }

    /// Whether `seq` has arrived.
    pub fn contains(&self, seq: DataSeq) -> bool {
        let seq = seq.0;
        let at = self.ranges.partition_point(|&(_, end)| end <= seq);
        seq < self.next || self.ranges.get(at).is_some_and(|&(start, _)| start <= seq)
    }

    /// Adds `seq`; false when it was there.
    pub fn insert(&mut self, seq: DataSeq) -> bool {
        let seq = seq.0;
        if seq < self.next {
            return false;
        }
        let at = self.ranges.partition_point(|&(_, end)| end < seq);
        match self.ranges.get_mut(at) {
            Some((start, end)) if (*start..*end).contains(&seq) => return false,
            Some((_, end)) if *end == seq => *end += 1,
            Some((start, _)) if *start == seq + 1 => *start -= 1,
            _ => self.ranges.insert(at, (seq, seq + 1)),
        }
        if let (Some(&(_, end)), Some(&(start, after))) = (self.ranges.get(at), self.ranges.get(at + 1))
            && end == start
        {
            self.ranges[at].1 = after;
            self.ranges.remove(at + 1);
        }
        if let Some(&(start, end)) = self.ranges.first()
            && start == self.next
        {
            self.next = end;
            self.ranges.remove(0);
        }
        true
    }
}
