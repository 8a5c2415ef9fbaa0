//! Limits on data that a peer may send before it is read. Sources: socket(7), tcp(7), `include/uapi/linux/sock.h`.

use std::io;
use std::os::fd::BorrowedFd;

use libc::c_int;
use socket2::SockRef;

/// Option for buffers of a fixed size (Linux 5.14), not yet in libc.
const SO_BUF_LOCK: c_int = 72;
/// Largest number of bytes that an option takes.
const MOST: usize = c_int::MAX as usize;
/// A window clamp without effect: TCP's windows are at most 1 GiB.
const NO_CLAMP: u32 = 1 << 30;

/// Received bytes below which the kernel does not call a socket readable (`SO_RCVLOWAT`).
pub fn set_receive_lowat(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    super::set(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, &(bytes.min(MOST) as c_int).to_ne_bytes())
}

/// Sets how many received bytes may wait unread (`SO_RCVBUF`). The kernel doubles the value for its own structures, so
/// between one and two times `bytes` may wait. Turns the kernel's automatic sizing off. A window that was already
/// announced to the peer is not withdrawn.
pub fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    SockRef::from(&fd).set_recv_buffer_size(bytes.min(MOST))?;
    super::set_tcp(fd, libc::TCP_WINDOW_CLAMP, NO_CLAMP)
}

/// Lets the kernel size the buffer again, beginning at `bytes`. If it cannot (before Linux 5.14), the buffer gets
/// the largest size that this user may set.
pub fn free_receive_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    set_receive_buffer(fd, bytes)?;
    if super::set(fd, libc::SOL_SOCKET, SO_BUF_LOCK, &0_i32.to_ne_bytes()).is_err() {
        set_receive_buffer(fd, usize::MAX)?;
    }
    Ok(())
}
