//! `redundant`: every segment on every active subflow; the first copy to arrive counts.
//!
//! Source: the redundant scheduler of multipath-tcp.org. A subflow skips segments that were already
//! acknowledged, so a slow subflow does not hold the session back.

use std::collections::BTreeMap;

use tributary_types::{DataSeq, Instant, SubflowId};

use super::{Assignment, AssignmentKind, Load, Scheduler, SchedulerEvent, SubflowView, WindowView};

const SEGMENT: usize = 16 << 10;

/// State of the scheduler.
#[derive(Debug, Default)]
pub(super) struct Redundant {
    /// The next segment of each subflow.
    cursors: BTreeMap<SubflowId, DataSeq>,
    /// One past the highest number that any subflow has sent.
    sent: DataSeq,
}

impl Scheduler for Redundant {
    fn name(&self) -> &'static str {
        "redundant"
    }

    fn load(&mut self, _now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load> {
        // Only a subflow that has sent everything numbered needs more.
        let at_end = |s: &SubflowView| self.cursors.get(&s.id).is_none_or(|next| *next >= window.end());
        let any = subflows.iter().any(|s| s.room > 0 && !s.silent && at_end(s));
        any.then_some(Load { bytes: SEGMENT as u64, segment: SEGMENT })
    }

    fn assign(
        &mut self,
        _now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        for subflow in subflows.iter().filter(|s| s.room > 0 && !s.silent) {
            let cursor = self.cursors.entry(subflow.id).or_default();
            *cursor = (*cursor).max(window.first());
            while *cursor < window.end() {
                let segment = *cursor;
                *cursor = segment.next();
                if window.is_open(segment) && !window.is_on(segment, subflow.id) {
                    let first = segment >= self.sent;
                    self.sent = self.sent.max(segment.next());
                    let kind = if first { AssignmentKind::Fresh } else { AssignmentKind::Redundant };
                    return Some(Assignment { subflow: subflow.id, segment, kind });
                }
            }
        }
        None
    }

    fn on_event(&mut self, _now: Instant, event: SchedulerEvent) {
        if let SchedulerEvent::SubflowDown(id) = event {
            self.cursors.remove(&id);
        }
    }
}
