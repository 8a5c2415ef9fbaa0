//! Ages the RTT of an idle subflow.
//!
//! Deviates from the published schedulers that use it: they take the smoothed RTT as it was last measured, so a
//! subflow that they avoid because of a high RTT is never measured again. Here the excess over the least RTT, and the
//! deviation, halve with every four least RTTs of idle time, because the subflow's own queue has drained by then.

use std::collections::BTreeMap;

use tributary_types::{Instant, SubflowId};

use super::SubflowView;

/// After this many halvings the excess is zero.
const MOST_HALVINGS: u128 = 16;

/// Since when subflows have been idle.
#[derive(Debug, Default)]
pub(super) struct Idleness {
    since: BTreeMap<SubflowId, Instant>,
    aged: Vec<SubflowView>,
}

impl Idleness {
    /// The subflows with aged RTTs.
    pub fn age(&mut self, now: Instant, subflows: &[SubflowView]) -> &[SubflowView] {
        self.aged.clear();
        for subflow in subflows {
            let mut view = *subflow;
            if view.in_flight > 0 {
                self.since.remove(&view.id);
            } else if !view.min_rtt.is_zero() && view.srtt > view.min_rtt {
                let idle = now.saturating_since(*self.since.entry(view.id).or_insert(now));
                let halvings = (idle.as_nanos() / (4 * view.min_rtt.as_nanos())).min(MOST_HALVINGS);
                let part = 1_u32 << halvings;
                view.srtt = view.min_rtt + (view.srtt - view.min_rtt) / part;
                view.rttvar /= part;
            }
            self.aged.push(view);
        }
        &self.aged
    }

    /// A subflow has ended.
    pub fn down(&mut self, subflow: SubflowId) {
        self.since.remove(&subflow);
    }
}
