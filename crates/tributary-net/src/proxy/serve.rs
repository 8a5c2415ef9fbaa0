//! The server side of the proxy: every stream becomes a TCP connection to the target.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::relay::relay;
use super::{PriorityRules, ProxyError};
use crate::config::ListenConfig;
use crate::listener::Listener;
use crate::session::Session;
use crate::stream::Stream;

/// Code of a stream whose target could not be reached.
const CODE_UNREACHABLE: u32 = 1;

/// Settings of the server side.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where sessions arrive.
    pub listen: ListenConfig,
    /// `HOST:PORT` that every stream is connected to; resolved anew for each.
    pub forward: String,
    /// What of this end's data goes first, by the target's port.
    pub priorities: PriorityRules,
}

/// The server side, listening.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    target: Arc<str>,
    /// Of every stream.
    priority: u8,
}

impl Server {
    /// Listens; nothing is accepted until [`Self::run`].
    ///
    /// # Errors
    /// [`ProxyError`].
    pub async fn bind(config: ServeConfig) -> Result<Self, ProxyError> {
        let port = config.forward.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        let Some((_, Ok(port))) = port.filter(|(host, _)| !host.is_empty()) else {
            return Err(ProxyError::Target(config.forward));
        };
        let rules = config.priorities;
        if rules.look_at_marks() {
            let problem =
                "the server's end sees no mark of an application: give a port, or mark at the client";
            return Err(ProxyError::Priority(problem.to_owned()));
        }
        if let Some(other) = rules.ports().find(|named| *named != port) {
            return Err(ProxyError::Priority(format!(
                "nothing is forwarded to port {other}, only to {port}"
            )));
        }
        let priority = rules.of(port, None);
        Ok(Self { listener: Listener::bind(config.listen).await?, target: config.forward.into(), priority })
    }

    /// The addresses it listens on.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        self.listener.addresses()
    }

    /// Serves until it is dropped.
    pub async fn run(mut self) {
        let mut sessions = JoinSet::new();
        while let Some((session, from)) = self.listener.accept().await {
            tracing::info!(%from, "session opened");
            sessions.spawn(serve_session(session, self.target.clone(), self.priority));
            while sessions.try_join_next().is_some() {}
        }
    }
}

async fn serve_session(session: Session, target: Arc<str>, priority: u8) {
    let mut connections = JoinSet::new();
    while let Some(stream) = session.accept_stream().await {
        stream.set_priority(priority);
        connections.spawn(serve_stream(stream, target.clone()));
        while connections.try_join_next().is_some() {}
    }
    let closed = session.closed().await;
    tracing::info!(%closed, "session ended");
    // What was received before the end still reaches the target.
    while connections.join_next().await.is_some() {}
}

async fn serve_stream(mut stream: Stream, target: Arc<str>) {
    match TcpStream::connect(&*target).await {
        Ok(tcp) => relay(tcp, stream).await,
        Err(error) => {
            tracing::warn!(%target, %error, "target unreachable");
            stream.reset(CODE_UNREACHABLE);
        }
    }
}
