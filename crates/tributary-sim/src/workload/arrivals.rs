//! Records arriving bytes in virtual time: counts in bins of 10 ms, and silences while data was outstanding. The same
//! record of real sockets is `Arrivals` in `tributary-stream`.

use core::time::Duration;
use tributary_types::Instant;

/// Width of a bin.
pub const BIN: Duration = Duration::from_millis(10);
/// Shorter silences are not listed.
const LISTED: Duration = Duration::from_millis(20);
/// Most silences that are listed. The longest one is recorded in any case.
const MOST_LISTED: usize = 10_000;

/// A time without any byte while data was outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilentSpan {
    /// When it began.
    pub at: Instant,
    /// How long it lasted.
    pub length: Duration,
}

/// Bytes over virtual time, and silences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrivalSeries {
    /// Bytes in each bin of [`BIN`] since the beginning of the run.
    pub bins: Vec<u64>,
    /// Every silence of at least 20 ms.
    pub silences: Vec<SilentSpan>,
    /// The longest time without a byte while data was outstanding.
    pub longest_silence: Duration,
    /// Since when no byte has arrived although data is outstanding; `None` when no data is outstanding.
    silent_since: Option<Instant>,
}

impl ArrivalSeries {
    /// Goodput of each whole second in Mbit/s (10⁶ bits).
    #[must_use]
    pub fn mbps_per_second(&self) -> Vec<f64> {
        let bins = (1_000 / BIN.as_millis()) as usize;
        self.bins.chunks_exact(bins).map(|second| second.iter().sum::<u64>() as f64 * 8.0 / 1e6).collect()
    }

    /// Adds the bins of `other`.
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

    /// No data is outstanding from this moment on.
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
            self.silences.push(SilentSpan { at, length });
        }
    }

    /// Completes the record up to `end`. Empty bins at the end are included.
    pub(super) fn finish(&mut self, end: Instant) {
        self.end_silence(end);
        self.silent_since = None;
        let bins = end.as_nanos().div_ceil(BIN.as_nanos() as u64) as usize;
        self.bins.resize(bins, 0);
    }
}
