//! The transmission window: numbered segments that no subflow has taken yet, as gaps from whose ends subflows
//! take segments (FBDT §3.1, here for any number of subflows).
//!
//! The most reliable subflow works forward from the head, the least reliable backward from the tail. The others
//! start in the middle of the largest gap. A subflow whose gap is used up moves to another one, so where the
//! cursors meet depends on the subflows' rates. Each segment is taken exactly once.

use tributary_types::{DataSeq, SubflowId};

/// Where a subflow takes segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Upwards from the head: the most reliable.
    Forward,
    /// Downwards from the tail: the least reliable.
    Backward,
    /// Upwards from the middle of the largest gap.
    Inside,
}

/// Segments `low..high` that no subflow has taken, and which subflow takes them from which end.
#[derive(Clone, Copy, Debug)]
struct Gap {
    low: u64,
    high: u64,
    upward: Option<SubflowId>,
    downward: Option<SubflowId>,
}

/// One loaded window.
#[derive(Debug)]
pub(super) struct TransmissionWindow {
    first: DataSeq,
    end: DataSeq,
    /// Ascending, not adjacent, none empty.
    gaps: Vec<Gap>,
}

impl TransmissionWindow {
    pub fn new(first: DataSeq, end: DataSeq) -> Self {
        let whole = Gap { low: first.0, high: end.0, upward: None, downward: None };
        let gaps = if first < end { vec![whole] } else { Vec::new() };
        Self { first, end, gaps }
    }

    pub fn first(&self) -> DataSeq {
        self.first
    }

    pub fn end(&self) -> DataSeq {
        self.end
    }

    /// The cursors have met: every segment was taken.
    pub fn met(&self) -> bool {
        self.gaps.is_empty()
    }

    /// Number of segments that no subflow has taken.
    #[cfg(test)]
    pub fn remaining(&self) -> u64 {
        self.gaps.iter().map(|gap| gap.high - gap.low).sum()
    }

    /// Takes the next segment for `subflow`, and assigns it a gap if it has none. The head always belongs
    /// to the forward subflow and the tail to the backward one.
    pub fn take(&mut self, subflow: SubflowId, role: Role) -> Option<DataSeq> {
        let owned = |gap: &Gap| gap.upward == Some(subflow) || gap.downward == Some(subflow);
        let last = self.gaps.len().checked_sub(1)?;
        let at = match role {
            Role::Forward => {
                if self.gaps[0].upward != Some(subflow) {
                    self.release(subflow);
                    self.gaps[0].upward = Some(subflow);
                }
                0
            }
            Role::Backward => {
                if self.gaps[last].downward != Some(subflow) {
                    self.release(subflow);
                    self.gaps[last].downward = Some(subflow);
                }
                last
            }
            Role::Inside => match self.gaps.iter().position(owned) {
                Some(at) => at,
                None => self.split_largest(subflow),
            },
        };
        let gap = &mut self.gaps[at];
        let taken = if role != Role::Backward && gap.upward == Some(subflow) {
            gap.low += 1;
            gap.low - 1
        } else {
            gap.high -= 1;
            gap.high
        };
        if gap.low == gap.high {
            self.gaps.remove(at);
        }
        Some(DataSeq(taken))
    }

    /// A subflow has ended: other subflows may take from the ends of gaps that it took from.
    pub fn release(&mut self, subflow: SubflowId) {
        for gap in &mut self.gaps {
            for end in [&mut gap.upward, &mut gap.downward] {
                if *end == Some(subflow) {
                    *end = None;
                }
            }
        }
    }

    /// Starts in the middle of the largest gap, going up; a gap of one segment goes to the first subflow that asks.
    fn split_largest(&mut self, subflow: SubflowId) -> usize {
        let sizes = self.gaps.iter().enumerate().map(|(at, gap)| (gap.high - gap.low, at));
        let (size, at) = sizes.max().expect("the caller saw a gap");
        let whole = self.gaps[at];
        let middle = whole.low + size / 2;
        if middle == whole.low {
            self.gaps[at].upward = Some(subflow);
            return at;
        }
        self.gaps[at] = Gap { high: middle, downward: None, ..whole };
        self.gaps.insert(at + 1, Gap { low: middle, upward: Some(subflow), ..whole });
        at + 1
    }
}

#[cfg(test)]
mod tests;
