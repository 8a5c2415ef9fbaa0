//! `min-rtt`: the least smoothed RTT first, with opportunistic retransmission and penalisation.
//!
//! Source: the default scheduler of multipath-tcp.org. Deviates: the congestion window belongs to
//! the subflow's own transport, so a penalty is kept here as a cap on what is in flight, doubled
//! back once a round trip; the subflow's slow-start threshold stays as it is.

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_types::{DataSeq, Instant, SubflowId};

use super::{Assignment, AssignmentKind, Load, Scheduler, SchedulerEvent, SubflowView, WindowView};

const SEGMENT: usize = 16 << 10;
/// A carrier with at most this many segments of window is no reason to reinject (multipath-tcp.org).
const SMALL_CWND: u64 = 4 * 1448;

/// State of the scheduler.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    fresh: Option<(DataSeq, DataSeq)>,
    penalties: BTreeMap<SubflowId, Penalty>,
}

#[derive(Clone, Copy, Debug)]
struct Penalty {
    cap: u64,
    at: Instant,
    relaxed_at: Instant,
}

impl MinRtt {
    fn has_room(&self, subflow: &SubflowView) -> bool {
        subflow.room > 0 && self.penalties.get(&subflow.id).is_none_or(|p| subflow.in_flight < p.cap)
    }

    fn best(&self, subflows: &[SubflowView]) -> Option<SubflowView> {
        subflows.iter().filter(|s| !s.silent && self.has_room(s)).min_by_key(|s| s.srtt).copied()
    }

    /// The window's head, when it blocks the connection and `best` never carried it.
    fn opportunistic(
        &mut self,
        now: Instant,
        view: &WindowView<'_>,
        best: &SubflowView,
        all: &[SubflowView],
    ) -> Option<DataSeq> {
        let head = view.first();
        let blocked =
            view.end() > head && view.available() == 0 && view.unacknowledged() >= view.window() as u64;
        if !blocked || view.is_on(head, best.id) {
            return None;
        }
        let (carrier, _) = view.segment(head)?.last_copy?;
        let carrier = all.iter().find(|s| s.id == carrier)?;
        self.penalise(now, carrier, best.srtt);
        let slow = carrier.cwnd <= SMALL_CWND || best.srtt * 4 < carrier.srtt;
        slow.then_some(head)
    }

    /// At most once a round trip of the fast subflow: halve what the slow one may have in flight.
    fn penalise(&mut self, now: Instant, carrier: &SubflowView, fast: Duration) {
        if carrier.srtt <= fast {
            return;
        }
        let known = self.penalties.get(&carrier.id).copied();
        if known.is_none_or(|p| now.saturating_since(p.at) >= fast) {
            let cap = known.map_or(carrier.cwnd, |p| p.cap).min(carrier.cwnd.max(1448)) / 2;
            let cap = cap.max(1448);
            self.penalties.insert(carrier.id, Penalty { cap, at: now, relaxed_at: now });
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

impl Scheduler for MinRtt {
    fn name(&self) -> &'static str {
        "min-rtt"
    }

    fn load(&mut self, _now: Instant, _window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load> {
        if self.fresh.is_some() {
            return None;
        }
        self.best(subflows).map(|_| Load { bytes: SEGMENT as u64, segment: SEGMENT })
    }

    fn assign(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        self.relax(now, subflows);
        let best = self.best(subflows)?;
        if let Some((next, end)) = self.fresh {
            self.fresh = (next.next() < end).then(|| (next.next(), end));
            return Some(Assignment { subflow: best.id, segment: next, kind: AssignmentKind::Fresh });
        }
        let segment = self.opportunistic(now, window, &best, subflows)?;
        Some(Assignment { subflow: best.id, segment, kind: AssignmentKind::Reinjection })
    }

    fn on_event(&mut self, _now: Instant, event: SchedulerEvent) {
        match event {
            SchedulerEvent::Loaded { first, end } => self.fresh = (first < end).then_some((first, end)),
            SchedulerEvent::SubflowDown(id) => {
                self.penalties.remove(&id);
            }
            SchedulerEvent::Acknowledged { .. } | SchedulerEvent::SubflowUp(_) => {}
        }
    }
}
