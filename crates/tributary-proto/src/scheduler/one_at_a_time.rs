//! Schedulers that take the data in order and only choose the subflow of the next segment.
//!
//! One segment is numbered at a time; [`Pick`] says where it goes, or that it should wait. Segments on a silent
//! subflow are sent again before that.

pub(super) mod blest;
pub(super) mod ecf;
pub(super) mod greedy_sticky;
mod idle;
pub(super) mod linux_default;
pub(super) mod lowest_rtt;
pub(super) mod min_rtt;
pub(super) mod musher;
pub(super) mod random;
mod recall;
pub(super) mod round_robin;

use core::fmt::Debug;

use tributary_types::{DataSeq, Instant, SubflowId};

use super::{Assignment, AssignmentKind, Load, Scheduler, SchedulerEvent, SubflowView, WindowView};
use recall::Recall;

/// Bytes of a segment: 16 KiB, where the published schedulers use the MSS.
const SEGMENT: usize = 16 << 10;
/// Bytes of a TCP segment, where a published rule counts in packets.
pub(super) const MSS: u64 = 1448;

/// Chooses a subflow for the next segment.
pub(super) trait Pick: Debug + Send {
    /// Name in the registry.
    const NAME: &'static str;

    /// The subflow for the next segment. It must have room. `None`: wait.
    fn pick(&mut self, now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<SubflowId>;

    /// A segment to send again instead, when nothing new can be sent.
    fn reinject(
        &mut self,
        _now: Instant,
        _window: &WindowView<'_>,
        _subflows: &[SubflowView],
    ) -> Option<(SubflowId, DataSeq)> {
        None
    }

    /// As [`Scheduler::take_penalty`].
    fn take_penalty(&mut self) -> Option<SubflowId> {
        None
    }

    /// The picked segment of `bytes` was assigned.
    fn assigned(&mut self, _subflow: SubflowId, _bytes: u64) {}

    /// A subflow has ended.
    fn down(&mut self, _subflow: SubflowId) {}
}

/// The scheduler around a [`Pick`].
#[derive(Debug)]
pub(super) struct OneAtATime<P> {
    pick: P,
    /// Numbered and not assigned.
    fresh: Option<(DataSeq, DataSeq)>,
    recall: Recall,
}

impl<P> OneAtATime<P> {
    pub fn new(pick: P) -> Self {
        Self { pick, fresh: None, recall: Recall::default() }
    }
}

/// Subflows that are not silent; all of them if all are silent.
pub(super) fn moving(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> {
    let moving = subflows.iter().any(|s| !s.silent);
    subflows.iter().filter(move |s| s.silent != moving)
}

/// Those of the [`moving`] subflows that have room.
pub(super) fn open(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> {
    moving(subflows).filter(|s| s.room > 0)
}

/// Bytes of the segment numbered last, which is the next to be sent.
fn newest_bytes(window: &WindowView<'_>) -> u64 {
    let newest = window.end().0.checked_sub(1).and_then(|seq| window.segment(DataSeq(seq)));
    newest.map_or(0, |s| u64::from(s.bytes))
}

impl<P: Pick> Scheduler for OneAtATime<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn load(&mut self, _now: Instant, _window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load> {
        let wanted = self.fresh.is_none() && open(subflows).next().is_some();
        wanted.then_some(Load { bytes: SEGMENT as u64, segment: SEGMENT })
    }

    fn assign(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        if let Some((subflow, segment)) = self.recall.next(window, subflows) {
            return Some(Assignment { subflow, segment, kind: AssignmentKind::Reinjection });
        }
        if let Some((segment, end)) = self.fresh {
            let subflow = self.pick.pick(now, window, subflows)?;
            let bytes = window.segment(segment).map_or(0, |s| u64::from(s.bytes));
            self.pick.assigned(subflow, bytes);
            self.fresh = (segment.next() < end).then(|| (segment.next(), end));
            return Some(Assignment { subflow, segment, kind: AssignmentKind::Fresh });
        }
        if window.available() > 0 {
            return None; // New data first: the session loads it now.
        }
        let (subflow, segment) = self.pick.reinject(now, window, subflows)?;
        Some(Assignment { subflow, segment, kind: AssignmentKind::Reinjection })
    }

    fn take_penalty(&mut self) -> Option<SubflowId> {
        self.pick.take_penalty()
    }

    fn on_event(&mut self, _now: Instant, event: SchedulerEvent) {
        match event {
            SchedulerEvent::Loaded { first, end } => self.fresh = (first < end).then_some((first, end)),
            SchedulerEvent::SubflowDown(id) => self.pick.down(id),
            SchedulerEvent::Acknowledged { .. } | SchedulerEvent::SubflowUp(_) => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
