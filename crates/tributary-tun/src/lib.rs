//! Linux networking for tunnels and emulators: TUN devices with offloads, their packets, batched UDP, and netlink
//! requests that configure interfaces.
//!
//! Not here: any protocol above IP and UDP, and any decision about when to send.
//! Sources: virtio 1.2 §5.1.6, `linux/if_tun.h`, udp(7) (UDP_SEGMENT, UDP_GRO), rtnetlink(7).

mod checksum;
mod device;
pub mod fd;
mod frame;
mod merge;
mod netlink;
mod udp;

pub use checksum::{fold, sum_of};
pub use device::{Tun, TunError};
pub use frame::{BUFFER, Frame, Malformed, Pool, Scratch, VIRTIO};
pub use merge::Merger;
pub use netlink::{Interface, Netlink, Network, NetworkChanges, Route, Rule, interface_index};
pub use udp::{Lost, ReceiveBatch, SendBatch, UdpSocket};
