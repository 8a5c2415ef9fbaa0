//! Settings of one link, and times within a scenario. Runs nothing.

use crate::{DelaySpec, LossSpec, QueueSpec, RateSpec};
use core::time::Duration;
use tributary_types::{Bitrate, Instant};

/// One of a path's two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Server to client.
    Down,
    /// Client to server.
    Up,
}

/// Settings of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Rate process.
    pub rate: RateSpec,
    /// Delay, without the scenario's base RTT.
    pub delay: DelaySpec,
    /// Random loss.
    pub loss: LossSpec,
    /// Queue limit.
    pub queue: QueueSpec,
}

impl LinkSpec {
    /// A link of constant rate without delay or loss and with the default queue.
    #[must_use]
    pub fn constant(rate: Bitrate) -> Self {
        Self::with_rate(RateSpec::Constant(rate))
    }

    /// A link with this rate process, without delay or loss and with the default queue.
    #[must_use]
    pub fn with_rate(rate: RateSpec) -> Self {
        let (delay, loss, queue) = Default::default();
        Self { rate, delay, loss, queue }
    }
}

/// A time of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// This long after the start.
    At(Duration),
    /// At this share of the duration, 0 to 1; moves if the duration is changed.
    Share(f64),
}

impl Moment {
    /// The time in a scenario of this duration.
    #[must_use]
    pub fn resolve(self, duration: Duration) -> Instant {
        match self {
            Self::At(time) => Instant::ZERO + time,
            Self::Share(share) => {
                Instant::from_nanos((duration.as_nanos() as f64 * share.clamp(0.0, 1.0)) as u64)
            }
        }
    }
}
