//! Rates of the last complete transfers, of media segments or GoPs.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::{Bitrate, DataSize};

/// The rates of the latest transfers, oldest first.
#[derive(Debug, Clone)]
pub struct TransferRates {
    remembered: usize,
    rates: VecDeque<Bitrate>,
}

impl TransferRates {
    /// Keeps the latest `remembered` transfers, at least one.
    #[must_use]
    pub fn new(remembered: usize) -> Self {
        Self { remembered: remembered.max(1), rates: VecDeque::new() }
    }

    /// Records a transfer of `size` that took `time`, from its earliest start to its last byte. Transfers of
    /// zero time or zero bytes are ignored.
    pub fn push(&mut self, size: DataSize, time: Duration) {
        let Some(rate) = Bitrate::of(size, time).filter(|rate| *rate > Bitrate::ZERO) else { return };
        if self.rates.len() == self.remembered {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
    }

    /// The rates, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Bitrate> + '_ {
        self.rates.iter().copied()
    }

    /// Harmonic mean of the rates (FESTIVE, CoNEXT 2012): one fast transfer changes it little. `None` before the first.
    #[must_use]
    pub fn harmonic_mean(&self) -> Option<Bitrate> {
        let inverse: f64 = self.iter().map(|rate| 1.0 / rate.as_bps() as f64).sum();
        (inverse > 0.0).then(|| Bitrate::from_bps((self.rates.len() as f64 / inverse) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_transfers_count_and_empty_ones_do_not() {
        let mut rates = TransferRates::new(2);
        assert_eq!(rates.harmonic_mean(), None);
        let mut push = |mbps: u64| {
            rates.push(Bitrate::from_mbps(mbps).size_in(Duration::from_secs(1)), Duration::from_secs(1));
        };
        [100, 30, 60, 0].into_iter().for_each(&mut push);
        assert_eq!(rates.iter().map(|rate| rate.as_mbps_f64()).collect::<Vec<_>>(), [30.0, 60.0]);
        assert_eq!(rates.harmonic_mean(), Some(Bitrate::from_mbps(40)));
    }
}
