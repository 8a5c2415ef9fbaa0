//! The interface between the world and its hosts.
//!
//! A host is one end of an exchange: a TCP or MPTCP endpoint, a QUIC endpoint, a Tributary session, or a
//! source of background traffic. It never reads a clock, and uses only its own seeded random generator.

use core::any::Any;
use core::fmt::Debug;

use tributary_types::Instant;

use crate::packet::Packet;

/// Packets that a host sends during one call.
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

/// A sans-IO machine at the edge of the network. Mutate, then drain: each call puts all resulting packets
/// into `out`, and [`Host::poll_timeout`] is read afterwards. Through [`Any`] results are read after a run
/// and commands given during one.
pub trait Host: Debug + Any {
    /// A packet arrived. `Body::Filler` may be ignored.
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox);

    /// The time of [`Host::poll_timeout`] has come. Earlier calls have no effect.
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox);

    /// When [`Host::handle_timeout`] must be called.
    fn poll_timeout(&self) -> Option<Instant>;

    /// A path of the scenario goes down or comes back, with a link event.
    fn handle_path(&mut self, now: Instant, path: u8, up: bool, out: &mut Outbox) {
        let _ = (now, path, up, out);
    }
}
