//! The buffer of a node: high-priority packets are sent first, low-priority ones are dropped first.

use bytes::Bytes;
use std::collections::VecDeque;

/// A waiting packet.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) label: u32,
    pub(super) bytes: Bytes,
}

/// Two bounded queues with a common limit.
#[derive(Debug)]
pub(super) struct Queue {
    high: VecDeque<Waiting>,
    low: VecDeque<Waiting>,
    limit: usize,
    bytes: usize,
}

impl Queue {
    pub(super) fn new(limit: usize) -> Self {
        Self { high: VecDeque::new(), low: VecDeque::new(), limit, bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.high.len() + self.low.len()
    }

    /// Bytes of the waiting packets.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a high-priority packet waits.
    pub(super) fn has_high(&self) -> bool {
        !self.high.is_empty()
    }

    /// Adds a packet. Returns the number of dropped ones: the new one, or the newest low-priority one.
    pub(super) fn push(&mut self, high: bool, packet: Waiting) -> u64 {
        // Algorithms 2 and 3, lines 1 to 12.
        let mut dropped = 0;
        if self.len() >= self.limit {
            dropped = 1;
            let newest = if high { self.low.pop_back() } else { None };
            let Some(newest) = newest else { return 1 };
            self.bytes -= newest.bytes.len();
        }
        self.bytes += packet.bytes.len();
        if high {
            self.high.push_back(packet)
        } else {
            self.low.push_back(packet)
        }
        dropped
    }

    /// The next packet that `may` be sent: a high-priority one, else a low-priority one if the link has spare
    /// time (`spare`). High-priority packets that may not be sent yet belong to later cohorts and do not
    /// block low-priority ones.
    pub(super) fn pop(&mut self, spare: bool, may: impl Fn(u32) -> bool) -> Option<(bool, Waiting)> {
        let ready = |queue: &VecDeque<Waiting>| queue.front().is_some_and(|front| may(front.label));
        let (high, packet) = if ready(&self.high) {
            (true, self.high.pop_front()?)
        } else if spare && ready(&self.low) {
            (false, self.low.pop_front()?)
        } else {
            return None;
        };
        self.bytes -= packet.bytes.len();
        Some((high, packet))
    }

    /// Drops packets for whose label `stays` is false. Returns their number.
    pub(super) fn retain(&mut self, stays: impl Fn(u32) -> bool) -> u64 {
        Self::keep(&mut self.high, &mut self.bytes, &stays) + self.retain_low(stays)
    }

    /// As [`retain`](Self::retain), for low-priority packets only.
    pub(super) fn retain_low(&mut self, stays: impl Fn(u32) -> bool) -> u64 {
        Self::keep(&mut self.low, &mut self.bytes, stays)
    }

    fn keep(queue: &mut VecDeque<Waiting>, bytes: &mut usize, stays: impl Fn(u32) -> bool) -> u64 {
        let before = queue.len();
        queue.retain(|packet| {
            let is_kept = stays(packet.label);
            *bytes -= if is_kept { 0 } else { packet.bytes.len() };
            is_kept
        });
        (before - queue.len()) as u64
    }
}
