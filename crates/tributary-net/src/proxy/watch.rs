//! Status of a running proxy: its sessions, their paths, rates and round-trip times.
//!
//! Counters are sampled every second, so a rate is that of the last whole second. Not here: the local socket on which
//! the program serves the status.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;
use tributary_types::{Bitrate, PathId, SubflowId};

use crate::budget::{Budget, MemorySnapshot};
use crate::destination::Destination;
use crate::paths::{COUNTED, PathState};
use crate::pipe::SubflowProtocol;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::SubflowReport;

/// Time between two samples. A silence of at least this length is logged.
const SAMPLE: Duration = Duration::from_secs(1);
/// Number of destinations in a snapshot.
const MOST_DESTINATIONS: usize = 32;

/// The status of a proxy, as `docs/guide/status.md` describes it.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// Seconds since the proxy began.
    pub uptime_s: f64,
    /// Server: the memory of all sessions.
    pub memory: Option<MemorySnapshot>,
    /// Open sessions.
    pub sessions: Vec<SessionSnapshot>,
    /// Server: the clients that have had a session, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<ClientSnapshot>>,
    /// Destinations that applications chose and that have connections now: those with the most, at most 32.
    pub destinations: Vec<DestinationSnapshot>,
}

/// The connections to one destination.
#[derive(Clone, Debug, Serialize)]
pub struct DestinationSnapshot {
    /// Host and port, as the application named them.
    pub destination: String,
    /// Connections open now, and those that are being opened.
    pub connections: usize,
}

/// One session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionSnapshot {
    /// The session's name, the same at both ends; `None` until the server has answered.
    pub session: Option<String>,
    /// Server: the address of the session's first connection.
    pub peer: Option<SocketAddr>,
    /// Server: the client's name in the list of clients.
    pub client: Option<String>,
    /// Streams open now: one for each proxied connection.
    pub connections: usize,
    /// Streams that count towards the limit of streams: those of `connections`, and those that are being closed.
    pub streams: usize,
    /// Bytes that it may use: windows, send limit, records, and its connections to targets.
    pub memory: u64,
    /// Seconds since it began.
    pub age_s: f64,
    /// Payload bytes sent for the first time.
    pub sent: u64,
    /// Payload bytes received, copies not counted.
    pub received: u64,
    /// Payload bytes sent again.
    pub sent_again: u64,
    /// Its paths.
    pub paths: Vec<PathSnapshot>,
}

/// One path of a session.
#[derive(Clone, Debug, Serialize)]
pub struct PathSnapshot {
    /// Its number, the same at both ends.
    pub path: u8,
    /// Client: `LOCAL=SERVER:PORT`. Server: the client's address.
    pub radio: String,
    /// Its state.
    pub state: PathState,
    /// Why it is down, silent or removed.
    pub cause: Option<String>,
    /// Seconds since its state changed.
    pub since_s: f64,
    /// What carries its newest connection, at a session's ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<SubflowProtocol>,
    /// Smoothed round-trip time of its newest connection, without queues in this machine.
    pub rtt_ms: Option<f64>,
    /// Share of the bytes that its newest connection sent in the last second which TCP or QUIC sent again because they seemed lost;
    /// `None` when it sent nothing, and at a player.
    pub loss: Option<f64>,
    /// Payload rate of the last second.
    pub send_mbps: f64,
    /// Payload rate received in the last second.
    pub receive_mbps: f64,
    /// Payload bytes sent, copies included: at a client since the program began, at a server since the session began.
    pub sent: u64,
    /// Payload bytes received, in the same way.
    pub received: u64,
    /// What this end sends on it at most, Mbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_mbps: Option<f64>,
}

/// What a client has sent and received since the server began, over all its sessions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientSnapshot {
    /// Its name in the list of clients; empty for all clients with a shared key together.
    pub client: String,
    /// Its open sessions.
    pub sessions: usize,
    /// Their connections.
    pub connections: usize,
    /// Their memory, in bytes.
    pub memory: u64,
    /// Payload bytes sent for the first time.
    pub sent: u64,
    /// Payload bytes received, copies not counted.
    pub received: u64,
    /// Payload bytes sent again.
    pub sent_again: u64,
    /// Its paths.
    pub paths: Vec<ClientPathSnapshot>,
}

/// One path of a client, over all its sessions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientPathSnapshot {
    /// The path's number, which both ends use, from 0 to 7; `more` for all further ones together.
    pub path: String,
    /// Open sessions in which it is up.
    pub up: usize,
    /// Smallest smoothed round-trip time in these.
    pub rtt_ms: Option<f64>,
    /// Payload bytes sent, copies included.
    pub sent: u64,
    /// Payload bytes received, copies included.
    pub received: u64,
}

/// A handle to a proxy's status. It does not keep sessions open.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    began: Instant,
    budget: Option<Arc<Budget>>,
    sessions: Mutex<Vec<Watched>>,
    /// Client: the bytes of its radios in sessions that have ended.
    radios: Mutex<Radios>,
    destinations: Mutex<BTreeMap<Destination, usize>>,
    /// Server: what the sessions that have ended sent and received, by the client's name.
    clients: Mutex<BTreeMap<String, Tally>>,
}

/// A connection to a destination, shown until it is dropped.
#[derive(Debug)]
pub(super) struct DestinationOpen(Arc<Inner>, Destination);

impl Drop for DestinationOpen {
    fn drop(&mut self) {
        let mut open = self.0.destinations();
        if let Some(count) = open.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.1);
            }
        }
    }
}

struct Watched {
    shared: Weak<Shared>,
    peer: Option<SocketAddr>,
    /// Server: the client's name, empty with a shared key.
    client: String,
    /// Server: what the session has sent and received, as of the last look.
    tally: Tally,
    sampled: Instant,
    paths: HashMap<PathId, Sample>,
    /// Client: bytes sent and received on each radio in earlier sessions.
    before: Radios,
    /// Client: the same with this session's.
    totals: Radios,
}

/// Bytes sent and received, by the name of the radio.
type Radios = BTreeMap<String, (u64, u64)>;

/// What sessions of a client have sent and received.
#[derive(Clone, Debug, Default)]
struct Tally {
    sent: u64,
    received: u64,
    sent_again: u64,
    /// By the path's number, as [`crate::paths::Paths::by_number`].
    paths: BTreeMap<u8, (u64, u64)>,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.sent_again += other.sent_again;
        for (path, (sent, received)) in &other.paths {
            let all = self.paths.entry(*path).or_default();
            *all = (all.0 + sent, all.1 + received);
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    sent: u64,
    received: u64,
    send_mbps: f64,
    receive_mbps: f64,
    silence_logged: bool,
    /// The newest connection, and its bytes sent and sent again.
    tcp: Option<(SubflowId, [u64; 2])>,
    loss: Option<f64>,
}

/// The newest connection of a path.
fn newest(subflows: &[SubflowReport], path: PathId) -> Option<&SubflowReport> {
    subflows.iter().filter(|report| report.path == path).max_by_key(|report| report.subflow)
}

/// Share of the bytes sent since an earlier sample of a connection that were sent again; `None` when there were none.
fn loss(before: [u64; 2], now: [u64; 2]) -> Option<f64> {
    let [sent, again] = [0, 1].map(|at| now[at].saturating_sub(before[at]));
    (sent > 0).then(|| again as f64 / sent as f64)
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Watch {
    /// A status with the memory that the sessions of a server share; `None` at a client.
    pub(super) fn new(budget: Option<Arc<Budget>>) -> Self {
        Self(Arc::new(Inner {
            began: Instant::now(),
            budget,
            sessions: Mutex::default(),
            radios: Mutex::default(),
            destinations: Mutex::default(),
            clients: Mutex::default(),
        }))
    }

    pub(super) fn add(&self, session: &Session, peer: Option<SocketAddr>) {
        let shared = Arc::downgrade(&session.handle.0);
        let mut sessions = self.sessions();
        // A client has one session after another, and its radios stay the same.
        if peer.is_none() {
            sessions.drain(..).for_each(|mut ended| {
                ended.count();
                self.0.keep(&ended);
            });
        }
        let before = self.0.radios().clone();
        let (sampled, paths, tally) = (Instant::now(), HashMap::new(), Tally::default());
        let client = session.client().map(|client| client.name.clone()).unwrap_or_default();
        sessions.push(Watched {
            shared,
            peer,
            client,
            tally,
            sampled,
            paths,
            totals: before.clone(),
            before,
        });
    }

    /// The session has ended, or another has taken its place: its counters are kept.
    pub(super) fn end(&self, session: &Session) {
        let mut sessions = self.sessions();
        let is_it = |watched: &Watched| std::ptr::eq(watched.shared.as_ptr(), &*session.handle.0);
        if let Some(at) = sessions.iter().position(is_it) {
            let mut ended = sessions.swap_remove(at);
            ended.count();
            self.0.keep(&ended);
        }
    }

    /// Shows a connection to this destination.
    pub(super) fn open(&self, destination: &Destination) -> DestinationOpen {
        *self.0.destinations().entry(destination.clone()).or_default() += 1;
        DestinationOpen(self.0.clone(), destination.clone())
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Samples every second, until it is dropped.
    pub(super) async fn sample(self) {
        let mut ticks = tokio::time::interval(SAMPLE);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = Instant::now();
            self.sessions().retain_mut(|watched| {
                let is_open = watched.sample(now);
                if !is_open {
                    self.0.keep(watched);
                }
                is_open
            });
        }
    }

    /// The present status.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        // While the sessions are locked none of them moves to those that have ended.
        let mut watched = self.sessions();
        let is_server = self.0.budget.is_some();
        let mut clients = if is_server { self.0.clients().clone() } else { BTreeMap::new() };
        let sessions: Vec<SessionSnapshot> = watched
            .iter_mut()
            .filter_map(|watched| {
                if is_server {
                    // Also one that has just ended: its bytes do not disappear for a moment.
                    watched.count();
                    clients.entry(watched.client.clone()).or_default().add(&watched.tally);
                }
                watched.snapshot()
            })
            .collect();
        let clients = is_server.then(|| client_snapshots(clients, &sessions));
        drop(watched);
        let memory = self.0.budget.as_ref().map(|budget| budget.snapshot());
        let destinations = self.0.destination_snapshots();
        Snapshot { uptime_s: self.0.began.elapsed().as_secs_f64(), memory, sessions, clients, destinations }
    }
}

/// The clients of a server: what all their sessions have sent and received, and what is open now.
fn client_snapshots(totals: BTreeMap<String, Tally>, open: &[SessionSnapshot]) -> Vec<ClientSnapshot> {
    let path = |number: u8, (sent, received): (u64, u64)| {
        let path = if number == COUNTED { "more".to_owned() } else { number.to_string() };
        (number, ClientPathSnapshot { path, sent, received, ..ClientPathSnapshot::default() })
    };
    let mut clients: BTreeMap<String, (ClientSnapshot, BTreeMap<u8, ClientPathSnapshot>)> = BTreeMap::new();
    for (client, tally) in totals {
        let Tally { sent, received, sent_again, paths } = tally;
        let paths = paths.into_iter().map(|(number, bytes)| path(number, bytes)).collect();
        let snapshot = ClientSnapshot {
            client: client.clone(),
            sent,
            received,
            sent_again,
            ..ClientSnapshot::default()
        };
        clients.insert(client, (snapshot, paths));
    }
    for session in open {
        let name = session.client.as_deref().unwrap_or_default();
        let Some((client, paths)) = clients.get_mut(name) else { continue };
        client.sessions += 1;
        client.connections += session.connections;
        client.memory += session.memory;
        for own in session.paths.iter().filter(|path| path.state == PathState::Up) {
            let Some(path) = paths.get_mut(&own.path.min(COUNTED)) else { continue };
            path.up += 1;
            path.rtt_ms = [path.rtt_ms, own.rtt_ms].into_iter().flatten().reduce(f64::min);
        }
    }
    let all = clients.into_values();
    all.map(|(client, paths)| ClientSnapshot { paths: paths.into_values().collect(), ..client }).collect()
}

impl Inner {
    fn destinations(&self) -> MutexGuard<'_, BTreeMap<Destination, usize>> {
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn destination_snapshots(&self) -> Vec<DestinationSnapshot> {
        let open = self.destinations();
        let mut most: Vec<_> = open.iter().collect();
        most.sort_by_key(|(_, connections)| std::cmp::Reverse(**connections));
        let shown = most.into_iter().take(MOST_DESTINATIONS);
        let snapshot = |(destination, connections): (&Destination, &usize)| DestinationSnapshot {
            destination: destination.to_string(),
            connections: *connections,
        };
        shown.map(snapshot).collect()
    }

    fn radios(&self) -> MutexGuard<'_, Radios> {
        self.radios.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, BTreeMap<String, Tally>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the counters of a session that has ended.
    fn keep(&self, ended: &Watched) {
        match ended.peer {
            None => self.radios().clone_from(&ended.totals),
            Some(_) => self.clients().entry(ended.client.clone()).or_default().add(&ended.tally),
        }
    }
}

impl Watched {
    /// Brings totals and tally up to date, also after the end of the session.
    fn count(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.lock();
        state.count_paths();
        if self.peer.is_some() {
            let stats = state.session.stats();
            let tally = &mut self.tally;
            (tally.sent, tally.received, tally.sent_again) = (stats.sent, stats.received, stats.sent_again);
            tally.paths.clone_from(state.paths.by_number());
            return;
        }
        for status in state.paths.iter() {
            let before = self.before.get(&status.name).copied().unwrap_or_default();
            self.totals.insert(status.name.clone(), (before.0 + status.sent, before.1 + status.received));
        }
    }

    /// Samples the session. Returns whether it is still open.
    fn sample(&mut self, now: Instant) -> bool {
        self.count();
        let Some(shared) = self.shared.upgrade() else { return false };
        let at = shared.now().saturating_since(tributary_types::Instant::ZERO);
        let mut state = shared.lock();
        if state.closed.is_some() {
            return false;
        }
        state.count_paths();
        let seconds = now.duration_since(self.sampled).as_secs_f64().max(1e-3);
        for status in state.paths.iter() {
            // A path that came back begins with the counters that it had.
            let first = Sample { sent: status.sent, received: status.received, ..Sample::default() };
            let last = self.paths.get(&status.path).copied().unwrap_or(first);
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8e-6 / seconds;
            let silence = at.saturating_sub(status.since);
            let silent = status.state == PathState::Silent && silence >= SAMPLE;
            match (silent, last.silence_logged) {
                (true, false) => tracing::warn!(
                    "path {} is silent for {silence:.1?}: {}",
                    status.name,
                    status.cause.as_deref().unwrap_or_default()
                ),
                (false, true) => tracing::info!("path {} is {} again", status.name, status.state),
                _ => {}
            }
            let tcp = newest(&state.subflows, status.path)
                .map(|report| (report.subflow, [report.tcp.bytes_sent, report.tcp.bytes_retrans]));
            let sample = Sample {
                tcp,
                loss: tcp
                    .zip(last.tcp)
                    .filter(|(now, before)| now.0 == before.0)
                    .and_then(|(now, before)| loss(before.1, now.1)),
                sent: status.sent,
                received: status.received,
                send_mbps: rate(status.sent, last.sent),
                receive_mbps: rate(status.received, last.received),
                silence_logged: silent,
            };
            self.paths.insert(status.path, sample);
        }
        self.sampled = now;
        true
    }

    fn snapshot(&self) -> Option<SessionSnapshot> {
        let shared = self.shared.upgrade()?;
        let at = shared.now().saturating_since(tributary_types::Instant::ZERO);
        let mut state = shared.lock();
        if state.closed.is_some() {
            return None;
        }
        state.count_paths();
        let stats = state.session.stats();
        let paths = state.paths.iter().map(|status| {
            let removed = status.state == PathState::Removed;
            let sample = self.paths.get(&status.path).filter(|_| !removed).copied().unwrap_or_default();
            let before = self.before.get(&status.name).copied().unwrap_or_default();
            let newest = newest(&state.subflows, status.path);
            PathSnapshot {
                path: status.path.0,
                radio: status.name.clone(),
                state: status.state,
                cause: status.cause.clone(),
                since_s: at.saturating_sub(status.since).as_secs_f64(),
                protocol: newest.map(|report| report.protocol),
                rtt_ms: newest.map(|report| report.tcp.rtt.as_secs_f64() * 1e3),
                loss: sample.loss,
                send_mbps: sample.send_mbps,
                receive_mbps: sample.receive_mbps,
                sent: before.0 + status.sent,
                received: before.1 + status.received,
                cap_mbps: status.cap.map(Bitrate::as_mbps_f64),
            }
        });
        let streams = state.session.streams();
        Some(SessionSnapshot {
            session: state.name(),
            peer: self.peer,
            client: state.client.as_ref().map(|client| client.name.clone()),
            connections: (streams.own + streams.peers - streams.ending) as usize,
            streams: (streams.own + streams.peers) as usize,
            memory: state.uses().bytes(),
            age_s: at.as_secs_f64(),
            sent: stats.sent,
            received: stats.received,
            sent_again: stats.sent_again,
            paths: paths.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::config::{Common, ConnectConfig, ListenConfig};
    use crate::{Key, Listener};

    #[test]
    fn loss_is_the_share_of_the_bytes_that_were_sent_again() {
        assert_eq!(loss([1000, 100], [3000, 600]), Some(0.25));
        assert_eq!(loss([1000, 100], [2000, 100]), Some(0.0));
        assert_eq!(loss([1000, 100], [1000, 100]), None, "nothing was sent");
    }

    #[tokio::test]
    async fn the_counters_of_a_radio_go_on_in_the_next_session() {
        let common = Common { plaintext: true, ..Common::new(Key::from_bytes([3; 32])) };
        let addresses = vec!["127.0.0.1:0".parse().unwrap()];
        let listening = ListenConfig::new(addresses, common.clone());
        let mut listener = Listener::bind(listening).await.unwrap();
        let paths = vec![format!("127.0.0.2={}", listener.addresses()[0]).parse().unwrap()];
        let watch = Watch::new(None);
        for round in 1..=2 {
            let timeout = Duration::from_secs(60);
            let config = ConnectConfig { paths: paths.clone(), common: common.clone(), timeout };
            let session = crate::connect(config).await.unwrap();
            let (peer, _) = listener.accept().await.unwrap();
            watch.add(&session, None);
            let mut stream = session.open_stream(0).await.unwrap();
            stream.write_chunk(Bytes::from_static(&[7; 1000])).await.unwrap();
            let mut arrived = peer.accept_stream().await.unwrap();
            assert_eq!(arrived.read_chunk().await.unwrap().unwrap().len(), 1000);
            let seen = watch.snapshot();
            assert_eq!((seen.sessions[0].sent, seen.sessions[0].paths[0].sent), (1000, 1000 * round));
            watch.end(&session);
        }
    }
}
