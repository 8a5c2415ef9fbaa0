//! The inner end of a tunnel: a TUN device, with segmentation and merging of packets.

use super::routes;
use crate::config::Inner;
use crate::error::NodeError;
use crate::packet::clamp_segment_size;
use crate::status::InnerStatus;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use tributary_tun::{BUFFER, Frame, Merger, Netlink, Pool, Scratch, Tun, VIRTIO};

/// Packets or super-frames that the kernel queues for us: a burst of small packets while this thread does not run.
const QUEUE: u32 = 1024;
/// Super-frames read before other sources are served.
const BATCH: usize = 16;

pub(super) struct TunEnd {
    tun: Tun,
    mtu: usize,
    pool: Rc<Pool>,
    buffer: Vec<u8>,
    scratch: Scratch,
    packet: Vec<u8>,
    merger: Merger,
    pub(super) status: InnerStatus,
}

impl TunEnd {
    /// Creates and configures the device, in the calling thread's network namespace.
    pub(super) fn create(inner: &Inner, mtu: usize) -> Result<Self, NodeError> {
        let tun = Tun::create(&inner.tun, true)?;
        let failed = |what: String| move |source| NodeError::Interface { what, source };
        let name = &inner.tun;
        let mut netlink = Netlink::open().map_err(failed(name.clone()))?;
        netlink.set_link(name, true, Some((mtu as u32, QUEUE))).map_err(failed(name.clone()))?;
        for prefix in &inner.address {
            let what = format!("{name}, address {prefix}");
            netlink.add_address(name, prefix.address, prefix.bits).map_err(failed(what))?;
        }
        for route in routes::expand(&inner.route) {
            routes::add(&mut netlink, name, route)?;
        }
        Ok(Self {
            tun,
            mtu,
            pool: Rc::default(),
            buffer: vec![0; BUFFER],
            scratch: Scratch::new(),
            packet: Vec::new(),
            merger: Merger::new(),
            status: InnerStatus::default(),
        })
    }

    /// Reads packets and calls `each` with them. Returns whether the device has been read empty.
    pub(super) fn read(&mut self, each: &mut impl FnMut(&mut InnerStatus, &[u8])) -> bool {
        for _ in 0..BATCH {
            let Ok(length) = self.tun.read(&mut self.buffer) else { return true };
            let Ok(frame) = Frame::take(&mut self.buffer, length, &self.pool) else {
                self.status.malformed += 1;
                continue;
            };
            for index in 0..frame.segments() {
                self.packet.clear();
                frame.write_segment(index, &mut self.scratch, &mut self.packet);
                self.status.packets_in += 1;
                self.status.bytes_in += self.packet.len() as u64;
                if self.packet.len() > self.mtu {
                    if self.status.oversize == 0 {
                        let (length, mtu) = (self.packet.len(), self.mtu);
                        tracing::warn!("dropped a packet of {length} bytes: the tunnel carries up to {mtu}");
                    }
                    self.status.oversize += 1;
                    continue;
                }
                self.status.clamped += u64::from(clamp_segment_size(&mut self.packet, self.mtu));
                each(&mut self.status, &self.packet);
            }
        }
        false
    }

    /// Writes a packet, possibly merged with later ones.
    pub(super) fn write(&mut self, packet: &[u8]) {
        self.status.packets_out += 1;
        self.status.bytes_out += packet.len() as u64;
        let (tun, status) = (&self.tun, &mut self.status);
        let mut emit = |frame: &[u8]| status.unwritten += u64::from(write_frame(tun, frame).is_err());
        self.merger.push(packet, &mut emit);
    }

    /// Writes the packets held back for merging.
    pub(super) fn flush(&mut self) {
        let (tun, status) = (&self.tun, &mut self.status);
        self.merger.flush(&mut |frame| status.unwritten += u64::from(write_frame(tun, frame).is_err()));
    }
}

fn write_frame(tun: &Tun, frame: &[u8]) -> std::io::Result<()> {
    let (head, tail) = frame.split_at(VIRTIO);
    tun.write(head, tail)
}

impl AsFd for TunEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}
