//! The client's estimate of the paths' capacity, from arriving bytes.
//!
//! [`CapacityMeter`] samples the bytes that arrived in each time window while data was outstanding, for planners
//! that need a distribution. [`TransferRates`] keeps the rates of the last complete transfers, for rules that need one
//! number. Both are deterministic.

mod transfers;

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::Instant;

pub use transfers::TransferRates;

/// Width of a bin.
const BIN: Duration = Duration::from_millis(20);
/// Bins between the starts of two samples.
const STEP: usize = 5;
/// Number of windows kept.
const REMEMBERED: usize = 12;
/// Number of bins before a sample whose rate is compared with the present rate.
const RATE_BINS: usize = 15;
/// With fewer than twice this number of comparable samples, all are returned.
const FEW: usize = 20;
/// Lower limit of a sample's busy share. Example: a burst that fills a tenth of a window counts as if it had
/// taken a quarter of it, so the sample is at most four times the bytes that arrived.
const LEAST_BUSY: f64 = 0.25;

/// Measures capacity at the receiving end.
///
/// Time is divided into bins of 20 ms, each with its bytes and the time in which data was outstanding. A sample is the
/// bytes of a window divided by its busy share, because silence says nothing about the paths while the server has
/// nothing to send. Of the last samples, the half that followed a rate most similar to the present one is returned: a
/// path that is blocked now will probably stay blocked for a while.
#[derive(Debug, Clone)]
pub struct CapacityMeter {
    bins_per_window: usize,
    /// The last bins: bytes, and the time for which data was outstanding.
    bins: VecDeque<(u64, Duration)>,
    /// End of the last bin.
    until: Instant,
    /// Time from which data is outstanding; may be in the future.
    busy_from: Option<Instant>,
}

impl CapacityMeter {
    /// A meter that starts at `now` and keeps twelve windows. `window` is the longest time in later queries, for
    /// example a GoP or a media segment.
    #[must_use]
    pub fn new(window: Duration, now: Instant) -> Self {
        let bins_per_window = usize::try_from(window.as_nanos() / BIN.as_nanos()).unwrap_or(1).clamp(1, 3000);
        Self { bins_per_window, bins: VecDeque::new(), until: now, busy_from: None }
    }

    /// The meter at `now` of all of these together, such as those of the viewers who share a radio: the bytes of each bin are
    /// added, and data was outstanding when it was for any of them. Bins that end within 20 ms of each other count as one.
    #[must_use]
    pub fn joined<'a>(now: Instant, meters: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let present = meters.into_iter().map(|meter| {
            let mut meter = meter.clone();
            meter.advance(now);
            meter
        });
        present.reduce(|mut all, meter| {
            for _ in all.bins.len()..meter.bins.len() {
                all.bins.push_front((0, Duration::ZERO));
            }
            for (sum, bin) in all.bins.iter_mut().rev().zip(meter.bins.iter().rev()) {
                *sum = (sum.0 + bin.0, sum.1.max(bin.1));
            }
            all
        })
    }

    /// Data is outstanding from `at` on, which may be in the future. Example: the answer to a request sent
    /// now begins to arrive after one round trip.
    pub fn expect(&mut self, now: Instant, at: Instant) {
        self.advance(now);
        if self.busy_from.is_none() {
            self.busy_from = Some(at.max(now));
        }
    }

    /// From `now` on, no data is outstanding.
    pub fn rest(&mut self, now: Instant) {
        self.advance(now);
        self.busy_from = None;
    }

    /// Whether data is outstanding, or will be.
    #[must_use]
    pub fn is_expecting(&self) -> bool {
        self.busy_from.is_some()
    }

    /// Bytes arrived.
    pub fn bytes(&mut self, now: Instant, count: usize) {
        self.advance(now);
        if let Some((bytes, _)) = self.bins.back_mut() {
            *bytes += count as u64;
        }
    }

    /// Samples of the bytes that arrive within a time of this length, all equally likely; empty before any arrival.
    #[must_use]
    pub fn samples(&mut self, now: Instant, within: Duration) -> Vec<f64> {
        self.advance(now);
        let bins = (within.as_nanos() / BIN.as_nanos()) as usize;
        let length = bins.clamp(STEP, self.bins_per_window.max(STEP));
        let scale = within.as_secs_f64() / (length as f64 * BIN.as_secs_f64());
        // Without the bin that is not complete.
        let bins: Vec<(u64, f64)> = self.bins.iter().map(|(b, busy)| (*b, busy.as_secs_f64())).collect();
        let Some(whole) = bins.len().checked_sub(1).map(|last| &bins[..last]) else { return Vec::new() };
        let now_rate = whole.len().checked_sub(RATE_BINS).and_then(|from| rate(&whole[from..]));
        let sample = |from: usize| {
            let bytes = scale * rate(&whole[from..from + length])? * length as f64;
            let before = from.checked_sub(RATE_BINS).and_then(|before| rate(&whole[before..from]));
            Some((before, bytes))
        };
        // From the latest sample backwards, so the newest sample is always complete.
        let count = whole.len().checked_sub(length).map_or(0, |room| room / STEP + 1);
        let samples = (0..count).filter_map(|at| sample(whole.len() - length - at * STEP)).collect();
        like(samples, now_rate)
    }

    /// Adds bins up to `now`.
    fn advance(&mut self, now: Instant) {
        let most = self.bins_per_window * REMEMBERED;
        // After a long gap, only the bins that are kept are added.
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

    /// Adds the busy time up to `at` to the last bin.
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

/// Mean bytes per bin in which data was outstanding; `None` if that was almost never the case.
fn rate(bins: &[(u64, f64)]) -> Option<f64> {
    let (bytes, busy) = bins.iter().fold((0, 0.0), |sum, bin| (sum.0 + bin.0, sum.1 + bin.1));
    let share = busy / (bins.len() as f64 * BIN.as_secs_f64());
    let known = bytes > 0 || share >= LEAST_BUSY;
    known.then(|| bytes as f64 / share.clamp(LEAST_BUSY, 1.0) / bins.len() as f64)
}

/// The half of the samples whose preceding rate is nearest to `now`; all of them if there are few.
fn like(samples: Vec<(Option<f64>, f64)>, now: Option<f64>) -> Vec<f64> {
    let far = |now: f64| samples.iter().filter_map(move |(before, bytes)| Some(((*before)? - now, *bytes)));
    let mut known: Vec<(f64, f64)> = now.map(|now| far(now).collect()).unwrap_or_default();
    if known.len() < 2 * FEW {
        return samples.into_iter().map(|(_, bytes)| bytes).collect();
    }
    known.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    known.truncate(known.len() / 2);
    known.into_iter().map(|(_, bytes)| bytes).collect()
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
            let samples = meter.samples(at(4000), GOP);
            assert!(samples.len() > 20, "{}", samples.len());
            for sample in samples {
                assert!((sample - 1e6).abs() < 6e4, "{busy_ms} ms busy: {sample}");
            }
        }
    }

    #[test]
    fn the_joined_meter_of_several_receivers_measures_what_they_share() {
        // Together a steady rate. The second one is idle in three quarters of each GoP, and the first one is then faster.
        let mut meters = [0, 7].map(|from| CapacityMeter::new(GOP, at(from)));
        for gop in 0..4 {
            let [first, second] = &mut meters;
            first.expect(at(gop * 1000 + 10), at(gop * 1000 + 10));
            second.expect(at(gop * 1000 + 10), at(gop * 1000 + 10));
            for step in 1..=100 {
                let now = at(gop * 1000 + step * 10);
                first.bytes(now, if step <= 25 { 5_000 } else { 10_000 });
                if step <= 25 {
                    second.bytes(now, 5_000);
                } else {
                    second.rest(now);
                }
            }
        }
        let mut joined = CapacityMeter::joined(at(4000), &meters).unwrap();
        let samples = joined.samples(at(4000), GOP);
        assert!(samples.len() > 20 && samples.iter().all(|sample| (sample - 1e6).abs() < 6e4), "{samples:?}");
        // Their own samples together promise more, because each assumes that it would have had its rate all the time.
        let mean = |meter: &mut CapacityMeter| {
            let samples = meter.samples(at(4000), GOP);
            samples.iter().sum::<f64>() / samples.len() as f64
        };
        assert!(meters.iter_mut().map(mean).sum::<f64>() > 1.2e6);
        let one = CapacityMeter::joined(at(4000), &meters[..1]).unwrap().samples(at(4000), GOP);
        assert_eq!(one, meters[0].samples(at(4000), GOP));
        assert!(CapacityMeter::joined(at(0), []).is_none());
    }

    #[test]
    fn a_burst_counts_for_at_most_four_times_its_bytes() {
        let mut meter = CapacityMeter::new(GOP, at(0));
        for gop in 0..3 {
            meter.expect(at(gop * 1000), at(gop * 1000));
            meter.bytes(at(gop * 1000 + 5), 100_000);
            meter.rest(at(gop * 1000 + 5));
        }
        let samples = meter.samples(at(3000), GOP);
        assert!(samples.len() > 10 && samples.iter().all(|sample| *sample == 400_000.0), "{samples:?}");
    }

    #[test]
    fn an_outage_is_a_low_sample_and_idle_time_gives_no_sample() {
        let mut meter = CapacityMeter::new(GOP, at(0));
        meter.expect(at(0), at(0));
        for step in 1..=100 {
            meter.bytes(at(step * 10), 10_000);
        }
        // Two seconds without bytes while tiles are outstanding.
        let least = meter.samples(at(3000), GOP).into_iter().fold(f64::INFINITY, f64::min);
        assert_eq!(least, 0.0);
        let mut idle = CapacityMeter::new(GOP, at(0));
        assert!(idle.samples(at(5000), GOP).is_empty());
    }

    #[test]
    fn samples_after_a_rate_like_the_present_one_are_preferred() {
        // One fast second, one slow second, repeated.
        let mut meter = CapacityMeter::new(GOP, at(0));
        meter.expect(at(0), at(0));
        let mut expected = [0.0; 2];
        for step in 1..=1240 {
            let fast = (step * 10 - 1) % 2000 < 1000;
            meter.bytes(at(step * 10), if fast { 20_000 } else { 1_000 });
            let moment = match step {
                1190 => 0,
                1240 => 1,
                _ => continue,
            };
            // At the end of a slow second, and in a fast second.
            let samples = meter.samples(at(step * 10), Duration::from_millis(100));
            expected[moment] = samples.iter().sum::<f64>() / samples.len() as f64;
        }
        assert!(2.0 * expected[0] < expected[1], "{expected:?}");
    }

    #[test]
    fn a_long_gap_is_skipped_quickly_and_clears_the_samples() {
        let mut meter = CapacityMeter::new(GOP, at(0));
        meter.expect(at(0), at(0));
        meter.bytes(at(500), 1_000_000);
        let much_later = Instant::from_millis(1 << 40);
        assert!(meter.samples(much_later, GOP).iter().all(|sample| *sample == 0.0));
        assert!(meter.bins.len() <= 12 * 50);
    }
}
