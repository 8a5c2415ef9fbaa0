//! The performance tracker: recent latency and throughput of every subflow, and a forecast of both.
//!
//! Source: AVIRA §III-A and §III-E. Each subflow has a short history of its latency and throughput. The forecast
//! is the value at the present time of a straight line fitted to that history. Not here: which subflow is the best
//! ([`super::classifier`]) and which segments it is for ([`super::prioritised`]). Memory is allocated when a
//! subflow opens; observing and forecasting allocate none.

mod history;
mod line;

use core::time::Duration;

use tributary_types::{Bitrate, Instant, SubflowId};

use super::SubflowView;
use history::{History, Sample};

/// Least time between two observations of a subflow: 64 of them cover the last third of a second.
const EVERY: Duration = Duration::from_millis(5);
/// Observations in one round trip when the latency is the round-trip time, so that 64 of them cover four round
/// trips. Closer observations would measure the same queue again, and a line through them would forecast noise.
const IN_ROUND_TRIP: u32 = 16;
/// Bytes of a message, for the time until it has arrived.
const MESSAGE: u64 = 1448;
/// Largest latency that is recorded, in seconds. It is used for a subflow that delivers nothing, whose true
/// latency is unknown. A larger value would distort the line until the observation is forgotten.
const LONGEST: f64 = 1.0;

/// Definition of a subflow's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latency {
    /// The smoothed round-trip time (AVIRA §III-A).
    RoundTrip,
    /// The time until a message handed over now has arrived: bytes in flight must drain first, and a
    /// subflow that stands still takes at least as long as its oldest segment has waited.
    /// Deviates: the paper uses the round-trip time, which shows a queue only after data has passed it.
    Arrival,
}

fn seconds(time: Duration) -> f64 {
    time.as_nanos() as u64 as f64 * 1e-9
}

impl Latency {
    /// In seconds.
    fn of(self, now: Instant, subflow: &SubflowView) -> f64 {
        match self {
            Self::RoundTrip => seconds(subflow.srtt),
            Self::Arrival => {
                let waited = subflow.oldest_sent.map_or(Duration::ZERO, |sent| now.saturating_since(sent));
                let overdue = if waited > subflow.srtt { seconds(waited) } else { 0.0 };
                arrival(subflow).max(overdue).min(LONGEST)
            }
        }
    }
}

/// Seconds until a message handed over now has arrived: as [`SubflowView::arrival`], without rounding to
/// nanoseconds.
fn arrival(subflow: &SubflowView) -> f64 {
    let half = seconds(subflow.min_rtt) * 0.5;
    let Some(rate) = subflow.rate else { return half };
    let each = 8.0 / rate.as_bps() as f64; // Infinite at a rate of zero; the result is limited.
    let ahead = subflow.in_flight.saturating_add(MESSAGE) as f64;
    (half + MESSAGE as f64 * each).max(ahead * each)
}

/// Forecast of a subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Forecast {
    /// Seconds, finite and not negative.
    pub latency: f64,
    /// bit/s, finite and not negative. Zero while unknown.
    pub throughput: f64,
}

/// The histories of all subflows.
#[derive(Debug)]
pub(super) struct Tracker {
    latency: Latency,
    /// `false`: the forecast is the present state, and no history is kept.
    forecasts: bool,
    histories: Vec<(SubflowId, History)>,
}

impl Tracker {
    pub fn new(latency: Latency) -> Self {
        Self { latency, forecasts: true, histories: Vec::new() }
    }

    /// Its forecast is the present state.
    pub fn of_the_present(self) -> Self {
        Self { forecasts: false, ..self }
    }

    /// A subflow opened.
    pub fn up(&mut self, subflow: SubflowId) {
        if self.forecasts && self.place(subflow, self.histories.len()).is_none() {
            self.histories.push((subflow, History::default()));
        }
    }

    /// A subflow is gone.
    pub fn down(&mut self, subflow: SubflowId) {
        self.histories.retain(|(id, _)| *id != subflow);
    }

    /// Observes all subflows that were not observed a moment ago.
    pub fn observe(&mut self, now: Instant, subflows: &[SubflowView]) {
        for (at, view) in subflows.iter().enumerate() {
            let Some(place) = self.place(view.id, at) else { continue };
            let history = &mut self.histories[place].1;
            let every = match self.latency {
                Latency::RoundTrip => EVERY.max(view.srtt / IN_ROUND_TRIP),
                Latency::Arrival => EVERY,
            };
            if history.last().is_none_or(|last| now >= last + every) {
                history.push(Sample::new(now, self.latency.of(now, view), rate(view)));
            }
        }
    }

    /// Forecast of this subflow, the `at`th open one; its present state if it has no history.
    ///
    /// Deviates: where latency is the time to arrival, a falling line is ignored. It would predict that a stopped
    /// subflow is fast soon, although its present queue must drain first.
    pub fn forecast(&self, now: Instant, subflow: &SubflowView, at: usize) -> Forecast {
        let line = self.place(subflow.id, at).and_then(|place| self.histories[place].1.forecast(now));
        match (line, self.latency) {
            (Some(line), Latency::RoundTrip) => line,
            (Some(line), Latency::Arrival) => {
                Forecast { latency: line.latency.max(self.latency.of(now, subflow)), ..line }
            }
            (None, _) => Forecast { latency: self.latency.of(now, subflow), throughput: rate(subflow) },
        }
    }

    /// Index of a subflow's history. `guess` is looked at first: subflows are listed in the order in which they
    /// opened.
    fn place(&self, subflow: SubflowId, guess: usize) -> Option<usize> {
        let is_it = |(id, _): &(SubflowId, History)| *id == subflow;
        if self.histories.get(guess).is_some_and(is_it) {
            return Some(guess);
        }
        self.histories.iter().position(is_it)
    }
}

fn rate(subflow: &SubflowView) -> f64 {
    subflow.rate.map_or(0.0, |rate| Bitrate::as_bps(rate) as f64)
}

#[cfg(test)]
mod tests;
