//! Kernel MPTCP sockets: the baseline that Tributary is measured beside. Not used by sessions.

use std::io;
use std::os::fd::BorrowedFd;

use socket2::{Domain, Protocol, Socket, Type};

const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const FLAG_FALLBACK: u32 = 1;

/// Prefix of `struct mptcp_info` (`include/uapi/linux/mptcp.h`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    counts: [u8; 8],
    flags: u32,
    token: u32,
}

/// What the kernel says of an MPTCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MptcpState {
    /// Subflows beyond the first.
    pub extra_subflows: u8,
    /// The connection fell back to plain TCP.
    pub fallback: bool,
    /// Token of the connection, the same on both of its ends' subflows.
    pub token: u32,
}

/// A kernel MPTCP socket. Fails with `ENOPROTOOPT` or `EPROTONOSUPPORT` where the kernel has none.
pub fn mptcp_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP))
}

/// State of an MPTCP socket; a connection that fell back before it became MPTCP answers
/// `EOPNOTSUPP`, which is reported as a fallback.
pub fn mptcp_state(fd: BorrowedFd<'_>) -> io::Result<MptcpState> {
    match super::get::<Raw>(fd, SOL_MPTCP, MPTCP_INFO) {
        Ok((raw, _)) => Ok(MptcpState {
            extra_subflows: raw.counts[0],
            fallback: raw.flags & FLAG_FALLBACK != 0,
            token: raw.token,
        }),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            Ok(MptcpState { extra_subflows: 0, fallback: true, token: 0 })
        }
        Err(error) => Err(error),
    }
}
