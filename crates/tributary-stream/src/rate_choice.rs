//! Chooses the next representation: the highest one that should arrive in time.
//!
//! The throughput estimate is the harmonic mean of the last transfers. A choice goes up by at most two steps. The
//! time until the play-out deadline serves as the buffer. Sans-IO: times and sizes go in, an index comes out. It is
//! deliberately simple and the same for all transports, because the transports are compared.

use core::time::Duration;
use tributary_player::TransferRates;
use tributary_types::{Bitrate, DataSize};

/// Number of transfers in the mean.
const MEMORY: usize = 4;
/// Share of the estimated throughput that the choice uses.
const SAFETY: f64 = 0.8;
/// Maximum number of steps up at once.
const STEPS_UP: usize = 2;

/// The state of the choice.
#[derive(Clone, Debug)]
pub struct RateChoice {
    rates: Vec<Bitrate>,
    gop: Duration,
    recent: TransferRates,
    current: usize,
}

impl RateChoice {
    /// Chooses among `rates`, in ascending order, for GoPs of length `gop`.
    #[must_use]
    pub fn new(rates: Vec<Bitrate>, gop: Duration) -> Self {
        Self { rates, gop, recent: TransferRates::new(MEMORY), current: 0 }
    }

    /// Records that `size` took `time` from its availability to its last byte.
    pub fn on_transfer(&mut self, size: DataSize, time: Duration) {
        self.recent.push(size, time);
    }

    /// Estimated throughput; `None` before the first transfer.
    #[must_use]
    pub fn estimate(&self) -> Option<Bitrate> {
        self.recent.harmonic_mean()
    }

    /// The representation to request when `budget` is the time between the earliest start of its transfer and its
    /// deadline. The first choice is the lowest.
    pub fn choose(&mut self, budget: Duration) -> usize {
        let share = (budget.as_secs_f64() / self.gop.as_secs_f64().max(1e-9)).min(1.0);
        let affordable = self.estimate().map_or(0.0, |e| e.as_bps() as f64 * SAFETY * share);
        let fitting = self.rates.iter().take_while(|r| r.as_bps() as f64 <= affordable).count();
        self.current = fitting.saturating_sub(1).min(self.current + STEPS_UP);
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOP: Duration = Duration::from_secs(1);

    fn chooser() -> RateChoice {
        RateChoice::new([20, 40, 60, 80, 100, 120, 150, 180].map(Bitrate::from_mbps).to_vec(), GOP)
    }

    fn feed(chooser: &mut RateChoice, mbps: u64) {
        chooser.on_transfer(Bitrate::from_mbps(mbps).size_in(GOP), GOP);
    }

    #[test]
    fn begins_with_the_lowest_and_rises_at_most_two_steps_at_a_time() {
        let mut chooser = chooser();
        assert_eq!(chooser.choose(GOP), 0);
        feed(&mut chooser, 1000);
        let climbed: Vec<usize> = (0..5).map(|_| chooser.choose(GOP)).collect();
        assert_eq!(climbed, vec![2, 4, 6, 7, 7]);
    }

    #[test]
    fn uses_four_fifths_of_the_estimate_and_falls_at_once() {
        let mut chooser = chooser();
        (0..4).for_each(|_| feed(&mut chooser, 150)); // 120 Mbit/s are affordable
        assert_eq!((0..4).map(|_| chooser.choose(GOP)).last(), Some(5));
        feed(&mut chooser, 10); // harmonic mean of 150, 150, 150, 10 is 33.3
        assert_eq!(chooser.estimate().map(|e| e.as_bps() / 1_000_000), Some(33));
        assert_eq!(chooser.choose(GOP), 0);
    }

    #[test]
    fn with_little_time_left_a_small_gop_is_chosen() {
        let mut chooser = chooser();
        (0..4).for_each(|_| feed(&mut chooser, 150));
        assert_eq!((0..4).map(|_| chooser.choose(GOP)).max(), Some(5));
        assert_eq!(chooser.choose(GOP / 2), 2);
        assert_eq!(chooser.choose(Duration::ZERO), 0);
        assert_eq!(RateChoice::new(Vec::new(), Duration::ZERO).choose(GOP), 0);
    }

    #[test]
    fn an_empty_transfer_does_not_change_the_estimate() {
        let mut chooser = chooser();
        chooser.on_transfer(DataSize::ZERO, GOP);
        chooser.on_transfer(DataSize::from_bytes(9), Duration::ZERO);
        assert_eq!(chooser.estimate(), None);
    }
}
