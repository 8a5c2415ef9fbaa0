//! How long a segment takes from hand-over to acknowledgement on one subflow, smoothed.

use core::time::Duration;

use tributary_types::Instant;

/// Smoothed delivery delay, by time and not by sample, and slow to believe in a collapse: a sample
/// counts as at most half as much again as the mean, so a path that sinks into its queue soon
/// counts as late. While the subflow is young its queue is still growing, and it is believed.
#[derive(Debug)]
pub(super) struct DeliveryDelay {
    pub mean: Option<Duration>,
    since: Instant,
    at: Instant,
}

impl DeliveryDelay {
    /// Time constant of the mean, and how long a subflow is young.
    const MEMORY: Duration = Duration::from_secs(1);

    pub fn new(now: Instant) -> Self {
        Self { mean: None, since: now, at: now }
    }

    pub fn sample(&mut self, now: Instant, sample: Duration) {
        let passed = now.saturating_since(self.at);
        let life = now.saturating_since(self.since);
        self.at = now;
        self.mean = Some(match self.mean {
            None => sample,
            Some(mean) => {
                let young = life < Self::MEMORY;
                let sample = if young { sample } else { sample.min(mean * 3 / 2) };
                let memory = if young { life / 8 } else { Self::MEMORY };
                let weight = passed.as_secs_f64() / (passed + memory).as_secs_f64().max(1e-9);
                if sample >= mean {
                    mean + (sample - mean).mul_f64(weight)
                } else {
                    mean - (mean - sample).mul_f64(weight)
                }
            }
        });
    }
}
