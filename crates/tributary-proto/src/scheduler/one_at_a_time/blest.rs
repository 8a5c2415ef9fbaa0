//! `blest`: leaves a slow subflow idle when its segment would block the fast one.
//!
//! Source: Ferlin et al., IFIP Networking 2016, and its Linux code: the bytes that the fast subflow can send
//! while the slow one's segment is in flight, times λ, must fit the connection's window together with the bytes on
//! the slow one. Deviates: the slow-start threshold is not visible here, so growth is that of congestion
//! avoidance; there is no opportunistic retransmission, so retransmissions of the head by the session or the
//! transport count; the RTT of an idle subflow is aged (see `idle.rs`).

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_types::{Instant, SubflowId};

use super::idle::Idleness;
use super::{MSS, Pick, SubflowView, WindowView, newest_bytes, open};

/// λ in thousandths: least, initial and largest value, and the size of a step.
const LAMBDA: (u64, u64, u64) = (1000, 1200, 1300);
const LAMBDA_UP: u64 = 40;
const LAMBDA_DOWN: u64 = 10;

/// λ, when it last changed, and the smallest and largest smoothed RTT of each subflow.
#[derive(Debug)]
pub(crate) struct Blest {
    lambda: u64,
    moved_at: Instant,
    head_sent_again: bool,
    extremes: BTreeMap<SubflowId, (Duration, Duration)>,
    idleness: Idleness,
}

impl Default for Blest {
    fn default() -> Self {
        Self {
            lambda: LAMBDA.1,
            moved_at: Instant::ZERO,
            head_sent_again: false,
            extremes: BTreeMap::new(),
            idleness: Idleness::default(),
        }
    }
}

impl Blest {
    /// Once per least smoothed RTT of the slow subflow: raises λ if the window's head was sent again, and lowers
    /// it otherwise.
    fn adapt(&mut self, now: Instant, window: &WindowView<'_>, slow_least: Duration) {
        self.head_sent_again |= window
            .segment(window.first())
            .is_some_and(|s| s.sends > 1 && s.last_copy.is_some_and(|copy| copy.at >= self.moved_at));
        if now.saturating_since(self.moved_at) < slow_least.max(Duration::from_millis(1)) {
            return;
        }
        let moved = if self.head_sent_again { self.lambda + LAMBDA_UP } else { self.lambda - LAMBDA_DOWN };
        self.lambda = moved.clamp(LAMBDA.0, LAMBDA.2);
        (self.moved_at, self.head_sent_again) = (now, false);
    }

    fn extremes(&self, of: &SubflowView) -> (Duration, Duration) {
        self.extremes.get(&of.id).copied().unwrap_or((of.srtt, of.srtt))
    }
}

/// Time that a segment on the slow subflow is in flight. It grows with the share of the subflow's window that is
/// in use.
fn linger(slow: &SubflowView, (least, most): (Duration, Duration)) -> Duration {
    let (queued, cwnd) = (slow.in_flight / MSS + 1, (slow.cwnd / MSS).max(1));
    let expected =
        if queued >= cwnd { most } else { least + (most - least).mul_f64(queued as f64 / cwnd as f64) };
    slow.srtt.max(expected)
}

impl Pick for Blest {
    const NAME: &'static str = "blest";

    fn pick(&mut self, now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<SubflowId> {
        for s in subflows {
            let (least, most) = self.extremes.entry(s.id).or_insert((s.srtt, s.srtt));
            (*least, *most) = ((*least).min(s.srtt), (*most).max(s.srtt));
        }
        let subflows = self.idleness.age(now, subflows);
        let slow = *open(subflows).min_by_key(|s| (s.srtt, s.id))?;
        let fast = *subflows.iter().filter(|s| !s.silent).min_by_key(|s| (s.srtt, s.id)).unwrap_or(&slow);
        if fast.id == slow.id {
            return Some(fast.id);
        }
        let (of_slow, of_fast) = (self.extremes(&slow), self.extremes(&fast));
        self.adapt(now, window, of_slow.0);
        let round = (of_fast.0 + of_fast.1) / 2;
        let rounds = (linger(&slow, of_slow).as_nanos() / round.as_nanos().max(1)) as u64 + 1;
        let cwnd = (fast.cwnd / MSS).max(1);
        let packets = (cwnd + (rounds - 1) / 2).saturating_mul(rounds);
        let needed = packets.saturating_mul(MSS).saturating_mul(self.lambda) / 1000;
        // The connection's whole window, including bytes in flight.
        let whole = window.credit().saturating_add(window.unacknowledged());
        let left = whole.saturating_sub(newest_bytes(window) + slow.in_flight);
        (needed <= left).then_some(slow.id)
    }

    fn down(&mut self, subflow: SubflowId) {
        self.extremes.remove(&subflow);
        self.idleness.down(subflow);
    }
}
