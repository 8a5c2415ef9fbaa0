//! Traces made from rate processes.

use super::{RateProcess, RateSpec};
use crate::trace::{MAX_SPAN_S, MIN_SPAN, Trace};
use core::time::Duration;
use tributary_types::{Bitrate, Instant, Rng};

impl Trace {
    /// The rates of a process with this seed during the first `duration`; always the same for the same arguments.
    /// `None` if the duration is less than 10 µs or more than a week.
    #[must_use]
    pub fn generate(spec: &RateSpec, seed: u64, duration: Duration) -> Option<Self> {
        let end = u64::try_from(duration.as_nanos()).ok()?;
        if !(MIN_SPAN..=MAX_SPAN_S * 1_000_000_000).contains(&end) {
            return None;
        }
        let mut process = RateProcess::new(spec.clone(), Rng::new(seed).child("rate"));
        let mut spans: Vec<(u64, Bitrate)> = Vec::new();
        loop {
            let span = process.span();
            let until = span.until.min(Instant::from_nanos(end)).as_nanos();
            match spans.last_mut() {
                Some(last) if last.1 == span.rate => last.0 = until,
                _ => spans.push((until, span.rate)),
            }
            if until == end {
                return Some(Self { spans });
            }
            process.step();
        }
    }
}
