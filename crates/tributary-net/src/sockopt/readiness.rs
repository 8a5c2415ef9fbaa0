//! Registers the descriptor that reports network changes with the runtime.

use std::io;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tributary_tun::NetworkChanges;

/// Waits for readability of the descriptor. Must be called in a runtime.
pub(crate) fn register(changes: NetworkChanges) -> io::Result<AsyncFd<NetworkChanges>> {
    // SAFETY: `NetworkChanges` owns its descriptor, always returns that one, and closes it when it is dropped.
    Ok(unsafe { AsyncFd::register_with_interest(changes, Interest::READABLE)? })
}
