//! Scenario time in wall time: nanoseconds since the scenario started, shared by the forwarding
//! thread, which may start it anew, and the network's owner.

use crate::sys;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tributary_types::Instant;

/// A running clock; clones show the same time.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    origin: Arc<AtomicU64>,
}

impl Clock {
    /// Starts now.
    pub(crate) fn start() -> Self {
        Self { origin: Arc::new(AtomicU64::new(sys::monotonic_nanos())) }
    }

    /// Time zero is now.
    pub(crate) fn restart(&self) {
        self.origin.store(sys::monotonic_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Instant {
        let origin = self.origin.load(Ordering::Relaxed);
        Instant::from_nanos(sys::monotonic_nanos().saturating_sub(origin))
    }
}
