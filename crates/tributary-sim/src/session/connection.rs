//! One TCP connection of a session: an attempt, a subflow or one that is ending. As the runtime's
//! `subflow.rs` on a kernel socket: what it can take now, what it knows, what is queued.
//!
//! Decides nothing: the driver moves it from phase to phase.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_cc::Siblings;
use tributary_proto::{SubflowInfo, Transmit};
use tributary_types::{Bitrate, Instant, SubflowId};

use super::wire::{Delivery, Message, Wire, Writer};
use crate::network::RouteId;
use crate::packet::Segment;
use crate::tcp::{TcpInfo, TcpSocket, TcpState};

/// Bounds of the bytes left unsent in TCP.
const TARGET: (u64, u64) = (16 * 1024, 1024 * 1024);
/// TCP may hold as much unsent as the path delivers in this time (late binding, FBDT product mode).
const AHEAD: Duration = Duration::from_millis(4);
/// TCP is asked what it knows this often at most.
const INFO_EVERY: Duration = Duration::from_millis(2);
/// Most bytes sealed at once.
const SEAL_AT_ONCE: u64 = 256 * 1024;

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// TCP shakes hands.
    Dialling,
    /// TLS does, or the challenge is under way.
    Protecting,
    /// Client: another attempt opens the session; this one joins it then.
    Waiting,
    /// Client: the hello is under way.
    Introducing,
    /// A subflow.
    Open,
    /// Nobody's any more.
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
    /// Given up then, unless it is open.
    pub until: Instant,
    pub socket: TcpSocket,
    pub route: RouteId,
    input: Wire,
    output: Writer,
    protected: bool,
    /// Complete on the wire but not taken by TCP.
    unwritten: u64,
    target: u64,
    /// The room the session counts on.
    pub told: usize,
    info_at: Option<Instant>,
}

/// What a new connection is made of.
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
            protected: fresh.protected,
            unwritten: 0,
            target: TARGET.0 * 4,
            told: 0,
            info_at: None,
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

    /// Says a handshake message at once.
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

    /// Bytes the path can take soon: what it delivers in a few milliseconds, less what is unsent. Zero until
    /// half of that is free, as the kernel reports a socket writable (`TCP_NOTSENT_LOWAT`).
    pub fn room(&self) -> usize {
        if self.unwritten + self.output.open() > 0 {
            return 0;
        }
        let unsent = self.socket.unsent();
        if unsent * 2 >= self.target {
            return 0;
        }
        let most = if self.protected { SEAL_AT_ONCE } else { u64::MAX };
        most.min(self.target - unsent) as usize
    }

    // ---- what TCP knows

    /// TCP's view, when the last one is old enough.
    pub fn refresh(&mut self, now: Instant, mss: u64) -> Option<SubflowInfo> {
        if self.info_at.is_some_and(|at| now < at + INFO_EVERY) {
            return None;
        }
        self.info_at = Some(now);
        let info = self.socket.info();
        self.retarget(&info);
        Some(SubflowInfo {
            srtt: info.srtt,
            rttvar: info.mean_deviation,
            min_rtt: info.min_rtt,
            cwnd: info.cwnd,
            in_flight: info.in_flight,
            unsent: info.unsent + self.unwritten + self.output.open(),
            delivery_rate: (info.delivery_rate > Bitrate::ZERO).then_some(info.delivery_rate),
            mss: mss as u32,
        })
    }

    fn retarget(&mut self, info: &TcpInfo) {
        let rate = if info.delivery_rate > Bitrate::ZERO {
            info.delivery_rate
        } else {
            let size = tributary_types::DataSize::from_bytes(info.cwnd);
            Bitrate::of(size, info.srtt.max(Duration::from_micros(1))).unwrap_or_default()
        };
        let wanted = rate.size_in(AHEAD).as_bytes().clamp(TARGET.0, TARGET.1);
        // A quarter more or less is no reason for a system call, in the runtime.
        if wanted.abs_diff(self.target) * 4 > self.target {
            self.target = wanted;
        }
    }

    /// TCP has shaken hands.
    pub fn is_established(&self) -> bool {
        self.socket.info().state == TcpState::Established
    }
}
