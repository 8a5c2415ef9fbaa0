//! Counters of a link. At any time: offered = delivered + overflowed + managed + lost + dead + queued + in
//! flight.

use serde::Serialize;

/// Packets (segments of super-frames count one each) and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Segments.
    pub packets: u64,
    /// Bytes, headers included.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }

    pub(crate) fn remove(&mut self, packets: u64, bytes: u64) {
        self.packets -= packets;
        self.bytes -= bytes;
    }
}

/// The outcomes of everything pushed into a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkStats {
    /// Pushed into the link.
    pub offered: Count,
    /// Handed out by `poll`.
    pub delivered: Count,
    /// Dropped because the queue was full.
    pub overflowed: Count,
    /// Dropped by the queue's management (CoDel) although the queue had room.
    pub managed: Count,
    /// Dropped by the loss process.
    pub lost: Count,
    /// Dropped because the path was dead.
    pub dead: Count,
    /// Waiting or in service now.
    pub queued: Count,
    /// Transmitted and now in propagation.
    pub in_flight: Count,
    /// Number of times that the queue ran empty.
    pub emptied: u64,
}

impl LinkStats {
    /// Whether every offered packet is accounted for exactly once.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        let parts = [
            self.delivered,
            self.overflowed,
            self.managed,
            self.lost,
            self.dead,
            self.queued,
            self.in_flight,
        ];
        self.offered.packets == parts.iter().map(|c| c.packets).sum::<u64>()
            && self.offered.bytes == parts.iter().map(|c| c.bytes).sum::<u64>()
    }
}
