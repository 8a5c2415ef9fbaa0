//! The access point of each flow that is not coded.
//!
//! A new flow gets the access point with the fewest flows and keeps it while that access point answers, so
//! that its packets stay in order and no link idles while another carries most flows.

use core::time::Duration;
use std::collections::BTreeMap;
use tributary_types::Instant;

/// A flow without packets for this long does not count.
const IDLE: Duration = Duration::from_secs(10);
/// Most flows that are remembered. Further ones are spread by their number.
const MOST: usize = 1024;

/// The flows.
#[derive(Debug, Default)]
pub struct FlowTable {
    /// Access point and last packet.
    flows: BTreeMap<u64, (usize, Instant)>,
}

impl FlowTable {
    /// The access point of this flow's packet, one of `lively`; `None` if that is empty.
    pub fn route(
        &mut self,
        now: Instant,
        flow: u64,
        lively: impl Iterator<Item = usize> + Clone,
    ) -> Option<usize> {
        if let Some((point, used)) = self.flows.get_mut(&flow)
            && lively.clone().any(|other| other == *point)
        {
            *used = now;
            return Some(*point);
        }
        self.flows.retain(|_, (_, used)| now.saturating_since(*used) < IDLE);
        if self.flows.len() >= MOST {
            return spread(flow, lively);
        }
        let load = |point: &usize| self.flows.values().filter(|(other, _)| other == point).count();
        let point = lively.min_by_key(load)?;
        self.flows.insert(flow, (point, now));
        Some(point)
    }
}

/// One of some access points by the flow's number.
pub(crate) fn spread(flow: u64, mut points: impl Iterator<Item = usize> + Clone) -> Option<usize> {
    let count = points.clone().count() as u64;
    points.nth(flow.checked_rem(count)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_spread_evenly_and_keep_their_access_point() {
        let (mut table, now) = (FlowTable::default(), Instant::from_millis(1));
        // All numbers are even: spreading by number would use one access point only.
        let points: Vec<_> = (0..10).map(|flow| table.route(now, flow * 2, [0, 1].into_iter())).collect();
        assert_eq!(points.iter().filter(|point| **point == Some(0)).count(), 5);
        let again: Vec<_> = (0..10).map(|flow| table.route(now, flow * 2, [0, 1].into_iter())).collect();
        assert_eq!(points, again);
        assert!(
            (0..10).all(|flow| table.route(now, flow * 2, [1].into_iter()) == Some(1)),
            "the other one is gone"
        );
        assert_eq!(table.route(now, 4, core::iter::empty()), None);
    }

    #[test]
    fn idle_flows_are_forgotten_and_the_number_is_bounded() {
        let (mut table, now) = (FlowTable::default(), Instant::from_millis(1));
        (0..3000).for_each(|flow| assert!(table.route(now, flow, [0, 1].into_iter()).is_some()));
        assert_eq!(table.flows.len(), MOST);
        assert!(table.route(now + IDLE, 9999, [0, 1].into_iter()).is_some());
        assert_eq!(table.flows.len(), 1);
    }
}
