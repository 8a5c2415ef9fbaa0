//! COTAG's channel: two mmWave links with correlated good and bad times, as a four-state Markov chain.
//!
//! Describes one of the two links as a rate process. Source: the COTAG paper's evaluation section.

use crate::RateSpec;
use core::time::Duration;
use tributary_types::Bitrate;

/// Two links, each in a high or a low state. At each step link 1 changes its state with probability `p`. Link
/// 2 takes link 1's new state with probability `q`, else the opposite one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CotagChannel {
    /// Probability that link 1 changes its state.
    pub p: f64,
    /// Probability that link 2 follows; the long-run correlation of the states is 2·q − 1.
    pub q: f64,
    /// Mean and standard deviation of the rate in the high state.
    pub high: (Bitrate, Bitrate),
    /// Mean and standard deviation of the rate in the low state.
    pub low: (Bitrate, Bitrate),
    /// Time between steps.
    pub every: Duration,
}

impl CotagChannel {
    /// The paper's channel: 10 Gbit/s in the high state and 3 Gbit/s in the low one, a step every 100 ms.
    ///
    /// Deviates: the paper gives 1 and 0.3 as parameters of the normal distributions without units; they are taken as
    /// standard deviations in Gbit/s.
    #[must_use]
    pub fn paper(p: f64, q: f64) -> Self {
        Self {
            p,
            q,
            high: (Bitrate::from_mbps(10_000), Bitrate::from_mbps(1_000)),
            low: (Bitrate::from_mbps(3_000), Bitrate::from_mbps(300)),
            every: Duration::from_millis(100),
        }
    }

    /// The chain's transitions over (link 1, link 2) = HH, HL, LH, LL. COTAG, evaluation: from any
    /// state with link 1 = x to (x, x) with (1−p)q, (x, x̄) with (1−p)(1−q), (x̄, x̄) with pq, (x̄, x)
    /// with p(1−q).
    #[must_use]
    pub fn transitions(&self) -> Vec<Vec<f64>> {
        let (p, q) = (self.p, self.q);
        let high = vec![(1.0 - p) * q, (1.0 - p) * (1.0 - q), p * (1.0 - q), p * q];
        let low = vec![p * q, p * (1.0 - q), (1.0 - p) * (1.0 - q), (1.0 - p) * q];
        vec![high.clone(), high, low.clone(), low]
    }

    /// The rate of link 1 or 2. Both links have the same states only on paths that share a radio
    /// ([`PathSpec::radio`](crate::PathSpec)).
    ///
    /// # Panics
    /// When `link` is neither 1 nor 2.
    #[must_use]
    pub fn rate(&self, link: u32) -> RateSpec {
        let states = match link {
            1 => [self.high, self.high, self.low, self.low],
            2 => [self.high, self.low, self.high, self.low],
            _ => panic!("the channel has links 1 and 2, not {link}"),
        };
        RateSpec::Markov {
            rates: states.iter().map(|state| state.0).collect(),
            deviations: states.iter().map(|state| state.1).collect(),
            noise: link,
            transitions: self.transitions(),
            every: self.every,
        }
    }
}
