//! Counts agree with the entries after any operation.

use super::*;
use crate::tcp::rate_sample::RateEstimator;
use proptest::prelude::*;

impl Scoreboard {
    /// Recounts everything naively.
    fn check(&self) {
        let sum = |flag: u8| {
            self.ring.iter().filter(|sent| sent.has(flag)).map(|sent| u64::from(sent.span)).sum::<u64>()
        };
        assert_eq!(self.sacked_bytes, sum(SACKED));
        assert_eq!(self.lost_bytes, sum(LOST));
        assert_eq!(self.retransmitted_bytes, sum(RETRANSMITTED));
        assert_eq!(self.out, self.ring.iter().map(|sent| u64::from(sent.span)).sum::<u64>());
        // The list contains the segments in flight, in the order of transmission.
        let mut listed = Vec::new();
        let mut at = self.oldest_in_flight();
        while let Some(id) = at {
            listed.push((self.entry(id).at, id));
            at = self.later(id);
        }
        assert!(listed.iter().zip(listed.iter().skip(1)).all(|(a, b)| a.0 <= b.0), "{listed:?}");
        let mut ids: Vec<u64> = listed.iter().map(|(_, id)| *id).collect();
        ids.sort_unstable();
        let expected: Vec<u64> = (self.base..self.base + self.ring.len() as u64)
            .filter(|id| {
                matches!(self.entry(*id).flags & (SACKED | LOST | RETRANSMITTED), 0 | RETRANSMITTED | 6)
            })
            .collect();
        assert_eq!(ids, expected);
        let _ = self.in_flight();
    }
}

proptest! {
    #[test]
    fn counts_and_order_hold_under_any_sequence_of_events(
        steps in prop::collection::vec((0_u8..7, 0_u64..40, 1_u64..10), 1..80),
    ) {
        let mut board = Scoreboard::new(100);
        let mut rate = RateEstimator::default();
        let (mut next, mut now) = (1_u64, Instant::ZERO);
        for (kind, at, length) in steps {
            now = Instant::from_nanos(now.as_nanos() + 10);
            let stamp = rate.stamp(now, false, 0);
            let front = board.front().map_or(next, |sent| sent.seq);
            let id = board.front_id().map(|front| front + at).filter(|id| *id <= board.back_id().unwrap());
            match kind {
                0 | 1 => {
                    board.push(Sent::new(now, next, 100, 0, stamp));
                    next += 100;
                }
                2 => board.acknowledge((front + 30 * length).min(next), |_| {}),
                3 => {
                    let from = front + 50 * at;
                    board.sack(from, (from + 100 * length).min(next), |sent| assert!(!sent.has(SACKED)));
                }
                4 => if let Some(id) = id { board.mark_lost(id) },
                5 => if let Some(id) = board.next_lost() { board.retransmit(now, id, stamp) },
                _ => if at < 3 { board.unmark_lost() } else if at < 5 { board.forget_sacks() },
            }
            board.check();
        }
        board.acknowledge(next, |_| {});
        prop_assert_eq!((board.in_flight(), board.out(), board.next_lost()), (0, 0, None));
        prop_assert!(board.oldest_in_flight().is_none());
    }
}

#[test]
fn the_third_segment_from_the_top_is_found_over_gaps() {
    let mut board = Scoreboard::new(10);
    let stamp = RateEstimator::default().stamp(Instant::ZERO, true, 0);
    for index in 0..10 {
        board.push(Sent::new(Instant::ZERO, 1 + 10 * index, 10, 0, stamp));
    }
    board.sack(81, 101, |_| {});
    assert_eq!(board.sacked_from_top(3), None);
    board.sack(41, 61, |_| {});
    assert_eq!(board.sacked_from_top(3), Some(5));
    assert_eq!(board.highest_sacked(), Some(101));
}
