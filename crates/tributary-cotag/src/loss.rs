//! The share of a link's packets that are lost, as the receiver counts it from the packets' numbers. The numbers are
//! those of the nodes' envelope, not of the coded packets.
//!
//! Rises at once with a worse block of numbers and falls slowly, because too few redundant packets cost more
//! than too many.

/// Numbers in a block.
const BLOCK: u64 = 512;
/// Part of the difference by which the share falls after a better block.
const FALL: f64 = 0.125;

/// The count at the receiving end of a link.
#[derive(Clone, Debug, Default)]
pub struct LossMeter {
    /// First number of the present block, and the number after the newest one.
    begin: u64,
    end: u64,
    /// Packets of the present block received.
    received: u64,
    share: Option<f64>,
}

impl LossMeter {
    /// A packet with this number has arrived, for the first time.
    pub fn on_received(&mut self, number: u64) {
        if number < self.begin {
            return; // It was counted as lost with its block.
        }
        self.received += 1;
        self.end = self.end.max(number.saturating_add(1));
        let numbers = self.end - self.begin;
        if numbers < BLOCK {
            return;
        }
        let lost = 1.0 - self.received as f64 / numbers as f64;
        let before = self.share.unwrap_or(lost);
        self.share = Some(lost.max(before + FALL * (lost - before)));
        (self.begin, self.received) = (self.end, 0);
    }

    /// The share, once the first block is complete.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        self.share
    }

    /// The share lost on this link and the links after it, which lose the share `beyond`. The two shares are added,
    /// which is accurate while they are small. `None` if either is unknown.
    #[must_use]
    pub fn share_with(&self, beyond: Option<f64>) -> Option<f64> {
        self.share.zip(beyond).map(|(here, beyond)| here + beyond)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_follows_the_loss() {
        let mut meter = LossMeter::default();
        let mut after = |numbers: core::ops::Range<u64>, every: u64| {
            numbers.filter(|number| number % every != 0).for_each(|number| meter.on_received(number));
            meter.share()
        };
        assert_eq!(after(1..500, u64::MAX), None, "no block is complete");
        assert!(after(500..2000, u64::MAX).expect("two blocks") < 0.003, "only number 0 is missing");
        let share = after(2000..6000, 20).expect("known");
        assert!((0.045..0.06).contains(&share), "5 % are lost, measured {share}");
        let share = after(6000..40_000, u64::MAX).expect("known");
        assert!(share < 0.002, "no more loss, measured {share}");
    }

    #[test]
    fn late_packets_and_large_gaps_are_counted_once() {
        let mut meter = LossMeter::default();
        (0..512).for_each(|number| meter.on_received(number));
        assert_eq!(meter.share(), Some(0.0));
        meter.on_received(10);
        meter.on_received(u64::MAX - 1);
        let share = meter.share().expect("known");
        assert!(share > 0.999 && share <= 1.0, "{share}");
        meter.on_received(5);
        assert_eq!(meter.share(), Some(share));
    }
}
