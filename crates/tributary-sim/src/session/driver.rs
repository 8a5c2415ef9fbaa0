//! The driver's turn: moves bytes between TCP and the session. Source: the runtime's `driver.rs`.
//!
//! A turn tells the session each subflow's room, drains the session, writes, and repeats while there is
//! progress. It takes no virtual time: the processor is not modelled.

use core::time::Duration;

use tributary_cc::Siblings;
use tributary_proto::room::CLOSING_ROOM;
use tributary_proto::{Event, Side};
use tributary_types::{Instant, PathId};

use super::SessionTransport;
use super::connection::Phase;
use super::wire::Delivery;
use crate::host::Outbox;
use crate::multipath;
use crate::packet::{Packet, TcpSegment};
use crate::transport::Notice;

/// Resolution of the runtime's timer.
const TICK: Duration = Duration::from_millis(1);

impl SessionTransport {
    /// Client: connects on its paths.
    pub(super) fn start(&mut self, now: Instant) {
        if std::mem::replace(&mut self.started, true) || self.side == Side::Server {
            return;
        }
        let mut session = self.make_session(now);
        for at in 0..self.paths.len() {
            session.add_path(now, PathId(at as u8));
        }
        self.session = Some(session);
    }

    // ---- from the network

    pub(super) fn handle_segment(&mut self, now: Instant, segment: &TcpSegment, out: &mut Outbox) {
        let known = self.connections.iter().position(|c| c.number == segment.connection);
        let Some(at) = known.or_else(|| self.accept(now, segment)) else {
            self.refuse(segment, out);
            return;
        };
        let own = self.see_siblings(at);
        let siblings = Siblings::new(&self.views, own);
        let mut arrived = std::mem::take(&mut self.arrived);
        self.connections[at].handle_segment(now, segment, siblings, &mut arrived);
        if segment.is_ack && self.views[own].srtt > Duration::ZERO {
            self.srtt_sum += self.views[own].srtt;
            self.srtt_count += 1;
        }
        self.dialled(now, at);
        for delivery in arrived.drain(..) {
            match (self.connections[at].phase, delivery) {
                (Phase::Ending, _) => {}
                (_, Delivery::Message(message)) => self.message(now, at, message),
                (Phase::Open, Delivery::Bytes(bytes)) => {
                    let subflow = self.connections[at].subflow;
                    self.dirty = true;
                    if let Some(session) = &mut self.session
                        && session.handle_input(now, subflow, bytes).is_err()
                    {
                        self.end(now, at, true);
                    }
                }
                (_, Delivery::Bytes(_)) => {}
            }
        }
        self.arrived = arrived;
        if self.connections[at].phase != Phase::Ending && self.connections[at].is_over() {
            self.broken(now, at);
        }
    }

    /// Fills in the views of all subflows and of connection `own`; returns the index of `own`.
    fn see_siblings(&mut self, own: usize) -> usize {
        self.views.clear();
        let mut found = 0;
        for (at, connection) in self.connections.iter().enumerate() {
            if at == own {
                found = self.views.len();
            }
            if at == own || connection.phase == Phase::Open {
                self.views.push(connection.socket.controller_view());
            }
        }
        found
    }

    /// Answers a segment of an unknown connection.
    fn refuse(&self, segment: &TcpSegment, out: &mut Outbox) {
        let (_, path) = multipath::incarnation_and_path(segment.connection);
        if let (Some(path), Some(reset)) = (self.paths.get(path), multipath::refusal(segment)) {
            out.send(Packet::segment(path.route, reset));
        }
    }

    // ---- time and paths

    pub(super) fn pass_time(&mut self, now: Instant) {
        for at in 0..self.connections.len() {
            if self.connections[at].socket.poll_timeout().is_some_and(|due| due <= now) {
                let own = self.see_siblings(at);
                let siblings = Siblings::new(&self.views, own);
                self.connections[at].socket.handle_timeout(now, siblings);
            }
            let connection = &self.connections[at];
            let late = connection.phase != Phase::Open && now >= connection.until;
            match connection.phase {
                Phase::Ending if late => self.connections[at].socket.abort(),
                Phase::Ending => {}
                _ if late || connection.socket.is_closed() => self.broken(now, at),
                _ => {}
            }
        }
        if let Some(session) = &mut self.session {
            self.handshakes.handle_timeout(now, session);
            self.carry_out(now);
        }
    }

    pub(super) fn path_changed(&mut self, now: Instant, path: u8, up: bool) {
        let paths: Vec<_> = (0..self.paths.len()).filter(|at| self.paths[*at].path == path).collect();
        let Some(session) = &mut self.session else { return };
        self.dirty = true;
        for id in paths.into_iter().map(|at| PathId(at as u8)) {
            match (up, self.side) {
                (false, _) => session.remove_path(now, id),
                (true, Side::Client) => session.add_path(now, id),
                (true, Side::Server) => {} // clients connect
            }
        }
    }

    // ---- the turn

    pub(super) fn turn(&mut self, now: Instant, out: &mut Outbox) {
        if self.session_due.is_some_and(|due| due <= now)
            && let Some(session) = &mut self.session
        {
            session.handle_timeout(now);
            self.dirty = true;
        }
        let mut drained = false;
        while self.inform(now) {
            drained = true;
            let moved = self.drain(now);
            self.transmit(now, out);
            if !moved {
                break;
            }
        }
        self.transmit(now, out);
        self.bury();
        if drained {
            self.session_due = self.session.as_ref().and_then(tributary_proto::Session::poll_timeout);
        }
        self.arm(now);
    }

    /// Tells the session the state and room of its subflows. Returns whether it may have something to do.
    fn inform(&mut self, now: Instant) -> bool {
        let Some(session) = &mut self.session else { return false };
        for connection in self.connections.iter_mut().filter(|c| c.phase == Phase::Open) {
            if let Some(info) = connection.refresh(now, self.config.tcp.mss) {
                session.handle_subflow_info(connection.subflow, info);
                self.dirty = true;
            }
            let room = connection.room();
            if room != connection.told {
                connection.told = room;
                session.handle_room(connection.subflow, room);
                self.dirty |= room > 0;
            }
        }
        std::mem::take(&mut self.dirty)
    }

    /// Takes the session's output; returns whether there was any.
    fn drain(&mut self, now: Instant) -> bool {
        let mut moved = self.take_transmits(now);
        let over = self.session.as_ref().is_some_and(tributary_proto::Session::is_closed);
        if over && !std::mem::replace(&mut self.closed, true) {
            if let Some(session) = &mut self.session {
                for connection in self.connections.iter().filter(|c| c.phase == Phase::Open) {
                    session.handle_room(connection.subflow, CLOSING_ROOM);
                }
            }
            moved |= self.take_transmits(now);
        }
        while let Some(event) = self.session.as_mut().and_then(tributary_proto::Session::poll_event) {
            moved = true;
            self.event(now, event);
        }
        self.dirty |= moved;
        moved
    }

    fn take_transmits(&mut self, now: Instant) -> bool {
        let Some(session) = &mut self.session else { return false };
        let mut moved = false;
        while let Some(transmit) = session.poll_transmit(now) {
            moved = true;
            let subflow = transmit.subflow;
            let open = |c: &&mut super::Connection| c.phase == Phase::Open && c.subflow == subflow;
            if let Some(connection) = self.connections.iter_mut().find(open) {
                connection.told = connection.told.saturating_sub(transmit.len());
                connection.push(transmit);
            }
        }
        moved
    }

    fn event(&mut self, now: Instant, event: Event) {
        self.handshakes.handle_event(now, &event);
        self.carry_out(now);
        match event {
            Event::OpenSubflow { .. } | Event::AbandonConnect { .. } => {}
            Event::CloseSubflow { subflow, abort } => {
                if let Some(at) = self.connection(subflow) {
                    self.end(now, at, abort);
                }
            }
            Event::StreamOpened(id) => self.notices.push_back(Notice::Opened(u64::from(id.0))),
            Event::StreamReadable(id) => self.notices.push_back(Notice::Readable(u64::from(id.0))),
            Event::StreamWritable(id) => self.notices.push_back(Notice::Writable(u64::from(id.0))),
            Event::MessageExpired { stream, messages, .. } => {
                self.notices.push_back(Notice::Expired { stream: u64::from(stream.0), messages });
            }
            Event::Closed { .. } => self.notices.push_back(Notice::Closed),
            _ => {}
        }
    }

    fn transmit(&mut self, now: Instant, out: &mut Outbox) {
        for connection in &mut self.connections {
            connection.write();
            while let Some(segment) = connection.socket.poll_transmit(now) {
                out.send(Packet::segment(connection.route, segment));
            }
        }
    }

    /// Removes connections that are over, but keeps their counters.
    fn bury(&mut self) {
        let past = &mut self.past;
        self.connections.retain(|connection| {
            let gone = connection.phase == Phase::Ending && connection.socket.is_closed();
            if gone {
                super::add_tcp(past, connection);
            }
            !gone
        });
    }

    fn arm(&mut self, now: Instant) {
        // A deadline in the past that was handled waits for the next tick, so that the driver does not spin.
        // Ticks are whole.
        let tick = self.session_due.map(|due| {
            let at = due.max(now + TICK).as_nanos();
            Instant::from_nanos(at.next_multiple_of(TICK.as_nanos() as u64))
        });
        let connections = self.connections.iter().flat_map(|c| {
            [c.socket.poll_timeout(), (c.phase != Phase::Open).then_some(c.until)].into_iter().flatten()
        });
        let attempts = self.handshakes.poll_timeout();
        self.wake = connections.chain(tick).chain(attempts).min().unwrap_or(Instant::MAX);
    }
}
