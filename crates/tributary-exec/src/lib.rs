//! One program in a network namespace of its own: every TCP connection that it opens and every question that it sends to a
//! DNS server arrives at sockets of the process that started it, and every other packet at a TUN device that this process holds.
//!
//! [`Program::start`] starts this executable again, with the arguments of a hidden command that calls [`enter`]. That
//! process has one thread, which `unshare` of a user namespace needs. It sets the namespace up, sends its sockets and device through
//! a socket pair (`SCM_RIGHTS`), waits until they are served, and becomes the program.
//!
//! Not here: what is done with the connections (`tributary_net::proxy::Forwarder::serve_redirected`).
//! Sources: user_namespaces(7), network_namespaces(7), nft(8), unix(7).

pub mod channel;
mod inside;
pub mod nft;
mod outside;
mod sockets;

pub use inside::{EnterError, enter};
pub use outside::{Program, StartError, forward_interrupts, signal};
pub use sockets::Sockets;

use std::net::{Ipv4Addr, Ipv6Addr};

/// Addresses of this machine or program on a device: RFC 2544 and RFC 4193, used in no network that an application could want
/// to reach.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// As [`ADDRESS`].
pub const ADDRESS_6: Ipv6Addr = Ipv6Addr::new(0xfd74, 0x7269, 0x6275, 0, 0, 0, 0, 1);
