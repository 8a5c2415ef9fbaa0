//! What the engine remembers of a path.

use core::time::Duration;

use tributary_types::{Instant, PathId};

use super::{PathReport, RTT_MEMORY};

/// State of a path in a running session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) path: PathId,
    pub(super) used: bool,
    /// When it was last taken into use or out of it; `None` for a path that was found since, which may join at once.
    pub(super) changed: Option<Instant>,
    /// Retransmissions when the last path joined.
    pub(super) baseline: u64,
    /// It was removed for its retransmissions or its loss.
    pub(super) suspected: bool,
    /// Number of times that this happened.
    pub(super) suspicions: u32,
    /// Number of removals in a row with less than [`REMOVALS_APART`] in use between.
    pub(super) removals: u32,
    /// The last one was because it could not be reached.
    pub(super) was_out: bool,
    /// Since when a suspected path shows no loss that would remove it.
    pub(super) clean: Instant,
    /// Exponential mean of its loss.
    pub(super) loss: f64,
    /// Since when it has been unreachable or its RTT too far above the lowest, without a break.
    pub(super) bad: Option<Instant>,
    /// Least RTT in the present interval of [`RTT_MEMORY`], which began at this time, and in the one before.
    pub(super) least: (Instant, [Option<Duration>; 2]),
}

impl Known {
    pub(super) fn new(report: &PathReport, used: bool, changed: Option<Instant>) -> Self {
        Self {
            path: report.path,
            used,
            changed,
            baseline: report.retransmissions,
            suspected: false,
            suspicions: 0,
            // A path that is left out at the start was taken out of use.
            removals: u32::from(!used && changed.is_some()),
            was_out: false,
            clean: changed.unwrap_or(Instant::ZERO),
            loss: report.loss.unwrap_or(0.0),
            bad: None,
            least: (changed.unwrap_or(Instant::ZERO), [report.rtt, None]),
        }
    }

    /// Least RTT of the last time.
    pub(super) fn least_rtt(&self) -> Option<Duration> {
        self.least.1.iter().flatten().min().copied()
    }

    /// Takes in a report after `share` of [`LOSS_MEMORY`].
    pub(super) fn handle_report(&mut self, now: Instant, report: &PathReport, share: f64) {
        // What is lost in an outage is not loss.
        let loss = report.loss.filter(|_| report.rtt.is_some());
        self.loss += share * (loss.unwrap_or(self.loss) - self.loss);
        let (since, [present, before]) = &mut self.least;
        // The queue of a path in use may be that of playback.
        if !self.used && now.saturating_since(*since) >= RTT_MEMORY {
            (*since, *before, *present) = (now, *present, None);
        }
        *present = [*present, report.rtt].into_iter().flatten().min();
    }

    /// Whether its use did not change for this time.
    pub(super) fn has_dwelt(&self, now: Instant, dwell: Duration) -> bool {
        self.changed.is_none_or(|at| now.saturating_since(at) >= dwell)
    }
}
