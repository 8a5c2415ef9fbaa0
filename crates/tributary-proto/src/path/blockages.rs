//! How long a path's recent blockages lasted, from how late segments on it were acknowledged. A fade counts as much as an
//! interruption: what matters is how much later than expected a segment arrives.
//!
//! Not here: what is done about it ([`crate::scheduler`]). Beyond the FBDT paper, which has no rule for blockages.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::Instant;

/// Segments that are late by less are not blocked: the delay of acknowledgements and of other computers varies by it.
const SHORTEST: Duration = Duration::from_millis(30);
/// A longer blockage outlasts a transport's retransmission timeout (Linux: at least 200 ms beyond the round trip), so what it
/// held up does not arrive as soon as it ends.
const LONGEST: Duration = Duration::from_millis(200);
/// Blockages that are remembered, and for how long.
const REMEMBERED: usize = 16;
const MEMORY: Duration = Duration::from_secs(10);
/// Blockages from which the usual length is known.
const LEAST: usize = 3;

/// Lengths of a path's recent blockages.
#[derive(Debug, Default)]
pub(super) struct Blockages {
    /// When they ended, and their lengths; oldest first.
    recent: VecDeque<(Instant, Duration)>,
    /// The greatest lateness since segments were last on time.
    present: Duration,
}

impl Blockages {
    /// A segment was acknowledged, this much later than expected when it was handed over.
    pub fn delivered(&mut self, now: Instant, lateness: Duration) {
        if lateness >= SHORTEST {
            self.present = self.present.max(lateness);
        } else if !self.present.is_zero() {
            let length = std::mem::take(&mut self.present);
            self.ended(now, length);
        }
    }

    /// A blockage ended with a new connection.
    pub fn replaced(&mut self, now: Instant) {
        self.present = Duration::ZERO;
        self.ended(now, Duration::MAX);
    }

    fn ended(&mut self, now: Instant, length: Duration) {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back((now, length));
    }

    /// The longest of the blockages that the transport bridges without a timeout; zero unless there were several
    /// lately and three quarters of all were of this kind.
    pub fn usual(&self, now: Instant) -> Duration {
        let lately = || {
            self.recent.iter().filter(|(at, _)| now.saturating_since(*at) < MEMORY).map(|(_, length)| *length)
        };
        let short = || lately().filter(|length| *length < LONGEST);
        let known = short().count() >= LEAST && short().count() * 4 >= lately().count() * 3;
        short().max().filter(|_| known).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usual length after blockages of these lengths, one each half second.
    fn usual(lengths: &[u64]) -> u128 {
        let (mut blockages, mut now) = (Blockages::default(), 0);
        for length in lengths {
            for lateness in [1, *length, length / 2, 1] {
                now += 125;
                blockages.delivered(Instant::from_millis(now), Duration::from_millis(lateness));
            }
        }
        blockages.usual(Instant::from_millis(now)).as_millis()
    }

    #[test]
    fn the_longest_of_several_short_blockages_is_the_usual_one() {
        assert_eq!(usual(&[100, 100]), 0, "two may be chance");
        assert_eq!(usual(&[100, 60, 110, 90]), 110);
        assert_eq!(usual(&[20; 10]), 0, "jitter");
    }

    #[test]
    fn blockages_that_outlast_a_timeout_are_not_waited_for() {
        assert_eq!(usual(&[300; 10]), 0);
        assert_eq!(usual(&[100, 110, 1000, 100]), 110, "one in four");
        assert_eq!(usual(&[100, 1000, 110, 1000, 100]), 0, "two in five");
    }

    #[test]
    fn old_blockages_and_connections_that_were_replaced_count_as_what_they_are() {
        let at = Instant::from_millis;
        let mut blockages = Blockages::default();
        for ms in [0, 100, 200] {
            blockages.delivered(at(ms), Duration::from_millis(80));
            blockages.delivered(at(ms + 50), Duration::ZERO);
        }
        assert_eq!(blockages.usual(at(300)), Duration::from_millis(80));
        assert_eq!(blockages.usual(at(11_000)), Duration::ZERO);
        blockages.replaced(at(300));
        blockages.replaced(at(400));
        assert_eq!(blockages.usual(at(400)), Duration::ZERO);
    }
}
