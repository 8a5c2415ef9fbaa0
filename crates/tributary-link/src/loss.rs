//! Random loss, drawn once per segment.

use core::time::Duration;
use tributary_types::{Instant, Rng};

/// The loss process.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossSpec {
    /// No loss.
    #[default]
    None,
    /// Independent loss with this probability.
    Bernoulli(f64),
    /// `(since, probability)`, ascending, the first at zero: independent loss that changes; the last probability lasts for ever.
    Steps(Vec<(Duration, f64)>),
    /// Bursts: a two-state chain with a transition before each segment (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// Probability of moving from good to bad.
        to_bad: f64,
        /// Probability of moving from bad to good.
        to_good: f64,
        /// Loss probability in the good state.
        loss_good: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
    },
}

impl LossSpec {
    /// Long-run share of lost segments; of steps the last.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Bernoulli(p) => p,
            Self::Steps(ref steps) => steps.last().map_or(0.0, |step| step.1),
            Self::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let moves = to_bad + to_good;
                let bad = if moves > 0.0 { to_bad / moves } else { 0.0 };
                loss_good * (1.0 - bad) + loss_bad * bad
            }
        }
    }

    /// The same process without its first `after`.
    #[must_use]
    pub fn begun_at(&self, after: Duration) -> Self {
        let Self::Steps(steps) = self else { return self.clone() };
        let passed = steps.partition_point(|step| step.0 <= after);
        let present = steps[..passed].last().map(|step| (Duration::ZERO, step.1));
        let later = steps[passed..].iter().map(|step| (step.0 - after, step.1));
        Self::Steps(present.into_iter().chain(later).collect())
    }
}

/// The running loss process.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    spec: LossSpec,
    bad: bool,
    rng: Rng,
}

impl Loss {
    pub(crate) fn new(spec: LossSpec, rng: Rng) -> Self {
        Self { spec, bad: false, rng }
    }

    /// Whether the next segment, which leaves the link at `at`, is lost.
    pub(crate) fn draw(&mut self, at: Instant) -> bool {
        match self.spec {
            LossSpec::None => false,
            LossSpec::Bernoulli(p) => self.rng.chance(p),
            LossSpec::Steps(ref steps) => {
                let passed = steps.partition_point(|step| Instant::ZERO + step.0 <= at);
                self.rng.chance(passed.checked_sub(1).map_or(0.0, |i| steps[i].1))
            }
            LossSpec::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let moves = if self.bad { to_good } else { to_bad };
                self.bad ^= self.rng.chance(moves);
                self.rng.chance(if self.bad { loss_bad } else { loss_good })
            }
        }
    }
}
