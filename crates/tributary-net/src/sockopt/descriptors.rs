//! The process's limit of file descriptors: `RLIMIT_NOFILE`, getrlimit(2).
//!
//! A server needs one for each subflow and each proxied connection. Many systems start programs with a soft limit
//! of 1024, because of `select`, and a much higher hard limit (systemd: 524288).

use std::io;

/// Raises the soft limit to the hard limit. Returns the new limit.
///
/// # Errors
/// The error of the system call.
pub fn raise_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid `rlimit` that the kernel fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is a valid `rlimit` that the kernel reads.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}
