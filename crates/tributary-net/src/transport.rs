//! One interface for every transport: connect, accept, streams and statistics by the transport's name.
//!
//! | name | what it is | protection |
//! |---|---|---|
//! | `tcp` | a kernel TCP connection for each stream | none |
//! | `mptcp` | the same with the kernel's multipath TCP | none |
//! | `session` | a Tributary session over all paths | pre-shared key |
//! | `quic` | QUIC on one path (quinn) | pre-shared key, or certificates |
//! | `mpquic` | multipath QUIC over all paths (noq) | pre-shared key, or certificates |
//!
//! Streams are bidirectional. Either end opens them, over kernel sockets only the client; the peer sees a stream with its
//! first bytes. Connections are independent: to change the transport, an application connects a second one under another
//! name, moves to it, and closes the first. Not here: the names ([`tributary_proto::transport`]) and the protocols over the streams.

mod builder;
mod closed;
mod config;
mod error;
mod kernel;
mod pace;
#[cfg(feature = "quic")]
mod quic;
mod socket;
mod stats;
mod stream;

use std::net::SocketAddr;
use std::sync::Arc;

pub use tributary_proto::transport::{SESSION_DEFAULT, TransportName, UnknownName};

use crate::clients::{Clients, Throttle};
use crate::config::{ConnectConfig, ListenConfig, Local, PathConfig};
use crate::error::ConnectError;
use crate::event_log::EventLog;
use crate::flow::{Flow, FlowConfig};
use crate::follow;
use crate::handshake::HandshakeError;
use crate::identity::PublicKey;
use crate::listener::Listener;
use crate::session::Session;
pub use crate::stream::Arrivals;
pub use builder::{ClientBuilder, ServerBuilder};
pub use closed::ConnectionClosed;
pub use config::{Certificates, SOCKET_UNSENT, Sockets, TransportConfig};
pub use error::TransportError;
use error::{bound_to, system};
#[cfg(feature = "quic")]
pub use quic::Handshake;
pub use stats::{PathStats, TransportStats};
pub use stream::{RecvHalf, SendHalf, Sent, TransportStream};

/// A connected transport. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Connection {
    kind: Kind,
    /// Server: the rate of its client, if the list of clients has one.
    throttle: Option<Arc<Throttle>>,
}

impl From<Kind> for Connection {
    fn from(kind: Kind) -> Self {
        Self { kind, throttle: None }
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Session(Session),
    Kernel(kernel::Connection),
    #[cfg(feature = "quic")]
    Quic(quic::single::Connection),
    #[cfg(feature = "quic")]
    Mpquic(quic::multi::Connection),
}

/// The paths that the transport uses. `auto` stands for every present interface with multipath QUIC, and for the
/// routing table's choice with transports of one path. A path in the transport's name is compared with the local ends
/// as they were given.
fn chosen(name: &TransportName, paths: &[PathConfig]) -> Result<Vec<PathConfig>, TransportError> {
    let locals: Vec<String> = paths.iter().map(PathConfig::local_name).collect();
    let locals: Vec<&str> = locals.iter().map(String::as_str).collect();
    name.check(&locals)?;
    let one =
        matches!(name, TransportName::Tcp(None) | TransportName::Quic(None) | TransportName::Mptcp { .. });
    if paths.is_empty() || (one && paths.len() > 1) {
        return Err(TransportError::Paths { name: name.kind(), paths: paths.len() });
    }
    let chosen: Vec<PathConfig> = name.paths(&locals).into_iter().map(|index| paths[index].clone()).collect();
    match name {
        // A session follows the interfaces itself.
        TransportName::Session { .. } => Ok(chosen),
        _ if chosen.iter().any(|path| path.metered) => Err(TransportError::Metered(name.kind())),
        _ if chosen.iter().any(|path| path.cap.is_some()) => Err(TransportError::Capped(name.kind())),
        TransportName::Mpquic if chosen.iter().any(|path| path.local == Local::Auto) => {
            let there = follow::expand(&chosen).map_err(system("reading the network interfaces"))?;
            if there.is_empty() {
                Err(ConnectError::from(HandshakeError::NoInterface).into())
            } else {
                Ok(there)
            }
        }
        _ => Ok(chosen),
    }
}

impl Connection {
    /// Connects over these paths.
    ///
    /// Cancellation: dropping the future ends the attempt.
    ///
    /// # Errors
    /// [`TransportError`] names the setting, the path, or the peer's reason.
    pub async fn connect(config: &TransportConfig, paths: &[PathConfig]) -> Result<Self, TransportError> {
        let paths = chosen(&config.name, paths)?;
        let kind = match &config.name {
            TransportName::Session { scheduler } => {
                let common = config.session(scheduler)?;
                let connecting = ConnectConfig { paths, common, timeout: config.timeout };
                let session = if config.early {
                    crate::session::connect_early(connecting).await?
                } else {
                    crate::session::connect(connecting).await?
                };
                if let Some(log) = &config.log {
                    log.follow(&session);
                }
                Kind::Session(session)
            }
            TransportName::Tcp(_) | TransportName::Mptcp { .. } => {
                Kind::Kernel(kernel::Connection::dial(config, &paths[0]).await?)
            }
            #[cfg(feature = "quic")]
            TransportName::Quic(_) => Kind::Quic(quic::single::connect(config, &paths).await?),
            #[cfg(feature = "quic")]
            TransportName::Mpquic => Kind::Mpquic(quic::multi::connect(config, &paths).await?),
            #[cfg(not(feature = "quic"))]
            TransportName::Quic(_) | TransportName::Mpquic => return Err(TransportError::NoQuic),
        };
        Ok(kind.into())
    }

    /// Server: whose connection it is, when each client has a key of its own.
    #[must_use]
    pub fn client_key(&self) -> Option<PublicKey> {
        match &self.kind {
            Kind::Session(session) => session.client().map(|client| client.key),
            Kind::Kernel(_) => None,
            #[cfg(feature = "quic")]
            Kind::Quic(quic) => quic.client(),
            #[cfg(feature = "quic")]
            Kind::Mpquic(quic) => quic.client(),
        }
    }

    /// Opens a stream; waits while the peer allows no more at once. Higher `priority` goes first; zero is bulk. Kernel sockets
    /// ignore the priority: each of their streams is a separate connection, which only the client opens.
    ///
    /// Cancellation: dropping the future opens nothing.
    ///
    /// # Errors
    /// [`TransportError::Closed`] says why the connection has ended.
    pub async fn open_stream(&self, priority: u8) -> Result<TransportStream, TransportError> {
        let stream = match &self.kind {
            Kind::Session(session) => TransportStream::of_session(session.open_stream(priority).await?),
            Kind::Kernel(kernel) => kernel.open_stream().await?,
            #[cfg(feature = "quic")]
            Kind::Quic(quic) => quic.open_stream(priority).await?,
            #[cfg(feature = "quic")]
            Kind::Mpquic(quic) => quic.open_stream(priority).await?,
        };
        Ok(stream.paced(self.throttle.as_ref()))
    }

    /// The next stream that the peer opened.
    ///
    /// Cancellation: dropping the future loses no stream.
    ///
    /// # Errors
    /// [`ConnectionClosed`] says why there will be none.
    pub async fn accept_stream(&self) -> Result<TransportStream, ConnectionClosed> {
        let stream = match &self.kind {
            Kind::Session(session) => TransportStream::of_session(session.accept_stream().await?),
            Kind::Kernel(kernel) => kernel.accept_stream()?,
            #[cfg(feature = "quic")]
            Kind::Quic(quic) => quic.accept_stream().await?,
            #[cfg(feature = "quic")]
            Kind::Mpquic(quic) => quic.accept_stream().await?,
        };
        Ok(stream.paced(self.throttle.as_ref()))
    }

    /// Opens a flow of datagrams. Only sessions have them. Cancellation: dropping the future opens nothing.
    ///
    /// # Errors
    /// [`TransportError::NoFlows`]; [`TransportError::Closed`].
    pub async fn open_flow(&self, config: FlowConfig) -> Result<Flow, TransportError> {
        Ok(self.with_flows()?.open_flow(config).await?)
    }

    /// The next flow of datagrams that the peer opened. Only sessions have them. Cancellation: dropping the future loses no flow.
    ///
    /// # Errors
    /// [`TransportError::NoFlows`]; [`TransportError::Closed`] says why there will be none.
    pub async fn accept_flow(&self) -> Result<Flow, TransportError> {
        Ok(self.with_flows()?.accept_flow().await?)
    }

    fn with_flows(&self) -> Result<&Session, TransportError> {
        match &self.kind {
            Kind::Session(session) => Ok(session),
            Kind::Kernel(_) => Err(TransportError::NoFlows("TCP")),
            #[cfg(feature = "quic")]
            Kind::Quic(_) | Kind::Mpquic(_) => Err(TransportError::NoFlows("QUIC")),
        }
    }

    /// Statistics of the connection and of its paths.
    #[must_use]
    pub fn stats(&self) -> TransportStats {
        match &self.kind {
            Kind::Session(session) => TransportStats::of_session(&session.stats()),
            Kind::Kernel(kernel) => kernel.stats(),
            #[cfg(feature = "quic")]
            Kind::Quic(quic) => quic.stats(),
            #[cfg(feature = "quic")]
            Kind::Mpquic(quic) => quic.stats(),
        }
    }

    /// Closes the connection after delivering everything that was written and finished. A session and QUIC wait for
    /// the peer's acknowledgements, so limit the time in case the peer does not read; the kernel delivers in the
    /// background.
    ///
    /// Cancellation: a session goes on closing in the background; QUIC stays open if it still waited for acknowledgements.
    pub async fn close(&self) {
        match &self.kind {
            // The closing side does not need the result.
            Kind::Session(session) => drop(session.close().await),
            Kind::Kernel(kernel) => kernel.close(),
            #[cfg(feature = "quic")]
            Kind::Quic(quic) => quic.close().await,
            #[cfg(feature = "quic")]
            Kind::Mpquic(quic) => quic.close().await,
        }
    }

    /// The session, if this is one, for features that only sessions have.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        match &self.kind {
            Kind::Session(session) => Some(session),
            _ => None,
        }
    }

    /// quinn's connection, when it is one: for HTTP/3. With the feature `h3` only, and outside of this crate's promises of
    /// compatibility.
    #[cfg(feature = "h3")]
    #[must_use]
    pub fn quic(&self) -> Option<&quinn::Connection> {
        match &self.kind {
            Kind::Quic(quic) => Some(quic.library()),
            _ => None,
        }
    }

    /// Progress of the handshake of a QUIC connection.
    #[cfg(feature = "quic")]
    #[must_use]
    pub fn handshake(&self) -> Option<&Handshake> {
        match &self.kind {
            Kind::Quic(quic) => Some(quic.handshake()),
            Kind::Mpquic(quic) => Some(quic.handshake()),
            _ => None,
        }
    }

    /// Why the connection has ended; `None` while it has not. Of kernel sockets only [`Self::close`] counts: they report
    /// errors on their streams.
    #[must_use]
    pub fn close_reason(&self) -> Option<ConnectionClosed> {
        match &self.kind {
            Kind::Session(session) => session.close_reason().map(Into::into),
            Kind::Kernel(kernel) => kernel.close_reason(),
            #[cfg(feature = "quic")]
            Kind::Quic(quic) => quic.close_reason(),
            #[cfg(feature = "quic")]
            Kind::Mpquic(quic) => quic.close_reason(),
        }
    }

    /// Waits until the connection has ended, as [`Self::close_reason`] defines it.
    ///
    /// Cancellation: safe, it only watches.
    pub async fn closed(&self) -> ConnectionClosed {
        match &self.kind {
            Kind::Session(session) => session.closed().await.into(),
            Kind::Kernel(kernel) => kernel.closed().await,
            #[cfg(feature = "quic")]
            Kind::Quic(quic) => quic.closed().await,
            #[cfg(feature = "quic")]
            Kind::Mpquic(quic) => quic.closed().await,
        }
    }
}

/// A listening server of one transport. Dropping it stops listening.
#[derive(Debug)]
pub struct Acceptor {
    accepting: Accepting,
    addresses: Vec<SocketAddr>,
    /// The list of clients, if each has a key of its own.
    clients: Option<Clients>,
}

#[derive(Debug)]
enum Accepting {
    Session(Box<Listener>, Option<EventLog>),
    Other(Accepted),
}

/// Connections that have passed their handshake, and the tasks that accept them.
#[derive(Debug)]
struct Accepted {
    fresh: tokio::sync::mpsc::Receiver<(Connection, SocketAddr)>,
    _tasks: tokio::task::JoinSet<()>,
}

impl Acceptor {
    /// Listens on every address.
    ///
    /// Cancellation: dropping the future listens nowhere.
    ///
    /// # Errors
    /// [`TransportError`] names the setting or the address.
    pub async fn bind(config: &TransportConfig, addresses: &[SocketAddr]) -> Result<Self, TransportError> {
        if addresses.is_empty() {
            return Err(TransportError::NoAddress);
        }
        let clients = config.common.as_ref().and_then(|common| common.keys.clients().cloned());
        let (accepted, addresses) = match &config.name {
            TransportName::Session { scheduler } => {
                let common = config.session(scheduler)?;
                let addresses = addresses.to_vec();
                let (limits, passed) = (config.limits, config.passed.clone());
                let listening = ListenConfig { limits, passed, ..ListenConfig::new(addresses, common) };
                let listener = Listener::bind_keeping_events(listening, config.log.is_some()).await?;
                let addresses = listener.addresses().to_vec();
                let accepting = Accepting::Session(Box::new(listener), config.log.clone());
                return Ok(Self { accepting, addresses, clients });
            }
            TransportName::Tcp(_) | TransportName::Mptcp { .. } => kernel::listen(config, addresses)?,
            #[cfg(feature = "quic")]
            TransportName::Quic(_) => quic::single::listen(config, addresses)?,
            #[cfg(feature = "quic")]
            TransportName::Mpquic => quic::multi::listen(config, addresses)?,
            #[cfg(not(feature = "quic"))]
            TransportName::Quic(_) | TransportName::Mpquic => return Err(TransportError::NoQuic),
        };
        Ok(Self { accepting: Accepting::Other(accepted), addresses, clients })
    }

    /// The addresses it listens on, with the ports the system chose.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The next client; `None` when the listener has ended. With kernel sockets every stream counts as a client.
    ///
    /// Cancellation: dropping the future loses no client.
    pub async fn accept(&mut self) -> Option<(Connection, SocketAddr)> {
        let (mut connection, from) = match &mut self.accepting {
            Accepting::Session(listener, log) => {
                let (session, from) = listener.accept().await?;
                if let Some(log) = log {
                    log.follow(&session);
                }
                (Kind::Session(session).into(), from)
            }
            Accepting::Other(accepted) => accepted.fresh.recv().await?,
        };
        let client = self.clients.as_ref().zip(connection.client_key());
        connection.throttle = client.map(|(clients, key)| clients.throttle(key));
        Some((connection, from))
    }
}

#[cfg(test)]
mod tests;
