//! BBR's bandwidth estimate: rounds, and the largest delivery rate of the last ten
//! (draft-cardwell-iccrg-bbr-congestion-control-00 §4.1.1).
//!
//! Exact; Linux keeps only three candidates.

use std::collections::VecDeque;

use super::super::{Ack, RateSample};

/// Rounds for which a sample is valid.
const WINDOW: u64 = 10;

/// Rounds and their delivery rates.
#[derive(Clone, Debug, Default)]
pub(super) struct Bandwidth {
    rounds: u64,
    /// Total bytes delivered when the present round began.
    round_from: u64,
    delivered: u64,
    /// (round, bytes a second): rounds ascending, rates descending, so the first is the largest.
    candidates: VecDeque<(u64, f64)>,
    /// Samples of data sent before this many bytes were delivered do not count.
    limited_until: Option<u64>,
}

/// Evaluation of a sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Update {
    /// A round trip has passed.
    pub round_started: bool,
    /// The sample was limited by the sender, not the path.
    pub limited: bool,
}

impl Bandwidth {
    /// Bytes a second; zero before the first sample.
    pub fn max(&self) -> f64 {
        self.candidates.front().map_or(0.0, |(_, rate)| *rate)
    }

    /// Total bytes delivered.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A round begins with the data sent from now on.
    pub fn start_round(&mut self) {
        self.round_from = self.delivered;
    }

    /// The data in flight was sent below the path's rate on purpose.
    pub fn limit(&mut self, in_flight: u64) {
        self.limited_until = Some(self.delivered.saturating_add(in_flight));
    }

    pub fn on_ack(&mut self, ack: &Ack) -> Update {
        let Some(sample) = ack.rate else { return Update::default() };
        self.delivered = self.delivered.max(sample.delivered);
        let round_started = sample.prior_delivered >= self.round_from && ack.bytes > 0;
        if round_started {
            self.rounds += 1;
            self.start_round();
        }
        let limited = self.is_limited(&sample);
        let rate = sample.rate.as_bps() as f64 / 8.0;
        if !limited || rate >= self.max() {
            self.insert(rate);
        }
        Update { round_started, limited }
    }

    fn is_limited(&mut self, sample: &RateSample) -> bool {
        if self.limited_until.is_some_and(|until| sample.prior_delivered > until) {
            self.limited_until = None;
        }
        sample.app_limited || self.limited_until.is_some()
    }

    fn insert(&mut self, rate: f64) {
        let now = self.rounds;
        while self.candidates.back().is_some_and(|(_, old)| *old <= rate) {
            self.candidates.pop_back();
        }
        // A smaller sample of the same round can never become the largest.
        if self.candidates.back().is_none_or(|(round, _)| *round < now) {
            self.candidates.push_back((now, rate));
        }
        while self.candidates.front().is_some_and(|(round, _)| now - round > WINDOW) {
            self.candidates.pop_front();
        }
    }
}
