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
mod kernel;
mod pace;
#[cfg(feature = "quic")]
mod quic;
mod socket;
mod stats;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
pub use tributary_proto::transport::{SESSION_DEFAULT, TransportName, UnknownName};

use crate::clients::{Clients, Throttle};
use crate::config::{Common, ConnectConfig, Limits, ListenConfig, Local, PathConfig, PathError};
use crate::error::{ConnectError, ListenError, SessionClosed, explained};
use crate::event_log::EventLog;
use crate::flow::{Flow, FlowConfig};
use crate::follow;
use crate::handshake::HandshakeError;
use crate::hello::{HelloError, Refusal};
use crate::identity::PublicKey;
use crate::listener::Listener;
use crate::passed::{PassedSockets, Port};
use crate::session::Session;
use crate::sockopt::CongestionError;
pub use crate::stream::Arrivals;
pub use builder::{ClientBuilder, ServerBuilder};
pub use closed::ConnectionClosed;
pub use kernel::SOCKET_UNSENT;
#[cfg(feature = "quic")]
pub use quic::Handshake;
pub use stats::{PathStats, TransportStats};
pub use stream::{RecvHalf, SendHalf, Sent, TransportStream};

/// Settings of one end of a transport. Both ends need the same name, and the same key or matching certificates.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportConfig {
    /// Which transport.
    pub name: TransportName,
    /// The pre-shared key and a session's settings. Sessions need them; QUIC uses only the key; tcp and mptcp ignore
    /// them.
    pub common: Option<Common>,
    /// TLS settings of QUIC with certificates instead of a key, as HTTP/3 uses it.
    pub certificates: Option<Certificates>,
    /// Congestion control of every socket of this end; `None` leaves the default.
    pub congestion: Option<String>,
    /// Saves one round trip, but the peer may process the data of that time twice (replay), so use it only for
    /// idempotent requests. Client: a session's first writes are sent right after its hello; streams of `quic` with
    /// certificates can be used before the handshake is over if there is a ticket of an earlier connection. Server:
    /// such a connection of `quic` is accepted with its client's first packets. See [`Handshake`].
    pub early: bool,
    /// Client: time for the first path to come up.
    pub timeout: Duration,
    /// Limits of a server.
    pub limits: Limits,
    /// Buffers of the kernel's sockets, of `tcp` and `mptcp`.
    pub sockets: Sockets,
    /// Server: sockets that are used instead of new ones for the addresses that they listen on.
    pub passed: PassedSockets,
    /// Where the events of sessions are written; other transports have none.
    pub log: Option<EventLog>,
}

/// Buffers of kernel sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sockets {
    /// A socket accepts more data only while fewer bytes than this are unsent (`TCP_NOTSENT_LOWAT`), so that a sender
    /// can still replace data. `None` keeps the kernel's default.
    pub unsent: Option<u32>,
    /// Receive buffer in bytes (`SO_RCVBUF`); `None` lets the kernel tune it.
    pub receive_buffer: Option<usize>,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { unsent: Some(SOCKET_UNSENT), receive_buffer: None }
    }
}

/// Ordinary TLS settings, with the application's protocol (ALPN) in them.
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// Client: trusted certificates.
    pub client: Option<Arc<rustls::ClientConfig>>,
    /// Client: the name the server's certificate must have.
    pub server_name: String,
    /// Server: its certificate and key.
    pub server: Option<Arc<rustls::ServerConfig>>,
}

impl TransportConfig {
    /// The defaults for the transport of this name.
    #[must_use]
    pub fn new(name: TransportName) -> Self {
        Self {
            name,
            common: None,
            certificates: None,
            congestion: None,
            early: false,
            timeout: Duration::from_secs(10),
            limits: Limits::default(),
            sockets: Sockets::default(),
            passed: PassedSockets::default(),
            log: None,
        }
    }

    /// The same with a pre-shared key and the settings of a session.
    #[must_use]
    pub fn with_common(mut self, common: Common) -> Self {
        self.common = Some(common);
        self
    }

    /// Where a server with this configuration listens at these addresses: a session over QUIC on UDP too.
    #[must_use]
    pub fn ports(&self, addresses: &[SocketAddr]) -> Vec<Port> {
        let is_session = matches!(self.name, TransportName::Session { .. });
        let quic = is_session && self.common.as_ref().is_some_and(|common| common.quic);
        let udp = addresses.iter().copied().filter(|_| quic).map(Port::Udp);
        addresses.iter().map(|address| self.port(*address)).chain(udp).collect()
    }

    fn port(&self, address: SocketAddr) -> Port {
        match self.name {
            TransportName::Session { .. } | TransportName::Tcp(_) => Port::Tcp(address),
            TransportName::Mptcp { .. } => Port::Mptcp(address),
            TransportName::Quic(_) | TransportName::Mpquic => Port::Udp(address),
        }
    }

    /// Settings of a session of this end.
    fn session(&self, scheduler: &str) -> Result<Common, TransportError> {
        let mut common = self.common.clone().ok_or(TransportError::NoKey("session"))?;
        scheduler.clone_into(&mut common.session.scheduler);
        if self.congestion.is_some() {
            common.congestion.clone_from(&self.congestion);
        }
        common.session.telemetry |= self.log.as_ref().is_some_and(EventLog::wants_decisions);
        Ok(common)
    }
}

/// Why a transport cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The transport begins on one path, but several or none were given.
    #[error(
        "`{name}` begins on one path, {paths} were given; name it as {name}:PATH, or leave the others out{}",
        if *name == "mptcp" { " (the kernel's path manager adds them: ip mptcp endpoint)" } else { "" }
    )]
    Paths {
        /// The transport.
        name: &'static str,
        /// Number of given paths.
        paths: usize,
    },
    /// A path is metered, but the transport cannot leave a path unused.
    #[error("`{0}` cannot leave a path unused until it is needed: `metered` is for sessions")]
    Metered(&'static str),
    /// A path has a cap, but the transport does not divide its data.
    #[error("`{0}` cannot limit what a path carries: `cap` is for sessions")]
    Capped(&'static str),
    /// The path in the transport's name is not among the given paths.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// A path that cannot be read.
    #[error(transparent)]
    Path(#[from] PathError),
    /// No address to listen on.
    #[error("no address to listen on")]
    NoAddress,
    /// A system call failed.
    #[error("{doing}: {source}")]
    System {
        /// The operation.
        doing: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel has no MPTCP.
    #[error("this kernel has no MPTCP ({0}): build it with CONFIG_MPTCP and set net.mptcp.enabled=1")]
    NoMptcp(io::Error),
    /// The kernel schedules MPTCP itself.
    #[error(
        "the kernel schedules MPTCP itself: `{0}` cannot be chosen on real sockets; take mptcp or session"
    )]
    KernelScheduler(String),
    /// The congestion control is not available.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// The session did not come up.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Cannot listen for sessions.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The connection has ended.
    #[error(transparent)]
    Closed(#[from] ConnectionClosed),
    /// A server cannot open a stream over kernel sockets.
    #[error(
        "only the client opens streams over tcp and mptcp, where each is a connection; take session or quic"
    )]
    ClientOpens,
    /// No key given.
    #[error("{0} needs keys; make one for each end with `tributary keygen`")]
    NoKey(&'static str),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(String),
    /// The peer does not have the key.
    #[error("the peer does not know the key")]
    WrongKey,
    /// The peer's keys have another form, or it is not the expected server.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The server has proved its key but refuses the connection.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server does not have the expected key.
    #[error(
        "the server is not the expected one: it does not have the key {0}; if its operator has replaced the key, give the \
         new one as --server-key"
    )]
    WrongServer(PublicKey),
    /// A QUIC connection failed.
    #[error("QUIC: {0}")]
    Quic(String),
    /// The transport carries no datagrams.
    #[error("{0} carries no flows of datagrams: take session")]
    NoFlows(&'static str),
    /// It took longer than the time limit.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// This program was built without QUIC.
    #[error("this program was built without QUIC: build it with --features quic")]
    NoQuic,
}

impl From<SessionClosed> for TransportError {
    fn from(closed: SessionClosed) -> Self {
        Self::Closed(closed.into())
    }
}

/// A socket cannot have this address.
fn bound_to(address: SocketAddr) -> impl FnOnce(io::Error) -> TransportError {
    move |error| system(format!("binding to {address}"))(explained(error))
}

fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> TransportError {
    let doing = doing.into();
    move |source| TransportError::System { doing, source }
}

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
        match &self.kind {
            Kind::Session(session) => Ok(session.open_flow(config).await?),
            Kind::Kernel(_) => Err(TransportError::NoFlows("TCP")),
            #[cfg(feature = "quic")]
            Kind::Quic(_) | Kind::Mpquic(_) => Err(TransportError::NoFlows("QUIC")),
        }
    }

    /// The next flow of datagrams that the peer opened; `None` when there will be none. Cancellation: dropping the future loses
    /// no flow.
    pub async fn accept_flow(&self) -> Option<Flow> {
        match &self.kind {
            Kind::Session(session) => session.accept_flow().await,
            _ => None,
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
