//! `round-robin`: the subflows take turns, one segment each. A full subflow is skipped.
//!
//! Source: the round-robin scheduler of multipath-tcp.org with a quota of one segment, aware of
//! the congestion window (a full subflow loses its turn).

use tributary_types::{Instant, SubflowId};

use super::{Pick, SubflowView, WindowView, open};

/// The subflow that was last chosen.
#[derive(Debug, Default)]
pub(crate) struct RoundRobin {
    last: Option<SubflowId>,
}

impl Pick for RoundRobin {
    const NAME: &'static str = "round-robin";

    fn pick(
        &mut self,
        _now: Instant,
        _window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<SubflowId> {
        let ids = || open(subflows).map(|s| s.id);
        ids().filter(|id| Some(*id) > self.last).min().or_else(|| ids().min())
    }

    fn assigned(&mut self, subflow: SubflowId, _bytes: u64) {
        self.last = Some(subflow);
    }
}
