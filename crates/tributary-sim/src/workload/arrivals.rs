//! When bytes arrived: counts in bins of 10 ms, and silences while data was outstanding. The same
//! record as the one that workloads on real sockets make, in virtual time.

use core::time::Duration;
use tributary_types::Instant;

/// Width of a bin.
pub const BIN: Duration = Duration::from_millis(10);
/// Shorter silences are not listed.
const LISTED: Duration = Duration::from_millis(20);
/// At most this many silences are listed; the longest is known in any case.
const MOST_LISTED: usize = 10_000;

/// A time without a byte while data was outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// When it began.
    pub at: Instant,
    /// How long it lasted.
    pub length: Duration,
}

/// What arrived when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Bytes in each bin of [`BIN`] since the beginning of the run.
    pub bins: Vec<u64>,
    /// Every silence of at least 20 ms.
    pub silences: Vec<Silence>,
    /// The longest time without a byte while data was outstanding.
    pub longest_silence: Duration,
    /// Since when nothing has arrived although something should; `None` when nothing is outstanding.
    silent_since: Option<Instant>,
}

impl Arrivals {
    /// Goodput of each whole second in Mbit/s (10⁶ bits).
    #[must_use]
    pub fn mbps_per_second(&self) -> Vec<f64> {
        let bins = (1_000 / BIN.as_millis()) as usize;
        self.bins.chunks_exact(bins).map(|second| second.iter().sum::<u64>() as f64 * 8.0 / 1e6).collect()
    }

    /// The bins of `other` added to these.
    pub fn add(&mut self, other: &Self) {
        self.bins.resize(self.bins.len().max(other.bins.len()), 0);
        for (sum, bytes) in self.bins.iter_mut().zip(&other.bins) {
            *sum += bytes;
        }
    }

    /// Data is outstanding from `at` on.
    pub(super) fn expect(&mut self, at: Instant) {
        self.silent_since = Some(at);
    }

    /// Nothing is outstanding any more.
    pub(super) fn rest(&mut self) {
        self.silent_since = None;
    }

    /// Bytes arrived.
    pub(super) fn bytes(&mut self, now: Instant, count: u64) {
        self.end_silence(now);
        if self.silent_since.is_some() {
            self.silent_since = Some(now);
        }
        let bin = (now.as_nanos() / BIN.as_nanos() as u64) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += count;
    }

    fn end_silence(&mut self, now: Instant) {
        let Some(at) = self.silent_since else { return };
        let length = now.saturating_since(at);
        self.longest_silence = self.longest_silence.max(length);
        if length >= LISTED && self.silences.len() < MOST_LISTED {
            self.silences.push(Silence { at, length });
        }
    }

    /// The record up to `end`: bins reach it even when the last ones are empty.
    pub(super) fn finish(&mut self, end: Instant) {
        self.end_silence(end);
        self.silent_since = None;
        let bins = end.as_nanos().div_ceil(BIN.as_nanos() as u64) as usize;
        self.bins.resize(bins, 0);
    }
}
