//! RACK: a segment is lost when one sent later has arrived and a reordering window has passed (RFC 8985), as
//! in Linux's `tcp_recovery.c`. The tail-loss probe is in `timer` and `recovery`.

use tributary_types::Instant;

use super::scoreboard::{EVER_RETRANSMITTED, Scoreboard, Sent};

/// Number of recoveries for which a widened window is kept (RFC 8985 §6.2 step 4).
const PERSISTENCE: u8 = 16;
/// Segments acknowledged out of order without meaning a loss (RFC 5681), while no reordering was seen.
pub(super) const DUPLICATE_THRESHOLD: u64 = 3;
/// Linux's `tcp_max_reordering`.
const MOST_REORDERING: u64 = 300;

/// Inputs of the reordering window.
#[derive(Clone, Copy, Debug)]
pub(super) struct RackView {
    pub srtt: u64,
    pub min_rtt: u64,
    pub recovering: bool,
}

/// State of RACK.
#[derive(Debug)]
pub(super) struct Rack {
    /// Transmission time and end of the delivered segment that was sent last.
    newest: Option<(Instant, u64)>,
    rtt: u64,
    advanced: bool,
    /// The reordering window in quarters of the minimum round-trip time.
    steps: u8,
    persist: u8,
    duplicate_seen: bool,
    last_delivered: u64,
    reordering_seen: bool,
    /// How far out of order segments have arrived, in segments.
    reordering: u64,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            newest: None,
            rtt: 0,
            advanced: false,
            steps: 1,
            persist: 0,
            duplicate_seen: false,
            last_delivered: 0,
            reordering_seen: false,
            reordering: DUPLICATE_THRESHOLD,
        }
    }
}

impl Rack {
    /// A segment has arrived (RFC 8985 §6.2 step 2).
    pub fn on_delivered(&mut self, now: Instant, sent: &Sent, min_rtt: u64) {
        let rtt = now.saturating_since(sent.at).as_nanos() as u64;
        if rtt < min_rtt && sent.has(EVER_RETRANSMITTED) {
            return; // it acknowledges the original
        }
        self.advanced = true;
        self.rtt = rtt;
        if self.newest.is_none_or(|newest| (sent.at, sent.end()) > newest) {
            self.newest = Some((sent.at, sent.end()));
        }
    }

    /// A segment that was not retransmitted arrived below delivered data: the path reorders.
    pub fn on_reordering(&mut self, bytes: u64, mss: u64) {
        self.reordering_seen = true;
        if bytes > self.reordering * mss {
            self.reordering = bytes.div_ceil(mss).min(MOST_REORDERING);
        }
    }

    /// By how many segments arrivals may be out of order without a loss.
    pub fn reordering(&self) -> u64 {
        self.reordering
    }

    /// A duplicate was reported: a retransmission was unnecessary (RFC 8985 §6.2 step 4).
    pub fn on_duplicate(&mut self) {
        self.duplicate_seen = true;
    }

    /// Adapts the window, at most once a round trip. `prior` and `delivered` are bytes delivered when the
    /// newest acknowledged segment was sent, and now.
    pub fn adapt(&mut self, prior: u64, delivered: u64) {
        if prior < self.last_delivered {
            self.duplicate_seen = false;
        }
        if self.duplicate_seen {
            self.duplicate_seen = false;
            self.steps = self.steps.saturating_add(1);
            self.last_delivered = delivered;
            self.persist = PERSISTENCE;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// A recovery ended without an undo.
    pub fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    fn reordering_window(&self, view: RackView, board: &Scoreboard) -> u64 {
        if !self.reordering_seen && (view.recovering || board.sacked_count() >= self.reordering) {
            return 0;
        }
        (view.min_rtt / 4 * u64::from(self.steps)).min(view.srtt)
    }

    /// Marks lost segments (RFC 8985 §6.2 step 5). Returns how long to wait for segments that may be lost, in
    /// nanoseconds.
    pub fn detect(&mut self, now: Instant, view: RackView, board: &mut Scoreboard) -> Option<u64> {
        let (newest_at, newest_end) = self.newest?;
        let window = self.reordering_window(view, board);
        let patience = self.rtt.saturating_add(window);
        let mut at = board.oldest_in_flight();
        while let Some(id) = at {
            let sent = board.entry(id);
            if (sent.at, sent.end()) >= (newest_at, newest_end) {
                return None;
            }
            if (now.saturating_since(sent.at).as_nanos() as u64) < patience {
                // Deviates: Linux takes the last such segment in its list, which was sent shortly before the
                // newest.
                let elapsed = now.saturating_since(newest_at).as_nanos() as u64;
                return Some(patience.saturating_sub(elapsed).max(1));
            }
            at = board.later(id);
            board.mark_lost(id);
        }
        None
    }

    /// As [`Self::detect`], after an acknowledgement with new information.
    pub fn detect_on_ack(&mut self, now: Instant, view: RackView, board: &mut Scoreboard) -> Option<u64> {
        if !core::mem::take(&mut self.advanced) {
            return None;
        }
        self.detect(now, view, board)
    }

    /// After a timeout marks the first segment and everything not sent very recently (Linux's
    /// `tcp_timeout_mark_lost`).
    pub fn mark_on_timeout(&self, now: Instant, board: &mut Scoreboard) {
        let Some(front) = board.front_id() else { return };
        let mut at = board.oldest_in_flight();
        while let Some(id) = at {
            let sent = board.entry(id);
            at = board.later(id);
            if id == front || now.saturating_since(sent.at).as_nanos() as u64 >= self.rtt {
                board.mark_lost(id);
            }
        }
    }
}
