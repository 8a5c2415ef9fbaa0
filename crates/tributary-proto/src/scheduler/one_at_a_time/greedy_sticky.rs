//! `greedy-sticky`: stays on a subflow until it can take no more (GR-STY).
//!
//! Source: the handoff paper, §IV. Starts on the least round-trip time; once another subflow was
//! chosen because the current one was full, that one is kept until it is full in turn.

use tributary_types::{Instant, SubflowId};

use super::{Pick, SubflowView, WindowView, open};

/// The subflow it sticks to.
#[derive(Debug, Default)]
pub(crate) struct GreedySticky {
    current: Option<SubflowId>,
}

impl Pick for GreedySticky {
    const NAME: &'static str = "greedy-sticky";

    fn pick(
        &mut self,
        _now: Instant,
        _window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<SubflowId> {
        let sticks = open(subflows).any(|s| Some(s.id) == self.current);
        if !sticks {
            self.current = open(subflows).min_by_key(|s| (s.srtt, s.id)).map(|s| s.id);
        }
        self.current
    }
}
