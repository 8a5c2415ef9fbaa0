//! The records of a viewing's slots, first to last: all of them, or only the last ones of a viewing without end.

use std::collections::VecDeque;

use super::record::SlotRecord;

/// A slot's tiles and its lateness are used until the second slot after it is planned.
const LEAST: u32 = 4;

/// Records of consecutive slots. Slots before the first record have been forgotten.
#[derive(Debug)]
pub(super) struct Slots {
    /// Number of the first slot that has a record.
    first: u32,
    records: VecDeque<SlotRecord>,
    /// Number of records that are kept.
    kept: usize,
}

impl Slots {
    /// No slots yet; of those to come the last `kept` are kept, `None`: all.
    pub(super) fn new(kept: Option<u32>) -> Self {
        let kept = kept.map_or(usize::MAX, |kept| kept.max(LEAST) as usize);
        Self { first: 0, records: VecDeque::new(), kept }
    }

    /// Number of the first slot that is not forgotten.
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// Number of slots so far, with those forgotten: the number of the next slot.
    pub(super) fn next(&self) -> u32 {
        self.first + self.records.len() as u32
    }

    pub(super) fn get(&self, slot: u32) -> Option<&SlotRecord> {
        self.records.get(slot.checked_sub(self.first)? as usize)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut SlotRecord> {
        self.records.get_mut(slot.checked_sub(self.first)? as usize)
    }

    pub(super) fn last(&self) -> Option<&SlotRecord> {
        self.records.back()
    }

    /// Takes the last record, to put a newer one into its place.
    pub(super) fn pop(&mut self) -> Option<SlotRecord> {
        self.records.pop_back()
    }

    pub(super) fn push(&mut self, record: SlotRecord) {
        self.records.push_back(record);
        if self.records.len() > self.kept {
            self.records.pop_front();
            self.first += 1;
        }
    }

    /// The records that are kept.
    pub(super) fn to_vec(&self) -> Vec<SlotRecord> {
        self.records.iter().cloned().collect()
    }
}
