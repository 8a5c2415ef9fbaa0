//! [`Stack`] with noq-proto: one connection over all paths.
//!
//! The client connects over the first path, opens the others, and opens a new path in place of each that was
//! abandoned. noq-proto decides which path sends: the first, in the order of their numbers, whose window has
//! room.

use core::cell::RefCell;
use core::fmt;
use core::num::NonZeroUsize;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant as Opaque;

use bytes::{Bytes, BytesMut};
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir,
    Endpoint, EndpointConfig, Event, FourTuple, IdleTimeout, PathEvent, PathId, PathStatus, ServerConfig,
    StreamEvent, StreamId, TransportConfig, VarInt,
};
use tributary_types::Rng;

use super::common::quic_common;
use super::config::{QuicConfig, QuicError};
use super::control::noq::factory;
use super::crypto::null_noq::{NoTokens, Null, ResetKey};
use super::crypto::{Protection, tls};
use super::random::{array, lending};
use super::stack::{Opened, Side, Stack, StackEvent, ZEROS, path_to};
use crate::transport::{PathSample, StreamKey};

/// PATH_UNSTABLE_OR_POOR (draft-ietf-quic-multipath-21, section 5).
const PATH_UNUSABLE: VarInt = VarInt::from_u32(0x3e76);

/// One end of a connection with noq-proto.
pub struct Noq {
    side: Side,
    rng: Rng,
    endpoint: Endpoint,
    client: Option<ClientConfig>,
    /// In a cell because noq-proto computes its statistics when they are read.
    connection: Option<RefCell<Open>>,
    /// For each path of this end: its number in the connection, and whether its link is up.
    paths: Vec<KnownPath>,
    /// A datagram that the endpoint itself answers with (version negotiation, refusal).
    answer: Option<(usize, Vec<u8>)>,
    keep_alive: KeepAlive,
    opened: Opened,
    lost: Option<String>,
}

/// The connection.
struct Open {
    handle: ConnectionHandle,
    connection: Connection,
}

/// A path.
#[derive(Clone, Copy, Debug)]
struct KnownPath {
    /// Its number, unless it was abandoned.
    id: Option<PathId>,
    /// Whether link events say that it is up.
    is_up: bool,
}

/// Sends a ping on every path at this interval, even if packets arrive there. noq-proto's own keep-alive and
/// idle timeout both depend on arriving packets, but acknowledgements come over the first path only. An end
/// that only sends on another path would therefore hear nothing there and abandon it while it works well,
/// because the receiving end is never idle and sends no keep-alive.
#[derive(Debug)]
struct KeepAlive {
    interval: Duration,
    next: Option<Opaque>,
}

impl fmt::Debug for Noq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noq").field("side", &self.side).finish_non_exhaustive()
    }
}

impl Noq {
    pub fn new(config: &QuicConfig, side: Side, paths: usize) -> Result<Self, QuicError> {
        config.check(paths)?;
        let mut rng = Rng::new(config.seed).child(side.label());
        let mut transport = transport(config)?;
        transport
            // Twice as many: an abandoned path counts until it has drained.
            .max_concurrent_multipath_paths(2 * paths as u32)
            .default_path_max_idle_timeout(Some(config.path_idle_timeout));
        let transport = Arc::new(transport);
        let endpoint = Arc::new(endpoint(config, &mut rng));
        let (client, server) = match side {
            Side::Client => (Some(client(config, transport, array(&mut rng))), None),
            Side::Server => (None, Some(Arc::new(server(config, transport)))),
        };
        let endpoint = Endpoint::new(endpoint, server, true);
        let mut ways = vec![KnownPath { id: None, is_up: true }; paths];
        ways[0].id = Some(PathId::ZERO);
        Ok(Self {
            side,
            rng,
            endpoint,
            client,
            connection: None,
            paths: ways,
            answer: None,
            keep_alive: KeepAlive { interval: config.path_keep_alive, next: None },
            opened: Opened::default(),
            lost: None,
        })
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        Some(&mut self.connection.as_mut()?.get_mut().connection)
    }

    fn handle_endpoint_events(&mut self) {
        let Some(open) = &mut self.connection else { return };
        let Open { handle, connection } = open.get_mut();
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }

    /// Opens paths that are not open. If noq-proto refuses, because the peer has not provided identifiers for
    /// another path yet, the next datagram or timeout tries again.
    fn open_paths(&mut self, now: Opaque) {
        if self.side == Side::Server {
            return; // draft-ietf-quic-multipath §3.1: only clients open paths
        }
        let Some(open) = &mut self.connection else { return };
        let connection = &mut open.get_mut().connection;
        if connection.is_handshaking() || connection.is_closed() || !connection.is_multipath_negotiated() {
            return;
        }
        for (path, way) in self.paths.iter_mut().enumerate() {
            if way.id.is_none() && way.is_up {
                let network_path = FourTuple::from_remote(Side::Server.address(path));
                way.id = connection.open_path(network_path, PathStatus::Available, now).ok();
            }
        }
    }

    /// Pings every path when it is time.
    fn keep_alive(&mut self, now: Opaque) {
        if self.keep_alive.next.is_none_or(|next| next > now) {
            return;
        }
        let Some(open) = &mut self.connection else { return };
        let connection = &mut open.get_mut().connection;
        if connection.is_closed() {
            self.keep_alive.next = None;
            return;
        }
        for path in connection.paths() {
            // An error means that it was abandoned just now.
            let _ = connection.ping_path(path);
        }
        self.keep_alive.next = Some(now + self.keep_alive.interval);
    }

    /// The number of a path in the connection; of the newest when one is being replaced.
    fn number(&self, connection: &Connection, path: usize) -> Option<PathId> {
        let to = self.side.peer().address(path);
        let leads = |id: &PathId| connection.network_path(*id).is_ok_and(|way| way.remote() == to);
        connection.paths().into_iter().rev().find(leads)
    }
}

quic_common!(noq_proto);

fn endpoint(config: &QuicConfig, rng: &mut Rng) -> EndpointConfig {
    let mut endpoint = EndpointConfig::new(Arc::new(ResetKey(rng.next_u64())));
    let ids = rng.child("connection ids");
    endpoint
        .rng_seed(Some(array(rng)))
        .cid_generator(Arc::new(move || Box::new(SeededIds(ids.clone()))))
        .max_udp_payload_size(config.datagram)
        .expect("checked: at least 1200");
    endpoint
}

impl Stack for Noq {
    fn start(&mut self, now: Opaque) {
        let Some(client) = self.client.take() else { return };
        let (endpoint, server) = (&mut self.endpoint, self.side.peer().address(0));
        let connected = lending(&mut self.rng, || endpoint.connect(now, client, server, tls::SERVER_NAME));
        let (handle, connection) = connected.expect("the address and the name are valid");
        self.connection = Some(RefCell::new(Open { handle, connection }));
    }

    fn handle_datagram(&mut self, now: Opaque, path: usize, bytes: BytesMut) {
        let from = FourTuple::from_remote(self.side.peer().address(path));
        let mut answer = Vec::new();
        let Self { rng, endpoint, connection, .. } = self;
        lending(rng, || match endpoint.handle(now, from, None, bytes, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(open) = connection {
                    open.get_mut().connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if connection.is_none() => {
                let accepted = endpoint.accept(incoming, now, &mut answer, None);
                *connection =
                    accepted.ok().map(|(handle, connection)| RefCell::new(Open { handle, connection }));
            }
            Some(DatagramEvent::NewConnection(incoming)) => endpoint.ignore(incoming),
            Some(DatagramEvent::Response(_)) | None => {}
        });
        if !answer.is_empty() {
            self.answer = Some((path, answer));
        }
        self.handle_endpoint_events();
        self.open_paths(now);
    }

    fn handle_timeout(&mut self, now: Opaque) {
        if let Some(connection) = self.connection() {
            connection.handle_timeout(now);
        }
        self.keep_alive(now);
        self.handle_endpoint_events();
        self.open_paths(now);
    }

    /// As a host does when an interface disappears: abandons the path, unless it is the last.
    fn handle_path(&mut self, now: Opaque, path: usize, up: bool) {
        self.paths[path].is_up = up;
        if up || self.side == Side::Server {
            self.open_paths(now);
        } else if let Some(id) = self.paths[path].id
            && let Some(connection) = self.connection()
        {
            // The last path cannot be closed; its idle timeout decides.
            let _ = connection.close_path(now, id, PATH_UNUSABLE);
        }
        self.handle_endpoint_events();
    }

    fn poll_timeout(&mut self) -> Option<Opaque> {
        let next = self.keep_alive.next;
        self.connection()?.poll_timeout().into_iter().chain(next).min()
    }

    fn poll_transmit(&mut self, now: Opaque, buffer: &mut Vec<u8>) -> Option<usize> {
        if let Some((path, answer)) = self.answer.take() {
            buffer.extend_from_slice(&answer);
            return Some(path);
        }
        let transmit = self.connection()?.poll_transmit(now, NonZeroUsize::MIN, buffer)?;
        Some(path_to(transmit.destination))
    }

    fn poll_event(&mut self, now: Opaque) -> Option<StackEvent> {
        loop {
            let connection = &mut self.connection.as_mut()?.get_mut().connection;
            if let Some(event) = self.opened.poll(|| connection.streams().accept(Dir::Bi).map(u64::from)) {
                return Some(event);
            }
            return Some(match connection.poll()? {
                Event::Connected => {
                    self.open_paths(now);
                    self.keep_alive.next = Some(now + self.keep_alive.interval);
                    StackEvent::Connected
                }
                Event::ConnectionLost { reason } => {
                    self.lost = Some(reason.to_string());
                    StackEvent::Lost
                }
                Event::Stream(StreamEvent::Readable { id }) => StackEvent::Readable(id.into()),
                Event::Stream(StreamEvent::Writable { id }) => StackEvent::Writable(id.into()),
                Event::Stream(StreamEvent::Opened { .. }) => {
                    self.opened.announce();
                    continue;
                }
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    // An error says that it has ended already.
                    let _ = connection.send_stream(id).reset(error_code);
                    continue;
                }
                Event::Path(PathEvent::Abandoned { id, .. }) => {
                    for way in self.paths.iter_mut().filter(|way| way.id == Some(id)) {
                        way.id = None;
                    }
                    self.open_paths(now);
                    continue;
                }
                _ => continue,
            });
        }
    }

    fn open(&mut self, priority: u8) -> Option<StreamKey> {
        let connection = self.connection()?;
        open(connection, priority)
    }

    fn write(&mut self, stream: StreamKey, bytes: u64) -> u64 {
        let (Some(connection), Some(id)) = (self.connection(), stream_id(stream)) else { return 0 };
        let mut stream = connection.send_stream(id);
        let mut written = 0;
        while written < bytes {
            let length = (bytes - written).min(ZEROS.len() as u64) as usize;
            match stream.write_chunks(&mut &mut [Bytes::from_static(&ZEROS[..length])][..]) {
                Ok(taken) => written += taken as u64,
                Err(_) => break,
            }
        }
        written
    }

    fn finish(&mut self, stream: StreamKey) {
        if let (Some(connection), Some(id)) = (self.connection(), stream_id(stream)) {
            finish(connection, id);
        }
    }

    fn stop(&mut self, stream: StreamKey) {
        if let (Some(connection), Some(id)) = (self.connection(), stream_id(stream)) {
            stop(connection, id);
        }
    }

    fn read(&mut self, stream: StreamKey, most: u64) -> (u64, bool) {
        let (Some(connection), Some(id)) = (self.connection(), stream_id(stream)) else { return (0, false) };
        read(connection, id, most)
    }

    fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn lost_bytes(&self) -> u64 {
        self.connection.as_ref().map_or(0, |open| open.borrow_mut().connection.stats().lost_bytes)
    }

    fn rtt(&self, path: usize) -> Option<Duration> {
        let connection = &self.connection.as_ref()?.borrow().connection;
        let id = self.paths[path].id.or_else(|| self.number(connection, path))?;
        if connection.is_handshaking() { None } else { connection.rtt(id) }
    }

    fn sample(&self, path: usize) -> Option<PathSample> {
        let connection = &self.connection.as_ref()?.borrow().connection;
        let id = self.number(connection, path)?;
        let metrics = connection.congestion_state(id)?.metrics();
        Some(PathSample {
            window: metrics.congestion_window,
            threshold: metrics.ssthresh.unwrap_or(u64::MAX),
            srtt: connection.rtt(id)?,
            ..PathSample::default()
        })
    }
}
