//! The client side of the proxy: every local TCP connection becomes a stream of the session.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::relay::relay;
use super::{PriorityRules, ProxyError};
use crate::config::ConnectConfig;
use crate::error::ConnectError;
use crate::session::{Session, connect};

/// Settings of the client side.
#[derive(Clone, Debug)]
pub struct ForwardConfig {
    /// The session's paths and settings. Its timeout is also how long a local connection waits for a new
    /// session when the old one has died.
    pub connect: ConnectConfig,
    /// Where local applications connect; all addresses lead to the same target.
    pub listen: Vec<SocketAddr>,
    /// What of this end's data goes first, by the port that an application connected to and its packets' mark.
    pub priorities: PriorityRules,
    /// File that gets a line of JSON for every event of the session.
    pub json_events: Option<PathBuf>,
}

/// The client side, connected and listening.
#[derive(Debug)]
pub struct Forwarder {
    listeners: Vec<TcpListener>,
    sessions: Arc<Sessions>,
    priorities: PriorityRules,
}

/// The current session, made anew when it is gone.
#[derive(Debug)]
struct Sessions {
    config: ConnectConfig,
    current: Mutex<Option<Session>>,
    log: Option<Arc<Mutex<BufWriter<File>>>>,
}

impl Forwarder {
    /// Listens locally and connects the first session.
    ///
    /// # Errors
    /// [`ProxyError`]: a wrong setting or key, a local port in use, an unreachable server.
    pub async fn bind(config: ForwardConfig) -> Result<Self, ProxyError> {
        let mut listeners = Vec::new();
        for address in config.listen {
            let bound = bind(address, config.priorities.look_at_marks()).await;
            listeners.push(bound.map_err(|error| ProxyError::Bind { address, error })?);
        }
        let listening: Vec<u16> =
            listeners.iter().filter_map(|l| Some(l.local_addr().ok()?.port())).collect();
        if let Some(port) = config.priorities.ports().find(|port| !listening.contains(port)) {
            let problem = format!("nobody listens on port {port}; applications connect to {listening:?}");
            return Err(ProxyError::Priority(problem));
        }
        let mut connect = config.connect;
        let log = match &config.json_events {
            Some(path) => {
                connect.common.session.telemetry = true;
                Some(Arc::new(Mutex::new(BufWriter::new(create(path).await?))))
            }
            None => None,
        };
        let sessions = Sessions { config: connect, current: Mutex::default(), log };
        sessions.get().await?;
        Ok(Self { listeners, sessions: Arc::new(sessions), priorities: config.priorities })
    }

    /// The local addresses, with the ports the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// The session that new connections use now; `None` while a lost one is being replaced.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        self.sessions.current.try_lock().ok().and_then(|current| current.clone())
    }

    /// Forwards until it is dropped.
    pub async fn run(self) {
        let mut loops = JoinSet::new();
        for listener in self.listeners {
            loops.spawn(accept(listener, self.sessions.clone(), self.priorities.clone()));
        }
        while loops.join_next().await.is_some() {}
    }
}

async fn bind(address: SocketAddr, look_at_marks: bool) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    if look_at_marks {
        crate::sockopt::keep_opening_packets(listener.as_fd())?;
    }
    Ok(listener)
}

async fn accept(listener: TcpListener, sessions: Arc<Sessions>, priorities: PriorityRules) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((tcp, _)) => {
                let mark =
                    priorities.look_at_marks().then(|| crate::sockopt::opening_code_point(tcp.as_fd()));
                let priority = priorities.of(port, mark.flatten());
                connections.spawn(forward(tcp, sessions.clone(), priority));
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn create(path: &Path) -> Result<File, ProxyError> {
    File::create(path).await.map_err(|error| ProxyError::EventLog { path: path.to_owned(), error })
}

async fn forward(tcp: TcpStream, sessions: Arc<Sessions>, priority: u8) {
    // A session may end between being chosen and being used; the next one is asked for once.
    for _ in 0..2 {
        let session = match sessions.get().await {
            Ok(session) => session,
            Err(error) => {
                tracing::warn!(%error, "no session for a local connection");
                break;
            }
        };
        if let Ok(stream) = session.open_stream(priority).await {
            // In many protocols (SMTP, SSH) the server speaks first.
            stream.announce();
            return relay(tcp, stream).await;
        }
    }
    let _ = crate::sockopt::set_abort_on_drop(tcp.as_fd());
}

impl Sessions {
    /// The living session, or a new one. Callers queue up while one of them connects.
    async fn get(&self) -> Result<Session, ConnectError> {
        let mut current = self.current.lock().await;
        if let Some(session) = current.as_ref().filter(|session| !session.is_closed()) {
            return Ok(session.clone());
        }
        *current = None;
        let session = connect(self.config.clone()).await?;
        if let Some(log) = &self.log {
            tokio::spawn(write_events(session.events(), log.clone()));
        }
        *current = Some(session.clone());
        Ok(session)
    }
}

async fn write_events(
    mut events: tokio::sync::broadcast::Receiver<crate::events::SessionEvent>,
    log: Arc<Mutex<BufWriter<File>>>,
) {
    loop {
        let line = match events.recv().await {
            Ok(event) => event.to_json(),
            Err(RecvError::Lagged(lost)) => serde_json::json!({"event": "events_lost", "count": lost}),
            Err(RecvError::Closed) => return,
        };
        let mut log = log.lock().await;
        let written = log.write_all(format!("{line}\n").as_bytes()).await;
        // Flushed when there is a pause, so that a reader sees a log that is up to date.
        let flushed = if events.is_empty() { log.flush().await } else { Ok(()) };
        if let Err(error) = written.and(flushed) {
            tracing::warn!(%error, "event log stopped");
            return;
        }
    }
}
