//! Both ends of a QUIC connection. Compiled twice: `library` is quinn in `single`, noq in `multi`.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use tributary_types::printable;

use super::super::super::stream::{RecvHalf, SendHalf};
use super::super::super::{
    Accepted, ConnectionClosed, TransportConfig, TransportError, TransportStats, TransportStream, system,
};
use super::super::incoming::{HandshakePlaces, Place, Refusals};
use super::super::{
    CLIENT_PROOF, CODE_FULL, CODE_UNKNOWN_CLIENT, CODE_WRONG_KEY, EXPORTER, EXPORTER_KEY, Handshake, Proof,
    SERVER_PROOF, client_tls, keys, routes, server_socket, server_tls,
};
use super::library::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use super::library::{self, ConnectionError};
use crate::clients::Changed;
use crate::config::{Limits, PathConfig};
use crate::hello::{Form, HelloError, Peer, Refusal};
use crate::identity::PublicKey;
use crate::key::Key;
use crate::keys::Keys;
use crate::places::{Held, Shares, Source};

/// A connection. At a server it also holds one of the places for connections.
#[derive(Clone, Debug)]
pub(in super::super::super) struct Connection {
    pub(super) connection: library::Connection,
    handshake: Handshake,
    /// Client: its sockets, which must live as long as the connection.
    endpoint: Option<library::Endpoint>,
    /// One task for each stream that is finished but not yet acknowledged.
    finishing: TaskTracker,
    _slot: Option<Arc<Held>>,
}

fn failed(error: impl std::fmt::Display) -> TransportError {
    // The peer's reason for its close may be part of it.
    TransportError::Quic(printable(&error.to_string()))
}

fn ended(error: ConnectionError) -> TransportError {
    match &error {
        ConnectionError::ApplicationClosed(close) if close.error_code == CODE_WRONG_KEY.into() => {
            TransportError::WrongKey
        }
        ConnectionError::ApplicationClosed(close) if close.error_code == CODE_UNKNOWN_CLIENT.into() => {
            Refusal::UnknownClient.into()
        }
        _ => failed(error),
    }
}

/// Why an open connection has ended.
fn closed(error: ConnectionError) -> ConnectionClosed {
    match error {
        ConnectionError::ApplicationClosed(close) if close.error_code == CODE_WRONG_KEY.into() => {
            ConnectionClosed::WrongKey
        }
        ConnectionError::ApplicationClosed(close) if close.error_code == CODE_UNKNOWN_CLIENT.into() => {
            ConnectionClosed::Revoked(Refusal::UnknownClient)
        }
        ConnectionError::ApplicationClosed(close) => ConnectionClosed::Closed {
            code: close.error_code.into_inner(),
            reason: printable(&String::from_utf8_lossy(&close.reason)),
            by_peer: true,
        },
        ConnectionError::LocallyClosed => ConnectionClosed::here(),
        ConnectionError::TimedOut => ConnectionClosed::TimedOut,
        error => ConnectionClosed::Failed(printable(&error.to_string())),
    }
}

/// Whether an error code is a TLS alert (RFC 9001 §4.8).
fn is_of_tls(code: u64) -> bool {
    (0x100..0x200).contains(&code)
}

/// The alert no_application_protocol (RFC 7301 §3.2): the ends have other forms of keys.
const NO_PROTOCOL: u64 = 0x178;

/// Client: why the handshake failed.
fn unshaken(error: ConnectionError, keys: Option<&Keys>) -> TransportError {
    match (error, keys) {
        (ConnectionError::ConnectionClosed(close), Some(keys))
            if u64::from(close.error_code) == NO_PROTOCOL =>
        {
            let form = if keys.shared().is_some() { Form::Own } else { Form::Shared };
            HelloError::OtherForm { peer: Peer::Server, form }.into()
        }
        // TLS refused the key that the server showed, or the certificate, because the proof of the shared key is wrong.
        (ConnectionError::TransportError(error), Some(keys)) if is_of_tls(error.code.into()) => match keys {
            Keys::Client { server, .. } => TransportError::WrongServer(*server),
            _ => TransportError::WrongKey,
        },
        (error, _) => ended(error),
    }
}

pub(in super::super::super) async fn connect(
    config: &TransportConfig,
    paths: &[PathConfig],
) -> Result<Connection, TransportError> {
    let (tls, server_name) = client_tls(config)?;
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| TransportError::Tls(error.to_string()))?;
    let mut client = library::ClientConfig::new(Arc::new(crypto));
    client.transport_config(Arc::new(super::settings(config.congestion.as_deref())?));
    let within = config.timeout;
    let late = |_| TransportError::Timeout(within);
    let routes = tokio::time::timeout(within, routes(paths)).await.map_err(late)??;
    let endpoint = super::client_endpoint(&routes)?;
    let connecting = endpoint.connect_with(client, routes[0].server, &server_name).map_err(failed)?;
    let shaking = async {
        let keys = keys(config);
        let early = config.early && keys.is_none();
        let begun = super::begun(connecting, early).await;
        let (connection, handshake) = begun.map_err(|error| unshaken(error, keys.as_ref()))?;
        if let Some(keys) = keys {
            prove(&connection, &keys).await?;
        }
        Ok::<_, TransportError>((connection, handshake))
    };
    let (connection, handshake) = tokio::time::timeout(within, shaking).await.map_err(late)??;
    super::open_paths(&connection, &routes);
    let finishing = TaskTracker::new();
    Ok(Connection { connection, handshake, endpoint: Some(endpoint), finishing, _slot: None })
}

fn proof(connection: &library::Connection, keys: &Keys) -> Result<Proof, TransportError> {
    let export = |label| {
        let mut bytes = [0; 32];
        let exported = connection.export_keying_material(&mut bytes, label, &[]);
        exported.map_err(|_| TransportError::Tls("no keying material can be exported".to_owned()))?;
        Ok::<_, TransportError>(bytes)
    };
    let binding = export(EXPORTER)?;
    match keys.shared() {
        Some(key) => Ok(Proof::new(key, &binding)),
        None => Ok(Proof::new(&Key::from_bytes(export(EXPORTER_KEY)?), &binding)),
    }
}

/// Server: the key that the client showed in the handshake, as a raw public key.
fn client_key(connection: &library::Connection) -> Option<PublicKey> {
    let shown = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    PublicKey::from_spki(shown.first()?)
}

/// Client: proves that it has the key, and checks the server's proof.
async fn prove(connection: &library::Connection, keys: &Keys) -> Result<(), TransportError> {
    let proof = proof(connection, keys)?;
    let exchange = async {
        let (mut send, mut recv) = connection.open_bi().await.ok()?;
        send.write_all(&proof.client()).await.ok()?;
        send.shutdown().await.ok()?;
        recv.read_to_end(SERVER_PROOF).await.ok()
    };
    match exchange.await {
        Some(answer) if proof.is_server(&answer) => Ok(()),
        Some(_) => {
            connection.close(CODE_WRONG_KEY.into(), b"the server does not know the key");
            Err(TransportError::WrongKey)
        }
        None => Err(connection.close_reason().map_or(TransportError::WrongKey, ended)),
    }
}

/// Server: checks the client's proof and sends its own.
async fn check(connection: &library::Connection, keys: &Keys) -> Result<Option<PublicKey>, TransportError> {
    let client = keys.clients().and_then(|_| client_key(connection));
    if let Some(clients) = keys.clients()
        && client.is_none_or(|client| clients.find(&client).is_none())
    {
        connection.close(CODE_UNKNOWN_CLIENT.into(), Refusal::UnknownClient.to_string().as_bytes());
        return Err(Refusal::UnknownClient.into());
    }
    let proof = proof(connection, keys)?;
    let (mut send, mut recv) = connection.accept_bi().await.map_err(ended)?;
    let claimed = recv.read_to_end(CLIENT_PROOF).await.map_err(failed)?;
    if !proof.is_client(&claimed) {
        connection.close(CODE_WRONG_KEY.into(), b"the client does not know the key");
        return Err(TransportError::WrongKey);
    }
    send.write_all(&proof.server()).await.map_err(failed)?;
    send.shutdown().await.map_err(failed)?;
    Ok(client)
}

impl Connection {
    pub(in super::super::super) async fn open_stream(
        &self,
        priority: u8,
    ) -> Result<TransportStream, TransportError> {
        let (send, recv) = self.connection.open_bi().await.map_err(closed)?;
        let stream = self.stream(send, recv);
        stream.send.set_priority(priority);
        Ok(stream)
    }

    pub(in super::super::super) async fn accept_stream(&self) -> Result<TransportStream, ConnectionClosed> {
        let (send, recv) = self.connection.accept_bi().await.map_err(closed)?;
        Ok(self.stream(send, recv))
    }

    fn stream(&self, send: library::SendStream, recv: library::RecvStream) -> TransportStream {
        let send = SendHalf::tracked(super::send(send), self.finishing.clone());
        TransportStream { recv: RecvHalf::new(super::recv(recv)), send }
    }

    pub(in super::super::super) fn stats(&self) -> TransportStats {
        let local = self.endpoint.as_ref().and_then(|endpoint| endpoint.local_addr().ok());
        let paths = super::path_stats(&self.connection, local.map(|local| local.ip()));
        TransportStats { paths, ..TransportStats::default() }
    }

    pub(in super::super::super) fn client(&self) -> Option<PublicKey> {
        // Only a server's connection has no endpoint of its own.
        self.endpoint.is_none().then(|| client_key(&self.connection)).flatten()
    }

    pub(in super::super::super) fn handshake(&self) -> &Handshake {
        &self.handshake
    }

    pub(in super::super::super) fn close_reason(&self) -> Option<ConnectionClosed> {
        self.connection.close_reason().map(closed)
    }

    pub(in super::super::super) async fn closed(&self) -> ConnectionClosed {
        closed(self.connection.closed().await)
    }

    /// Waits until the peer has acknowledged every finished stream, closes the connection, and waits until the
    /// closing packets have been sent.
    pub(in super::super::super) async fn close(&self) {
        self.finishing.close();
        self.finishing.wait().await;
        self.connection.close(0u32.into(), b"done");
        if let Some(endpoint) = &self.endpoint {
            endpoint.wait_idle().await;
        }
    }
}

type Fresh = mpsc::Sender<(super::super::super::Connection, SocketAddr)>;

/// State shared by all addresses of a listener.
#[derive(Clone)]
struct Server {
    keys: Option<Keys>,
    early: bool,
    limits: Limits,
    /// Connections that are served.
    places: Shares,
    handshakes: Arc<HandshakePlaces>,
    refusals: Arc<Refusals>,
    tell: Fresh,
}

pub(in super::super::super) fn listen(
    config: &TransportConfig,
    addresses: &[SocketAddr],
) -> Result<(Accepted, Vec<SocketAddr>), TransportError> {
    let crypto = QuicServerConfig::try_from(server_tls(config)?);
    let crypto = crypto.map_err(|error| TransportError::Tls(error.to_string()))?;
    let mut settings = library::ServerConfig::with_crypto(Arc::new(crypto));
    settings.transport_config(Arc::new(super::settings(config.congestion.as_deref())?));
    let (tell, fresh) = mpsc::channel(config.limits.sessions.max(1));
    let server = Server {
        keys: keys(config),
        early: config.early,
        limits: config.limits,
        places: Shares::new(config.limits.sessions),
        handshakes: Arc::new(HandshakePlaces::new(&config.limits)),
        refusals: Arc::default(),
        tell,
    };
    let (mut tasks, mut listening) = (JoinSet::new(), Vec::new());
    for &address in addresses {
        let socket = server_socket(config, address)?;
        listening.push(socket.local_addr().map_err(system("asking for a listener's address"))?);
        let endpoint = super::endpoint(Some(settings.clone()), socket)?;
        tasks.spawn(accept_loop(endpoint, server.clone()));
    }
    Ok((Accepted { fresh, _tasks: tasks }, listening))
}

async fn accept_loop(endpoint: library::Endpoint, server: Server) {
    let mut shaking: JoinSet<()> = JoinSet::new();
    while let Some(incoming) = endpoint.accept().await {
        let from = incoming.remote_address();
        while shaking.try_join_next().is_some() {}
        let validated = incoming.remote_address_validated();
        // Under load a client must prove its address before the server keeps any state for it (RFC 9000 §8.1).
        if !validated && !server.handshakes.has_place_for_unvalidated() {
            // Fails for a connection whose token was already used; the connection is then dropped.
            let _ = incoming.retry();
            continue;
        }
        let place = server.handshakes.enter(validated.then(|| Source::of(from)));
        let server = server.clone();
        shaking.spawn(async move { shake(incoming, from, &server, place).await });
    }
}

/// Completes a connection's handshake. With early data the connection is returned before the handshake is over.
async fn shake(incoming: library::Incoming, from: SocketAddr, server: &Server, place: Place) {
    let until = tokio::time::Instant::now() + server.limits.handshake;
    let begun = tokio::select! {
        begun = tokio::time::timeout_at(until, begin(incoming, server)) => begun,
        () = place.displaced() => return server.refusals.displaced(from),
    };
    let (connection, mut handshake, client) = match begun {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => return server.refusals.failed(from, &error),
        Err(_) => return server.refusals.late(from, server.limits.handshake),
    };
    let entry = client.zip(server.keys.as_ref().and_then(Keys::clients));
    let quota = entry.and_then(|(client, clients)| clients.find(&client)?.sessions);
    let source = [Source::of_client(client, from)];
    let slot = match server.places.enter_within(&source, quota.unwrap_or(usize::MAX)) {
        Ok(slot) => slot,
        Err(full) => {
            connection.close(CODE_FULL.into(), full.to_string().as_bytes());
            return server.refusals.full(from, full);
        }
    };
    let accepted = Connection {
        connection: connection.clone(),
        handshake: handshake.clone(),
        endpoint: None,
        finishing: TaskTracker::new(),
        _slot: Some(Arc::new(slot)),
    };
    if let Some((client, clients)) = entry {
        tokio::spawn(end_when_revoked(connection.clone(), client, clients.changes()));
    }
    // If the acceptor has been dropped, the connection ends.
    let _ = server.tell.send((super::seam(accepted), from)).await;
    if tokio::time::timeout_at(until, handshake.over()).await.is_err() {
        server.refusals.late(from, server.limits.handshake);
        connection.close(0u32.into(), b"the handshake takes too long");
    }
}

async fn begin(
    incoming: library::Incoming,
    server: &Server,
) -> Result<(library::Connection, Handshake, Option<PublicKey>), TransportError> {
    let mut connecting = incoming.accept().map_err(ended)?;
    let early = server.early && server.keys.is_none();
    let early = early && knows_the_peer(&mut connecting).await?;
    let (connection, handshake) = super::begun(connecting, early).await.map_err(ended)?;
    let client = match &server.keys {
        Some(keys) => check(&connection, keys).await?,
        None => None,
    };
    Ok((connection, handshake, client))
}

/// Server: closes the connection when its client is no longer in the list.
async fn end_when_revoked(connection: library::Connection, client: PublicKey, mut changes: Changed) {
    tokio::select! {
        () = changes.revoked(&client) => {
            connection.close(CODE_UNKNOWN_CLIENT.into(), b"the server's operator has revoked this client's key");
        }
        _ = connection.closed() => {}
    }
}

/// Server: waits until the client's first TLS message has arrived, and returns whether its transport parameters are known.
///
/// Both libraries return an early connection before that. A stream that is opened on it then waits for ever, because
/// the parameters allow streams without waking the waiting tasks. A message with a post-quantum key share takes two
/// datagrams, so the second may be late. The transport parameters are processed together with the application
/// protocol (ALPN), so a known protocol means known parameters. Neither is known when the server requests another key
/// share (RFC 8446 §4.1.4).
async fn knows_the_peer(connecting: &mut library::Connecting) -> Result<bool, TransportError> {
    let data = connecting.handshake_data().await.map_err(ended)?;
    Ok(data.downcast::<HandshakeData>().is_ok_and(|data| data.protocol.is_some()))
}
