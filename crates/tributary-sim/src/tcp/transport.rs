//! One TCP connection on one route as a [`Transport`]: a single stream, number 0.

use core::time::Duration;
use std::rc::Rc;

use tributary_cc::{CongestionController, SiblingView, Siblings};
use tributary_types::Instant;

use super::config::TcpConfig;
use super::socket::TcpSocket;
use crate::host::Outbox;
use crate::id::RouteId;
use crate::packet::{Body, Packet};
use crate::transport::{Counters, Notice, PathSample, StreamKey, Transport};

const STREAM: StreamKey = 0;

/// One end of a TCP connection.
#[derive(Debug)]
pub struct TcpTransport {
    socket: TcpSocket,
    route: RouteId,
    is_server: bool,
    announced: Announced,
    /// Notices not yet taken; at most four kinds.
    notices: [Option<Notice>; 4],
    /// Number of waiting notices.
    waiting: u8,
    srtt_sum: u128,
    srtt_count: u64,
}

/// Notifications that the application has received.
#[derive(Debug, Default)]
struct Announced {
    connected: bool,
    closed: bool,
    ended: bool,
    /// A write was cut short, and no room has been announced since.
    wants_room: bool,
    /// Bytes that could be read at the last event.
    readable: u64,
}

impl TcpTransport {
    /// The end that opens the connection; its packets use `route`.
    #[must_use]
    pub fn client(
        config: impl Into<Rc<TcpConfig>>,
        controller: Box<dyn CongestionController>,
        route: RouteId,
    ) -> Self {
        Self::new(TcpSocket::connect(config, controller, 0), route, false)
    }

    /// The end that accepts it.
    #[must_use]
    pub fn server(
        config: impl Into<Rc<TcpConfig>>,
        controller: Box<dyn CongestionController>,
        route: RouteId,
    ) -> Self {
        Self::new(TcpSocket::listen(config, controller, 0), route, true)
    }

    fn new(socket: TcpSocket, route: RouteId, is_server: bool) -> Self {
        let announced = Announced::default();
        Self {
            socket,
            route,
            is_server,
            announced,
            notices: [None; 4],
            waiting: 0,
            srtt_sum: 0,
            srtt_count: 0,
        }
    }

    /// The connection, for its numbers.
    #[must_use]
    pub fn socket(&self) -> &TcpSocket {
        &self.socket
    }

    /// Ends the connection at once.
    pub fn abort(&mut self, now: Instant, out: &mut Outbox) {
        self.socket.abort();
        self.drain(now, out);
    }

    fn drain(&mut self, now: Instant, out: &mut Outbox) {
        while let Some(segment) = self.socket.poll_transmit(now) {
            out.send(Packet::segment(self.route, segment));
        }
    }

    fn tell(&mut self, notice: Notice) {
        if !self.notices.contains(&Some(notice))
            && let Some(slot) = self.notices.iter_mut().find(|slot| slot.is_none())
        {
            *slot = Some(notice);
            self.waiting += 1;
        }
    }

    /// Derives notices from changes of the socket.
    fn observe(&mut self) {
        if !self.announced.connected && self.socket.is_established() {
            self.announced.connected = true;
            self.tell(Notice::Connected);
            if self.is_server {
                self.tell(Notice::Opened(STREAM));
            }
        }
        let readable = self.socket.readable();
        let ended = self.socket.is_finished_reading();
        if readable > self.announced.readable || (ended && !self.announced.ended) {
            self.tell(Notice::Readable(STREAM));
        }
        self.announced.ended |= ended;
        self.announced.readable = readable;
        if self.announced.wants_room && self.socket.is_writable() {
            self.announced.wants_room = false;
            self.tell(Notice::Writable(STREAM));
        }
        if !self.announced.closed && self.socket.is_closed() {
            self.announced.closed = true;
            self.tell(Notice::Closed);
        }
    }
}

impl Transport for TcpTransport {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        let Body::Segment(segment) = &packet.body else { return };
        // A segment that brings the sender nothing does not touch its controller's memory, which saves time.
        let quiet = self.socket.tells_sender_nothing(segment);
        let view = [if quiet { SiblingView::default() } else { self.socket.controller_view() }];
        self.socket.handle_segment(now, segment, Siblings::new(&view, 0));
        if segment.is_ack && self.socket.is_established() {
            self.srtt_sum += u128::from(self.socket.srtt_nanos());
            self.srtt_count += 1;
        }
        self.observe();
        let _ = out; // segments leave in `flush`, when the application has read
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        let view = [self.socket.controller_view()];
        self.socket.handle_timeout(now, Siblings::new(&view, 0));
        self.observe();
        self.drain(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.socket.poll_timeout()
    }

    fn open(&mut self, _: Instant, _: u8) -> Option<StreamKey> {
        self.announced.connected.then_some(STREAM)
    }

    fn write(&mut self, _: Instant, _: StreamKey, bytes: u64) -> u64 {
        let taken = self.socket.write(bytes);
        self.announced.wants_room |= taken < bytes;
        taken
    }

    fn finish(&mut self, _: Instant, _: StreamKey) {
        self.socket.finish();
    }

    fn read(&mut self, now: Instant, _: StreamKey, most: u64) -> u64 {
        let bytes = self.socket.readable().min(most);
        self.socket.read(now, bytes);
        self.announced.readable = self.socket.readable();
        if self.socket.is_finished_reading() && !self.announced.ended {
            self.announced.ended = true;
            self.tell(Notice::Readable(STREAM));
        }
        bytes
    }

    fn is_finished(&self, _: StreamKey) -> bool {
        self.socket.is_finished_reading()
    }

    fn flush(&mut self, now: Instant, out: &mut Outbox) {
        self.drain(now, out);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        if self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        self.notices.iter_mut().find_map(Option::take)
    }

    fn counters(&self) -> Counters {
        let info = self.socket.info();
        let mean = self.srtt_sum.checked_div(u128::from(self.srtt_count)).unwrap_or(0);
        Counters {
            sent: info.sent,
            retransmitted: info.retransmitted,
            reinjected: 0,
            duplicates: info.duplicates,
            timeouts: info.timeouts,
            mean_srtt: Duration::from_nanos(mean as u64),
            receive_held_most: self.socket.receive_held_most(),
        }
    }

    fn sample(&self, samples: &mut Vec<PathSample>) {
        let info = self.socket.info();
        samples.push(PathSample {
            path: 0,
            window: info.cwnd,
            threshold: info.ssthresh,
            in_flight: Some(info.in_flight),
            srtt: info.srtt,
            retransmitted: info.retransmitted,
        });
    }
}
