//! When MuSher's ratio is searched for, and how. Gets samples, returns a ratio.
//!
//! Source: MuSher's public code (MobiCom 2019). The mean of five samples, 100 ms apart, is the *reference*. When the
//! sum of rates differs from it by more than 200 Mbit/s in five samples in a row, or the sum of queues is more than
//! 75 kB below it in five samples in a row, a search begins, unless the last one began less than 3 s ago; then the
//! reference is taken again. A search takes samples 200 ms apart and steps of 5: up while that pays, else down.
//! Example: 470 and 1400 Mbit/s, from 50 : 50. The step to 55 costs 86 Mbit/s, that to 45 brings 104; on to 25 with
//! 1867 Mbit/s; the step to 20 costs 117 and is taken back.
//!
//! Deviates:
//! - the 200 and 5 Mbit/s are scaled by the ratio of the largest sum of rates seen to the testbed's 2 Gbit/s (the
//!   75 kB of the queues are not);
//! - the public code keeps the ratio of earlier connections in a system setting. A session has none, so its first
//!   search begins as soon as it has a reference;
//! - both first steps are compared with the rate before them, and a step down that does not pay is taken back (in the
//!   public code the step down is compared with the rate after the step up, and another one follows it).

use core::time::Duration;

use tributary_types::Instant;

use super::meter::Sample;

/// Least and most per cent on the first subflow, and the step between.
const BOUNDS: (u32, u32) = (5, 95);
const STEP: u32 = 5;
/// Time between samples, usually and during a search.
const SAMPLE: Duration = Duration::from_millis(100);
const SEARCH_SAMPLE: Duration = Duration::from_millis(200);
/// Least time from the beginning of a search to that of the next.
const REST: Duration = Duration::from_secs(3);
/// Samples that a reference takes, and samples in a row that a deviation must last.
const SUSTAINED: u32 = 5;
/// The testbed's rate, and the thresholds at that rate: a deviation that begins a search, and the gain for which a
/// first step is kept. Mbit/s.
const TESTBED_MBPS: f64 = 2000.0;
const DRIFT_MBPS: f64 = 200.0;
const GAIN_MBPS: f64 = 5.0;
/// Threshold of the queues in bytes. It is not scaled.
const DRAINED: f64 = 75_000.0;

/// The ratio and what is known about it.
#[derive(Debug)]
pub(super) struct Split {
    /// Per cent on the first subflow.
    ratio: u32,
    state: State,
    searched_at: Option<Instant>,
    /// The largest sum of rates seen, Mbit/s.
    most_rate: f64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Takes the reference: the sum of the samples so far, and their number.
    Reference { sum: Sample, samples: u32 },
    /// Compares samples with the reference. Number of samples in a row beyond each threshold.
    Watch { reference: Sample, by_rate: u32, by_queue: u32 },
    /// Tries other ratios.
    Search(Search),
}

#[derive(Clone, Copy, Debug)]
enum Search {
    /// Measures the rate at the ratio as it is.
    Begin,
    /// One step from `origin`, where the rate was `before`.
    First { up: bool, origin: u32, before: f64 },
    /// Further steps in the same direction; `before` is the rate before the last step.
    Further { up: bool, before: f64 },
}

impl Default for Split {
    fn default() -> Self {
        Self { ratio: 50, state: State::reference(), searched_at: None, most_rate: 0.0 }
    }
}

impl State {
    fn reference() -> Self {
        Self::Reference { sum: Sample::default(), samples: 0 }
    }
}

fn step(ratio: u32, up: bool) -> Option<u32> {
    let next = if up { ratio + STEP } else { ratio - STEP };
    (BOUNDS.0..=BOUNDS.1).contains(&next).then_some(next)
}

impl Split {
    /// Per cent of the bytes for the first subflow, 5 to 95.
    pub fn ratio(&self) -> u32 {
        self.ratio
    }

    /// Time between samples.
    pub fn period(&self) -> Duration {
        if matches!(self.state, State::Search(_)) { SEARCH_SAMPLE } else { SAMPLE }
    }

    /// Takes the sums of the interval that has just ended.
    pub fn handle_sample(&mut self, now: Instant, sample: Sample) {
        self.most_rate = self.most_rate.max(sample.rate);
        self.state = match self.state {
            State::Reference { sum, samples } => self.refer(now, sum, sample, samples + 1),
            State::Watch { reference, by_rate, by_queue } => {
                let scale = self.most_rate / TESTBED_MBPS;
                // One sample counts for one threshold only, the rate's first.
                let (by_rate, by_queue) = if (sample.rate - reference.rate).abs() > DRIFT_MBPS * scale {
                    (by_rate + 1, 0)
                } else if reference.queue - sample.queue > DRAINED {
                    (0, by_queue + 1)
                } else {
                    (0, 0)
                };
                if by_rate < SUSTAINED && by_queue < SUSTAINED {
                    State::Watch { reference, by_rate, by_queue }
                } else if self.searched_at.is_none_or(|at| now >= at + REST) {
                    self.begin(now)
                } else {
                    State::reference()
                }
            }
            State::Search(search) => self.search(search, sample.rate),
        };
    }

    fn refer(&mut self, now: Instant, sum: Sample, sample: Sample, samples: u32) -> State {
        let sum = Sample { rate: sum.rate + sample.rate, queue: sum.queue + sample.queue };
        if samples < SUSTAINED {
            return State::Reference { sum, samples };
        }
        if self.searched_at.is_none() {
            return self.begin(now);
        }
        let of = f64::from(SUSTAINED);
        let reference = Sample { rate: sum.rate / of, queue: sum.queue / of };
        State::Watch { reference, by_rate: 0, by_queue: 0 }
    }

    fn begin(&mut self, now: Instant) -> State {
        self.searched_at = Some(now);
        State::Search(Search::Begin)
    }

    /// Handles the sum of rates measured since the last step.
    fn search(&mut self, search: Search, rate: f64) -> State {
        let gain = GAIN_MBPS * self.most_rate / TESTBED_MBPS;
        let next = match search {
            Search::Begin => self.first(self.ratio, true, rate),
            Search::First { up, before, .. } if rate > before + gain => self.further(up, rate),
            Search::First { up: true, origin, before } => self.first(origin, false, before),
            Search::First { origin, .. } => {
                self.ratio = origin;
                None
            }
            Search::Further { up, before } if rate >= before - gain => self.further(up, rate),
            Search::Further { up, .. } => {
                self.ratio = step(self.ratio, !up).unwrap_or(self.ratio);
                None
            }
        };
        next.map_or_else(State::reference, State::Search)
    }

    /// The first step from `origin`; down if there is no room upwards. `None` if there is no room at all.
    fn first(&mut self, origin: u32, up: bool, before: f64) -> Option<Search> {
        match step(origin, up) {
            Some(ratio) => {
                self.ratio = ratio;
                Some(Search::First { up, origin, before })
            }
            None if up => self.first(origin, false, before),
            None => {
                self.ratio = origin;
                None
            }
        }
    }

    fn further(&mut self, up: bool, before: f64) -> Option<Search> {
        self.ratio = step(self.ratio, up)?;
        Some(Search::Further { up, before })
    }
}

#[cfg(test)]
mod tests;
