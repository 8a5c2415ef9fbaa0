//! `ecf`: earliest completion first.
//!
//! Source: Lim et al., CoNEXT 2017, with β = 1/4: a slow subflow is left idle when waiting for the
//! fast one delivers the rest sooner. Segments are counted in bytes.
//! Deviates: the RTT of an idle subflow is aged (see `idle.rs`), because otherwise a path that was blocked once would
//! be avoided for ever; silent subflows are neither waited for nor used.

use tributary_types::{Instant, SubflowId};

use super::idle::Idleness;
use super::{MSS, Pick, SubflowView, WindowView, newest_bytes, open};

/// Whether the scheduler is waiting for the fast subflow.
#[derive(Debug, Default)]
pub(crate) struct Ecf {
    waiting: bool,
    idleness: Idleness,
}

impl Pick for Ecf {
    const NAME: &'static str = "ecf";

    fn pick(&mut self, now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<SubflowId> {
        let subflows = self.idleness.age(now, subflows);
        let slow = open(subflows).min_by_key(|s| (s.srtt, s.id))?;
        let fast = subflows.iter().filter(|s| !s.silent).min_by_key(|s| (s.srtt, s.id)).unwrap_or(slow);
        if fast.id == slow.id {
            return Some(fast.id);
        }
        let seconds = |d: core::time::Duration| d.as_secs_f64();
        let (srtt_f, srtt_s) = (seconds(fast.srtt), seconds(slow.srtt));
        let (cwnd_f, cwnd_s) = (fast.cwnd.max(MSS) as f64, slow.cwnd.max(MSS) as f64);
        // k of the paper: bytes written and not sent, regardless of the peer's credit.
        let unsent = (window.unsent() + newest_bytes(window)) as f64;
        let margin = seconds(fast.rttvar.max(slow.rttvar));
        let beta = if self.waiting { 1.25 } else { 1.0 };
        if srtt_f * (unsent.max(cwnd_f) + cwnd_f) < beta * cwnd_f * (srtt_s + margin) {
            if srtt_s * unsent.max(cwnd_s) >= cwnd_s * (2.0 * srtt_f + margin) {
                self.waiting = true;
                return None;
            }
        } else {
            self.waiting = false;
        }
        Some(slow.id)
    }

    fn down(&mut self, subflow: SubflowId) {
        self.idleness.down(subflow);
    }
}
