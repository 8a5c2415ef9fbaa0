//! The session's driver: moves bytes between TCP and the session, as the runtime's `driver.rs` does for sockets.
//!
//! A turn tells the session each subflow's room, drains the session ([`Turn`]), writes, and repeats while there is
//! progress. It takes no virtual time: the processor is not modelled.

use core::time::Duration;

use tributary_cc::Siblings;
use tributary_proto::turn::{self, Output, TICK, Turn};
use tributary_proto::{Event, Session, Side, Transmit};
use tributary_types::{Instant, PathId};

use super::connection::Phase;
use super::script::Arrival;
use super::wire::Delivery;
use super::{SessionConfig, SessionTransport};
use crate::host::Outbox;
use crate::multipath;
use crate::packet::{Packet, TcpSegment};
use crate::transport::Notice;

/// Client: connects on a path, with its cap.
fn add_path(session: &mut Session, now: Instant, (id, config): (PathId, &SessionConfig)) {
    session.add_path(now, id);
    let cap = config.caps.get(&usize::from(id.0)).copied();
    session.set_cap(now, id, cap).expect("the path was just added");
}

/// Turns at one moment, far more than the segments that TCP's send buffers take.
const MOST_TURNS: u32 = 100_000;

impl SessionTransport {
    /// Client: connects on its paths.
    pub(super) fn start(&mut self, now: Instant) {
        if std::mem::replace(&mut self.started, true) || self.side == Side::Server {
            return;
        }
        let mut session = self.make_session(now);
        for id in (0..self.paths.len()).map(|at| PathId(at as u8)) {
            self.recorder.arrived(|| Arrival::AddPath(id));
            add_path(&mut session, now, (id, &self.config));
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
                    self.recorder.arrived(|| Arrival::Input(subflow, bytes.clone()));
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
    }

    pub(super) fn path_changed(&mut self, now: Instant, path: u8, up: bool) {
        let paths: Vec<_> = (0..self.paths.len()).filter(|at| self.paths[*at].path == path).collect();
        let Some(session) = &mut self.session else { return };
        self.dirty = true;
        for id in paths.into_iter().map(|at| PathId(at as u8)) {
            match (up, self.side) {
                (false, _) => {
                    self.recorder.arrived(|| Arrival::RemovePath(id));
                    session.remove_path(now, id);
                }
                (true, Side::Client) => {
                    self.recorder.arrived(|| Arrival::AddPath(id));
                    add_path(session, now, (id, &self.config));
                }
                (true, Side::Server) => {} // clients connect
            }
        }
    }

    // ---- the turn

    /// Turns, while they move anything.
    pub(super) fn drive(&mut self, now: Instant, out: &mut Outbox) {
        let mut drained = false;
        let mut turns = 0;
        while self.inform(now) {
            drained = true;
            turns += 1;
            assert!(turns < MOST_TURNS, "the driver and its session never come to rest at {now}");
            let moved = self.drain(now);
            self.transmit(now, out);
            if !moved {
                break;
            }
        }
        self.transmit(now, out);
        self.bury();
        if drained {
            let session = self.session.as_ref();
            self.due = session.and_then(|session| turn::deadline(session, Some(&self.handshakes)));
        }
        self.arm(now);
    }

    /// Tells the session the state and room of its subflows. Returns whether it may have something to do.
    fn inform(&mut self, now: Instant) -> bool {
        let Some(session) = &mut self.session else { return false };
        self.dirty |= self.due.take_if(|due| *due <= now).is_some();
        for connection in self.connections.iter_mut().filter(|c| c.phase == Phase::Open) {
            if let Some(info) = connection.refresh(now) {
                self.recorder.arrived(|| Arrival::Info(connection.subflow, info));
                session.handle_subflow_info(connection.subflow, info);
                self.dirty = true;
            }
            let room = connection.room();
            self.recorder.arrived(|| Arrival::Room(connection.subflow, room));
            if room != connection.told {
                connection.told = room;
                session.handle_room(connection.subflow, room);
                self.dirty |= room > 0;
            }
        }
        let takes_turn = std::mem::take(&mut self.dirty);
        if takes_turn {
            self.recorder.turn(now);
        }
        takes_turn
    }

    /// Takes the session's output; returns whether there was any.
    fn drain(&mut self, now: Instant) -> bool {
        let Some(session) = &mut self.session else { return false };
        let mut turn = Turn::begin(now, session, Some(&mut self.handshakes));
        let mut moved = false;
        while let Some(output) =
            self.session.as_mut().and_then(|session| turn.poll(now, session, Some(&mut self.handshakes)))
        {
            match output {
                Output::Frame(transmit) => self.push(transmit),
                Output::Action(action) => self.carry_out(now, action),
                Output::Event(event) => self.event(now, event),
            }
            moved = true;
        }
        self.dirty |= moved;
        moved
    }

    fn push(&mut self, transmit: Transmit) {
        let open = |c: &&mut super::Connection| c.phase == Phase::Open && c.subflow == transmit.subflow;
        if let Some(connection) = self.connections.iter_mut().find(open) {
            connection.told = connection.told.saturating_sub(transmit.len());
            self.recorder.decided(|turn| {
                let head = transmit.head.as_slice().to_vec();
                turn.frames.push((transmit.subflow, head, transmit.payload.clone()));
            });
            connection.push(transmit);
        }
    }

    fn event(&mut self, now: Instant, event: Event) {
        match event {
            Event::CloseSubflow { subflow, abort } => {
                if let Some(at) = self.connection(subflow) {
                    self.recorder.decided(|turn| turn.closed.push((subflow, abort)));
                    self.end(now, at, abort);
                }
            }
            Event::SmallSegments { path, small: true } => drop(self.small.insert(path)),
            Event::SmallSegments { path, small: false } | Event::PathRemoved { path } => {
                self.small.remove(&path);
            }
            Event::StreamOpened(id) | Event::FlowOpened(id) => {
                self.notices.push_back(Notice::Opened(u64::from(id.0)))
            }
            Event::StreamReadable(id) => self.notices.push_back(Notice::Readable(u64::from(id.0))),
            Event::StreamWritable(id) => self.notices.push_back(Notice::Writable(u64::from(id.0))),
            Event::MessageExpired { stream, messages, .. } => {
                self.notices.push_back(Notice::Expired { stream: u64::from(stream.0), messages });
            }
            Event::Closed { code, .. } => {
                self.ended = Some(code);
                self.notices.push_back(Notice::Closed);
            }
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
        // Ticks are whole.
        let tick = self.due.map(|due| {
            let at = turn::wake_at(now, due).as_nanos();
            Instant::from_nanos(at.next_multiple_of(TICK.as_nanos() as u64))
        });
        let connections = self.connections.iter().flat_map(|c| {
            [c.socket.poll_timeout(), (c.phase != Phase::Open).then_some(c.until)].into_iter().flatten()
        });
        self.wake = connections.chain(tick).min().unwrap_or(Instant::MAX);
    }
}
