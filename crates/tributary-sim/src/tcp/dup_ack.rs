//! Loss by counting: a segment is lost when three above it are acknowledged selectively (RFC 6675 §4).
//! A retransmission that is lost is noticed by the time-out alone.

use super::scoreboard::{EVER_RETRANSMITTED, Scoreboard};

/// Up to which segment losses have been judged.
#[derive(Debug, Default)]
pub(super) struct DupAck {
    judged: u64,
}

impl DupAck {
    /// Marks what is lost; `threshold` segments above mean a loss.
    pub fn detect(&mut self, threshold: u64, board: &mut Scoreboard) {
        let (Some(limit), Some(front)) = (board.sacked_from_top(threshold), board.front_id()) else { return };
        for id in self.judged.max(front)..limit {
            if !board.entry(id).has(EVER_RETRANSMITTED) {
                board.mark_lost(id);
            }
        }
        self.judged = self.judged.max(limit);
    }

    /// On a time-out everything is (RFC 6675 §5.1).
    pub fn mark_on_timeout(&mut self, board: &mut Scoreboard) {
        if let (Some(front), Some(back)) = (board.front_id(), board.back_id()) {
            (front..=back).for_each(|id| board.mark_lost(id));
        }
    }
}
