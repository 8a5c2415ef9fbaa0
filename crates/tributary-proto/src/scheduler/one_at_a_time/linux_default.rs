//! `linux-default`: the subflow whose queue drains first, in bursts.
//!
//! Source: the scheduler of upstream Linux since 5.x. It takes the subflow with the least `wmem_queued /
//! avg_pacing_rate`, for a burst of at most 65 428 bytes. There is no RTT rule and no penalty. If that subflow's
//! buffer is full, all data waits for it. Deviates: here `wmem_queued` is the bytes handed over and not
//! acknowledged, and the pacing rate is the delivery rate.

use core::time::Duration;

use tributary_types::{DataSize, Instant, SubflowId};

use super::{Pick, SubflowView, WindowView, moving, open};

const BURST: u64 = 65_428;

/// The current burst.
#[derive(Debug, Default)]
pub(crate) struct LinuxDefault {
    burst: Option<(SubflowId, u64)>,
}

impl Pick for LinuxDefault {
    const NAME: &'static str = "linux-default";

    fn pick(
        &mut self,
        _now: Instant,
        _window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<SubflowId> {
        if let Some((id, left)) = self.burst
            && left > 0
            && open(subflows).any(|s| s.id == id)
        {
            return Some(id);
        }
        let drain = |s: &SubflowView| {
            s.rate.and_then(|rate| rate.time_for(DataSize::from_bytes(s.in_flight))).unwrap_or(Duration::ZERO)
        };
        // `mptcp_subflow_get_send`: the least of all subflows, with or without room; except one without room and
        // without bytes in flight, which would never report room again.
        let waited_for = moving(subflows).filter(|s| s.room > 0 || s.in_flight > 0);
        let best = waited_for.min_by_key(|s| (drain(s), s.id)).filter(|s| s.room > 0)?;
        self.burst = Some((best.id, BURST));
        Some(best.id)
    }

    fn assigned(&mut self, _subflow: SubflowId, bytes: u64) {
        if let Some((_, left)) = &mut self.burst {
            *left = left.saturating_sub(bytes);
        }
    }

    fn down(&mut self, subflow: SubflowId) {
        self.burst = self.burst.filter(|(id, _)| *id != subflow);
    }
}
