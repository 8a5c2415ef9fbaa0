//! Record of arriving bytes: counts in bins of 10 ms, and silences while data is outstanding.
//!
//! Silences are timed at every read, not at the edges of bins. The extra cost is a few nanoseconds per read.

use core::time::Duration;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Width of a bin.
pub(crate) const BIN: Duration = Duration::from_millis(10);
/// Shorter silences are not listed.
const LISTED: Duration = Duration::from_millis(20);
/// At most this many silences are listed; the longest is always kept.
const MOST_LISTED: usize = 10_000;

/// A time without an arriving byte while data is outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    /// Start, in milliseconds since the start of the workload.
    pub at_ms: f64,
    /// Length in milliseconds.
    pub length_ms: f64,
}

/// Bytes over time, and silences.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arrivals {
    /// Width of a bin in milliseconds.
    pub bin_ms: u64,
    /// Bytes in each bin since the workload began.
    pub bytes: Vec<u64>,
    /// The longest time without a byte while data was outstanding, in milliseconds.
    pub longest_silence_ms: f64,
    /// Every such time of at least 20 ms.
    pub silences: Vec<Silence>,
}

impl Arrivals {
    /// Total number of bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Goodput of each whole second in Mbit/s (10⁶ bits).
    #[must_use]
    pub fn mbps_per_second(&self) -> Vec<f64> {
        let bins = 1000_u64.checked_div(self.bin_ms).unwrap_or(0) as usize;
        if bins == 0 {
            return Vec::new();
        }
        self.bytes.chunks_exact(bins).map(|s| s.iter().sum::<u64>() as f64 * 8.0 / 1e6).collect()
    }
}

/// Records [`Arrivals`] as bytes arrive.
pub(crate) struct Recorder {
    began: Instant,
    /// Time of the last arrival while data is outstanding; `None` when nothing is outstanding.
    silent_since: Option<Instant>,
    longest: Duration,
    arrivals: Arrivals,
}

impl Recorder {
    pub(crate) fn new(began: Instant) -> Self {
        let arrivals = Arrivals { bin_ms: BIN.as_millis() as u64, ..Arrivals::default() };
        Self { began, silent_since: None, longest: Duration::ZERO, arrivals }
    }

    /// Data is outstanding from `at` on, which may be in the future.
    pub(crate) fn expect(&mut self, at: Instant) {
        self.silent_since = Some(at);
    }

    /// From now on, no data is outstanding.
    pub(crate) fn rest(&mut self) {
        self.silent_since = None;
    }

    pub(crate) fn bytes(&mut self, now: Instant, count: usize) {
        self.end_silence(now);
        if self.silent_since.is_some() {
            self.silent_since = Some(now);
        }
        let bin = ((now - self.began).as_nanos() / BIN.as_nanos()) as usize;
        if bin >= self.arrivals.bytes.len() {
            self.arrivals.bytes.resize(bin + 1, 0);
        }
        self.arrivals.bytes[bin] += count as u64;
    }

    fn end_silence(&mut self, now: Instant) {
        let Some(since) = self.silent_since else { return };
        let length = now.saturating_duration_since(since);
        self.longest = self.longest.max(length);
        if length >= LISTED && self.arrivals.silences.len() < MOST_LISTED {
            let at_ms = millis(since.saturating_duration_since(self.began));
            self.arrivals.silences.push(Silence { at_ms, length_ms: millis(length) });
        }
    }

    /// The record up to `end`, including empty bins at the end.
    pub(crate) fn finish(mut self, end: Instant) -> Arrivals {
        self.end_silence(end);
        let bins = end.saturating_duration_since(self.began).as_nanos().div_ceil(BIN.as_nanos()) as usize;
        if self.arrivals.bytes.len() < bins {
            self.arrivals.bytes.resize(bins, 0);
        }
        self.arrivals.longest_silence_ms = millis(self.longest);
        self.arrivals
    }
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(began: Instant, ms: u64) -> Instant {
        began + Duration::from_millis(ms)
    }

    #[test]
    fn bins_and_silences_of_a_known_sequence() {
        let began = Instant::now();
        let mut recorder = Recorder::new(began);
        recorder.expect(at(began, 0));
        recorder.bytes(at(began, 5), 100);
        recorder.bytes(at(began, 9), 50);
        recorder.bytes(at(began, 70), 25); // 61 ms of silence
        recorder.rest();
        recorder.bytes(at(began, 500), 1); // nothing was outstanding
        recorder.expect(at(began, 600));
        let arrivals = recorder.finish(at(began, 1000));
        assert_eq!((arrivals.bytes[0], arrivals.bytes[7], arrivals.bytes[50]), (150, 25, 1));
        assert_eq!((arrivals.bytes.len(), arrivals.total()), (100, 176));
        let lengths: Vec<f64> = arrivals.silences.iter().map(|s| s.length_ms.round()).collect();
        assert_eq!(lengths, vec![61.0, 400.0]);
        assert_eq!(arrivals.longest_silence_ms.round(), 400.0);
        assert_eq!(arrivals.mbps_per_second().len(), 1);
    }

    #[test]
    fn time_before_data_is_expected_is_not_silence() {
        let began = Instant::now();
        let mut recorder = Recorder::new(began);
        recorder.expect(at(began, 1000));
        recorder.bytes(at(began, 1004), 1);
        recorder.rest();
        assert_eq!(recorder.finish(at(began, 1500)).longest_silence_ms.round(), 4.0);
    }
}
