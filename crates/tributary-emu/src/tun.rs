//! A TUN device with offloads: it hands over and takes super-frames with a virtio header in front.

use crate::sys;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

// Values of linux/if_tun.h.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca_u32 as libc::Ioctl;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0_u32 as libc::Ioctl;
const TUN_F_CSUM: libc::c_uint = 0x01;
const TUN_F_TSO4: libc::c_uint = 0x02;
const TUN_F_TSO6: libc::c_uint = 0x04;
const TUN_F_TSO_ECN: libc::c_uint = 0x08;
const TUN_F_USO4: libc::c_uint = 0x20;
const TUN_F_USO6: libc::c_uint = 0x40;

/// The device's end in this program. The interface disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
}

impl Tun {
    /// Creates the interface `name` in the network namespace of the calling thread.
    pub(crate) fn create(name: &str, super_frames: bool) -> io::Result<Self> {
        let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/net/tun")?;
        // SAFETY: ifreq is plain data; zero is a valid value of all its fields.
        let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one ifreq, valid for the call.
        sys::check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) })?;
        let tun = Self { file };
        if !super_frames {
            tun.offload(TUN_F_CSUM)?;
            return Ok(tun);
        }
        let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
        // Kernels before 6.2 know no UDP segmentation; without it datagrams come one by one.
        tun.offload(tcp | TUN_F_USO4 | TUN_F_USO6).or_else(|_| tun.offload(tcp))?;
        Ok(tun)
    }

    fn offload(&self, features: libc::c_uint) -> io::Result<()> {
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        sys::check(unsafe { libc::ioctl(self.raw(), TUNSETOFFLOAD, libc::c_ulong::from(features)) }).map(drop)
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// The next packet, if one is waiting: its length in `buffer`.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        sys::read(self.raw(), buffer)
    }

    /// Hands the kernel one packet.
    pub(crate) fn write(&self, head: &[u8], tail: &[u8]) -> io::Result<()> {
        sys::write_two(self.raw(), head, tail).map(drop)
    }
}
