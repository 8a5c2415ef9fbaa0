//! Detects a stuck connection: far slower than its path has been, although no queue explains it.
//!
//! A congestion controller may mistake a blockage for the path's capacity and keep to it long after the
//! radio has recovered (BBR's long-term estimate for 48 round trips and more). The path then delivers and is
//! not silent, so only its speed shows the problem. A new connection starts without that estimate.

use core::time::Duration;

use tributary_types::{Bitrate, Instant};

use super::SubflowInfo;

/// A connection is stuck if its rate is below its best rate by this factor for [`PATIENCE`].
const FACTOR: u64 = 4;
/// Time for which the rate must be that low.
const PATIENCE: Duration = Duration::from_millis(250);
/// How long the best rate is remembered.
const MEMORY: Duration = Duration::from_secs(10);
/// A round trip that exceeds the least by less than this, or by less than half, has met no significant queue.
const NO_QUEUE: Duration = Duration::from_millis(10);

/// A connection's best rate, and since when the connection is far slower without a visible reason.
#[derive(Debug, Default)]
pub(super) struct Speed {
    /// The subflows' congestion control is coupled.
    coupled: bool,
    best: Option<(Bitrate, Instant)>,
    stuck_since: Option<Instant>,
    blocked_at: Option<Instant>,
}

impl Speed {
    /// `coupled`: the congestion control may give most of the rate to other subflows, so a low rate counts only after a
    /// blockage. Example: at a bottleneck that two subflows share, OLIA may leave one of them two segments for minutes.
    pub fn new(coupled: bool) -> Self {
        Self { coupled, ..Self::default() }
    }

    /// A blockage has ended.
    pub fn blocked(&mut self, now: Instant) {
        self.blocked_at = Some(now);
    }

    /// Its best recent rate.
    pub fn best(&self, now: Instant) -> Option<Bitrate> {
        self.best.filter(|(_, at)| now < *at + MEMORY).map(|(best, _)| best)
    }

    /// Takes the recent rate, measured while the connection was busy. Returns whether the connection is stuck.
    /// This is true only once; then the best rate is measured anew.
    pub fn observe(&mut self, now: Instant, rate: Bitrate, info: &SubflowInfo) -> bool {
        let best = match self.best {
            Some((best, at)) if rate < best && now < at + MEMORY => best,
            _ => {
                self.best = Some((rate, now));
                rate
            }
        };
        let far_slower = rate.as_bps().saturating_mul(FACTOR) < best.as_bps();
        let no_queue = info.srtt < info.min_rtt + (info.min_rtt / 2).max(NO_QUEUE);
        let coupled = self.coupled && self.blocked_at.is_none_or(|at| now >= at + MEMORY);
        // If nothing waits in the transport, the application is the limit, not the connection.
        if !far_slower || !no_queue || info.unsent == 0 || coupled {
            self.stuck_since = None;
            return false;
        }
        let stuck = now.saturating_since(*self.stuck_since.get_or_insert(now)) >= PATIENCE;
        if stuck {
            *self = Self::new(self.coupled);
        }
        stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(srtt: u64, unsent: u64) -> SubflowInfo {
        let ms = Duration::from_millis;
        SubflowInfo { srtt: ms(srtt), min_rtt: ms(5), unsent, ..SubflowInfo::default() }
    }

    /// Feeds a second of samples; when it was found stuck, in milliseconds.
    fn second(speed: &mut Speed, from: u64, mbps: u64, info: &SubflowInfo) -> Option<u64> {
        let rate = Bitrate::from_mbps(mbps);
        (from..from + 1000).step_by(10).find(|ms| speed.observe(Instant::from_millis(*ms), rate, info))
    }

    #[test]
    fn a_slow_subflow_without_a_queue_is_reported_as_stuck_once() {
        let mut speed = Speed::default();
        assert_eq!(second(&mut speed, 0, 140, &info(8, 1)), None);
        assert_eq!(second(&mut speed, 1000, 3, &info(8, 1)), Some(1250));
        assert_eq!(second(&mut speed, 2000, 3, &info(8, 1)), None);
    }

    #[test]
    fn a_queue_or_an_idle_application_explains_a_slow_subflow() {
        let mut speed = Speed::default();
        assert_eq!(second(&mut speed, 0, 140, &info(8, 1)), None);
        assert_eq!(second(&mut speed, 1000, 3, &info(80, 1)), None);
        assert_eq!(second(&mut speed, 2000, 3, &info(8, 0)), None);
        assert_eq!(second(&mut speed, 3000, 50, &info(8, 1)), None);
    }

    #[test]
    fn a_coupled_subflow_is_stuck_only_after_a_blockage() {
        let mut speed = Speed::new(true);
        assert_eq!(second(&mut speed, 0, 140, &info(8, 1)), None);
        assert_eq!(second(&mut speed, 1000, 3, &info(8, 1)), None);
        speed.blocked(Instant::from_millis(2000));
        assert_eq!(second(&mut speed, 2000, 3, &info(8, 1)), Some(2250));
        assert_eq!(second(&mut speed, 3000, 140, &info(8, 1)), None, "once");
        assert_eq!(second(&mut speed, 4000, 3, &info(8, 1)), None);
    }
}
