//! COTAG's network in virtual time: servers, a gateway, access points with correlated radios, one device.
//!
//! The coded nodes are the machines of `tributary_coding::cotag`, the same as on sockets; the hosts here own their time
//! and links, as `tributary-nodes` does there. Inner packets are the bytes of a number inside the codes, so that 10 Gbit/s can be
//! simulated. Beside coding, the same network carries TCP over both radios, MPTCP and sessions. Not here:
//! encryption, and the upward direction of the tunnel: acknowledgements cross uncoded.
//! Source: the COTAG paper, §5; `docs/models/cotag.md`.

mod access_point;
mod airtime;
mod contents;
mod device;
mod gateway;
mod network;
mod room;
mod scheme;
mod spray;
mod traffic;

pub use network::{Measured, Radio, Setting, SimulateError, TunnelMeasured, simulate};
pub use scheme::Scheme;

#[cfg(test)]
mod tests;
