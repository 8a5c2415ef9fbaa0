//! What each subflow of a connection carried and how long that took, for experiments about schedulers.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::Instant;

/// Latencies of marked segments kept for each subflow at most.
const MOST_KEPT: usize = 100_000;

/// One subflow so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubflowReport {
    /// Index of its path in the scenario.
    pub path: u8,
    /// Payload bytes handed to it, copies included.
    pub handed: u64,
    /// Acknowledgements that came with a round-trip time.
    pub round_trips: u64,
    /// Sum of the smoothed round-trip time over them, seconds.
    pub round_trip_sum: f64,
    /// Sum of its square, seconds squared.
    pub round_trip_squares: f64,
    /// Marked segments, from being handed to the subflow to their acknowledgement on it.
    pub marked: Vec<Duration>,
}

/// Gathers a report.
#[derive(Debug, Default)]
pub(super) struct Observation {
    report: SubflowReport,
    /// Where marked segments under way end, and when they were handed over.
    marked: VecDeque<(u64, Instant)>,
}

impl Observation {
    /// An acknowledgement came; the smoothed round-trip time is this now.
    pub fn round_trip(&mut self, srtt: Duration) {
        let seconds = srtt.as_secs_f64();
        self.report.round_trips += 1;
        self.report.round_trip_sum += seconds;
        self.report.round_trip_squares += seconds * seconds;
    }

    /// A marked segment was handed over that ends at this position.
    pub fn marked(&mut self, now: Instant, position: u64) {
        self.marked.push_back((position, now));
    }

    /// Everything up to this position is acknowledged.
    pub fn delivered(&mut self, now: Instant, position: u64) {
        while let Some((_, at)) = self.marked.front().filter(|(end, _)| *end <= position) {
            if self.report.marked.len() < MOST_KEPT {
                self.report.marked.push(now.saturating_since(*at));
            }
            self.marked.pop_front();
        }
    }

    /// The report so far.
    pub fn report(&self, path: u8, handed: u64) -> SubflowReport {
        SubflowReport { path, handed, ..self.report.clone() }
    }
}
