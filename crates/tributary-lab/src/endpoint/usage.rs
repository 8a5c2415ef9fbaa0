//! Processor time of this process, and the clock that all processes share.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};

/// Processor time spent so far by all threads, in user and kernel mode.
pub(crate) fn cpu_time() -> Duration {
    read(ClockId::ProcessCPUTime)
}

/// The monotonic clock.
pub(crate) fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}
