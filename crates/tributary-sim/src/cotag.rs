//! COTAG's network in virtual time: servers, a gateway, access points with correlated radios, one device.
//!
//! The coded nodes and their hops are the machines of `tributary_cotag`, as on sockets; the hosts here provide time and
//! links, as `tributary-nodes` does there. An inner packet is coded as the bytes of its number, so that 10 Gbit/s can be
//! simulated. Without coding, the same network carries TCP over both radios, MPTCP and sessions. Not here: encryption, and
//! the tunnel's direction from the device: acknowledgements are not coded.
//! Source: the COTAG paper, §5; `docs/models/cotag.md`.

mod access_point;
mod airtime;
mod contents;
mod device;
mod gateway;
mod hop;
mod network;
mod scheme;
mod setting;
mod spray;
mod traffic;
mod turns;

pub use network::{Measured, SimulateError, TunnelMeasured, simulate};
pub use scheme::Scheme;
pub use setting::{CHANGE, FLOWS, Load, QUEUE, Radio, Setting};

#[cfg(test)]
mod tests;
