//! `blest`: leaves a slow subflow idle when its segment would block the fast one.
//!
//! Source: Ferlin et al., IFIP Networking 2016, and its Linux code: what the fast subflow can send
//! while the slow one's segment is under way, times λ, must fit the window that is left. Deviates:
//! the subflows' slow-start threshold is not visible here, so growth is that of congestion
//! avoidance.

use core::time::Duration;

use tributary_types::{DataSeq, Instant, SubflowId};

use super::{MSS, Pick, SubflowView, WindowView, open};

/// Bounds of λ, in thousandths, and its steps.
const LAMBDA: (u64, u64, u64) = (1000, 1200, 1300);
const LAMBDA_UP: u64 = 40;
const LAMBDA_DOWN: u64 = 10;

/// λ and when it was last moved.
#[derive(Debug)]
pub(crate) struct Blest {
    lambda: u64,
    moved_at: Instant,
    head: DataSeq,
    head_blocked: bool,
}

impl Default for Blest {
    fn default() -> Self {
        Self { lambda: LAMBDA.1, moved_at: Instant::ZERO, head: DataSeq(0), head_blocked: false }
    }
}

impl Blest {
    /// Once a round trip of the slow subflow: up when the window's head stood still, else down.
    fn adapt(&mut self, now: Instant, window: &WindowView<'_>, slow: &SubflowView) {
        self.head_blocked |= window.available() == 0 && window.first() == self.head;
        if now.saturating_since(self.moved_at) < slow.min_rtt.max(Duration::from_millis(1)) {
            return;
        }
        let moved = if self.head_blocked { self.lambda + LAMBDA_UP } else { self.lambda - LAMBDA_DOWN };
        self.lambda = moved.clamp(LAMBDA.0, LAMBDA.2);
        (self.moved_at, self.head, self.head_blocked) = (now, window.first(), false);
    }
}

impl Pick for Blest {
    const NAME: &'static str = "blest";

    fn pick(&mut self, now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<SubflowId> {
        let slow = open(subflows).min_by_key(|s| (s.srtt, s.id))?;
        let fast = subflows.iter().filter(|s| !s.silent).min_by_key(|s| (s.srtt, s.id)).unwrap_or(slow);
        if fast.id == slow.id {
            return Some(fast.id);
        }
        self.adapt(now, window, slow);
        let linger = slow.srtt.max(slow.min_rtt);
        let rounds = (linger.as_nanos() / fast.srtt.as_nanos().max(1)) as u64 + 1;
        let cwnd = (fast.cwnd / MSS).max(1);
        let packets = (cwnd + (rounds - 1) / 2).saturating_mul(rounds);
        let needed = packets.saturating_mul(MSS).saturating_mul(self.lambda) / 1000;
        let left = window.credit().saturating_sub(slow.in_flight);
        (needed <= left).then_some(slow.id)
    }
}
