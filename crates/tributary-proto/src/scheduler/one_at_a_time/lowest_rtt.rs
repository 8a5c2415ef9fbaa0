//! `lowest-rtt`: always the subflow with the least current round-trip time. When that subflow is full, everything
//! waits for it (used for comparison in AVIRA §V).

use tributary_types::{Instant, SubflowId};

use super::{Pick, SubflowView, WindowView};

/// Has no state.
#[derive(Debug, Default)]
pub(crate) struct LowestRtt;

impl Pick for LowestRtt {
    const NAME: &'static str = "lowest-rtt";

    fn pick(
        &mut self,
        _now: Instant,
        _window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<SubflowId> {
        let best = subflows.iter().min_by_key(|s| (s.silent, s.srtt, s.id))?;
        (best.room > 0).then_some(best.id)
    }
}
