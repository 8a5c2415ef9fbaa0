//! Settings of one end of a transport.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{TransportError, TransportName};
use crate::config::{Common, Limits};
use crate::event_log::EventLog;
use crate::passed::{PassedSockets, Port};

/// Default of `TCP_NOTSENT_LOWAT`: a socket accepts more data only while fewer bytes than this are unsent.
pub const SOCKET_UNSENT: u32 = 64 << 10;

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
    /// such a connection of `quic` is accepted with its client's first packets. See [`Handshake`](super::Handshake).
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

    pub(super) fn port(&self, address: SocketAddr) -> Port {
        match self.name {
            TransportName::Session { .. } | TransportName::Tcp(_) => Port::Tcp(address),
            TransportName::Mptcp { .. } => Port::Mptcp(address),
            TransportName::Quic(_) | TransportName::Mpquic => Port::Udp(address),
        }
    }

    /// Settings of a session of this end.
    pub(super) fn session(&self, scheduler: &str) -> Result<Common, TransportError> {
        let mut common = self.common.clone().ok_or(TransportError::NoKey("session"))?;
        scheduler.clone_into(&mut common.session.scheduler);
        if self.congestion.is_some() {
            common.congestion.clone_from(&self.congestion);
        }
        common.session.telemetry |= self.log.as_ref().is_some_and(EventLog::wants_decisions);
        Ok(common)
    }
}
