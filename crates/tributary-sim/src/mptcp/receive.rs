//! The connection's receiving half: one reassembly and one buffer for all subflows.
//!
//! The window is relative to the data acknowledgement and never shrinks (RFC 8684 §3.3.1). The buffer grows
//! as Linux's does (`mptcp_rcv_space_adjust`, dynamic right-sizing): with the bytes that the application
//! reads in a round trip.

use core::time::Duration;

use tributary_types::Instant;

use crate::receive_autotune;

/// Reassembly and window of one direction.
#[derive(Debug)]
pub(super) struct Receive {
    /// First byte that has not arrived in order.
    next: u64,
    /// Ranges that arrived above it, ascending and disjoint.
    ahead: Vec<(u64, u64)>,
    ahead_bytes: u64,
    read: u64,
    /// Present and largest buffer in bytes.
    buffer: u64,
    most: u64,
    /// First byte that the peer must not send.
    edge: u64,
    tuning: Option<Tuning>,
    mss: u64,
    pub held_most: u64,
    pub duplicates: u64,
}

/// The current round trip of right-sizing.
#[derive(Debug)]
struct Tuning {
    /// Bytes read in the last round trip.
    space: u64,
    since: Instant,
    read_then: u64,
}

impl Receive {
    /// Starts with `first` bytes and grows up to `most`.
    pub fn new(first: u64, most: u64, mss: u64) -> Self {
        let tuned = first < most;
        let tuning = tuned.then_some(Tuning { space: first / 2, since: Instant::ZERO, read_then: 0 });
        let buffer = first.min(most);
        Self {
            next: 0,
            ahead: Vec::new(),
            ahead_bytes: 0,
            read: 0,
            buffer,
            most,
            edge: buffer,
            tuning,
            mss,
            held_most: 0,
            duplicates: 0,
        }
    }

    /// The data acknowledgement.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes the peer may send from the data acknowledgement on.
    pub fn window(&self) -> u64 {
        self.edge - self.next
    }

    /// In-order bytes that have not been read.
    pub fn readable(&self) -> u64 {
        self.next - self.read
    }

    /// Bytes `from..to` arrived on a subflow. Returns whether the in-order end moved.
    pub fn insert(&mut self, from: u64, to: u64) -> bool {
        debug_assert!(to <= self.edge, "the peer keeps to the window");
        let before = self.next;
        let known = self.ahead_bytes;
        if from <= self.next {
            self.duplicates += to.min(before) - from;
            self.next = self.next.max(to);
            let passed = self.ahead.iter().take_while(|(start, _)| *start <= self.next).count();
            for (start, end) in self.ahead.drain(..passed) {
                self.ahead_bytes -= end - start;
                self.duplicates += end.min(to).saturating_sub(start);
                self.next = self.next.max(end);
            }
        } else {
            self.insert_ahead(from, to);
            self.duplicates += (to - from) - (self.ahead_bytes - known);
        }
        self.held_most = self.held_most.max(self.readable() + self.ahead_bytes);
        self.next > before
    }

    fn insert_ahead(&mut self, from: u64, to: u64) {
        let first = self.ahead.partition_point(|(_, end)| *end < from);
        let last = self.ahead.partition_point(|(start, _)| *start <= to);
        let touched = &self.ahead[first..last];
        let from = touched.first().map_or(from, |(start, _)| from.min(*start));
        let to = touched.last().map_or(to, |(_, end)| to.max(*end));
        let held: u64 = touched.iter().map(|(start, end)| end - start).sum();
        self.ahead_bytes += (to - from) - held;
        if first < last {
            self.ahead[first] = (from, to);
            self.ahead.drain(first + 1..last);
        } else {
            self.ahead.insert(first, (from, to));
        }
    }

    /// The application read `bytes`; `round_trip` is the longest of the subflows as the receiver measures it.
    pub fn read(&mut self, now: Instant, bytes: u64, round_trip: Duration) {
        self.read += bytes;
        self.tune(now, round_trip);
        self.edge = self.edge.max(self.read + self.buffer);
    }

    fn tune(&mut self, now: Instant, round_trip: Duration) {
        let Some(tuning) = &mut self.tuning else { return };
        if round_trip.is_zero() || now.saturating_since(tuning.since) < round_trip {
            return;
        }
        let copied = self.read - tuning.read_then;
        if copied > tuning.space {
            let wanted = receive_autotune::wanted(copied, tuning.space, self.mss);
            self.buffer = self.buffer.max(wanted.min(self.most));
            tuning.space = copied;
        }
        (tuning.since, tuning.read_then) = (now, self.read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tributary_types::Rng;

    #[test]
    fn agrees_with_a_bitmap_under_any_order_and_overlap() {
        let mut rng = Rng::new(3);
        for _ in 0..200 {
            let mut receive = Receive::new(2000, 2000, 10);
            let mut map = vec![false; 1000];
            let mut duplicates = 0;
            while receive.next() < 1000 {
                let from = rng.below(1000) as usize;
                let to = (from + 1 + rng.below(120) as usize).min(1000);
                duplicates += map[from..to].iter().filter(|b| **b).count() as u64;
                map[from..to].fill(true);
                receive.insert(from as u64, to as u64);
                let next = map.iter().position(|b| !b).unwrap_or(1000) as u64;
                assert_eq!(receive.next(), next);
                let held = map.iter().filter(|b| **b).count() as u64;
                assert_eq!(receive.readable() + receive.ahead_bytes, held);
                assert_eq!(receive.duplicates, duplicates);
            }
        }
    }

    #[test]
    fn the_window_grows_with_what_is_taken_and_is_never_taken_back() {
        let mut receive = Receive::new(1000, 100_000, 100);
        assert_eq!(receive.window(), 1000);
        receive.insert(0, 800);
        assert_eq!(receive.window(), 200, "unread bytes count");
        receive.read(Instant::from_millis(10), 800, Duration::from_millis(10));
        assert!(receive.window() > 2000, "{}", receive.window());
        let edge = receive.next() + receive.window();
        receive.insert(800, 2000);
        assert_eq!(receive.next() + receive.window(), edge);
        for step in 2..100_u64 {
            let bytes = receive.window();
            receive.insert(receive.next(), receive.next() + bytes);
            receive.read(Instant::from_millis(10 * step), receive.readable(), Duration::from_millis(10));
        }
        assert_eq!(receive.window(), 100_000);
    }
}
