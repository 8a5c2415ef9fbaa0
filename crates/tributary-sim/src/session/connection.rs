//! One TCP connection of a session: an attempt, a subflow or one that is ending. As the runtime's
//! `subflow.rs` on a kernel socket: what it can take now, what it knows, what is queued.
//!
//! Makes no decisions: the driver moves it from phase to phase.

use std::collections::VecDeque;

use tributary_cc::Siblings;
use tributary_proto::room::{Room, TransportInfo};
use tributary_proto::{SubflowInfo, Transmit};
use tributary_types::{Instant, SubflowId};

use super::wire::{Delivery, Message, Wire, Writer};
use crate::id::RouteId;
use crate::packet::Segment;
use crate::tcp::{TcpSocket, TcpState};

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// TCP shakes hands.
    Dialling,
    /// TLS does, or the challenge, hello and reply are under way.
    Greeting,
    /// A subflow.
    Open,
    /// Closed by this end; what is queued is still sent.
    Ending,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub number: u32,
    /// Which of the transport's paths.
    pub path: usize,
    /// The attempt or subflow; on a server only once it has said so.
    pub subflow: SubflowId,
    pub phase: Phase,
    /// Given up then, unless it is open. A client's attempts have their deadlines in `Establish`.
    pub until: Instant,
    pub socket: TcpSocket,
    pub route: RouteId,
    input: Wire,
    output: Writer,
    /// Complete on the wire but not taken by TCP.
    unwritten: u64,
    room: Room,
    /// The room the session counts on.
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

    /// Hands a segment to TCP and takes what has arrived in order.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        segment: &Segment,
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

    /// The peer has ended it, orderly or not.
    pub fn is_over(&self) -> bool {
        self.socket.is_closed() || self.socket.is_finished_reading()
    }

    // ---- writing

    /// Sends a handshake message at once.
    pub fn say(&mut self, message: Message) {
        self.unwritten += self.output.say(message);
        self.write();
    }

    /// Queues a frame; nothing is handed to TCP yet.
    pub fn push(&mut self, transmit: Transmit) {
        self.unwritten += self.output.push(&transmit.head, transmit.payload);
    }

    /// Hands what is queued to TCP, as far as it takes it.
    pub fn write(&mut self) {
        self.unwritten += self.output.finish();
        if self.unwritten > 0 {
            self.unwritten -= self.socket.write(self.unwritten);
        }
    }

    /// Bytes the path can take soon.
    pub fn room(&self) -> usize {
        if self.held() > 0 { 0 } else { self.room.bytes(self.socket.unsent()) }
    }

    /// Bytes that TCP has not taken.
    fn held(&self) -> u64 {
        self.unwritten + self.output.open()
    }

    // ---- what TCP knows

    /// TCP's view, when the last one is old enough.
    pub fn refresh(&mut self, now: Instant, mss: u64) -> Option<SubflowInfo> {
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
            mss: mss as u32,
        }))
    }

    /// TCP has shaken hands.
    pub fn is_established(&self) -> bool {
        self.socket.info().state == TcpState::Established
    }
}
