//! Random loss, drawn once per segment.

use tributary_types::Rng;

/// The loss process.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossSpec {
    /// No loss.
    #[default]
    None,
    /// Independent loss with this probability.
    Bernoulli(f64),
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
    /// Long-run share of lost segments.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Bernoulli(p) => p,
            Self::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let moves = to_bad + to_good;
                let bad = if moves > 0.0 { to_bad / moves } else { 0.0 };
                loss_good * (1.0 - bad) + loss_bad * bad
            }
        }
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

    /// Whether the next segment is lost.
    pub(crate) fn draw(&mut self) -> bool {
        match self.spec {
            LossSpec::None => false,
            LossSpec::Bernoulli(p) => self.rng.chance(p),
            LossSpec::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let moves = if self.bad { to_good } else { to_bad };
                self.bad ^= self.rng.chance(moves);
                self.rng.chance(if self.bad { loss_bad } else { loss_good })
            }
        }
    }
}
