//! A Tributary session in virtual time: the product's own [`Session`] over simulated TCP subflows.
//!
//! Drives the session, its connection attempts (`handshakes`) and its room (`room`) in turns (`turn`) as the runtime does on
//! kernel sockets, with the same messages and timer resolution. Frames are real bytes beside the packets;
//! payload is slices of one block of zeros. Not here: encryption (only the records' lengths are modelled),
//! and the session's decisions. Model: `docs/models/session-in-simulator.md`.

mod connection;
mod content;
mod driver;
mod handshake;
pub mod script;
mod wire;

use core::time::Duration;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use tributary_cc::SiblingView;
use tributary_proto::handshakes::Handshakes;
use tributary_proto::{Config, ReadError, Session, Side};
use tributary_types::{Bitrate, Instant, PathId, StreamId};

use crate::host::Outbox;
use crate::multipath::{self, MultipathError, SimPath, SubflowPath};
use crate::own::Own;
use crate::packet::{Body, Packet, TcpSegment};
use crate::tcp::TcpConfig;
use crate::transport::{Counters, Notice, PathSample, StreamKey, Transport};
use connection::{Connection, Phase};
use script::Arrival;
use wire::{Delivery, Wire};

/// Settings of both ends.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The session: scheduler, credit, buffers.
    pub session: Config,
    /// TCP of every subflow. The runtime sets `TCP_NODELAY`, so `nagle` is off by default.
    pub tcp: TcpConfig,
    /// Name of the congestion control of every subflow, at both ends.
    pub congestion: String,
    /// Algorithms of the caller's own in place of those two.
    pub own: Own,
    /// With TLS 1.3: its records and its round trip. Without: the challenge of plaintext mode.
    pub tls: bool,
    /// The client sends right after the hello that opens the session, and counts as connected then, as with
    /// the runtime's `connect_early`. Otherwise it waits for the reply.
    pub early: bool,
    /// Every byte has a known value that the reader checks. Costs time and memory.
    pub check_content: bool,
    /// Seed for schedulers that use random numbers.
    pub seed: u64,
    /// Caps of the client's paths, by the path's place in the list; the server obeys them, too.
    pub caps: BTreeMap<usize, Bitrate>,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            session: Config::default(),
            tcp: TcpConfig { nagle: false, ..TcpConfig::default() },
            congestion: "cubic".to_owned(),
            own: Own::default(),
            tls: true,
            early: false,
            check_content: false,
            seed: 1,
            caps: BTreeMap::new(),
        }
    }
}

/// More subflows than a client opens before it is started again.
const SUBFLOWS_OF_A_CLIENT: u32 = 1 << 16;

/// Connections opened by the client: pipes up and down, and whether the SYN announces small segments. The server takes them when the
/// SYN arrives.
type Dialled = Rc<RefCell<BTreeMap<u32, ([Wire; 2], bool)>>>;

/// One end of a session.
#[derive(Debug)]
pub struct SessionTransport {
    side: Side,
    config: Rc<SessionConfig>,
    paths: Vec<SimPath>,
    dialled: Dialled,
    /// Paths that are connected with small segments. Client only.
    small: BTreeSet<PathId>,
    /// Added to the identifiers of subflows in the numbers of connections: two runs of a client share none.
    first_connection: u32,
    started: bool,
    /// Sessions that this end has begun.
    sessions: u32,
    /// Which of the client's attempts to open a session opened the present one; at a client the last one. The first ones of a client
    /// that was started again have higher numbers.
    opening: Option<u32>,
    /// Close code of the present session, once it has ended.
    ended: Option<u32>,
    /// `None` at a server before the first hello.
    session: Option<Session>,
    /// Client only.
    handshakes: Handshakes,
    connections: Vec<Connection>,
    /// The application has been notified of the connection.
    connected: bool,
    notices: VecDeque<Notice>,
    /// The rest of a chunk that was read only in part.
    leftover: BTreeMap<StreamKey, Bytes>,
    finished: BTreeSet<StreamKey>,
    content: content::Content,
    /// Something has happened that the session may react to.
    dirty: bool,
    /// When the session's next turn is due, unless something arrives.
    due: Option<Instant>,
    wake: Instant,
    /// Reused buffers: views of siblings, and what a segment completed.
    views: Vec<SiblingView>,
    arrived: VecDeque<Delivery>,
    past: Counters,
    srtt_sum: Duration,
    srtt_count: u32,
    recorder: script::Recorder,
}

impl SessionTransport {
    /// A client and a server with these paths between them. The client connects on all of them at once.
    ///
    /// # Errors
    /// [`MultipathError`] names the unknown name or the value out of range.
    pub fn pair(config: &SessionConfig, paths: &[SubflowPath]) -> Result<(Self, Self), MultipathError> {
        config.session.check()?;
        let [up, down] = multipath::sim_paths((&config.congestion, &config.own), paths)?;
        let config = Rc::new(config.clone());
        let dialled = Dialled::default();
        let client = Self::new(Side::Client, config.clone(), up, dialled.clone());
        Ok((client, Self::new(Side::Server, config, down, dialled)))
    }

    fn new(side: Side, config: Rc<SessionConfig>, paths: Vec<SimPath>, dialled: Dialled) -> Self {
        let early = config.early;
        Self {
            side,
            content: content::Content::new(config.check_content),
            config,
            paths,
            dialled,
            small: BTreeSet::new(),
            first_connection: 0,
            started: false,
            sessions: 0,
            opening: (side == Side::Client).then_some(0),
            ended: None,
            session: None,
            handshakes: Handshakes::new(early),
            connections: Vec::new(),
            connected: false,
            notices: VecDeque::new(),
            leftover: BTreeMap::new(),
            finished: BTreeSet::new(),
            dirty: true,
            due: None,
            wake: Instant::ZERO,
            views: Vec::new(),
            arrived: VecDeque::new(),
            past: Counters::default(),
            srtt_sum: Duration::ZERO,
            srtt_count: 0,
            recorder: script::Recorder::default(),
        }
    }

    /// The session; `None` at a server before the first hello.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Records from now on what arrives and what the driver does.
    pub fn record(&mut self) -> script::Recorded {
        self.recorder.start()
    }

    /// Lets a transport above change the session; `None` before there is one.
    pub(crate) fn change<T>(&mut self, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let session = self.session.as_mut()?;
        self.dirty = true;
        Some(act(session))
    }

    /// The program is started again: all that it knew is gone, and its connections with it. A client connects again with a new
    /// session.
    pub(crate) fn restart(&mut self) {
        let mut fresh = Self::new(self.side, self.config.clone(), self.paths.clone(), self.dialled.clone());
        fresh.sessions = self.sessions;
        if self.side == Side::Client {
            self.dialled.borrow_mut().clear();
            fresh.first_connection = self.first_connection + SUBFLOWS_OF_A_CLIENT;
            fresh.opening = Some(fresh.first_connection);
        }
        *self = fresh;
    }

    /// Sessions that this end has begun. A client's hello that opens a session replaces a server's present one.
    pub(crate) fn sessions(&self) -> u32 {
        self.sessions
    }

    /// How often the client had been started again when it opened the present session; `None` at a server without one. Equal at
    /// both ends if they have the same session.
    pub(crate) fn client_run(&self) -> Option<u32> {
        self.opening.map(|opening| opening / SUBFLOWS_OF_A_CLIENT)
    }

    /// Whether streams can be opened.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected
    }

    /// Close code of the session, if it has ended.
    pub(crate) fn ended(&self) -> Option<u32> {
        self.ended
    }

    /// TCP connections that exist, and those that this pair's server has not accepted yet.
    pub(crate) fn connections(&self) -> (usize, usize) {
        (self.connections.len(), self.dialled.borrow().len())
    }

    /// Numbers of the connections that are a path's subflows.
    pub(crate) fn open_on(&self, path: u8) -> impl Iterator<Item = u32> + '_ {
        let open = self.connections.iter().filter(|c| c.phase == Phase::Open);
        open.filter(move |c| self.paths[c.path].path == path).map(|c| c.number)
    }

    /// A reset of each subflow of a path, as somebody on the path can make it: with the number that the receiver expects next,
    /// `beside` (RFC 5961 §3.2).
    pub(crate) fn resets(&self, path: u8, beside: u64) -> Vec<Packet> {
        let open = self.connections.iter().filter(|c| c.phase == Phase::Open);
        let reset = |connection: &Connection| {
            let seq = connection.socket.expected() + beside;
            let segment = TcpSegment {
                connection: connection.number,
                seq,
                is_ack: true,
                is_reset: true,
                ..TcpSegment::default()
            };
            Packet::segment(connection.route, segment)
        };
        open.filter(|c| self.paths[c.path].path == path).map(reset).collect()
    }

    /// Number of subflows that are up.
    #[must_use]
    pub fn subflows(&self) -> usize {
        self.connections.iter().filter(|c| c.phase == Phase::Open).count()
    }
}

fn stream(key: StreamKey) -> StreamId {
    StreamId(u32::try_from(key).unwrap_or(u32::MAX))
}

impl Transport for SessionTransport {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        if let Body::Segment(segment) = packet.body {
            self.handle_segment(now, &segment, out);
        }
    }

    fn handle_timeout(&mut self, now: Instant, _: &mut Outbox) {
        self.pass_time(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.wake < Instant::MAX).then_some(self.wake)
    }

    fn handle_path(&mut self, now: Instant, path: u8, up: bool, _: &mut Outbox) {
        self.start(now);
        self.path_changed(now, path, up);
    }

    fn open(&mut self, _: Instant, priority: u8) -> Option<StreamKey> {
        let session = self.session.as_mut().filter(|_| self.connected)?;
        self.recorder.arrived(|| Arrival::Open(priority));
        session.open_stream(priority).ok().map(|id| u64::from(id.0))
    }

    fn write(&mut self, _: Instant, key: StreamKey, bytes: u64) -> u64 {
        let Some(session) = self.session.as_mut() else { return 0 };
        let mut written = 0;
        while written < bytes {
            let mut chunk = self.content.next(key, bytes - written);
            self.recorder.arrived(|| Arrival::Write(stream(key), chunk.clone()));
            match session.write(stream(key), &mut chunk) {
                Ok(taken) => {
                    self.content.written(key, taken as u64);
                    written += taken as u64;
                }
                Err(_) => break, // no room now, or the stream or the session is over
            }
        }
        self.dirty |= written > 0;
        written
    }

    fn write_message(&mut self, now: Instant, key: StreamKey, bytes: u64, within: Duration) -> Option<bool> {
        let Some(session) = self.session.as_mut() else { return Some(false) };
        let chunk = self.content.next(key, bytes);
        if chunk.len() as u64 != bytes {
            return Some(false); // longer than any message here
        }
        // Checked contents depend on their position in the stream. A dropped message would shift them, so
        // they get no deadline.
        let within = (!self.config.check_content).then_some(within);
        let taken = session.write_message(now, stream(key), chunk, within).is_ok();
        if taken {
            self.content.written(key, bytes);
            self.dirty = true;
        }
        Some(taken)
    }

    fn finish(&mut self, _: Instant, key: StreamKey) {
        if let Some(session) = self.session.as_mut() {
            self.recorder.arrived(|| Arrival::Finish(stream(key)));
            // Refused only if the stream or the session is already over.
            let _ = session.finish(stream(key));
            self.dirty = true;
        }
    }

    fn stop(&mut self, _: Instant, key: StreamKey) -> bool {
        if let Some(session) = self.session.as_mut() {
            session.stop(stream(key), 0);
            self.leftover.remove(&key);
            self.dirty = true;
        }
        true
    }

    fn out_of_order(&self, key: StreamKey) -> u64 {
        self.session.as_ref().map_or(0, |session| session.out_of_order(stream(key)))
    }

    fn read(&mut self, _: Instant, key: StreamKey, most: u64) -> u64 {
        let Some(session) = self.session.as_mut() else { return 0 };
        let mut total = 0;
        while total < most {
            let mut chunk = match self.leftover.remove(&key) {
                Some(chunk) => chunk,
                None => {
                    self.recorder.arrived(|| Arrival::Read(stream(key)));
                    match session.read(stream(key)) {
                        Ok(Some(chunk)) => chunk,
                        Ok(None) | Err(ReadError::Reset(_)) => {
                            self.finished.insert(key);
                            break;
                        }
                        Err(_) => break,
                    }
                }
            };
            let taken = chunk.split_to(chunk.len().min((most - total) as usize));
            self.content.read(key, &taken);
            total += taken.len() as u64;
            if !chunk.is_empty() {
                self.leftover.insert(key, chunk);
            }
        }
        self.dirty |= total > 0;
        total
    }

    fn is_finished(&self, key: StreamKey) -> bool {
        self.finished.contains(&key)
    }

    fn flush(&mut self, now: Instant, out: &mut Outbox) {
        self.start(now);
        self.drive(now, out);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.past;
        for connection in &self.connections {
            add_tcp(&mut counters, connection);
        }
        if let Some(session) = &self.session {
            let stats = session.stats();
            counters.sent = stats.sent;
            counters.reinjected = stats.sent_again;
            counters.duplicates = stats.duplicates;
            counters.receive_held_most = stats.receive_held_most;
        }
        counters.mean_srtt = self.srtt_sum / self.srtt_count.max(1);
        counters
    }

    fn sample(&self, samples: &mut Vec<PathSample>) {
        for connection in self.connections.iter().filter(|c| c.phase == Phase::Open) {
            let info = connection.socket.info();
            samples.push(PathSample {
                path: self.paths[connection.path].path,
                window: info.cwnd,
                threshold: info.ssthresh,
                in_flight: Some(info.in_flight),
                srtt: info.srtt,
                retransmitted: info.retransmitted,
            });
        }
    }
}

fn add_tcp(counters: &mut Counters, connection: &Connection) {
    let info = connection.socket.info();
    counters.retransmitted += info.retransmitted;
    counters.timeouts += info.timeouts;
}

#[cfg(test)]
pub(crate) mod tests;
