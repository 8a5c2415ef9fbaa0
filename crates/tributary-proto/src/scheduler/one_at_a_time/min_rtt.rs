//! `min-rtt`: the subflow with the least smoothed RTT first, with opportunistic retransmission and penalisation.
//!
//! Source: the default scheduler of multipath-tcp.org. Deviates: where the subflow's transport owns the congestion
//! window, a penalty is kept here as a cap on the bytes in flight, doubled once per round trip until it is gone;
//! the subflow's slow-start threshold does not change. An owner of the windows takes the penalty and applies it
//! as published.

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_types::{DataSeq, Instant, SubflowId};

use super::{MSS, Pick, SubflowView, WindowView, open};

/// The head is reinjected only if the carrier's congestion window is at most this.
const SMALL_CWND: u64 = 4 * MSS;

/// The penalties in force.
#[derive(Debug, Default)]
pub(crate) struct MinRtt {
    penalties: BTreeMap<SubflowId, Penalty>,
}

#[derive(Clone, Copy, Debug)]
struct Penalty {
    cap: u64,
    at: Instant,
    relaxed_at: Instant,
    /// The owner of the congestion window has applied the penalty.
    taken: bool,
}

impl MinRtt {
    fn best(&self, subflows: &[SubflowView]) -> Option<SubflowView> {
        let allowed =
            |s: &&SubflowView| self.penalties.get(&s.id).is_none_or(|p| p.taken || s.in_flight < p.cap);
        open(subflows).filter(allowed).min_by_key(|s| (s.srtt, s.id)).copied()
    }

    /// At most once per round trip of the fast subflow: halves the slow one's limit on bytes in flight.
    fn penalise(&mut self, now: Instant, carrier: &SubflowView, fast: Duration) {
        if carrier.srtt <= fast {
            return;
        }
        let known = self.penalties.get(&carrier.id).copied();
        if known.is_none_or(|p| now.saturating_since(p.at) >= fast) {
            let cap = (known.map_or(carrier.cwnd, |p| p.cap).min(carrier.cwnd) / 2).max(MSS);
            self.penalties.insert(carrier.id, Penalty { cap, at: now, relaxed_at: now, taken: false });
        }
    }

    fn relax(&mut self, now: Instant, subflows: &[SubflowView]) {
        for subflow in subflows {
            let Some(penalty) = self.penalties.get_mut(&subflow.id) else { continue };
            if now.saturating_since(penalty.relaxed_at) >= subflow.srtt.max(Duration::from_millis(1)) {
                penalty.cap *= 2;
                penalty.relaxed_at = now;
                if penalty.cap > subflow.cwnd {
                    self.penalties.remove(&subflow.id);
                }
            }
        }
    }
}

impl Pick for MinRtt {
    const NAME: &'static str = "min-rtt";

    fn pick(
        &mut self,
        now: Instant,
        _window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<SubflowId> {
        self.relax(now, subflows);
        self.best(subflows).map(|s| s.id)
    }

    /// The window's head, when it blocks the connection and was never sent on the best subflow.
    fn reinject(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<(SubflowId, DataSeq)> {
        self.relax(now, subflows);
        let best = self.best(subflows)?;
        let head = window.first();
        let blocked = window.credit() == 0 || window.unacknowledged() >= window.window() as u64;
        if !blocked || window.is_on(head, best.id) {
            return None;
        }
        let carrier = window.segment(head).filter(|s| !s.acknowledged)?.last_copy?.carrier;
        let carrier = subflows.iter().find(|s| s.id == carrier)?;
        self.penalise(now, carrier, best.srtt);
        let slow = carrier.cwnd <= SMALL_CWND || best.srtt * 4 < carrier.srtt;
        slow.then_some((best.id, head))
    }

    fn take_penalty(&mut self) -> Option<SubflowId> {
        let (id, penalty) = self.penalties.iter_mut().find(|(_, p)| !p.taken)?;
        penalty.taken = true;
        Some(*id)
    }

    fn down(&mut self, subflow: SubflowId) {
        self.penalties.remove(&subflow);
    }
}
