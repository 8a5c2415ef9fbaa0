//! DSCP of the packet that opened a connection. Sources: tcp(7), RFC 2474 §3.

use std::io;
use std::os::fd::BorrowedFd;

use libc::c_int;

/// Maximum size of the headers of the packet that opened a connection, options and extensions included.
const MOST: usize = 512;

/// For listeners: the kernel keeps the opening packets of accepted connections until they are read.
pub fn keep_opening_packets(fd: BorrowedFd<'_>) -> io::Result<()> {
    super::set_tcp(fd, libc::TCP_SAVE_SYN, 1)
}

/// The DSCP of the packet with which the peer opened an accepted connection. `None` if the listener did not keep the
/// packet, or if the packet was already read.
pub fn opening_code_point(fd: BorrowedFd<'_>) -> Option<u8> {
    const NAME: c_int = libc::TCP_SAVED_SYN;
    let (headers, length) = super::get::<[u8; MOST]>(fd, libc::IPPROTO_TCP, NAME).ok()?;
    match headers.get(..length)? {
        [first, second, ..] if first >> 4 == 4 => Some(second >> 2),
        // The traffic class is spread over the first two bytes.
        [first, second, ..] if first >> 4 == 6 => Some(((first & 0xf) << 2) | (second >> 6)),
        _ => None,
    }
}
