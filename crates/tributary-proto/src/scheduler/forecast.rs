//! The performance tracker: what every subflow did lately, and what it will do next.
//!
//! Source: AVIRA §III-A and §III-E. A short history of latency and throughput for each subflow, a straight
//! line through it, and the line's value now. Not here: which subflow is the best ([`super::classifier`])
//! and which segments it is for ([`super::prioritised`]). Memory is taken when a subflow comes up;
//! observing and forecasting take none.

mod history;
mod line;

use core::time::Duration;

use tributary_types::{Bitrate, Instant, SubflowId};

use super::SubflowView;
use history::{History, Sample};

/// Observations of a subflow are no closer than this: 64 of them are the last third of a second.
const EVERY: Duration = Duration::from_millis(5);
/// Bytes of a message, for the time until it has arrived.
const MESSAGE: u64 = 1448;

/// What counts as the latency of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latency {
    /// The smoothed round-trip time (AVIRA §III-A).
    RoundTrip,
    /// The time until a message handed over now has arrived: what is under way has to drain, and a
    /// subflow that stands still takes at least as long as its oldest segment has waited.
    /// Deviates: the paper has the round-trip time, which tells of a queue when that has been crossed.
    Arrival,
}

impl Latency {
    fn of(self, now: Instant, subflow: &SubflowView) -> Duration {
        match self {
            Self::RoundTrip => subflow.srtt,
            Self::Arrival => {
                let waited = subflow.oldest_sent.map(|sent| now.saturating_since(sent)).unwrap_or_default();
                let overdue = if waited > subflow.srtt { waited } else { Duration::ZERO };
                subflow.arrival(MESSAGE).max(overdue)
            }
        }
    }
}

/// What a subflow will do.
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
    histories: Vec<(SubflowId, History)>,
}

impl Tracker {
    pub fn new(latency: Latency) -> Self {
        Self { latency, histories: Vec::new() }
    }

    /// A subflow opened.
    pub fn up(&mut self, subflow: SubflowId) {
        if self.history(subflow).is_none() {
            self.histories.push((subflow, History::default()));
        }
    }

    /// A subflow is gone.
    pub fn down(&mut self, subflow: SubflowId) {
        self.histories.retain(|(id, _)| *id != subflow);
    }

    /// Notes what the subflows do now, those that were not observed a moment ago.
    pub fn observe(&mut self, now: Instant, subflows: &[SubflowView]) {
        for view in subflows {
            let Some((_, history)) = self.histories.iter_mut().find(|(id, _)| *id == view.id) else {
                continue;
            };
            if history.last().is_none_or(|last| now >= last + EVERY) {
                history.push(Sample::of(now, self.latency.of(now, view), view.rate));
            }
        }
    }

    /// What this subflow will do; as it is now where nothing else is known.
    pub fn forecast(&self, now: Instant, subflow: &SubflowView) -> Forecast {
        self.history(subflow.id).and_then(|history| history.forecast(now)).unwrap_or_else(|| Forecast {
            latency: self.latency.of(now, subflow).as_secs_f64(),
            throughput: subflow.rate.map_or(0.0, |rate| Bitrate::as_bps(rate) as f64),
        })
    }

    fn history(&self, subflow: SubflowId) -> Option<&History> {
        self.histories.iter().find(|(id, _)| *id == subflow).map(|(_, history)| history)
    }
}

#[cfg(test)]
mod tests;
