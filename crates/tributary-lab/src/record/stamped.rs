//! A UDP socket that tells when the kernel received each datagram. A program that wakes late must not shorten a train: on a busy
//! machine the times at which programs read differ by milliseconds. Source: socket(7), `SO_TIMESTAMPNS`.

use core::time::Duration;
use nix::cmsg_space;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, ReceiveTimestampns};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes of packets that wait for the program, where the system allows so many: a program that wakes late must not lose a train.
const WAITING: usize = 4 << 20;

/// A socket with times of arrival.
#[derive(Debug)]
pub struct Stamped<S>(S);

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its bytes in the buffer.
    pub length: usize,
    /// Its sender; `None` if the system does not tell.
    pub from: Option<SocketAddr>,
    /// When it arrived, as [`now`].
    pub at: Duration,
}

/// Time since 1970, as the kernel stamps datagrams.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl<S: AsFd> Stamped<S> {
    /// Switches the stamps on, and makes room for trains.
    ///
    /// # Errors
    /// The system's reason.
    pub fn new(socket: S) -> io::Result<Self> {
        setsockopt(&socket, ReceiveTimestampns, &true)?;
        if setsockopt(&socket, RcvBufForce, &WAITING).is_err() {
            setsockopt(&socket, RcvBuf, &WAITING)?; // up to net.core.rmem_max
        }
        Ok(Self(socket))
    }

    /// The socket itself.
    pub fn socket(&self) -> &S {
        &self.0
    }

    /// The next datagram; waits as long as the socket's read timeout says.
    ///
    /// # Errors
    /// The system's reason.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut space = cmsg_space!(TimeSpec);
        let mut slices = [IoSliceMut::new(buffer)];
        let fd = self.0.as_fd().as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut space), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
            _ => None,
        });
        let from = message.address.and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|v4| SocketAddrV4::from(*v4).into());
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into()))
        });
        Ok(Received { length: message.bytes, from, at: stamp.unwrap_or_else(now) })
    }
}
