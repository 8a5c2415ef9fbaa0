//! How a program is asked to end as SIGTERM asks it, and that it is ending.

use super::manager;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// A program's end, shared by its work and its control socket.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    requested: Notify,
    begun: AtomicBool,
}

impl Ending {
    /// Asks the program to end; what is open may finish.
    pub(crate) fn request(&self) {
        self.0.requested.notify_one();
    }

    /// Waits for such a request.
    pub(crate) async fn requested(&self) {
        self.0.requested.notified().await;
    }

    /// The program ends from now on.
    pub(crate) fn begin(&self) {
        self.0.begun.store(true, Ordering::Relaxed);
        manager::stopping();
    }

    /// Whether it ends.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.begun.load(Ordering::Relaxed)
    }
}
