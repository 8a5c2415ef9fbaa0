//! A TUN device with offloads: reads and writes super-frames with a virtio header in front.

use crate::fd;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use thiserror::Error;

// Values of linux/if_tun.h.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca_u32 as libc::Ioctl;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0_u32 as libc::Ioctl;
const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// Packets that may wait in a TUN device, as the kernel makes it.
pub const QUEUE: u32 = 500;

/// Why a TUN device could not be created.
#[derive(Debug, Error)]
pub enum TunError {
    /// The kernel's TUN driver is missing.
    #[error(
        "TUN device `{name}`: /dev/net/tun does not exist. Load the driver (`modprobe tun`); in a container add \
         `--device /dev/net/tun`"
    )]
    Missing {
        /// The interface's name.
        name: String,
    },
    /// Missing permission.
    #[error(
        "TUN device `{name}`: {source}. Run as root or with CAP_NET_ADMIN (`setcap cap_net_admin+ep` on the \
         program; in a container `--cap-add NET_ADMIN --device /dev/net/tun`), and let the user open the driver \
         (`chmod 0666 /dev/net/tun`)"
    )]
    Denied {
        /// The interface's name.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Another program uses the name.
    #[error("TUN device `{name}` is in use by another program; choose another name or end that program")]
    Busy {
        /// The interface's name.
        name: String,
    },
    /// Invalid interface name.
    #[error("`{name}` is not a valid interface name: expected 1 to 15 bytes without `/`, space, `%` and `:`")]
    Name {
        /// The given name.
        name: String,
    },
    /// Any other failure.
    #[error("TUN device `{name}`: {source}")]
    System {
        /// The interface's name.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// The program's end of the device, or one of its queues. The interface disappears when the last one is
/// dropped.
#[derive(Debug)]
pub struct Tun {
    file: File,
}

impl Tun {
    /// Creates the interface `name` in the network namespace of the calling thread. With `super_frames` it
    /// delivers TCP and UDP super-frames of up to 64 KiB; without, single packets. Reads do not block.
    ///
    /// # Errors
    /// [`TunError`] says what is missing.
    pub fn create(name: &str, super_frames: bool) -> Result<Self, TunError> {
        Self::open(name, super_frames, 0)
    }

    /// As [`create`](Self::create), with `queues` queues, at least one, for as many threads. The kernel puts
    /// all packets of a flow into one queue.
    ///
    /// # Errors
    /// [`TunError`] says what is missing.
    pub fn create_queues(name: &str, super_frames: bool, queues: usize) -> Result<Vec<Self>, TunError> {
        (0..queues.max(1)).map(|_| Self::open(name, super_frames, libc::IFF_MULTI_QUEUE)).collect()
    }

    fn open(name: &str, super_frames: bool, more: libc::c_int) -> Result<Self, TunError> {
        let forbidden = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'%' | b':' | 0);
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.bytes().any(forbidden) {
            return Err(TunError::Name { name: name.to_owned() });
        }
        let failed = |source: io::Error| Self::refusal(name, source);
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun");
        let tun = Self { file: file.map_err(failed)? };
        tun.attach(name, libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR | more).map_err(failed)?;
        if !super_frames {
            tun.offload(TUN_F_CSUM).map_err(failed)?;
            return Ok(tun);
        }
        let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        // Kernels before 6.2 have no UDP segmentation; there, datagrams come one by one.
        tun.offload(tcp | TUN_F_USO4 | TUN_F_USO6).or_else(|_| tun.offload(tcp)).map_err(failed)?;
        Ok(tun)
    }

    fn refusal(name: &str, source: io::Error) -> TunError {
        let name = name.to_owned();
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => TunError::Missing { name },
            Some(libc::EPERM | libc::EACCES) => TunError::Denied { name, source },
            Some(libc::EBUSY) => TunError::Busy { name },
            _ => TunError::System { name, source },
        }
    }

    fn attach(&self, name: &str, flags: libc::c_int) -> io::Result<()> {
        // SAFETY: ifreq is plain data; zero is a valid value of all its fields.
        let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq, valid for the call.
        fd::check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETIFF, &raw mut request) }).map(drop)
    }

    fn offload(&self, features: libc::c_uint) -> io::Result<()> {
        let features = libc::c_ulong::from(features);
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        fd::check(unsafe { libc::ioctl(self.file.as_raw_fd(), TUNSETOFFLOAD, features) }).map(drop)
    }

    /// The next packet, if one is waiting: its length in `buffer`, virtio header included. A buffer of
    /// [`BUFFER`](crate::BUFFER) bytes is large enough for any packet.
    ///
    /// # Errors
    /// `WouldBlock` when none is waiting.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        fd::read(self.as_fd(), buffer)
    }

    /// Gives the kernel one packet: a virtio header and the packet, split at any position into head and tail.
    ///
    /// # Errors
    /// The kernel refuses it, or its interface is down.
    pub fn write(&self, head: &[u8], tail: &[u8]) -> io::Result<()> {
        fd::write_two(self.as_fd(), head, tail).map(drop)
    }

    /// The same with a packet in many parts, 1024 at most.
    ///
    /// # Errors
    /// The kernel refuses it, or its interface is down.
    pub fn write_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        fd::write_parts(self.as_fd(), parts).map(drop)
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl AsRawFd for Tun {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// A device that another process has created and given away.
impl From<OwnedFd> for Tun {
    fn from(descriptor: OwnedFd) -> Self {
        Self { file: descriptor.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_device_and_the_remedy() {
        let say = |code| Tun::refusal("cotag0", io::Error::from_raw_os_error(code)).to_string();
        assert!(say(libc::ENOENT).contains("modprobe tun"), "{}", say(libc::ENOENT));
        assert!(say(libc::EPERM).contains("CAP_NET_ADMIN"), "{}", say(libc::EPERM));
        assert!(say(libc::EBUSY).contains("in use"), "{}", say(libc::EBUSY));
        assert!(say(libc::ENOMEM).starts_with("TUN device `cotag0`"));
    }

    #[test]
    fn invalid_interface_names_are_refused_before_a_device_is_opened() {
        for name in ["", "a/b", "sixteen-bytes-no", "a b", "%d"] {
            assert!(matches!(Tun::create(name, true), Err(TunError::Name { .. })), "{name}");
        }
    }
}
