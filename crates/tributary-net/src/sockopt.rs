//! Socket options of Linux that neither the standard library nor socket2 offers, and names for uses of those that socket2 has. The
//! only unsafe code of the crate. An option that socket2 has is set through its `SockRef`.
//!
//! Options are read and written through four small wrappers around `getsockopt`, `setsockopt`, `ioctl` and `poll`,
//! and the process's limit of descriptors through two more. One descriptor is registered with the runtime, and those that a
//! service manager passed are taken over. All
//! other code is safe. Options that the kernel lacks are reported and are never fatal.
//! Sources: tcp(7), `include/uapi/linux/{tcp,sockios,mptcp}.h`.

mod code_point;
mod descriptors;
mod mptcp;
mod passed;
pub(crate) mod readiness;
mod receive;
mod tcp_info;

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};
use socket2::SockRef;
use thiserror::Error;

pub use code_point::{keep_opening_packets, opening_code_point};
pub use descriptors::raise_limit as raise_descriptor_limit;
pub use mptcp::{MptcpState, MptcpSubflow, mptcp_socket, mptcp_state, mptcp_subflows};
pub(crate) use passed::passed_descriptors;
pub use receive::{free_receive_buffer, set_receive_buffer, set_receive_lowat};
pub use tcp_info::{TcpInfo, tcp_info};

/// `TCP_RTO_MAX_MS` (Linux 6.15), not yet in libc.
const TCP_RTO_MAX_MS: c_int = 44;
/// `TCP_RTO_MIN_US` (Linux 6.16), not yet in libc.
const TCP_RTO_MIN_US: c_int = 45;
/// `TCP_DELACK_MAX_US` (Linux 6.16), not yet in libc.
const TCP_DELACK_MAX_US: c_int = 46;

/// A congestion controller could not be selected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CongestionError {
    /// The kernel does not offer it, or this user may not use it.
    #[error("unknown congestion control `{name}`; this kernel offers: {available}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names the kernel lists.
        available: String,
    },
    /// The socket reports another controller than the requested one.
    #[error("the socket runs congestion control `{actual}` instead of `{wanted}`")]
    Differs {
        /// The requested name.
        wanted: String,
        /// The name the socket reports.
        actual: String,
    },
    /// Any other failure of the system call.
    #[error("congestion control: {0}")]
    Io(#[from] io::Error),
}

/// Which of the newer timer options took effect on a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerSupport {
    /// `TCP_RTO_MAX_MS`: a cap on the retransmission timeout.
    pub rto_max: bool,
    /// `TCP_RTO_MIN_US`: a floor of the retransmission timeout.
    pub rto_min: bool,
    /// `TCP_DELACK_MAX_US`: a cap on delayed acknowledgements.
    pub delack_max: bool,
}

fn get<T: Copy>(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<(T, usize)> {
    get_into(fd, (level, name), MaybeUninit::<T>::zeroed())
}

/// As [`get`], for options that read input from `value`.
fn get_into<T: Copy>(
    fd: BorrowedFd<'_>,
    (level, name): (c_int, c_int),
    mut value: MaybeUninit<T>,
) -> io::Result<(T, usize)> {
    let mut length = size_of::<T>() as socklen_t;
    // SAFETY: the pointer is valid for `length` bytes, and the kernel writes at most that many.
    let code = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast::<c_void>(), &raw mut length)
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the value was zeroed and every `T` used here is an integer, an array of integers or a
    // `repr(C)` struct of integers, for which any bytes are valid.
    Ok((unsafe { value.assume_init() }, length as usize))
}

fn set(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer is valid for `value.len()` bytes, which the kernel only reads.
    let code = unsafe {
        let pointer = value.as_ptr().cast::<c_void>();
        libc::setsockopt(fd.as_raw_fd(), level, name, pointer, value.len() as socklen_t)
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_tcp(fd: BorrowedFd<'_>, name: c_int, value: u32) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, name, &value.to_ne_bytes())
}

fn queue_length(fd: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<usize> {
    let mut bytes: c_int = 0;
    // SAFETY: both requests used write one int through the pointer, which is valid for one.
    let code = unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut bytes) };
    if code == 0 { Ok(usize::try_from(bytes).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
}

/// Bytes in the send queue that the kernel has not yet sent (`SIOCOUTQNSD`).
pub fn unsent(fd: BorrowedFd<'_>) -> io::Result<usize> {
    queue_length(fd, libc::SIOCOUTQNSD as libc::Ioctl)
}

/// Bytes in the send queue that the peer has not acknowledged, sent or not (`SIOCOUTQ`).
pub fn unacknowledged(fd: BorrowedFd<'_>) -> io::Result<usize> {
    queue_length(fd, libc::TIOCOUTQ as libc::Ioctl)
}

/// Whether the kernel accepts more bytes at this moment. If not, `poll` sets the flag that makes the kernel report
/// an edge as soon as there is space.
pub fn poll_writable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is valid for the one entry announced, and a zero timeout does not block.
    let code = unsafe { libc::poll(&raw mut entry, 1, 0) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(code > 0) }
}

/// Applies the newer retransmission-timer options, each where the kernel has it.
pub fn set_timers(fd: BorrowedFd<'_>, rto_max: Duration, delack_max: Duration) -> TimerSupport {
    let rto_millis = u32::try_from(rto_max.as_millis()).unwrap_or(u32::MAX);
    let delack_micros = u32::try_from(delack_max.as_micros()).unwrap_or(u32::MAX);
    TimerSupport {
        rto_max: set_tcp(fd, TCP_RTO_MAX_MS, rto_millis).is_ok(),
        rto_min: get::<u32>(fd, libc::IPPROTO_TCP, TCP_RTO_MIN_US).is_ok(),
        delack_max: set_tcp(fd, TCP_DELACK_MAX_US, delack_micros).is_ok(),
    }
}

/// Makes the socket send RST when it is dropped (`SO_LINGER` zero).
pub fn set_abort_on_drop(fd: BorrowedFd<'_>) -> io::Result<()> {
    SockRef::from(&fd).set_linger(Some(Duration::ZERO))
}

/// Undoes [`set_abort_on_drop`]: the socket sends FIN when it is dropped.
pub fn clear_abort_on_drop(fd: BorrowedFd<'_>) -> io::Result<()> {
    SockRef::from(&fd).set_linger(None)
}

/// Whether the machine has a network interface of this name.
pub fn interface_exists(name: &str) -> bool {
    let Ok(name) = std::ffi::CString::new(name) else { return false };
    // SAFETY: the pointer is a NUL-terminated string that outlives the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) != 0 }
}

/// The congestion controllers this user may choose, from the kernel's own list.
pub fn available_congestion() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .map_or_else(|_| "(list unreadable)".to_owned(), |text| text.trim().replace(' ', ", "))
}

/// Name of the congestion controller of a socket.
pub fn congestion(fd: BorrowedFd<'_>) -> io::Result<String> {
    let name = SockRef::from(&fd).tcp_congestion()?;
    let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Selects a congestion controller and checks that the socket reports it.
///
/// Call it on a listener before `accept` and on a client before `connect`: a socket switched later
/// stays paced by its first controller.
pub fn set_congestion(fd: BorrowedFd<'_>, name: &str) -> Result<(), CongestionError> {
    SockRef::from(&fd).set_tcp_congestion(name.as_bytes()).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::EINVAL | libc::EPERM) => {
            CongestionError::Unknown { name: name.to_owned(), available: available_congestion() }
        }
        _ => CongestionError::Io(error),
    })?;
    assert_congestion(fd, name)
}

/// Checks that a socket runs the named congestion controller.
pub fn assert_congestion(fd: BorrowedFd<'_>, wanted: &str) -> Result<(), CongestionError> {
    let actual = congestion(fd)?;
    if actual == wanted {
        Ok(())
    } else {
        Err(CongestionError::Differs { wanted: wanted.to_owned(), actual })
    }
}

#[cfg(test)]
pub(crate) use tests::silent_listener;

#[cfg(test)]
mod tests;
