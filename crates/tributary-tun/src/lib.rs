//! Linux networking for tunnels and emulators: TUN devices with offloads, their packets and the datagrams in them, batched UDP,
//! and netlink requests that configure interfaces.
//!
//! Not here: any protocol above IP and UDP, and any decision about when to send.
//! Sources: virtio 1.2 §5.1.6, `linux/if_tun.h`, udp(7) (UDP_SEGMENT, UDP_GRO), rtnetlink(7).

mod checksum;
pub mod datagram;
mod device;
pub mod fd;
mod frame;
mod merge;
mod netlink;
mod udp;

pub use checksum::{fold, sum_of};
pub use device::{QUEUE, Tun, TunError};
pub use frame::{BUFFER, Frame, Malformed, Pool, Scratch, VIRTIO};
pub use merge::Merger;
#[doc(hidden)]
pub use netlink::fuzz;
pub use netlink::{
    Interface, MAIN_TABLE, Netlink, Network, NetworkChanges, Route, Rule, Selector, TableRule,
    interface_index,
};
pub use udp::{Lost, MOST_BYTES, ReceiveBatch, SendBatch, UdpSocket};
