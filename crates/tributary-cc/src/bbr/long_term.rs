//! The rate of a policed path: if losses are heavy and two intervals have the same rate, BBR uses this rate
//! for a while instead of the largest sample (Linux's `bbr_lt_bw_sampling`).

use tributary_types::Instant;

use super::super::cwnd::seconds;

/// Shortest interval in rounds; the longest is four times this.
const LEAST_ROUNDS: u32 = 4;
/// Share of loss above which a path looks policed.
const LOSS: f64 = 50.0 / 256.0;
/// Two intervals agree within this share, or this many bytes a second.
const RATE_TOLERANCE: (f64, f64) = (1.0 / 8.0, 500.0);
/// Rounds for which the rate is used.
const VALID_ROUNDS: u32 = 48;

/// Information from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    pub now: Instant,
    /// Total bytes delivered.
    pub delivered: u64,
    /// Bytes detected as lost by it.
    pub lost: u64,
    /// The sender had too little to send.
    pub limited: bool,
    pub round_started: bool,
    /// Bandwidth is being probed.
    pub probing: bool,
}

/// The state of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct LongTerm {
    /// Bytes a second of the last interval; zero before the first.
    rate: f64,
    in_use: bool,
    sampling: bool,
    rounds: u32,
    /// Total bytes lost.
    lost: u64,
    /// When the interval began, and the bytes delivered and lost until then.
    since: (Instant, u64, u64),
}

impl LongTerm {
    /// The rate to use, bytes a second.
    pub fn rate(&self) -> Option<f64> {
        self.in_use.then_some(self.rate)
    }

    /// Discards the rate.
    pub fn reset(&mut self) {
        *self = Self { lost: self.lost, since: self.since, ..Self::default() };
    }

    /// Processes an acknowledgement. Returns whether a rate in use was discarded.
    pub fn on_ack(&mut self, sight: Sight) -> bool {
        self.lost = self.lost.saturating_add(sight.lost);
        if self.in_use {
            self.rounds += u32::from(sight.probing && sight.round_started);
            let over = self.rounds >= VALID_ROUNDS;
            if over {
                self.reset();
            }
            return over;
        }
        self.sample(sight);
        false
    }

    fn sample(&mut self, sight: Sight) {
        if !self.sampling {
            // The first loss shows that a policer's tokens are used up.
            if sight.lost > 0 {
                self.begin(sight);
                self.sampling = true;
            }
            return;
        }
        if sight.limited {
            return self.reset();
        }
        self.rounds += u32::from(sight.round_started);
        if self.rounds < LEAST_ROUNDS {
            return;
        }
        if self.rounds > 4 * LEAST_ROUNDS {
            return self.reset();
        }
        let (at, delivered, lost) = self.since;
        let delivered = sight.delivered.saturating_sub(delivered) as f64;
        let lost = self.lost.saturating_sub(lost) as f64;
        let millis = sight.now.saturating_since(at).as_millis();
        if sight.lost == 0 || delivered == 0.0 || lost < LOSS * delivered || millis < 1 {
            return;
        }
        let nanos = sight.now.as_nanos().saturating_sub(at.as_nanos());
        self.conclude(delivered / seconds(nanos), sight);
    }

    /// An interval is over: two with nearly the same rate indicate a policer.
    fn conclude(&mut self, rate: f64, sight: Sight) {
        let difference = (rate - self.rate).abs();
        if self.rate > 0.0 && (difference <= RATE_TOLERANCE.0 * self.rate || difference <= RATE_TOLERANCE.1) {
            self.rate = f64::midpoint(rate, self.rate);
            self.in_use = true;
            self.rounds = 0;
            return;
        }
        self.rate = rate;
        self.begin(sight);
    }

    fn begin(&mut self, sight: Sight) {
        self.since = (sight.now, sight.delivered, self.lost);
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round every 100 ms at 1 MB/s, `lost` bytes lost with each.
    fn rounds(long_term: &mut LongTerm, count: u64, from: u64, lost: u64) -> u64 {
        for round in from..from + count {
            long_term.on_ack(Sight {
                now: Instant::from_millis(round * 100),
                delivered: round * 100_000,
                lost,
                limited: false,
                round_started: true,
                probing: true,
            });
        }
        from + count
    }

    #[test]
    fn heavy_loss_at_one_rate_is_a_policer_for_48_rounds() {
        let mut long_term = LongTerm::default();
        let next = rounds(&mut long_term, 9, 0, 25_000);
        assert_eq!(long_term.rate(), Some(1e6));
        let next = rounds(&mut long_term, 47, next, 0);
        assert_eq!(long_term.rate(), Some(1e6));
        rounds(&mut long_term, 1, next, 0);
        assert_eq!(long_term.rate(), None);
    }

    #[test]
    fn light_loss_is_not_a_policer() {
        let mut long_term = LongTerm::default();
        rounds(&mut long_term, 100, 0, 15_000);
        assert_eq!(long_term.rate(), None);
    }

    #[test]
    fn a_sender_without_data_starts_over() {
        let mut long_term = LongTerm::default();
        rounds(&mut long_term, 7, 0, 25_000);
        let sight = Sight {
            now: Instant::from_millis(750),
            delivered: 750_000,
            lost: 25_000,
            limited: true,
            round_started: true,
            probing: true,
        };
        long_term.on_ack(sight);
        rounds(&mut long_term, 5, 8, 25_000);
        assert_eq!(long_term.rate(), None);
    }
}
