//! The server side of the proxy: every stream becomes a TCP connection to the target.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::ProxyError;
use super::relay::relay;
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
}

/// The server side, listening.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    target: Arc<str>,
}

impl Server {
    /// Listens; nothing is accepted until [`Self::run`].
    ///
    /// # Errors
    /// [`ProxyError`].
    pub async fn bind(config: ServeConfig) -> Result<Self, ProxyError> {
        let port = config.forward.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        if !matches!(port, Some((host, Ok(_))) if !host.is_empty()) {
            return Err(ProxyError::Target(config.forward));
        }
        Ok(Self { listener: Listener::bind(config.listen).await?, target: config.forward.into() })
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
            sessions.spawn(serve_session(session, self.target.clone()));
            while sessions.try_join_next().is_some() {}
        }
    }
}

async fn serve_session(session: Session, target: Arc<str>) {
    let mut connections = JoinSet::new();
    while let Some(stream) = session.accept_stream().await {
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
