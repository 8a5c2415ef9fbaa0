//! Registers descriptors with the runtime that are no sockets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tributary_tun::{NetworkChanges, Tun};

/// What owns one descriptor, always returns that one, and closes it when it is dropped.
pub(crate) trait Owner: AsRawFd {}

impl Owner for NetworkChanges {}
impl Owner for OwnedFd {}
impl Owner for Tun {}

/// Waits for readability of the descriptor. Must be called in a runtime.
pub(crate) fn register<T: Owner>(owner: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: an `Owner` keeps its descriptor open and unchanged.
    Ok(unsafe { AsyncFd::register_with_interest(owner, Interest::READABLE)? })
}
