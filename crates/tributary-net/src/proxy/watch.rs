//! Status of a running proxy: its sessions, their paths, rates and round-trip times.
//!
//! Counters are sampled every second, so a rate is that of the last whole second. Not here: the local socket on which
//! the program serves the status.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;
use tributary_types::PathId;

use crate::budget::{Budget, MemorySnapshot};
use crate::paths::PathState;
use crate::session::Session;
use crate::shared::Shared;

/// Time between two samples. A silence of at least this length is logged.
const SAMPLE: Duration = Duration::from_secs(1);

/// The status of a proxy, as `docs/guide/status.md` describes it.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// Seconds since the proxy began.
    pub uptime_s: f64,
    /// Server: the memory of all sessions.
    pub memory: Option<MemorySnapshot>,
    /// Open sessions.
    pub sessions: Vec<SessionSnapshot>,
}

/// One session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionSnapshot {
    /// The session's name, the same at both ends; `None` until the server has answered.
    pub session: Option<String>,
    /// Server: the address of the session's first connection.
    pub peer: Option<SocketAddr>,
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
    /// Client: `LOCAL=SERVER:PORT`. Server: the client's address.
    pub radio: String,
    /// Its state.
    pub state: PathState,
    /// Why it is down or silent.
    pub cause: Option<String>,
    /// Seconds since its state changed.
    pub since_s: f64,
    /// Smoothed round-trip time of its newest connection, without queues in this machine.
    pub rtt_ms: Option<f64>,
    /// Payload rate of the last second.
    pub send_mbps: f64,
    /// Payload rate received in the last second.
    pub receive_mbps: f64,
    /// Payload bytes sent since the session began, copies included.
    pub sent: u64,
    /// Payload bytes received since the session began, copies included.
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
}

struct Watched {
    shared: Weak<Shared>,
    peer: Option<SocketAddr>,
    sampled: Instant,
    paths: HashMap<PathId, Sample>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    sent: u64,
    received: u64,
    send_mbps: f64,
    receive_mbps: f64,
    silence_logged: bool,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Watch {
    /// A status with the memory that the sessions of a server share; `None` at a client.
    pub(super) fn new(budget: Option<Arc<Budget>>) -> Self {
        Self(Arc::new(Inner { began: Instant::now(), budget, sessions: Mutex::default() }))
    }

    pub(super) fn add(&self, session: &Session, peer: Option<SocketAddr>) {
        let shared = Arc::downgrade(&session.handle.0);
        self.sessions().push(Watched { shared, peer, sampled: Instant::now(), paths: HashMap::new() });
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
            self.sessions().retain_mut(|watched| watched.sample(now));
        }
    }

    /// The present status.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let sessions = self.sessions().iter().filter_map(Watched::snapshot).collect();
        let memory = self.0.budget.as_ref().map(|budget| budget.snapshot());
        Snapshot { uptime_s: self.0.began.elapsed().as_secs_f64(), memory, sessions }
    }
}

impl Watched {
    /// Samples the session. Returns whether it is still open.
    fn sample(&mut self, now: Instant) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let at = shared.now().saturating_since(tributary_types::Instant::ZERO);
        let mut state = shared.lock();
        if state.closed.is_some() {
            return false;
        }
        state.count_paths();
        let seconds = now.duration_since(self.sampled).as_secs_f64().max(1e-3);
        for status in state.paths.iter() {
            let last = self.paths.get(&status.path).copied().unwrap_or_default();
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
            let sample = Sample {
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
            let sample = self.paths.get(&status.path).copied().unwrap_or_default();
            let newest =
                state.subflows.iter().filter(|report| report.path == status.path).max_by_key(|r| r.subflow);
            PathSnapshot {
                radio: status.name.clone(),
                state: status.state,
                cause: status.cause.clone(),
                since_s: at.saturating_sub(status.since).as_secs_f64(),
                rtt_ms: newest.map(|report| report.tcp.rtt.as_secs_f64() * 1e3),
                send_mbps: sample.send_mbps,
                receive_mbps: sample.receive_mbps,
                sent: status.sent,
                received: status.received,
            }
        });
        let streams = state.session.streams();
        Some(SessionSnapshot {
            session: state.name(),
            peer: self.peer,
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
