//! Server: QUIC connections that clients open for subflows.
//!
//! A client whose address is not validated may have any address. Only a few of these are shaken hands with at a time; when
//! there are more, the server answers with Retry packets and keeps nothing (RFC 9000 §8.1.2).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{EndpointConfig, TokioRuntime};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{channel, protocol, settings};
use crate::config::Common;
use crate::error::{ListenError, explained};
use crate::handshake::{Channel, HandshakeError};
use crate::keys::Keys;
use crate::passed::{PassedSockets, Port};
use crate::pipe::quic::Quic;
use crate::tls;

/// Handshakes at a time with addresses that are not validated.
const MOST_UNVALIDATED: usize = 32;

/// A UDP port on which clients open connections.
pub(crate) struct Endpoint {
    endpoint: quinn::Endpoint,
    unvalidated: Arc<Semaphore>,
}

/// A connection that a client opens.
pub(crate) struct Incoming {
    pub from: SocketAddr,
    incoming: quinn::Incoming,
    _place: Option<OwnedSemaphorePermit>,
}

/// Its connections go on; new ones are refused.
impl Drop for Endpoint {
    fn drop(&mut self) {
        self.endpoint.set_server_config(None);
    }
}

impl Endpoint {
    /// `only_v6`: as for the TCP port of the same address.
    pub(crate) fn bind(
        (address, only_v6): (SocketAddr, bool),
        common: &Common,
        passed: &PassedSockets,
    ) -> Result<Self, ListenError> {
        let bind = |error| ListenError::BindUdp { address, error: explained(error) };
        let mut tls = tls::server_config(&common.keys)?.unnamed().clone();
        tls.alpn_protocols = vec![protocol(&common.keys)];
        let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other).map_err(bind)?;
        let mut server = quinn::ServerConfig::with_crypto(Arc::new(crypto));
        server.transport_config(Arc::new(settings(common)));
        let socket = match passed.take(Port::Udp(address)).map_err(bind)? {
            Some(socket) => socket,
            None => bound(address, only_v6).map_err(bind)?,
        };
        super::enlarge(&socket);
        let runtime = Arc::new(TokioRuntime);
        let endpoint = quinn::Endpoint::new(EndpointConfig::default(), Some(server), socket.into(), runtime);
        Ok(Self {
            endpoint: endpoint.map_err(bind)?,
            unvalidated: Arc::new(Semaphore::new(MOST_UNVALIDATED)),
        })
    }

    /// The next connection; `None` when the port is closed.
    pub(crate) async fn accept(&self) -> Option<Incoming> {
        loop {
            let incoming = self.endpoint.accept().await?;
            let place = match incoming.remote_address_validated() {
                true => None,
                false => match self.unvalidated.clone().try_acquire_owned() {
                    Ok(place) => Some(place),
                    Err(_) => {
                        // Fails for a token that was already used; the connection is then dropped.
                        let _ = incoming.retry();
                        continue;
                    }
                },
            };
            return Some(Incoming { from: incoming.remote_address(), incoming, _place: place });
        }
    }
}

fn bound(address: SocketAddr, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

impl Incoming {
    /// Does the handshake, up to the client's first stream.
    pub(crate) async fn shake(self, keys: &Keys) -> Result<Channel, HandshakeError> {
        let connection = self.incoming.await.map_err(io::Error::from)?;
        let stream = connection.accept_bi().await.map_err(io::Error::from)?;
        channel(Quic::new(connection, stream), keys)
    }
}
