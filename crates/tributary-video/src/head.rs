//! A viewer's head movement: the head's orientation over playback time.
//!
//! A trace is checked when it is made (increasing times, finite numbers). [`read`] reads files; `prediction`
//! predicts.

mod format;
mod read;

use thiserror::Error;

use crate::sphere::{Orientation, wrapped};

pub use format::{Format, UnknownFormat};
pub use read::{ReadError, read};

/// One sample of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadSample {
    /// Playback time, seconds from the trace's start.
    pub time_s: f64,
    /// The head's orientation.
    pub orientation: Orientation,
}

/// The movement of one head: at least two samples, the first at 0 s, strictly increasing times, all finite.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadTrace {
    samples: Vec<HeadSample>,
}

/// Why samples or a trace are refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum TraceError {
    /// Fewer than two samples.
    #[error("a trace of {samples} samples; at least two are needed")]
    Few {
        /// Samples given.
        samples: usize,
    },
    /// A time or an angle is not a finite number.
    #[error("sample {index} has a time or an angle that is not a finite number")]
    NotFinite {
        /// Counted from 0.
        index: usize,
    },
    /// A time does not increase.
    #[error(
        "sample {index} at {time_s} s does not come after the one before, at {before_s} s; sort the trace"
    )]
    Unsorted {
        /// Counted from 0.
        index: usize,
        /// Its time.
        time_s: f64,
        /// The previous time.
        before_s: f64,
    },
    /// The trace is shorter than the video.
    #[error(
        "the trace ends at {trace_s:.3} s and the video at {video_s:.3} s; choose a longer trace or play less"
    )]
    Short {
        /// The trace's duration.
        trace_s: f64,
        /// The required duration.
        video_s: f64,
    },
    /// An invalid sampling rate.
    #[error("cannot resample to {rate_hz} Hz; choose a rate over 0 and up to {MOST_HERTZ} Hz")]
    Rate {
        /// The requested rate.
        rate_hz: f64,
    },
}

/// The highest rate [`HeadTrace::resampled`] accepts.
const MOST_HERTZ: f64 = 1000.0;

impl HeadTrace {
    /// A trace of samples; times are shifted so that the first is 0.
    ///
    /// # Errors
    /// Fewer than two samples, a value that is not finite, or times that do not increase.
    pub fn from_samples(mut samples: Vec<HeadSample>) -> Result<Self, TraceError> {
        for (index, sample) in samples.iter().enumerate() {
            let Orientation { yaw, pitch, roll } = sample.orientation;
            if ![sample.time_s, yaw, pitch, roll].iter().all(|number| number.is_finite()) {
                return Err(TraceError::NotFinite { index });
            }
        }
        for (index, pair) in samples.windows(2).enumerate() {
            let (before_s, time_s) = (pair[0].time_s, pair[1].time_s);
            if time_s <= before_s {
                return Err(TraceError::Unsorted { index: index + 1, time_s, before_s });
            }
        }
        if samples.len() < 2 {
            return Err(TraceError::Few { samples: samples.len() });
        }
        let start_s = samples[0].time_s;
        samples.iter_mut().for_each(|sample| sample.time_s -= start_s);
        Ok(Self { samples })
    }

    /// A head that has not moved since 0 s. [`Self::observe`] adds what it does from then on.
    #[must_use]
    pub fn still(orientation: Orientation) -> Self {
        let sample = |time_s| HeadSample { time_s, orientation };
        Self { samples: vec![sample(0.0), sample(f64::MIN_POSITIVE)] }
    }

    /// Adds a sample that was just observed, and forgets those that are older than `keep_s`, except the first. A sample that
    /// is not finite, or does not come after the last one, is ignored.
    pub fn observe(&mut self, sample: HeadSample, keep_s: f64) {
        let Orientation { yaw, pitch, roll } = sample.orientation;
        let finite = [sample.time_s, yaw, pitch, roll].iter().all(|number| number.is_finite());
        if !finite || sample.time_s <= self.duration_s() {
            return;
        }
        let old = self.samples.partition_point(|known| known.time_s < sample.time_s - keep_s);
        // The last one stays, too: it is where the movement to the new sample begins.
        self.samples.drain(1..old.clamp(1, self.samples.len() - 1));
        self.samples.push(sample);
    }

    /// The samples, the first at 0 s.
    #[must_use]
    pub fn samples(&self) -> &[HeadSample] {
        &self.samples
    }

    /// The last sample's time, seconds.
    #[must_use]
    pub fn duration_s(&self) -> f64 {
        self.samples[self.samples.len() - 1].time_s
    }

    /// The longest time between two samples, seconds.
    #[must_use]
    pub fn largest_gap_s(&self) -> f64 {
        self.samples.windows(2).map(|pair| pair[1].time_s - pair[0].time_s).fold(0.0, f64::max)
    }

    /// Checks that the trace lasts `video_s`. Half a second may be missing, because recordings end slightly
    /// before the video.
    ///
    /// # Errors
    /// The trace is shorter.
    pub fn require_duration(&self, video_s: f64) -> Result<(), TraceError> {
        let trace_s = self.duration_s();
        if trace_s + 0.5 < video_s { Err(TraceError::Short { trace_s, video_s }) } else { Ok(()) }
    }

    /// The orientation at a time, interpolated along the shorter arc; the first before the start and the last
    /// after the end.
    #[must_use]
    pub fn at(&self, time_s: f64) -> Orientation {
        let after = self.samples.partition_point(|sample| sample.time_s <= time_s);
        if after == 0 {
            return self.samples[0].orientation;
        }
        let before = &self.samples[after - 1];
        let Some(next) = self.samples.get(after) else { return before.orientation };
        let share = (time_s - before.time_s) / (next.time_s - before.time_s);
        before.orientation.towards(next.orientation, share)
    }

    /// The movement from `start_s` on, which becomes 0 s.
    ///
    /// # Errors
    /// Fewer than two samples remain.
    pub fn starting_at(&self, start_s: f64) -> Result<Self, TraceError> {
        let first = HeadSample { time_s: start_s, orientation: self.at(start_s) };
        let later = self.samples.iter().copied().filter(|sample| sample.time_s > start_s);
        Self::from_samples(core::iter::once(first).chain(later).collect())
    }

    /// The same movement with a sample every 1 / `rate_hz` seconds.
    ///
    /// # Errors
    /// A rate of 0 or less or above 1000 Hz, or so low that fewer than two samples remain.
    pub fn resampled(&self, rate_hz: f64) -> Result<Self, TraceError> {
        if !(rate_hz > 0.0 && rate_hz <= MOST_HERTZ) {
            return Err(TraceError::Rate { rate_hz });
        }
        let count = (self.duration_s() * rate_hz + 1e-9) as usize + 1;
        let sample = |index: usize| {
            let time_s = index as f64 / rate_hz;
            HeadSample { time_s, orientation: self.at(time_s) }
        };
        Self::from_samples((0..count).map(sample).collect())
    }

    /// The yaw of each sample without jumps at ±π: after two turns it is 4π.
    #[must_use]
    pub fn unwrapped_yaw(&self) -> Vec<f64> {
        let mut yaw = self.samples[0].orientation.yaw;
        let mut unwrapped = Vec::with_capacity(self.samples.len());
        for sample in &self.samples {
            yaw += wrapped(sample.orientation.yaw - yaw);
            unwrapped.push(yaw);
        }
        unwrapped
    }
}

#[cfg(test)]
mod tests;
