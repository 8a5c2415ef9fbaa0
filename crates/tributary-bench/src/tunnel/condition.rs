//! What the emulated links of the tunnel's benchmark do.

use super::Settings;
use core::time::Duration;
use tributary_link::{LinkSpec, LossSpec, PathSpec, RateSpec, Scenario};
use tributary_types::Bitrate;

/// Cycle of the blocked links: each is blocked for this part, in turn.
const CYCLE: Duration = Duration::from_secs(1);
const BLOCKED: Duration = Duration::from_millis(400);

/// What the emulated links do.
pub(super) struct Condition {
    pub(super) name: &'static str,
    /// They lose packets.
    lossy: bool,
    /// They have the plan's round-trip time.
    far: bool,
    /// Each is blocked in turn.
    blocked: bool,
    /// A rival uses the first link.
    pub(super) shared: bool,
}

const fn condition(name: &'static str, lossy: bool, far: bool) -> Condition {
    Condition { name, lossy, far, blocked: false, shared: false }
}

pub(super) const CONDITIONS: [Condition; 4] = [
    condition("lossy", true, true),
    condition("clean", false, false),
    Condition { blocked: true, ..condition("blocked", false, true) },
    Condition { shared: true, ..condition("shared", false, true) },
];

impl Condition {
    pub(super) fn scenario(&self, settings: &Settings) -> Scenario {
        let loss = if self.lossy { settings.loss } else { 0.0 };
        let mut scenario = two_links(settings.rate, loss, if self.far { settings.rtt } else { 0.0 });
        for (at, path) in scenario.paths.iter_mut().enumerate().filter(|_| self.blocked) {
            // The first link is blocked in the first half of a cycle, the second in the second.
            let (rate, half) = (path.down.rate.max(), CYCLE / 2);
            let before = half * at as u32;
            let turns = [(before, rate), (BLOCKED, Bitrate::ZERO), (CYCLE - BLOCKED - before, rate)];
            let turns: Vec<_> = turns.into_iter().filter(|turn| !turn.0.is_zero()).collect();
            (path.down.rate, path.up.rate) = (RateSpec::Turns(turns.clone()), RateSpec::Turns(turns));
        }
        scenario
    }
}

/// Two links of `rate` Mbit/s, with `loss` in both directions and a base round-trip time of `rtt` ms.
pub(super) fn two_links(rate: f64, loss: f64, rtt: f64) -> Scenario {
    let link = LinkSpec::constant(Bitrate::from_mbps(rate as u64));
    // Data and acknowledgements have the same loss.
    let link = LinkSpec { loss: if loss > 0.0 { LossSpec::Bernoulli(loss) } else { LossSpec::None }, ..link };
    Scenario::new("two-links")
        .with_path(PathSpec::symmetric("wifi", link.clone()))
        .with_path(PathSpec::symmetric("wigig", link))
        .with_rtt(Duration::from_secs_f64(rtt / 1e3))
        .with_queue_time(Duration::from_millis(20))
}
