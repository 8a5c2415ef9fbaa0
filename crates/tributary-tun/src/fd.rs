//! The system calls that packet loops need, in their words: readiness, buffers, the clock. No policy here.

use core::time::Duration;
use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::net::sockopt;
use rustix::time::{ClockId, clock_gettime};
use socket2::SockRef;

/// Descriptors that one call of [`Epoll::wait`] reports at most.
const EVENTS: usize = 32;

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
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

/// Reads into `buffer`.
///
/// # Errors
/// The system's.
pub fn read(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, buffer)?)
}

/// Writes both parts as one packet.
///
/// # Errors
/// The system's.
pub fn write_two(fd: BorrowedFd<'_>, head: &[u8], tail: &[u8]) -> io::Result<usize> {
    write_parts(fd, &[IoSlice::new(head), IoSlice::new(tail)])
}

/// Writes all parts, 1024 at most, as one packet.
///
/// # Errors
/// The system's.
pub fn write_parts(fd: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(fd, parts)?)
}

/// A limit of time as the system calls take it.
fn timespec(limit: Duration) -> Timespec {
    Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Waits until `fd` accepts data again, or for `limit`. Returns whether it accepts data.
#[must_use]
pub fn wait_writable(fd: BorrowedFd<'_>, limit: Duration) -> bool {
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], Some(&timespec(limit)))
        .is_ok_and(|ready| ready > 0)
}

/// Sets a socket's receive buffer to `bytes`: beyond the system's limit with privilege, otherwise up to the limit.
pub fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) {
    // The plain option is capped without an error.
    let _ = sockopt::set_socket_recv_buffer_size_force(fd, bytes)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(fd, bytes));
}

/// The same for a socket's receive and send buffers.
pub fn set_socket_buffers(fd: BorrowedFd<'_>, bytes: usize) {
    set_receive_buffer(fd, bytes);
    let _ = sockopt::set_socket_send_buffer_size_force(fd, bytes)
        .or_else(|_| sockopt::set_socket_send_buffer_size(fd, bytes));
}

/// Lets a UDP socket divide datagrams that are longer than the MTU into fragments, as it does by default.
///
/// # Errors
/// The system's.
pub fn fragment_datagrams(fd: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set_ip_mtu_discover(fd, sockopt::Ipv4PathMtuDiscovery::WANT)?;
    if sockopt::socket_domain(fd)? == rustix::net::AddressFamily::INET6 {
        sockopt::set_ipv6_mtu_discover(fd, sockopt::Ipv6PathMtuDiscovery::WANT)?;
        let off: c_int = 0;
        let (option, length) = ((&raw const off).cast(), size_of::<c_int>() as libc::socklen_t);
        // SAFETY: the option is an integer that lives through the call.
        check(unsafe {
            libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, option, length)
        })?;
    }
    Ok(())
}

/// Binds a socket to the interface with this index: it sends and receives only there, whatever the routes are. A socket
/// that is bound already needs CAP_NET_RAW.
///
/// # Errors
/// The system's.
pub fn bind_to_interface(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    // On Linux for both families (`SO_BINDTOIFINDEX`).
    SockRef::from(&fd).bind_device_by_index_v4(NonZeroU32::new(index))
}

/// Nanoseconds of the monotonic clock.
#[must_use]
pub fn monotonic_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Readiness of several descriptors, with timeouts in nanoseconds.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Epoll {
    /// An instance that watches nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { fd, events: Vec::with_capacity(EVENTS) })
    }

    /// Reports `token` whenever `fd` is readable, as long as it is open.
    ///
    /// # Errors
    /// The system's.
    pub fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?)
    }

    /// Reports `token` when `fd` becomes readable; reports again only after it was read until empty.
    ///
    /// # Errors
    /// The system's.
    pub fn watch_edges(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(&self.fd, fd, epoll::EventData::new_u64(token), edges)?)
    }

    /// Waits until something is readable or `timeout` has passed (`None`: no timeout); returns tokens.
    pub fn wait(&mut self, timeout: Option<Duration>) -> impl Iterator<Item = u64> + '_ {
        self.events.clear();
        // Interrupted by a signal: no descriptor is ready.
        let _ = epoll::wait(&self.fd, spare_capacity(&mut self.events), timeout.map(timespec).as_ref());
        self.events.iter().map(|event| event.data.u64())
    }
}
