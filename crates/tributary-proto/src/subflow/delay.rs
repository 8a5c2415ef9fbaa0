//! Smoothed time from hand-over to acknowledgement of a segment on one subflow.

use core::time::Duration;

use tributary_types::Instant;

/// Delivery delay, smoothed by time and not by sample. It rises slowly: a sample counts as at most 1.5 times
/// the mean, so segments on a path whose queue grows suddenly soon count as late. While the subflow is young and
/// its queue still growing, samples are not limited.
#[derive(Debug)]
pub(super) struct DeliveryDelay {
    pub mean: Option<Duration>,
    /// Least samples of the present period and of the one before.
    least: [Option<Duration>; 2],
    period: Instant,
    since: Instant,
    at: Instant,
}

impl DeliveryDelay {
    /// Time constant of the mean, and how long a subflow is young.
    const MEMORY: Duration = Duration::from_secs(1);
    /// The least sample is remembered for one to two periods.
    const PERIOD: Duration = Duration::from_secs(5);

    pub fn new(now: Instant) -> Self {
        Self { mean: None, least: [None; 2], period: now, since: now, at: now }
    }

    /// The least sample of the last 5 to 10 s. Without samples it is forgotten: a delay learned in a standing queue must not
    /// keep a subflow unused, and so unmeasured, for ever.
    pub fn least(&self, now: Instant) -> Option<Duration> {
        let remembered = now.saturating_since(self.period) < Self::PERIOD * 2;
        self.least.into_iter().flatten().min().filter(|_| remembered)
    }

    pub fn sample(&mut self, now: Instant, sample: Duration) {
        if now.saturating_since(self.period) >= Self::PERIOD {
            self.least = [None, self.least[0]];
            self.period = now;
        }
        self.least[0] = Some(self.least[0].map_or(sample, |least| least.min(sample)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_delay_is_remembered_for_five_to_ten_seconds() {
        let ms = Duration::from_millis;
        let at = Instant::from_millis;
        let mut delay = DeliveryDelay::new(Instant::ZERO);
        assert_eq!(delay.least(Instant::ZERO), None);
        let mut least = |from: u64, until: u64, sample| {
            (from..until).step_by(100).for_each(|now| delay.sample(at(now), ms(sample)));
            delay.least(at(until))
        };
        assert_eq!(least(0, 1000, 5), Some(ms(5)));
        assert_eq!(least(1000, 9900, 40), Some(ms(5)));
        assert_eq!(least(9900, 15_100, 40), Some(ms(40)));
        assert_eq!(least(15_100, 15_200, 20), Some(ms(20)));
        assert_eq!(delay.least(at(24_000)), Some(ms(20)));
        assert_eq!(delay.least(at(26_000)), None);
    }
}
