//! A coded node works in turns, as on sockets: what arrives meanwhile waits for the next one, so that packets share it.

use core::fmt::Debug;

use tributary_cotag::MODERATION;
use tributary_types::Instant;

use crate::host::{Host, Outbox};
use crate::packet::Packet;

/// A node that takes packets and then does what is due.
pub(super) trait Work: Debug + 'static {
    /// Takes a packet that has arrived.
    fn take(&mut self, now: Instant, packet: Packet);

    /// Does what is due.
    fn drain(&mut self, now: Instant, out: &mut Outbox);

    /// When something is due.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// The node as a host.
#[derive(Debug)]
pub(super) struct Turns<W> {
    pub work: W,
    arrived: Vec<Packet>,
    /// Before this time no turn begins.
    rests_until: Instant,
}

impl<W: Work> Turns<W> {
    pub fn new(work: W) -> Self {
        Self { work, arrived: Vec::new(), rests_until: Instant::ZERO }
    }

    fn turn(&mut self, now: Instant, out: &mut Outbox) {
        if now < self.rests_until {
            return;
        }
        self.rests_until = now + MODERATION;
        for packet in self.arrived.drain(..) {
            self.work.take(now, packet);
        }
        self.work.drain(now, out);
    }
}

impl<W: Work> Host for Turns<W> {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        self.arrived.push(packet);
        self.turn(now, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.turn(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let next = if self.arrived.is_empty() { self.work.poll_timeout()? } else { self.rests_until };
        Some(next.max(self.rests_until))
    }
}
