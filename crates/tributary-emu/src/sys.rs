//! Thin safe wrappers of the system calls the emulator needs. No policy here.

use core::time::Duration;
use std::ffi::{CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The error of a call that returned -1, else its result.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Leaves the namespaces in `flags` for new ones.
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

/// SIGKILL for this process when its parent dies.
pub(crate) fn die_with_parent() {
    // SAFETY: takes no pointers; setting the parent-death signal cannot fail with a valid signal.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// mount(2).
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

/// Real-time priority for the calling thread, ahead of every ordinary one, or back to the ordinary.
/// Refused without privilege.
pub(crate) fn set_real_time(on: bool) -> io::Result<()> {
    let (policy, sched_priority) = if on { (libc::SCHED_FIFO, 20) } else { (libc::SCHED_OTHER, 0) };
    let priority = libc::sched_param { sched_priority };
    // SAFETY: `priority` is valid for the call; thread 0 is the calling one.
    check(unsafe { libc::sched_setscheduler(0, policy, &raw const priority) }).map(drop)
}

/// Lets timers of the calling thread fire at once instead of within 50 µs.
pub(crate) fn exact_timers() {
    // SAFETY: takes no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// An event counter descriptor that wakes an [`Epoll`].
pub(crate) fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just created and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads into `buffer`.
pub(crate) fn read(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Writes both parts as one packet.
pub(crate) fn write_two(fd: RawFd, head: &[u8], tail: &[u8]) -> io::Result<usize> {
    let part =
        |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let parts = [part(head), part(tail)];
    // SAFETY: both slices outlive the call, which only reads them.
    let n = unsafe { libc::writev(fd, parts.as_ptr(), 2) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Readiness of several descriptors, with timeouts in nanoseconds.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: [libc::epoll_event; 32],
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just created and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: [libc::epoll_event { events: 0, u64: 0 }; 32] })
    }

    /// Reports `token` whenever `fd` is readable.
    pub(crate) fn watch(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: token };
        // SAFETY: `event` is valid for the call; both descriptors are open.
        let result = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        check(result).map(drop)
    }

    /// Waits until something is readable or `timeout` has passed (`None`: for ever); yields tokens.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> impl Iterator<Item = u64> + '_ {
        let limit = timeout.map(|t| libc::timespec {
            tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(t.subsec_nanos()),
        });
        let limit = limit.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: the array has room for 32 events; `limit` is null or valid; no signal mask is given.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                32,
                limit,
                core::ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        let ready = usize::try_from(ready).unwrap_or(0); // a signal interrupted it: nothing is ready
        self.events[..ready].iter().map(|event| event.u64)
    }
}
