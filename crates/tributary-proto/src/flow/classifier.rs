//! What kind of traffic a flow carries, from the sizes and times of its datagrams.
//!
//! Bytes are counted in intervals of 100 ms.
//!
//! - *Sparse*: less than [`SPARSE`] in every one of the last ten intervals. Games, calls, DNS, acknowledgements of a slow transfer. A new flow
//!   is sparse until it has sent more, as in flow queueing (RFC 8290 §3.2), so its first packets never wait behind bulk.
//! - *Constant rate*: over [`STEADY`] intervals no interval has more than [`PEAK`] times the mean, none is empty, the newer half
//!   has at most 5/8 of the bytes, the mean is at most [`SHARE`] of the session's rate, and its queue has dropped and marked nothing meanwhile. Video and audio at a fixed rate.
//! - *Bulk*: the rest. A transfer with congestion control sends in bursts, grows, and fills the queue.

use core::time::Duration;

use tributary_types::{Bitrate, DataSize, Instant};

/// What kind of traffic a flow carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Little.
    Sparse,
    /// A steady rate that does not fill the paths.
    ConstantRate,
    /// As much as the paths carry.
    Bulk,
}

const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes in an interval up to which it is sparse: 512 kbit/s, five times a game with 60 datagrams of 200 bytes a second.
const SPARSE: u64 = 6400;
/// Intervals that are remembered, and those that show a constant rate.
const STEADY: usize = 10;
/// Highest part of the mean in an interval, and highest part of the session's rate (one in ...).
const PEAK: u64 = 3;
const SHARE: u64 = 4;

/// The recent traffic of one flow.
#[derive(Debug)]
pub struct Classifier {
    /// Bytes of the last intervals, the oldest overwritten next.
    intervals: [u64; STEADY],
    /// Complete intervals since the flow began or the queue last showed congestion, counted up to [`STEADY`].
    steady: usize,
    at: usize,
    /// The interval that is being counted.
    began: Instant,
    bytes: u64,
    traffic: Traffic,
}

impl Classifier {
    /// A new flow.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { intervals: [0; STEADY], steady: 0, at: 0, began: now, bytes: 0, traffic: Traffic::Sparse }
    }

    /// What the flow was at its last datagram.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// A datagram is about to be queued. `rate`: what all paths together deliver.
    pub fn observe(&mut self, now: Instant, bytes: usize, rate: Bitrate) -> Traffic {
        let mut over = now.saturating_since(self.began).as_nanos() / INTERVAL.as_nanos();
        if over > 0 {
            self.began = now;
            // After a pause every remembered interval is empty.
            over = over.min(STEADY as u128 + 1);
            for _ in 0..over {
                self.intervals[self.at] = core::mem::take(&mut self.bytes);
                self.at = (self.at + 1) % STEADY;
            }
            self.steady = (self.steady + over as usize).min(STEADY);
            self.traffic = self.judge(rate);
        }
        self.bytes += bytes as u64;
        if self.bytes > SPARSE && self.traffic == Traffic::Sparse {
            self.traffic = Traffic::Bulk;
        }
        self.traffic
    }

    /// The queue dropped or marked a datagram: the flow is not at a rate that the paths carry.
    pub fn met_congestion(&mut self) {
        self.steady = 0;
    }

    fn judge(&self, rate: Bitrate) -> Traffic {
        let most = self.intervals.iter().copied().max().unwrap_or_default();
        if most <= SPARSE {
            return Traffic::Sparse;
        }
        let mean = self.intervals.iter().sum::<u64>() / STEADY as u64;
        let steady = self.steady == STEADY && most <= PEAK * mean && !self.intervals.contains(&0);
        // A transfer that has just begun grows.
        let newest: u64 =
            (1..=STEADY / 2).map(|back| self.intervals[(self.at + STEADY - back) % STEADY]).sum();
        let grows = newest * 8 > mean * STEADY as u64 * 5;
        let fits = Bitrate::of(DataSize::from_bytes(mean), INTERVAL)
            .is_some_and(|mean| mean.as_bps() <= rate.as_bps() / SHARE);
        if steady && fits && !grows { Traffic::ConstantRate } else { Traffic::Bulk }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Bitrate = Bitrate::from_mbps(40);

    /// Sends `bytes` every `gap` microseconds for `ms` from `from`; what the flow was at each datagram.
    fn send(flow: &mut Classifier, from: u64, ms: u64, bytes: usize, gap: u64) -> Vec<Traffic> {
        let times = (from * 1000..(from + ms) * 1000).step_by(gap as usize);
        times.map(|us| flow.observe(Instant::ZERO + Duration::from_micros(us), bytes, RATE)).collect()
    }

    fn all(seen: &[Traffic], what: Traffic) -> bool {
        seen.iter().all(|traffic| *traffic == what)
    }

    #[test]
    fn a_game_is_sparse_from_its_first_datagram_and_stays_so() {
        let mut flow = Classifier::new(Instant::ZERO);
        let seen = send(&mut flow, 0, 20_000, 200, 16_667);
        assert!(all(&seen, Traffic::Sparse));
    }

    #[test]
    fn a_steady_video_is_constant_rate_after_a_second() {
        let mut flow = Classifier::new(Instant::ZERO);
        // 3 Mbit/s of 1316 bytes.
        assert!(!send(&mut flow, 0, 900, 1316, 3509).contains(&Traffic::ConstantRate));
        send(&mut flow, 900, 300, 1316, 3509);
        assert!(all(&send(&mut flow, 1200, 10_000, 1316, 3509), Traffic::ConstantRate));
    }

    #[test]
    fn a_transfer_is_bulk_after_its_first_packets_however_even_it_is() {
        let mut flow = Classifier::new(Instant::ZERO);
        // 30 of 40 Mbit/s.
        let seen = send(&mut flow, 0, 10_000, 1200, 320);
        assert!(all(&seen[..5], Traffic::Sparse) && all(&seen[6..], Traffic::Bulk));
        // After a pause it begins anew.
        assert_eq!(send(&mut flow, 12_000, 1, 1200, 2000), [Traffic::Sparse]);
    }

    #[test]
    fn a_transfer_that_grows_is_bulk_although_it_is_still_slow() {
        let mut flow = Classifier::new(Instant::ZERO);
        // Doubles every 400 ms, from 0.6 Mbit/s.
        for (ms, gap) in [(0, 16_000), (400, 8000), (800, 4000), (1200, 2000)] {
            let seen = send(&mut flow, ms, 400, 1200, gap);
            assert!(!seen.contains(&Traffic::ConstantRate), "{ms}");
        }
    }

    #[test]
    fn a_slow_transfer_that_meets_congestion_or_sends_in_bursts_is_bulk() {
        let mut flow = Classifier::new(Instant::ZERO);
        for ms in (0..10_000).step_by(500) {
            send(&mut flow, ms, 500, 1316, 3509);
            flow.met_congestion();
            assert_ne!(flow.traffic(), Traffic::ConstantRate, "{ms}");
        }
        let mut flow = Classifier::new(Instant::ZERO);
        for ms in (0..10_000).step_by(400) {
            let seen = send(&mut flow, ms, 50, 1316, 500);
            assert!(!seen.contains(&Traffic::ConstantRate), "{ms}");
        }
    }
}
