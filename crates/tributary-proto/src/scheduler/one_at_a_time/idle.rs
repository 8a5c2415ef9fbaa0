//! What is still believed of a subflow that has nothing under way.
//!
//! Deviates from the schedulers that use it: they take the smoothed RTT as it was last measured, and a
//! subflow they avoid because of it is never measured again. Here what it is above the least RTT halves
//! with every four least RTTs of idleness, and the deviation likewise: its own queue is empty by then.

use std::collections::BTreeMap;

use tributary_types::{Instant, SubflowId};

use super::SubflowView;

/// After this many halvings nothing is left.
const MOST_HALVINGS: u128 = 16;

/// Since when subflows have been idle.
#[derive(Debug, Default)]
pub(super) struct Idleness {
    since: BTreeMap<SubflowId, Instant>,
    aged: Vec<SubflowView>,
}

impl Idleness {
    /// The subflows as they are believed to be now.
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

    /// A subflow is gone.
    pub fn down(&mut self, subflow: SubflowId) {
        self.since.remove(&subflow);
    }
}
