//! How long a driver works before other tasks run.
//!
//! The runtime polls a task until it returns, so the slowest driver decides how long all others wait. Beside *n* sessions that
//! always have work, a session waits at most *n* slices on one processor for its turn. Not here: what is left undone.

use std::time::{Duration, Instant};

/// Time after which a driver begins nothing more. The runtime looks for network events after a number of polls, 61 unless
/// the program sets another: with this slice, after 12 ms at most.
const LENGTH: Duration = Duration::from_micros(200);

/// The time that a driver may work without a pause.
pub(super) struct Slice {
    until: Instant,
}

impl Slice {
    /// A slice that begins now.
    pub(super) fn begin() -> Self {
        Self { until: Instant::now() + LENGTH }
    }

    /// A slice that is not over in any test.
    #[cfg(feature = "script")]
    pub(super) fn endless() -> Self {
        Self { until: Instant::now() + Duration::from_secs(3600) }
    }

    /// Whether the driver must let other tasks run.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}
