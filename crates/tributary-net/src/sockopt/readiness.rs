//! Registers descriptors that report changes with the runtime.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tributary_tun::NetworkChanges;

/// What owns one descriptor, always returns that one, and closes it when it is dropped.
pub(crate) trait Owner: AsRawFd {}

impl Owner for NetworkChanges {}
impl Owner for OwnedFd {}

/// Waits for readability of the descriptor. Must be called in a runtime.
pub(crate) fn register<T: Owner>(changes: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: an `Owner` keeps its descriptor open and unchanged.
    Ok(unsafe { AsyncFd::register_with_interest(changes, Interest::READABLE)? })
}
