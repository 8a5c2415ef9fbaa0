//! Loss detection by counting: a segment is lost when three above it are selectively acknowledged (RFC 6675
//! §4). Only a timeout detects a lost retransmission.

use super::scoreboard::{EVER_RETRANSMITTED, Scoreboard};

/// Losses have been judged up to this segment.
#[derive(Debug, Default)]
pub(super) struct DupAck {
    judged: u64,
}

impl DupAck {
    /// Marks lost segments: those with `threshold` selectively acknowledged segments above.
    pub fn detect(&mut self, threshold: u64, board: &mut Scoreboard) {
        let (Some(limit), Some(front)) = (board.sacked_from_top(threshold), board.front_id()) else { return };
        for id in self.judged.max(front)..limit {
            if !board.entry(id).has(EVER_RETRANSMITTED) {
                board.mark_lost(id);
            }
        }
        self.judged = self.judged.max(limit);
    }

    /// After a timeout everything is lost (RFC 6675 §5.1).
    pub fn mark_on_timeout(&mut self, board: &mut Scoreboard) {
        if let (Some(front), Some(back)) = (board.front_id(), board.back_id()) {
            (front..=back).for_each(|id| board.mark_lost(id));
        }
    }
}
