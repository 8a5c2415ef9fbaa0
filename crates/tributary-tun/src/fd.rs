//! Thin safe wrappers of the system calls that packet loops need: reads, writes, epoll, socket buffers.
//! No policy here.

use core::time::Duration;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The result of a call; an error when it returned -1.
///
/// # Errors
/// The system's, when the result is negative.
pub fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// An event counter descriptor that wakes an [`Epoll`].
///
/// # Errors
/// The system's.
pub fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads into `buffer`.
///
/// # Errors
/// The system's.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let n = unsafe { libc::read(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Writes both parts as one packet.
///
/// # Errors
/// The system's.
pub fn write_two(fd: BorrowedFd<'_>, head: &[u8], tail: &[u8]) -> io::Result<usize> {
    let part =
        |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let parts = [part(head), part(tail)];
    // SAFETY: both slices outlive the call, which only reads them.
    let n = unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr(), 2) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// Waits until `fd` accepts data again, or for `limit` (whole milliseconds). Returns whether it accepts data.
#[must_use]
pub fn wait_writable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let limit = c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX);
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut poll, 1, limit) > 0 }
}

/// Sets a socket's receive and send buffers to `bytes`: beyond the system's limit with privilege, otherwise
/// up to the limit.
pub fn set_socket_buffers(fd: BorrowedFd<'_>, bytes: c_int) {
    let forced = [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE];
    let plain = [libc::SO_RCVBUF, libc::SO_SNDBUF];
    for (forced, plain) in forced.into_iter().zip(plain) {
        let set = |option| {
            let (value, length) = (&raw const bytes, size_of::<c_int>() as libc::socklen_t);
            // SAFETY: `value` points to an integer of `length` bytes, valid for the call.
            check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, value.cast(), length) })
        };
        // The plain option is capped without an error.
        let _ = set(forced).or_else(|_| set(plain));
    }
}

/// Binds a socket to the interface with this index: it sends and receives only there, whatever the routes are. A socket
/// that is bound already needs CAP_NET_RAW.
///
/// # Errors
/// The system's.
pub fn bind_to_interface(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let index = c_int::try_from(index).map_err(io::Error::other)?;
    let (value, length) = (&raw const index, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: `value` points to an integer of `length` bytes, valid for the call.
    check(unsafe {
        let option = libc::SO_BINDTOIFINDEX;
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, option, value.cast(), length)
    })
    .map(drop)
}

/// Nanoseconds of the monotonic clock.
#[must_use]
pub fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Readiness of several descriptors, with timeouts in nanoseconds.
pub struct Epoll {
    fd: OwnedFd,
    events: [libc::epoll_event; 32],
}

impl Epoll {
    /// An instance that watches nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just created and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: [libc::epoll_event { events: 0, u64: 0 }; 32] })
    }

    /// Reports `token` whenever `fd` is readable, as long as it is open.
    ///
    /// # Errors
    /// The system's.
    pub fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.add(fd, libc::EPOLLIN, token)
    }

    /// Reports `token` when `fd` becomes readable; reports again only after it was read until empty.
    ///
    /// # Errors
    /// The system's.
    pub fn watch_edges(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.add(fd, libc::EPOLLIN | libc::EPOLLET, token)
    }

    fn add(&self, fd: BorrowedFd<'_>, events: c_int, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        // SAFETY: `event` is valid for the call; both descriptors are open.
        let result = unsafe {
            libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event)
        };
        check(result).map(drop)
    }

    /// Waits until something is readable or `timeout` has passed (`None`: no timeout); returns tokens.
    pub fn wait(&mut self, timeout: Option<Duration>) -> impl Iterator<Item = u64> + '_ {
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
        let ready = usize::try_from(ready).unwrap_or(0); // interrupted by a signal: no descriptor is ready
        self.events[..ready].iter().map(|event| event.u64)
    }
}
