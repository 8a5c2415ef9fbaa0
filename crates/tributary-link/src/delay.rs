//! Propagation delay of a link: fixed, changing on schedule, or with jitter but without reordering.

use core::time::Duration;
use tributary_types::{Instant, Rng};

/// Delay from the end of transmission to the far end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelaySpec {
    /// Delay at the start.
    pub base: Duration,
    /// Each chunk waits up to this much longer, uniformly distributed; chunks never overtake one another.
    pub jitter: Duration,
    /// `(since, base)`: from `since` on, the base delay has this value. Ascending.
    pub changes: Vec<(Duration, Duration)>,
}

impl DelaySpec {
    /// A constant delay of `base`.
    #[must_use]
    pub fn fixed(base: Duration) -> Self {
        Self { base, ..Self::default() }
    }

    /// The base delay at `at`.
    #[must_use]
    pub fn base_at(&self, at: Instant) -> Duration {
        let after = self.changes.partition_point(|(since, _)| Instant::ZERO + *since <= at);
        after.checked_sub(1).map_or(self.base, |i| self.changes[i].1)
    }
}

/// The running delay process.
#[derive(Clone, Debug)]
pub(crate) struct Delay {
    spec: DelaySpec,
    extra: Duration,
    rng: Rng,
    last_due: Instant,
}

impl Delay {
    pub(crate) fn new(spec: DelaySpec, extra: Duration, rng: Rng) -> Self {
        Self { spec, extra, rng, last_due: Instant::ZERO }
    }

    /// When a chunk that finished transmission at `departed` arrives; never before an earlier one.
    pub(crate) fn due(&mut self, departed: Instant) -> Instant {
        let extra = self.extra + draw_jitter(self.spec.jitter, &mut self.rng);
        self.last_due = self.last_due.max(departed + self.spec.base_at(departed) + extra);
        self.last_due
    }

    /// The result of `due` for the next chunk if it departs at `departed`.
    pub(crate) fn peek_due(&self, departed: Instant) -> Instant {
        let extra = self.extra + draw_jitter(self.spec.jitter, &mut self.rng.clone());
        self.last_due.max(departed + self.spec.base_at(departed) + extra)
    }
}

fn draw_jitter(most: Duration, rng: &mut Rng) -> Duration {
    if most.is_zero() {
        return Duration::ZERO;
    }
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(rng.below(nanos.saturating_add(1)))
}
