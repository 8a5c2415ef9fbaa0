//! Round-trip times and the retransmission timeout: RFC 6298 as in Linux's `tcp_rtt_estimator`.

use tributary_types::Instant;

use super::config::TcpConfig;

/// How long the minimum round-trip time is remembered (Linux's `tcp_min_rtt_wlen`), in nanoseconds.
const MIN_RTT_MEMORY: u64 = 300_000_000_000;

/// The estimator. Times in nanoseconds; `srtt` is stored times eight and `deviation` times four.
#[derive(Clone, Debug)]
pub(super) struct RttEstimator {
    srtt8: u64,
    deviation4: u64,
    /// Largest deviation of the present round trip.
    deviation_most: u64,
    /// The deviation term of the timeout: never below the floor.
    variance: u64,
    /// The present round trip ends when this is acknowledged.
    round_end: u64,
    floor: u64,
    ceiling: u64,
    initial: u64,
    /// The timeout is a whole number of ticks, then doubled; zero means an exact clock.
    tick: u64,
    backoff: u32,
    min_rtt: Option<(u64, Instant)>,
}

impl RttEstimator {
    pub fn new(config: &TcpConfig) -> Self {
        Self {
            srtt8: 0,
            deviation4: 0,
            deviation_most: 0,
            variance: 0,
            round_end: 0,
            floor: config.min_rto.as_nanos() as u64,
            ceiling: config.max_rto.as_nanos() as u64,
            initial: config.initial_rto.as_nanos() as u64,
            tick: config.tick.as_nanos() as u64,
            backoff: 0,
            min_rtt: None,
        }
    }

    /// A sample for the smoothed time and the timeout. `unacknowledged` is the first unacknowledged number,
    /// `next` the next to be sent.
    pub fn sample(&mut self, rtt: u64, unacknowledged: u64, next: u64) {
        self.backoff = 0; // RFC 6298 §5.7: a valid sample ends the back-off
        if self.srtt8 == 0 {
            self.srtt8 = (rtt * 8).max(1);
            self.deviation4 = rtt * 2;
            self.variance = self.deviation4.max(self.floor);
            self.deviation_most = self.variance;
            self.round_end = next;
            return;
        }
        let error = rtt as i64 - (self.srtt8 / 8) as i64;
        self.srtt8 = self.srtt8.saturating_add_signed(error).max(1);
        let mut change = error.abs() - (self.deviation4 / 4) as i64;
        if error < 0 && change > 0 {
            change /= 8; // falling round-trip times must not raise the time-out much
        }
        self.deviation4 = self.deviation4.saturating_add_signed(change);
        if self.deviation4 > self.deviation_most {
            self.deviation_most = self.deviation4;
            self.variance = self.variance.max(self.deviation_most);
        }
        if unacknowledged > self.round_end {
            if self.deviation_most < self.variance {
                self.variance -= (self.variance - self.deviation_most) / 4;
            }
            self.round_end = next;
            self.deviation_most = self.floor;
        }
    }

    /// A sample for the minimum.
    pub fn sample_min(&mut self, now: Instant, rtt: u64) {
        let rtt = rtt.max(1);
        if self
            .min_rtt
            .is_none_or(|(least, at)| rtt <= least || now.as_nanos() - at.as_nanos() > MIN_RTT_MEMORY)
        {
            self.min_rtt = Some((rtt, now));
        }
    }

    /// Mean deviation, nanoseconds.
    pub fn mean_deviation(&self) -> u64 {
        self.deviation4 / 4
    }

    pub fn has_sample(&self) -> bool {
        self.srtt8 > 0
    }

    /// Smoothed round-trip time, nanoseconds; zero before the first sample.
    pub fn srtt(&self) -> u64 {
        self.srtt8 / 8
    }

    pub fn variance(&self) -> u64 {
        self.variance
    }

    /// Minimum round-trip time, nanoseconds; zero before the first sample.
    pub fn min_rtt(&self) -> u64 {
        self.min_rtt.map_or(0, |(rtt, _)| rtt)
    }

    /// The timeout including back-off, in nanoseconds.
    pub fn rto(&self) -> u64 {
        let mut base = if self.srtt8 == 0 { self.initial } else { self.srtt() + self.variance };
        if self.tick > 0 {
            base = base.div_ceil(self.tick) * self.tick;
        }
        base.saturating_mul(1_u64.checked_shl(self.backoff.min(40)).unwrap_or(u64::MAX)).min(self.ceiling)
    }

    /// The floor of the timeout's deviation term, nanoseconds.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// After a timeout the next one takes twice as long (RFC 6298 §5.5).
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(40);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimator() -> RttEstimator {
        RttEstimator::new(&TcpConfig::default())
    }

    #[test]
    fn the_timeout_starts_at_a_second_then_is_the_smoothed_time_and_at_least_200_ms() {
        let mut rtt = estimator();
        assert_eq!(rtt.rto(), 1_000_000_000);
        for round in 0..100 {
            rtt.sample(50_000_000, round * 10, round * 10 + 5);
        }
        assert_eq!(rtt.srtt(), 50_000_000);
        assert_eq!(rtt.rto(), 252_000_000); // 63 ticks
    }

    #[test]
    fn the_timeout_doubles_to_its_ceiling_and_a_sample_ends_that() {
        let mut rtt = estimator();
        rtt.sample(100_000_000, 0, 1);
        let first = rtt.rto();
        rtt.back_off();
        assert_eq!(rtt.rto(), 2 * first);
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), 120_000_000_000);
        rtt.sample(100_000_000, 2, 3);
        assert!(rtt.rto() <= first);
    }

    #[test]
    fn rising_times_raise_the_timeout_at_once_and_falling_ones_hardly() {
        let mut rising = estimator();
        let mut falling = estimator();
        rising.sample(50_000_000, 0, 1);
        falling.sample(900_000_000, 0, 1);
        let before = falling.variance();
        for round in 1..4 {
            rising.sample(900_000_000, round, round + 1);
            falling.sample(50_000_000, round, round + 1);
        }
        assert!(rising.rto() > 900_000_000);
        assert!(falling.variance() <= before + before / 8);
    }

    #[test]
    fn the_least_time_is_kept() {
        let mut rtt = estimator();
        for (second, sample) in [(0, 50), (1, 30), (2, 80)] {
            rtt.sample_min(Instant::from_millis(second * 1000), sample);
        }
        assert_eq!(rtt.min_rtt(), 30);
        rtt.sample_min(Instant::from_millis(400_000), 80);
        assert_eq!(rtt.min_rtt(), 80);
    }
}
