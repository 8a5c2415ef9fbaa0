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

pub use inside::{EnterError, enter};
pub use outside::{Program, Sockets, StartError, forward_interrupts, signal};
