//! What each subflow of a connection carried, and its latencies, for experiments about schedulers.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::Instant;

/// Most latencies of prioritised segments kept per subflow.
const MOST_KEPT: usize = 100_000;

/// One subflow so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubflowReport {
    /// Index of its path in the scenario.
    pub path: u8,
    /// Payload bytes given to it, copies included.
    pub handed: u64,
    /// Payload bytes sent again on it.
    pub retransmitted: u64,
    /// Number of round-trip samples.
    pub round_trips: u64,
    /// Sum of the smoothed round-trip time over the samples, seconds.
    pub round_trip_sum: f64,
    /// Sum of its square, seconds squared.
    pub round_trip_squares: f64,
    /// Duplicate acknowledgements received.
    pub duplicate_acks: u64,
    /// Fast recoveries begun, each by a fast retransmission.
    pub fast_recoveries: u64,
    /// Payload bytes that loss detection declared lost.
    pub lost: u64,
    /// Latencies of prioritised segments, from giving them to the subflow to their acknowledgement on it.
    pub prioritised: Vec<Duration>,
}

/// Collects a report.
#[derive(Debug, Default)]
pub(super) struct Observation {
    report: SubflowReport,
    /// End positions of prioritised segments in flight, and when they were given to the subflow.
    prioritised: VecDeque<(u64, Instant)>,
}

impl Observation {
    /// An acknowledgement came; `srtt` is the smoothed round-trip time after it.
    pub fn round_trip(&mut self, srtt: Duration) {
        let seconds = srtt.as_secs_f64();
        self.report.round_trips += 1;
        self.report.round_trip_sum += seconds;
        self.report.round_trip_squares += seconds * seconds;
    }

    /// A prioritised segment that ends at `position` was given to the subflow.
    pub fn prioritised(&mut self, now: Instant, position: u64) {
        self.prioritised.push_back((position, now));
    }

    /// Everything up to `position` is acknowledged.
    pub fn delivered(&mut self, now: Instant, position: u64) {
        while let Some((_, at)) = self.prioritised.front().filter(|(end, _)| *end <= position) {
            if self.report.prioritised.len() < MOST_KEPT {
                self.report.prioritised.push(now.saturating_since(*at));
            }
            self.prioritised.pop_front();
        }
    }

    /// The report so far.
    pub fn report(&self, path: u8, handed: u64) -> SubflowReport {
        SubflowReport { path, handed, ..self.report.clone() }
    }
}
