//! What the client knows of the paths' capacity: bytes that arrived while something was outstanding.
//!
//! Time is cut into bins. A sample is the bytes of one GoP duration, scaled by the share of it in which
//! something was outstanding: while the server has nothing to send, silence says nothing of the paths. No
//! model of the future is made: the last seconds' samples are taken as equally likely. Deterministic.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::Instant;

/// Width of a bin.
const BIN: Duration = Duration::from_millis(20);
/// Bins between the beginnings of two samples.
const STEP: usize = 5;
/// GoP durations that are remembered.
const REMEMBERED: usize = 12;
/// Share of a sample that counts as busy at least: from a short burst no more than four times of what really
/// arrived is concluded.
const LEAST_BUSY: f64 = 0.25;

/// Measures capacity at the receiving end.
#[derive(Debug, Clone)]
pub struct CapacityMeter {
    bins_per_gop: usize,
    /// Of the last bins: bytes, and how long something was outstanding.
    bins: VecDeque<(u64, Duration)>,
    /// End of the last bin.
    until: Instant,
    /// Since when something is outstanding, or counted as such.
    busy_from: Option<Instant>,
}

impl CapacityMeter {
    /// A meter for GoPs of this duration that begins at `now`.
    #[must_use]
    pub fn new(gop: Duration, now: Instant) -> Self {
        let bins_per_gop = usize::try_from(gop.as_nanos() / BIN.as_nanos()).unwrap_or(1).clamp(1, 3000);
        Self { bins_per_gop, bins: VecDeque::new(), until: now, busy_from: None }
    }

    /// From `at` on, which may lie ahead, something is outstanding.
    pub fn expect(&mut self, now: Instant, at: Instant) {
        self.advance(now);
        if self.busy_from.is_none() {
            self.busy_from = Some(at.max(now));
        }
    }

    /// Nothing is outstanding any more.
    pub fn rest(&mut self, now: Instant) {
        self.advance(now);
        self.busy_from = None;
    }

    /// Bytes arrived.
    pub fn bytes(&mut self, now: Instant, count: usize) {
        self.advance(now);
        if let Some((bytes, _)) = self.bins.back_mut() {
            *bytes += count as u64;
        }
    }

    /// Bytes that one GoP duration carries, in samples of the last seconds; empty before anything is known.
    #[must_use]
    pub fn samples(&mut self, now: Instant) -> Vec<f64> {
        self.advance(now);
        let length = self.bins_per_gop;
        // The bin that is not over yet is left out.
        let bins: Vec<(u64, f64)> = self.bins.iter().map(|(b, busy)| (*b, busy.as_secs_f64())).collect();
        let Some(whole) = bins.len().checked_sub(1).map(|last| &bins[..last]) else { return Vec::new() };
        let sample = |window: &[(u64, f64)]| {
            let (bytes, busy) = window.iter().fold((0, 0.0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1));
            let share = busy / (length as f64 * BIN.as_secs_f64());
            (bytes > 0 || share >= LEAST_BUSY).then(|| bytes as f64 / share.clamp(LEAST_BUSY, 1.0))
        };
        // From the latest backwards, so that the newest sample is always a whole one.
        backwards(whole, length, STEP).filter_map(sample).collect()
    }

    /// Brings the bins up to `now`.
    fn advance(&mut self, now: Instant) {
        let most = self.bins_per_gop * REMEMBERED;
        // After a long sleep only what is remembered need be walked through.
        let behind = now.saturating_since(self.until);
        let longest = BIN * u32::try_from(most).unwrap_or(u32::MAX);
        if behind > longest {
            self.until = now - longest;
            self.bins.clear();
        }
        while self.until <= now || self.bins.is_empty() {
            self.settle(self.until);
            self.until += BIN;
            self.bins.push_back((0, Duration::ZERO));
            if self.bins.len() > most {
                self.bins.pop_front();
            }
        }
        self.settle(now);
    }

    /// Counts the busy time up to `at` into the last bin.
    fn settle(&mut self, at: Instant) {
        if let Some(from) = self.busy_from
            && at > from
        {
            if let Some((_, busy)) = self.bins.back_mut() {
                *busy = (*busy + at.saturating_since(from)).min(BIN);
            }
            self.busy_from = Some(at);
        }
    }
}

/// Windows of `length` items, the last one first.
fn backwards<T>(items: &[T], length: usize, step: usize) -> impl Iterator<Item = &[T]> + use<'_, T> {
    let count = items.len().checked_sub(length).map_or(0, |room| room / step + 1);
    (0..count).map(move |at| {
        let end = items.len() - at * step;
        &items[end - length..end]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOP: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(1000 + millis)
    }

    #[test]
    fn a_steady_rate_is_found_whether_or_not_the_server_has_enough_to_send() {
        for busy_ms in [1000, 400] {
            let mut meter = CapacityMeter::new(GOP, at(0));
            for gop in 0..4 {
                meter.expect(at(gop * 1000), at(gop * 1000));
                for step in 1..=busy_ms / 10 {
                    meter.bytes(at(gop * 1000 + step * 10), 10_000);
                }
                if busy_ms < 1000 {
                    meter.rest(at(gop * 1000 + busy_ms));
                }
            }
            let samples = meter.samples(at(4000));
            assert!(samples.len() > 20, "{}", samples.len());
            for sample in samples {
                assert!((sample - 1e6).abs() < 6e4, "{busy_ms} ms busy: {sample}");
            }
        }
    }

    #[test]
    fn a_burst_promises_four_times_what_it_brought() {
        let mut meter = CapacityMeter::new(GOP, at(0));
        for gop in 0..3 {
            meter.expect(at(gop * 1000), at(gop * 1000));
            meter.bytes(at(gop * 1000 + 5), 100_000);
            meter.rest(at(gop * 1000 + 5));
        }
        let samples = meter.samples(at(3000));
        assert!(samples.len() > 10 && samples.iter().all(|sample| *sample == 400_000.0), "{samples:?}");
    }

    #[test]
    fn an_outage_is_a_low_sample_and_silence_without_need_is_none() {
        let mut meter = CapacityMeter::new(GOP, at(0));
        meter.expect(at(0), at(0));
        for step in 1..=100 {
            meter.bytes(at(step * 10), 10_000);
        }
        // Two seconds of nothing while tiles are outstanding.
        let least = meter.samples(at(3000)).into_iter().fold(f64::INFINITY, f64::min);
        assert_eq!(least, 0.0);
        let mut idle = CapacityMeter::new(GOP, at(0));
        assert!(idle.samples(at(5000)).is_empty());
    }

    #[test]
    fn a_long_sleep_costs_no_time_and_forgets() {
        let mut meter = CapacityMeter::new(GOP, at(0));
        meter.expect(at(0), at(0));
        meter.bytes(at(500), 1_000_000);
        let much_later = Instant::from_millis(1 << 40);
        assert!(meter.samples(much_later).iter().all(|sample| *sample == 0.0));
        assert!(meter.bins.len() <= 12 * 50);
    }
}
