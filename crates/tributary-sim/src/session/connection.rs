//! One TCP connection of a session: an attempt, a subflow, or one that is closing. Does what the runtime's
//! `subflow.rs` does on a kernel socket: its room, TCP's state, its queue.
//!
//! Makes no decisions: the driver changes its phase.

use std::collections::VecDeque;

use tributary_cc::Siblings;
use tributary_proto::room::{Room, TransportInfo};
use tributary_proto::{SubflowInfo, Transmit};
use tributary_types::{Instant, SubflowId};

use super::wire::{Delivery, HandshakeMessage, Wire, Writer};
use crate::id::RouteId;
use crate::packet::TcpSegment;
use crate::tcp::{TcpSocket, TcpState};

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// TCP handshake.
    Dialling,
    /// TLS handshake or challenge, hello and reply.
    Greeting,
    /// An open subflow.
    Open,
    /// Closed by this end; queued data is still sent.
    Ending,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub number: u32,
    /// Index of the transport's path.
    pub path: usize,
    /// The attempt or subflow; a server knows it only after the hello.
    pub subflow: SubflowId,
    pub phase: Phase,
    /// When it is abandoned, unless it is open. Deadlines of a client's attempts are in `Handshakes`.
    pub until: Instant,
    pub socket: TcpSocket,
    pub route: RouteId,
    input: Wire,
    output: Writer,
    /// Bytes complete on the wire that TCP has not accepted yet.
    unwritten: u64,
    room: Room,
    /// The room that was last reported to the session.
    pub told: usize,
}

/// Settings of a new connection.
pub(super) struct Fresh {
    pub number: u32,
    pub path: usize,
    pub subflow: SubflowId,
    pub until: Instant,
    pub socket: TcpSocket,
    pub route: RouteId,
    pub input: Wire,
    pub output: Wire,
    pub protected: bool,
}

impl Connection {
    pub fn new(fresh: Fresh) -> Self {
        Self {
            number: fresh.number,
            path: fresh.path,
            subflow: fresh.subflow,
            phase: Phase::Dialling,
            until: fresh.until,
            socket: fresh.socket,
            route: fresh.route,
            input: fresh.input,
            output: Writer::new(fresh.output, fresh.protected),
            unwritten: 0,
            room: Room::new(fresh.protected),
            told: 0,
        }
    }

    // ---- reading

    /// Passes a segment to TCP and reads what has arrived in order.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        segment: &TcpSegment,
        siblings: Siblings<'_>,
        arrived: &mut VecDeque<Delivery>,
    ) {
        self.socket.handle_segment(now, segment, siblings);
        let bytes = self.socket.readable();
        if bytes > 0 {
            self.socket.read(now, bytes);
            self.input.advance(bytes, arrived);
        }
    }

    /// The peer has closed or reset it.
    pub fn is_over(&self) -> bool {
        self.socket.is_closed() || self.socket.is_finished_reading()
    }

    // ---- writing

    /// Sends a handshake message at once.
    pub fn say(&mut self, message: HandshakeMessage) {
        self.unwritten += self.output.say(message);
        self.write();
    }

    /// Queues a frame; it is given to TCP in [`Self::write`].
    pub fn push(&mut self, transmit: Transmit) {
        self.unwritten += self.output.push(&transmit.head, transmit.payload);
    }

    /// Gives queued bytes to TCP, as far as it accepts them.
    pub fn write(&mut self) {
        self.unwritten += self.output.finish();
        if self.unwritten > 0 {
            self.unwritten -= self.socket.write(self.unwritten);
        }
    }

    /// Bytes that the path can take soon.
    pub fn room(&self) -> usize {
        if self.held() > 0 { 0 } else { self.room.bytes(self.socket.unsent()) }
    }

    /// Bytes that TCP has not accepted.
    fn held(&self) -> u64 {
        self.unwritten + self.output.open()
    }

    // ---- what TCP knows

    /// TCP's state, if the previous one is old enough.
    pub fn refresh(&mut self, now: Instant) -> Option<SubflowInfo> {
        if !self.room.poll_ask(now) {
            return None;
        }
        let info = self.socket.info();
        Some(self.room.handle_info(&TransportInfo {
            srtt: info.srtt,
            rttvar: info.mean_deviation,
            min_rtt: info.min_rtt,
            cwnd: info.cwnd,
            in_flight: info.in_flight,
            unsent: info.unsent + self.held(),
            delivery_rate: info.delivery_rate,
            app_limited: info.app_limited,
            mss: self.socket.mss() as u32,
            delivered: info.delivered,
            heard_at: info.heard_at,
        }))
    }

    /// TCP has completed its handshake.
    pub fn is_established(&self) -> bool {
        self.socket.info().state == TcpState::Established
    }
}
