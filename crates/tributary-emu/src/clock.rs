//! Scenario time in wall time: nanoseconds since the scenario started. Shared by the forwarding thread, which may
//! restart it, and by the network's owner.

use crate::sys;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tributary_types::Instant;

/// A running clock; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    origin: Arc<AtomicU64>,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { origin: Arc::new(AtomicU64::new(sys::monotonic_nanos())) }
    }

    /// Sets time to zero.
    pub(crate) fn restart(&self) {
        self.origin.store(sys::monotonic_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Instant {
        let origin = self.origin.load(Ordering::Relaxed);
        Instant::from_nanos(sys::monotonic_nanos().saturating_sub(origin))
    }
}
