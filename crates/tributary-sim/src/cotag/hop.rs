//! A coded node's end of a hop in virtual time: numbers its datagrams, as the envelope of the real hops does. Without
//! encryption and handshake: a session begins with the run.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use tributary_cotag::{HopControl, HopEnd, HopMessage, Offer};
use tributary_types::Instant;

use super::contents::Contents;
use crate::host::Outbox;
use crate::id::RouteId;
use crate::packet::{Body, Packet};

/// Bytes of a datagram's number.
const NUMBER: usize = 8;

/// The end.
#[derive(Debug)]
pub(super) struct Hop {
    control: HopControl,
    contents: Rc<RefCell<Contents>>,
    /// The route to the neighbour.
    route: RouteId,
    next: u64,
    /// Sent, and not yet given to the world.
    sent: Vec<Packet>,
}

impl Hop {
    /// `is_radio`: as for [`HopControl::new`].
    pub fn new(route: RouteId, is_radio: bool, contents: Rc<RefCell<Contents>>) -> Self {
        let mut control = HopControl::new(is_radio);
        control.begin_session();
        Self { control, contents, route, next: 0, sent: Vec::new() }
    }

    /// Takes a datagram of the neighbour; returns its message if it is one for the node.
    pub fn receive<'a>(&mut self, now: Instant, datagram: &'a Bytes) -> Option<HopMessage<'a>> {
        let number = datagram.first_chunk().map(|number| u64::from_be_bytes(*number))?;
        self.control.on_received(now, number);
        self.control.handle_message(now, HopMessage::read(&datagram[NUMBER..])?)
    }

    /// Sends what is due: pings, feedback with `offer` for data from the neighbour, and all that was sent before.
    pub fn flush(&mut self, now: Instant, offer: Offer, out: &mut Outbox) {
        self.control.handle_timeout(now);
        while let Some(message) = self.control.poll_message(now, offer) {
            self.send(now, &message, false);
        }
        self.sent.drain(..).for_each(|packet| out.send(packet));
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.control.poll_timeout()
    }
}

impl HopEnd for Hop {
    fn control(&self) -> &HopControl {
        &self.control
    }

    fn control_mut(&mut self) -> &mut HopControl {
        &mut self.control
    }

    fn send(&mut self, now: Instant, message: &HopMessage<'_>, paced: bool) -> Option<u64> {
        let number = self.next;
        self.next += 1;
        let mut datagram = number.to_be_bytes().to_vec();
        message.write(&mut datagram);
        let datagram = Bytes::from(datagram);
        let coded = match message {
            HopMessage::Coded(bytes) | HopMessage::Returned(bytes) => bytes.len(),
            _ => 0,
        };
        let head = datagram.len() - coded;
        let size = (head - NUMBER) as u32 + self.contents.borrow().wire_size(&datagram.slice(head..));
        self.control.on_sent(now, message, (number, size as usize), paced);
        self.sent.push(Packet::new(self.route, size, Body::Datagram(datagram)));
        Some(number)
    }
}
