//! How connections become subflows: dialling, the TLS round trip or the challenge, hello and reply.
//!
//! Source: the runtime's `connector.rs` and `listener.rs`. Exactly one attempt opens the session, the
//! others wait with their hello until it is known.

use core::time::Duration;

use tributary_proto::{Session, Side};
use tributary_types::{Instant, PathId, SubflowId};

use super::connection::{Connection, Fresh, Phase};
use super::wire::Message;
use super::{Credentials, SessionTransport};
use crate::multipath;
use crate::packet::Segment;
use crate::tcp::TcpSocket;
use crate::transport::Notice;

/// Time an attempt has in all.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Time a server gives a connection to become a subflow.
const ACCEPTED: Duration = Duration::from_secs(10);
/// Time a closed subflow has to flush and to hear the peer's end.
const LINGER: Duration = Duration::from_secs(3);

impl SessionTransport {
    /// A session of this end with the configured settings.
    pub(super) fn make_session(&self, now: Instant) -> Session {
        Session::new(self.side, self.config.session.clone(), self.config.seed, now)
            .expect("the settings were checked when the pair was made")
    }

    fn socket(&self, number: u32) -> TcpSocket {
        let seed = self.config.seed ^ u64::from(number);
        let controller = multipath::controller(&self.config.congestion, &self.config.tcp, seed);
        match self.side {
            Side::Client => TcpSocket::connect(self.config.tcp.clone(), controller, number),
            Side::Server => TcpSocket::listen(self.config.tcp.clone(), controller, number),
        }
    }

    /// Client: starts an attempt.
    pub(super) fn dial(&mut self, now: Instant, path: PathId, subflow: SubflowId) {
        let at = usize::from(path.0);
        let number = multipath::connection_number(subflow.0, at);
        let [up, down] = <[super::Wire; 2]>::default();
        self.dialled.borrow_mut().insert(number, [up.clone(), down.clone()]);
        self.connections.push(Connection::new(Fresh {
            number,
            path: at,
            subflow,
            until: now + ATTEMPT,
            socket: self.socket(number),
            route: self.ways[at].route,
            input: down,
            output: up,
            protected: self.config.tls,
        }));
    }

    /// Server: a segment of no known connection. A SYN begins one; its index.
    pub(super) fn accept(&mut self, now: Instant, segment: &Segment) -> Option<usize> {
        if self.side == Side::Client || !segment.is_syn || segment.is_ack {
            return None;
        }
        let number = segment.connection;
        let [up, down] = self.dialled.borrow_mut().remove(&number)?;
        let (incarnation, at) = multipath::incarnation_and_way(number);
        self.connections.push(Connection::new(Fresh {
            number,
            path: at,
            subflow: SubflowId(incarnation),
            until: now + ACCEPTED,
            socket: self.socket(number),
            route: self.ways.get(at)?.route,
            input: up,
            output: down,
            protected: self.config.tls,
        }));
        Some(self.connections.len() - 1)
    }

    /// TCP may have shaken hands.
    pub(super) fn dialled(&mut self, at: usize) {
        let tls = self.config.tls;
        let connection = &mut self.connections[at];
        if connection.phase != Phase::Dialling || !connection.is_established() {
            return;
        }
        connection.phase = Phase::Protecting;
        match (self.side, tls) {
            (Side::Client, true) => connection.say(Message::ClientHello),
            (Side::Server, false) => connection.say(Message::Challenge),
            (Side::Client, false) | (Side::Server, true) => {}
        }
    }

    /// A handshake message arrived.
    pub(super) fn message(&mut self, now: Instant, at: usize, message: Message) {
        match message {
            Message::ClientHello => self.connections[at].say(Message::ServerFlight),
            Message::ServerFlight => {
                self.connections[at].say(Message::ClientFinished);
                self.introduce(now, at);
            }
            Message::Challenge => self.introduce(now, at),
            Message::ClientFinished => {}
            Message::Hello { opens, subflow } => self.hello(now, at, (opens, subflow)),
            Message::Reply { accepted } => self.reply(now, at, accepted),
        }
    }

    /// Client: says hello, or waits until it is known whether the session has to be opened.
    fn introduce(&mut self, now: Instant, at: usize) {
        let subflow = self.connections[at].subflow;
        let opens = match self.credentials {
            Credentials::Opening(_) => {
                self.connections[at].phase = Phase::Waiting;
                return;
            }
            Credentials::None => {
                self.credentials = Credentials::Opening(subflow);
                true
            }
            Credentials::Known => false,
        };
        self.connections[at].phase = Phase::Introducing;
        self.connections[at].say(Message::Hello { opens, subflow });
        if opens && self.config.early {
            self.admit(now, at);
        }
    }

    /// Client: a connection is a subflow, or the session does not want it.
    fn admit(&mut self, now: Instant, at: usize) {
        let (subflow, path) = (self.connections[at].subflow, PathId(self.connections[at].path as u8));
        let Some(session) = self.session.as_mut() else { return };
        if session.handle_subflow_open(now, subflow, path).is_ok() {
            self.connections[at].phase = Phase::Open;
            self.opened();
        } else {
            self.end(now, at, false);
        }
    }

    /// Client: whether a connection has said hello and the server has not answered.
    pub(super) fn awaits_reply(&self, at: usize) -> bool {
        let connection = &self.connections[at];
        connection.phase == Phase::Introducing
            || self.credentials == Credentials::Opening(connection.subflow) && connection.phase == Phase::Open
    }

    /// Client: whoever waits may go on.
    fn introduce_waiting(&mut self, now: Instant) {
        for at in 0..self.connections.len() {
            if self.connections[at].phase == Phase::Waiting {
                self.introduce(now, at);
            }
        }
    }

    /// Server: a client wants a session, or to join it.
    fn hello(&mut self, now: Instant, at: usize, (opens, subflow): (bool, SubflowId)) {
        if opens {
            // A session opened before is one whose reply the client never saw: it has no other subflow.
            for other in 0..self.connections.len() {
                if self.connections[other].phase == Phase::Open {
                    self.end(now, other, true);
                }
            }
            self.session = Some(self.make_session(now));
            self.closed = false;
        }
        let path = PathId(self.connections[at].path as u8);
        let opened = self.session.as_mut().map(|session| session.handle_subflow_open(now, subflow, path));
        let accepted = matches!(opened, Some(Ok(())));
        self.connections[at].say(Message::Reply { accepted });
        if accepted {
            self.connections[at].phase = Phase::Open;
            self.opened();
        } else {
            self.end(now, at, false);
        }
    }

    /// Client: the server has answered.
    fn reply(&mut self, now: Instant, at: usize, accepted: bool) {
        let subflow = self.connections[at].subflow;
        let early = self.connections[at].phase == Phase::Open;
        if self.credentials == Credentials::Opening(subflow) {
            self.credentials = if accepted { Credentials::Known } else { Credentials::None };
        }
        let Some(session) = self.session.as_mut() else { return };
        match (accepted, early) {
            (true, true) => {}
            (true, false) => self.admit(now, at),
            (false, true) => {
                session.handle_subflow_closed(now, subflow);
                self.end(now, at, true);
            }
            (false, false) => {
                session.handle_connect_failed(now, subflow);
                self.end(now, at, true);
            }
        }
        self.introduce_waiting(now);
        self.dirty = true;
    }

    fn opened(&mut self) {
        self.dirty = true;
        if !std::mem::replace(&mut self.connected, true) {
            self.notices.push_back(Notice::Connected);
        }
    }

    /// The session has no use for a connection any more.
    pub(super) fn end(&mut self, now: Instant, at: usize, abort: bool) {
        let connection = &mut self.connections[at];
        if connection.phase == Phase::Ending {
            return;
        }
        let (subflow, number) = (connection.subflow, connection.number);
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
            if self.credentials == Credentials::Opening(subflow) {
                self.credentials = Credentials::None;
                self.introduce_waiting(now);
            }
        }
    }

    /// A connection broke, or its time is over.
    pub(super) fn broken(&mut self, now: Instant, at: usize) {
        let (phase, subflow) = (self.connections[at].phase, self.connections[at].subflow);
        self.end(now, at, phase != Phase::Open || self.awaits_reply(at));
        self.dirty = true;
        let Some(session) = self.session.as_mut() else { return };
        match (phase, self.side) {
            (Phase::Open, _) => session.handle_subflow_closed(now, subflow),
            (Phase::Ending, _) | (_, Side::Server) => {}
            (_, Side::Client) => session.handle_connect_failed(now, subflow),
        }
    }
}
