//! Safe wrappers of the system calls that the emulator needs. No policy here.

use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) use tributary_tun::fd::{Epoll, check, event_fd, read, write_two};

/// Leaves the namespaces in `flags` and enters new ones.
pub(crate) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: takes no pointers.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves the calling thread into a network namespace. Async-signal-safe.
pub(crate) fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointers; the descriptor is open.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Effective user and group.
pub(crate) fn effective_ids() -> (u32, u32) {
    // SAFETY: these calls cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Makes the kernel kill this process when its parent dies.
pub(crate) fn die_with_parent() {
    // SAFETY: takes no pointers; setting the parent-death signal cannot fail with a valid signal.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// mount(2).
/// Runs `make`; files that it makes are for this user only. For all threads of the process.
pub(crate) fn with_private_files<T>(make: impl FnOnce() -> T) -> T {
    // SAFETY: umask only exchanges a number.
    let before = unsafe { libc::umask(0o177) };
    let made = make();
    // SAFETY: as above.
    unsafe { libc::umask(before) };
    made
}

pub(crate) fn mount(source: &str, target: &str, kind: &str, flags: libc::c_ulong) -> io::Result<()> {
    let [source, target, kind] =
        [source, target, kind].map(|s| CString::new(s).expect("no NUL in constants"));
    // SAFETY: the three strings end in NUL and outlive the call.
    let result =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, core::ptr::null()) };
    check(result).map(drop)
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn monotonic_nanos() -> u64 {
    clock_nanos(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of processor time this thread has used.
pub(crate) fn thread_cpu_nanos() -> u64 {
    clock_nanos(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of the wall clock, which kernel timestamps use.
pub(crate) fn realtime_nanos() -> u64 {
    clock_nanos(libc::CLOCK_REALTIME)
}

fn clock_nanos(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Gives the calling thread real-time priority, above all ordinary threads, or ordinary priority again. Needs
/// privilege.
pub(crate) fn set_real_time(on: bool) -> io::Result<()> {
    let (policy, sched_priority) = if on { (libc::SCHED_FIFO, 20) } else { (libc::SCHED_OTHER, 0) };
    let priority = libc::sched_param { sched_priority };
    // SAFETY: `priority` is valid for the call; thread 0 is the calling one.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const priority) }).map(drop)
}

/// Makes timers of the calling thread fire at once instead of within 50 µs.
pub(crate) fn exact_timers() {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}
