//! Descriptors that a service manager passed to the program: sd_listen_fds(3).
//!
//! Not here: whether they are the sockets that the program needs ([`crate::passed`]).

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes over the descriptors, with their numbers and names (`LISTEN_FDNAMES`). Programs that this one starts do not have them. They
/// can be taken once; from then on there are none.
///
/// # Errors
/// The environment variables contradict each other, or a descriptor is not open.
pub(crate) fn passed_descriptors() -> io::Result<Vec<(RawFd, String, OwnedFd)>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let passed = sd_notify::listen_fds_with_names()?;
    // SAFETY: `listen_fds_with_names` has found the descriptor open. By the protocol it is this program's to use, and nothing else
    // has taken it over, because `TAKEN` lets only one call come here.
    Ok(passed.map(|(number, name)| (number, name, unsafe { OwnedFd::from_raw_fd(number) })).collect())
}
