//! Downloads over time: how many bytes of a segment could be read, and how many had arrived.

use core::time::Duration;

use tributary_player::dash::play::Request;
use tributary_types::Instant;

/// Least time between two steps.
const INTERVAL: Duration = Duration::from_millis(50);

/// A download of a segment; one that was abandoned ends before all bytes have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// Media segment, from zero.
    pub segment: usize,
    /// Its quality.
    pub quality: usize,
    /// Bytes of the body.
    pub size: u64,
    /// When it was asked for.
    pub at: Instant,
    /// Ascending in time.
    pub steps: Vec<Step>,
}

/// What had arrived of a download at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Time since it was asked for.
    pub after: Duration,
    /// Bytes of the body that could be read.
    pub in_order: u64,
    /// All bytes of the body that had arrived. The same as `in_order` over transports that do not tell.
    pub received: u64,
}

impl Download {
    pub(super) fn new(request: Request, size: u64, at: Instant) -> Self {
        let Request { segment, quality, .. } = request;
        Self { segment, quality, size, at, steps: Vec::new() }
    }

    /// Adds a step if the last one is old enough, or at the `end`.
    pub(super) fn add(&mut self, now: Instant, (in_order, out_of_order): (u64, u64), end: bool) {
        let after = now.saturating_since(self.at);
        if end || self.steps.last().is_none_or(|last| after >= last.after + INTERVAL) {
            let received = (in_order + out_of_order).min(self.size);
            self.steps.push(Step { after, in_order, received });
        }
    }
}
