//! `greedy-sticky`: stays on a subflow until that one is full (GR-STY).
//!
//! Source: the handoff paper, §IV. It starts on the subflow with the least round-trip time and stays there until
//! that one is full. Then it moves to another one, and stays there in the same way.

use tributary_types::{Instant, SubflowId};

use super::{Pick, SubflowView, WindowView, open};

/// The subflow in use.
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
