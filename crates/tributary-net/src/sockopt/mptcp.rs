//! Kernel MPTCP sockets and the kernel's counters of them and of their subflows. Not used by sessions.
//! Source: `include/uapi/linux/mptcp.h`.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::tcp_info::{Raw as RawTcp, TcpInfo};

const SOL_MPTCP: libc::c_int = 284;
const MPTCP_INFO: libc::c_int = 1;
const MPTCP_TCPINFO: libc::c_int = 2;
const MPTCP_SUBFLOW_ADDRS: libc::c_int = 3;
const FLAG_FALLBACK: u32 = 1;
/// The kernel's limit on subflows of a connection.
const MOST_SUBFLOWS: usize = 8;

/// The kernel's answer for all subflows: `struct mptcp_subflow_data`, then one `T` for each.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Subflows<T: Copy> {
    size_header: u32,
    count: u32,
    size_kernel: u32,
    size_user: u32,
    each: [T; MOST_SUBFLOWS],
}

/// Prefix of `struct mptcp_subflow_addrs`: two socket addresses, each as long as `sockaddr_storage`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct RawAddresses {
    ends: [[u8; 128]; 2],
}

/// Prefix of `struct mptcp_info` (`include/uapi/linux/mptcp.h`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    counts: [u8; 8],
    flags: u32,
    token: u32,
}

/// The kernel's state of an MPTCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MptcpState {
    /// Subflows beyond the first.
    pub extra_subflows: u8,
    /// The connection fell back to plain TCP.
    pub fallback: bool,
    /// Token of the connection; all subflows of one end have the same.
    pub token: u32,
}

/// A kernel MPTCP socket. Fails with `ENOPROTOOPT` or `EPROTONOSUPPORT` where the kernel has none.
pub fn mptcp_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::STREAM, Some(Protocol::MPTCP))
}

/// State of an MPTCP socket. For a connection that fell back before it became MPTCP the kernel returns `EOPNOTSUPP`;
/// this is reported as a fallback.
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

/// A subflow of an MPTCP connection: its counters, its local and its remote address.
pub type MptcpSubflow = (TcpInfo, Option<(SocketAddr, SocketAddr)>);

/// Each subflow of an MPTCP connection, with its local and remote address. None when the connection fell
/// back to TCP.
///
/// # Errors
/// The socket is not MPTCP.
pub fn mptcp_subflows(fd: BorrowedFd<'_>) -> io::Result<Vec<MptcpSubflow>> {
    let (infos, size) = ask::<RawTcp>(fd, MPTCP_TCPINFO)?;
    let addresses = ask::<RawAddresses>(fd, MPTCP_SUBFLOW_ADDRS).map(|(each, _)| each).unwrap_or_default();
    let ends = |index: usize| {
        let [local, remote] = addresses.get(index)?.ends;
        Some((socket_address(&local)?, socket_address(&remote)?))
    };
    Ok(infos.iter().enumerate().map(|(i, raw)| (TcpInfo::from_raw(raw, size), ends(i))).collect())
}

/// The kernel's answer for each subflow, and the number of bytes that it wrote for each.
fn ask<T: Copy>(fd: BorrowedFd<'_>, option: libc::c_int) -> io::Result<(Vec<T>, usize)> {
    let mut question = MaybeUninit::<Subflows<T>>::zeroed();
    let header = question.as_mut_ptr();
    // SAFETY: the pointer is to memory of this type that `question` owns; integers are plain data.
    unsafe {
        (*header).size_header = 16;
        (*header).size_user = size_of::<T>() as u32;
    }
    let (answer, _) = super::get_into(fd, (SOL_MPTCP, option), question)?;
    let written = answer.size_user.min(answer.size_kernel) as usize;
    Ok((answer.each.into_iter().take(answer.count as usize).collect(), written))
}

/// A `sockaddr_in` or `sockaddr_in6`.
fn socket_address(bytes: &[u8; 128]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    match family {
        libc::AF_INET => {
            let ip: [u8; 4] = bytes[4..8].try_into().ok()?;
            Some((Ipv4Addr::from(ip), port).into())
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes[8..24].try_into().ok()?;
            Some((Ipv6Addr::from(ip), port).into())
        }
        _ => None,
    }
}
