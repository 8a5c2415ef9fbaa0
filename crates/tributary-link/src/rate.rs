//! Rate processes: the rate of a link over time, as spans of constant rate.
//!
//! A process depends only on its specification and its seed, never on the traffic. So the capacity of a link in any
//! interval can be computed without sending a packet.

use crate::trace::{MAX_RATE, Trace};
use core::time::Duration;
use std::sync::Arc;
use tributary_types::{Bitrate, Instant, Rng};

mod begun;
mod record;
#[cfg(test)]
mod tests;

/// How a link's rate changes over time.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// A constant rate.
    Constant(Bitrate),
    /// `(since, rate)`, ascending, the first at zero; the last rate lasts for ever.
    Steps(Vec<(Duration, Bitrate)>),
    /// `(duration, rate)`, repeated in a cycle: the LoS/nLoS phases of a moving client, or periodic
    /// blackouts.
    Turns(Vec<(Duration, Bitrate)>),
    /// A recorded trace, repeated.
    Trace(Arc<Trace>),
    /// A Markov chain over `rates`, with a transition every `every` by the rows of `transitions`. Starts in
    /// the first state. See also [`CotagChannel`](crate::CotagChannel).
    Markov {
        /// The rate of each state, or its mean if there are deviations.
        rates: Vec<Bitrate>,
        /// The standard deviation of each state's rate, drawn at each transition and limited to zero to
        /// [`MAX_RATE`]; empty if the rates are exact.
        deviations: Vec<Bitrate>,
        /// Seed of the deviations. Two links that share a radio have the same states; they have the same deviations
        /// only if this seed is equal, too.
        noise: u32,
        /// `transitions[i][j]`: probability of a transition from state i to state j. Rows sum to one.
        transitions: Vec<Vec<f64>>,
        /// Time between transitions.
        every: Duration,
    },
    /// Drawn every `every` from a normal distribution, limited to zero to `MAX_RATE`.
    Gaussian {
        /// Mean rate.
        mean: Bitrate,
        /// Standard deviation.
        deviation: Bitrate,
        /// Time between draws.
        every: Duration,
    },
    /// On/off blockage: clear for an exponential time, blocked for a uniform one. Starts clear.
    Blockage {
        /// Rate while clear.
        clear: Bitrate,
        /// Rate while blocked.
        blocked: Bitrate,
        /// Mean time clear.
        clear_mean: Duration,
        /// Shortest blockage.
        shortest: Duration,
        /// Longest blockage.
        longest: Duration,
    },
}

impl RateSpec {
    /// The highest rate that the process can reach.
    #[must_use]
    pub fn max(&self) -> Bitrate {
        match self {
            Self::Constant(rate) => *rate,
            Self::Steps(list) | Self::Turns(list) => list.iter().map(|s| s.1).max().unwrap_or(Bitrate::ZERO),
            Self::Trace(trace) => trace.max(),
            Self::Markov { rates, deviations, .. } => {
                rates.iter().chain(deviations).copied().max().unwrap_or(Bitrate::ZERO)
            }
            Self::Gaussian { mean, deviation, .. } => (*mean).max(*deviation),
            Self::Blockage { clear, blocked, .. } => (*clear).max(*blocked),
        }
    }
}

impl RateSpec {
    /// Mean duration of a rate; [`Duration::MAX`] if the rate stops changing.
    pub(crate) fn mean_span(&self) -> Duration {
        match self {
            Self::Constant(_) | Self::Steps(_) => Duration::MAX,
            Self::Turns(turns) => {
                let sum = turns.iter().fold(Duration::ZERO, |sum, turn| sum.saturating_add(turn.0));
                sum / u32::try_from(turns.len()).unwrap_or(u32::MAX).max(1)
            }
            Self::Trace(trace) => {
                trace.period() / u32::try_from(trace.spans().len()).unwrap_or(u32::MAX).max(1)
            }
            Self::Markov { every, .. } | Self::Gaussian { every, .. } => *every,
            Self::Blockage { clear_mean, shortest, longest, .. } => {
                clear_mean.saturating_add(*shortest / 2 + *longest / 2) / 2
            }
        }
    }
}

/// A stretch of time with one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its end; [`Instant::MAX`] if it never ends.
    pub until: Instant,
    /// The rate of the span.
    pub rate: Bitrate,
}

/// A running rate process, at its present span.
#[derive(Clone, Debug)]
pub struct RateProcess {
    spec: RateSpec,
    rng: Rng,
    /// Random numbers of deviations, separate from `rng` so that they do not change the chain's states.
    noise: Rng,
    span: Span,
    /// Index of the present span within the specification, or the present state.
    index: usize,
}

impl RateProcess {
    /// The process from time zero on. The specification must have passed the scenario's checks.
    #[must_use]
    pub fn new(spec: RateSpec, rng: Rng) -> Self {
        let span = Span { until: Instant::ZERO, rate: Bitrate::ZERO };
        let noise = match &spec {
            RateSpec::Markov { noise, .. } => rng.child(&format!("noise {noise}")),
            _ => rng.clone(),
        };
        let mut process = Self { spec, rng, noise, span, index: usize::MAX };
        process.step();
        process
    }

    /// The present span.
    #[must_use]
    pub fn span(&self) -> Span {
        self.span
    }

    /// Moves to the next span.
    pub fn step(&mut self) {
        let begin = self.span.until;
        let next = self.index.wrapping_add(1);
        let (index, until, rate) = match &self.spec {
            RateSpec::Constant(rate) => (0, Instant::MAX, *rate),
            RateSpec::Steps(steps) => {
                let i = next.min(steps.len() - 1);
                (i, steps.get(i + 1).map_or(Instant::MAX, |s| Instant::ZERO + s.0), steps[i].1)
            }
            RateSpec::Turns(turns) => {
                let i = next % turns.len();
                (i, begin + turns[i].0, turns[i].1)
            }
            RateSpec::Trace(trace) => {
                let spans = trace.spans();
                let i = next % spans.len();
                let length = spans[i].0 - i.checked_sub(1).map_or(0, |before| spans[before].0);
                (i, begin + Duration::from_nanos(length), spans[i].1)
            }
            RateSpec::Markov { rates, deviations, transitions, every, .. } => {
                let first = self.index == usize::MAX;
                let i = if first { 0 } else { draw(&mut self.rng, &transitions[self.index]) };
                let rate = deviations.get(i).map_or(rates[i], |by| normal(&mut self.noise, rates[i], *by));
                (i, begin + *every, rate)
            }
            RateSpec::Gaussian { mean, deviation, every } => {
                (0, begin + *every, normal(&mut self.rng, *mean, *deviation))
            }
            RateSpec::Blockage { clear, blocked, clear_mean, shortest, longest } => {
                let i = next % 2;
                let (length, rate) = if i == 0 {
                    (exponential(&mut self.rng, *clear_mean), *clear)
                } else {
                    (between(&mut self.rng, *shortest, *longest), *blocked)
                };
                (i, begin + length, rate)
            }
        };
        self.index = index;
        self.span = Span { until, rate };
    }

    /// Moves to the span that contains `at`.
    pub fn advance_to(&mut self, at: Instant) {
        while self.span.until <= at && self.span.until < Instant::MAX {
            self.step();
        }
    }

    /// The integral of the rate over `[from, to)` in bit · ns / s; divide by 10⁹ for bits. Advances the
    /// process to `to`.
    pub(crate) fn integral(&mut self, from: Instant, to: Instant) -> u128 {
        let mut at = from;
        let mut sum = 0_u128;
        self.advance_to(from);
        while at < to {
            let end = self.span.until.min(to);
            let length = end.as_nanos().saturating_sub(at.as_nanos());
            sum += u128::from(self.span.rate.as_bps()) * u128::from(length);
            at = end;
            self.advance_to(at);
        }
        sum
    }
}

fn normal(rng: &mut Rng, mean: Bitrate, deviation: Bitrate) -> Bitrate {
    let drawn = rng.normal(mean.as_bps() as f64, deviation.as_bps() as f64);
    Bitrate::from_bps(drawn.clamp(0.0, MAX_RATE.as_bps() as f64) as u64)
}

fn draw(rng: &mut Rng, row: &[f64]) -> usize {
    let mut left = rng.uniform();
    for (i, p) in row.iter().enumerate() {
        left -= p;
        if left < 0.0 {
            return i;
        }
    }
    row.len() - 1 // the row sums to one, except for rounding
}

/// At least the shortest span of a trace, so that time always advances and so that a trace can be made from the
/// process.
fn exponential(rng: &mut Rng, mean: Duration) -> Duration {
    let nanos = rng.exponential(mean.as_nanos() as f64);
    Duration::from_nanos((nanos as u64).max(10_000))
}

fn between(rng: &mut Rng, shortest: Duration, longest: Duration) -> Duration {
    let width = u64::try_from(longest.saturating_sub(shortest).as_nanos()).unwrap_or(u64::MAX - 1);
    shortest + Duration::from_nanos(rng.below(width + 1))
}
