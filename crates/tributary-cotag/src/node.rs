//! The nodes: each is a coding machine and the rules between it and the hops to its neighbours. A driver owns the ends of
//! the hops ([`HopEnd`]): it numbers, seals and sends messages, and hands a node the messages that have arrived.
//!
//! A wait for another node always ends by itself; the list of them is `docs/models/cotag-waits.md`.
//!
//! Not here: the handshake that begins a session, and whose packets may pass.

mod access_point;
mod device;
mod gateway;

pub use access_point::{AccessPointNode, Passed};
pub use device::DeviceNode;
pub use gateway::GatewayNode;

use crate::hop::HopControl;
use crate::message::HopMessage;
use tributary_types::Instant;

/// A node's end of a hop, with the driver's means to send.
pub trait HopEnd {
    /// What may be sent, and what is due.
    fn control(&self) -> &HopControl;

    /// The same, to tell it what the node does.
    fn control_mut(&mut self) -> &mut HopControl;

    /// Numbers and sends a message, and tells its [`HopControl`] ([`on_sent`](HopControl::on_sent)). `paced` messages count
    /// against the hop's window. Returns the datagram's number; without a session nothing is sent.
    fn send(&mut self, now: Instant, message: &HopMessage<'_>, paced: bool) -> Option<u64>;
}

#[cfg(test)]
mod tests;
