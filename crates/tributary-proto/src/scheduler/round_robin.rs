//! `round-robin`: one segment a turn, on every subflow that has room.
//!
//! Source: the round-robin scheduler of multipath-tcp.org with a quota of one segment, aware of
//! the congestion window (a full subflow loses its turn).

use tributary_types::{DataSeq, Instant, SubflowId};

use super::{Assignment, AssignmentKind, Load, Scheduler, SchedulerEvent, SubflowView, WindowView};

const SEGMENT: usize = 16 << 10;

/// State of the scheduler.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    fresh: Option<(DataSeq, DataSeq)>,
    last: Option<SubflowId>,
}

impl RoundRobin {
    fn next(&self, subflows: &[SubflowView]) -> Option<SubflowId> {
        let open = || subflows.iter().filter(|s| s.room > 0 && !s.silent).map(|s| s.id);
        open().filter(|id| Some(*id) > self.last).min().or_else(|| open().min())
    }
}

impl Scheduler for RoundRobin {
    fn name(&self) -> &'static str {
        "round-robin"
    }

    fn load(&mut self, _now: Instant, _window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load> {
        if self.fresh.is_some() {
            return None;
        }
        self.next(subflows).map(|_| Load { bytes: SEGMENT as u64, segment: SEGMENT })
    }

    fn assign(
        &mut self,
        _now: Instant,
        _window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        let (segment, end) = self.fresh?;
        let subflow = self.next(subflows)?;
        self.last = Some(subflow);
        self.fresh = (segment.next() < end).then(|| (segment.next(), end));
        Some(Assignment { subflow, segment, kind: AssignmentKind::Fresh })
    }

    fn on_event(&mut self, _now: Instant, event: SchedulerEvent) {
        if let SchedulerEvent::Loaded { first, end } = event {
            self.fresh = (first < end).then_some((first, end));
        }
    }
}
