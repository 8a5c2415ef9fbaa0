//! The interface between the world and its hosts.
//!
//! A host is one end of one exchange: a TCP or MPTCP endpoint, a QUIC endpoint, a Tributary session, a
//! source of background traffic. It never reads time and never draws randomness but from its own
//! seeded generator.

use core::any::Any;
use core::fmt::Debug;

use tributary_types::Instant;

use crate::packet::Packet;

/// Packets a host wants to send, collected during one call.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) packets: Vec<Packet>,
}

impl Outbox {
    /// Sends a packet now.
    pub fn send(&mut self, packet: Packet) {
        self.packets.push(packet);
    }
}

/// A sans-IO machine at the edge of the network. Mutate, then drain: each call leaves in `out` all that
/// follows from it, and [`Host::poll_timeout`] is read after it. [`Any`] lets results be read after a run
/// and commands be given during one.
pub trait Host: Debug + Any {
    /// A packet arrived. `Body::Filler` may be ignored.
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox);

    /// The moment of [`Host::poll_timeout`] has come; it may be called earlier, then it does nothing.
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox);

    /// When to call [`Host::handle_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// A path of the scenario goes down or comes back with a link event.
    fn handle_path(&mut self, now: Instant, path: u8, up: bool, out: &mut Outbox) {
        let _ = (now, path, up, out);
    }
}
