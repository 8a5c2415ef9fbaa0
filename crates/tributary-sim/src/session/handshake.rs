//! How connections become subflows: connecting, the TLS round trip or the challenge, hello and reply.
//!
//! The decisions of both ends are in `tributary_proto::handshakes`. The server has one session at most.

use tributary_proto::coupling::is_coupled;
use tributary_proto::handshakes::{
    Action, Failure, HANDSHAKE_TIME, Introduction, LINGER, Progress, SMALL_SEGMENT, accept,
};
use tributary_proto::{Config, Session, Side};
use tributary_types::{Instant, PathId, Rng, SubflowId};

use super::SessionTransport;
use super::connection::{Connection, Fresh, Phase};
use super::script::Arrival;
use super::wire::HandshakeMessage;
use crate::multipath;
use crate::packet::TcpSegment;
use crate::tcp::TcpSocket;
use crate::transport::Notice;

/// Bytes of the timestamps in every segment, which the announced size of segments contains (RFC 6691).
const TIMESTAMPS: u64 = 12;

impl SessionTransport {
    /// A session of this end with the configured settings.
    pub(super) fn make_session(&mut self, now: Instant) -> Session {
        self.sessions += 1;
        self.ended = None;
        let coupled = is_coupled(&self.config.congestion);
        let config = Config { coupled, ..self.config.session.clone() };
        self.recorder.begin(now, &config, self.config.seed);
        let made = match &self.config.own.scheduler {
            Some(make) => {
                let end = if self.side == Side::Client { "client" } else { "server" };
                let seed = Rng::new(self.config.seed).child(end).next_u64();
                Session::with_scheduler(self.side, config, make(seed), now)
            }
            None => Session::new(self.side, config, self.config.seed, now),
        };
        made.expect("the settings were checked when the pair was made")
    }

    fn socket(&self, number: u32, small: bool) -> TcpSocket {
        let mut tcp = self.config.tcp.clone();
        if small {
            tcp.mss = tcp.mss.min(u64::from(SMALL_SEGMENT) - TIMESTAMPS);
        }
        let seed = self.config.seed ^ u64::from(number);
        let congestion = (self.config.congestion.as_str(), &self.config.own);
        let controller = multipath::controller(congestion, &tcp, seed);
        match self.side {
            Side::Client => TcpSocket::connect(tcp, controller, number),
            Side::Server => TcpSocket::listen(tcp, controller, number),
        }
    }

    /// Client: carries out a decision about an attempt.
    pub(super) fn carry_out(&mut self, now: Instant, action: Action) {
        match action {
            Action::Dial { path, subflow } => self.dial(path, subflow),
            Action::Introduce { subflow, opens } => {
                if let Some(at) = self.connection(subflow) {
                    let path = PathId(self.connections[at].path as u8);
                    let metered = self.session.as_ref().is_some_and(|session| session.is_metered(path));
                    let opens = opens.then(|| {
                        let opening = self.opening.get_or_insert_default();
                        *opening += 1;
                        *opening
                    });
                    self.connections[at].say(HandshakeMessage::Hello { opens, subflow, metered });
                    self.report(now, subflow, Progress::Introduced);
                }
            }
            Action::Admit { subflow, .. } => {
                if let Some(at) = self.connection(subflow) {
                    self.connections[at].phase = Phase::Open;
                    self.opened();
                }
            }
            Action::Failed { .. } => {}
            Action::Drop { subflow, abort } => {
                if let Some(at) = self.connection(subflow) {
                    self.end(now, at, abort);
                }
            }
        }
    }

    /// Client: an attempt made progress.
    fn report(&mut self, now: Instant, subflow: SubflowId, progress: Progress) {
        let path = self.connection(subflow).map(|at| PathId(self.connections[at].path as u8));
        if let Some((session, path)) = self.session.as_mut().zip(path) {
            self.recorder.arrived(|| match progress {
                Progress::Failed(Failure::Broken) => Arrival::Broken(subflow),
                _ => Arrival::Progress(subflow, path, progress),
            });
            self.handshakes.handle(now, session, subflow, progress);
            while let Some(action) = self.handshakes.poll_action() {
                self.carry_out(now, action);
            }
        }
    }

    /// The connection of an attempt or subflow.
    pub(super) fn connection(&self, subflow: SubflowId) -> Option<usize> {
        self.connections.iter().position(|c| c.subflow == subflow && c.phase != Phase::Ending)
    }

    fn dial(&mut self, path: PathId, subflow: SubflowId) {
        let at = usize::from(path.0);
        let number = multipath::connection_number(self.first_connection + subflow.0, at);
        let [up, down] = <[super::Wire; 2]>::default();
        let small = self.small.contains(&path);
        self.dialled.borrow_mut().insert(number, ([up.clone(), down.clone()], small));
        self.connections.push(Connection::new(Fresh {
            number,
            path: at,
            subflow,
            until: Instant::MAX,
            socket: self.socket(number, small),
            route: self.paths[at].route,
            input: down,
            output: up,
            protected: self.config.tls,
        }));
    }

    /// Server: handles a segment of an unknown connection. A SYN begins one, whose index is returned.
    pub(super) fn accept(&mut self, now: Instant, segment: &TcpSegment) -> Option<usize> {
        if self.side == Side::Client || !segment.is_syn || segment.is_ack {
            return None;
        }
        let number = segment.connection;
        let ([up, down], small) = self.dialled.borrow_mut().remove(&number)?;
        let (incarnation, at) = multipath::incarnation_and_path(number);
        self.connections.push(Connection::new(Fresh {
            number,
            path: at,
            subflow: SubflowId(incarnation),
            until: now + HANDSHAKE_TIME,
            socket: self.socket(number, small),
            route: self.paths.get(at)?.route,
            input: up,
            output: down,
            protected: self.config.tls,
        }));
        Some(self.connections.len() - 1)
    }

    /// Called when TCP may have completed its handshake.
    pub(super) fn dialled(&mut self, now: Instant, at: usize) {
        let tls = self.config.tls;
        let connection = &mut self.connections[at];
        if connection.phase != Phase::Dialling || !connection.is_established() {
            return;
        }
        connection.phase = Phase::Greeting;
        let subflow = connection.subflow;
        if self.side == Side::Client {
            self.report(now, subflow, Progress::Connected);
        }
        if self.side == Side::Client {
            let first = if tls { HandshakeMessage::ClientHello } else { HandshakeMessage::Ticket };
            self.connections[at].say(first);
        }
    }

    /// A handshake message arrived.
    pub(super) fn message(&mut self, now: Instant, at: usize, message: HandshakeMessage) {
        match message {
            HandshakeMessage::ClientHello => self.connections[at].say(HandshakeMessage::ServerFlight),
            HandshakeMessage::Ticket => self.connections[at].say(HandshakeMessage::Challenge),
            HandshakeMessage::ServerFlight => {
                self.connections[at].say(HandshakeMessage::ClientFinished);
                self.report(now, self.connections[at].subflow, Progress::Ready);
            }
            HandshakeMessage::Challenge => self.report(now, self.connections[at].subflow, Progress::Ready),
            HandshakeMessage::ClientFinished => {}
            HandshakeMessage::Hello { opens, subflow, metered } => {
                let path = PathId(self.connections[at].path as u8);
                self.hello(now, at, opens, Introduction { path, subflow, metered });
            }
            HandshakeMessage::Reply { refused } => {
                let progress = refused.map_or(Progress::Accepted, Progress::Failed);
                if let Some(session) = self.session.as_mut().filter(|_| refused.is_none()) {
                    session.handle_peer_obeys_caps();
                }
                self.report(now, self.connections[at].subflow, progress);
                self.dirty = true;
            }
        }
    }

    /// Server: a client opens a session or joins it.
    fn hello(&mut self, now: Instant, at: usize, opens: Option<u32>, hello: Introduction) {
        let Introduction { path, subflow, .. } = hello;
        self.connections[at].subflow = subflow;
        if opens.is_some_and(|opening| self.opening.is_some_and(|newer| opening < newer)) {
            // The client has given up this attempt, and a later one has opened the session.
            return self.end(now, at, true);
        }
        if opens.is_some() {
            // If a session was opened before, the client never saw its reply, so it has no other subflow.
            for other in 0..self.connections.len() {
                if self.connections[other].phase == Phase::Open {
                    self.end(now, other, true);
                }
            }
            self.session = Some(self.make_session(now));
            self.opening = opens;
        }
        let opened = match &mut self.session {
            Some(session) => accept(now, session, hello).map_err(Failure::from),
            None => Err(Failure::UnknownSession),
        };
        self.connections[at].say(HandshakeMessage::Reply { refused: opened.err() });
        if opened.is_ok() {
            self.recorder.arrived(|| Arrival::Opened(subflow, path));
            self.connections[at].phase = Phase::Open;
            self.opened();
        } else {
            self.end(now, at, false);
        }
    }

    fn opened(&mut self) {
        self.dirty = true;
        if !std::mem::replace(&mut self.connected, true) {
            self.notices.push_back(Notice::Connected);
        }
    }

    /// The session no longer needs a connection.
    pub(super) fn end(&mut self, now: Instant, at: usize, abort: bool) {
        let connection = &mut self.connections[at];
        if connection.phase == Phase::Ending {
            return;
        }
        let number = connection.number;
        connection.phase = Phase::Ending;
        connection.until = now + LINGER;
        if abort {
            connection.socket.abort();
        } else {
            connection.write();
            connection.socket.finish();
        }
        if self.side == Side::Client {
            self.dialled.borrow_mut().remove(&number);
        }
    }

    /// A connection broke or timed out.
    pub(super) fn broken(&mut self, now: Instant, at: usize) {
        let (phase, subflow) = (self.connections[at].phase, self.connections[at].subflow);
        self.dirty = true;
        if self.side == Side::Client {
            self.report(now, subflow, Progress::Failed(Failure::Broken));
        } else if phase == Phase::Open
            && let Some(session) = &mut self.session
        {
            self.recorder.arrived(|| Arrival::Broken(subflow));
            session.handle_subflow_closed(now, subflow);
        }
        // The attempt was reset just now.
        self.end(now, at, phase != Phase::Open);
    }
}
