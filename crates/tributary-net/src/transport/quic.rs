//! QUIC on one path (quinn) and on several (noq): authentication, and settings that both share.
//!
//! Ends with keys of their own use them as raw public keys, as in sessions, and a secret of the connection takes the place of
//! the shared key. With a shared key the certificate is self-signed and comes with a proof of the key, as in sessions. Both
//! ends then prove on the connection's first stream that they know the key, with MACs over the connection's TLS
//! exporter (RFC 8446 §7.5), so that an attacker in the middle cannot relay them. The server's proof follows the
//! client's, and nothing else is sent before it. With certificates TLS alone authenticates, and there is no such
//! stream. The two libraries have the same interface; `end.rs` is compiled with each of them.

mod incoming;
pub(super) mod multi;
pub(super) mod single;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::watch;

use super::{TransportConfig, TransportError, bound_to, system};
use crate::config::{Local, PathConfig, QUIC_CONTROLLERS};
use crate::hello::derive;
use crate::key::Key;
use crate::keys::Keys;
use crate::quic::enlarge;
use crate::tls;

/// Label of the exporter that proofs are bound to.
const EXPORTER: &[u8] = b"EXPORTER-tributary-quic-proof";
/// First bytes of a client's proof: protocol and version.
const MAGIC: [u8; 5] = *b"TRIQ\x01";
/// Size of the client's proof.
const CLIENT_PROOF: usize = MAGIC.len() + 32;
/// Bytes of the server's proof.
const SERVER_PROOF: usize = 32;
/// Application error code of a connection that is refused because of its key.
const CODE_WRONG_KEY: u32 = 1;
/// Application error code of a connection that is refused because all places are taken.
const CODE_FULL: u32 = 2;
/// Application error code of a connection whose client is not in the server's list, or no longer.
const CODE_UNKNOWN_CLIENT: u32 = 3;
/// Application protocols (ALPN) of connections with a shared key, and with keys of each end. So ends of different forms have no
/// protocol in common, and say so.
const PROTOCOL_SHARED: &[u8] = b"tributary-1";
const PROTOCOL_OWN: &[u8] = b"tributary-own-1";
/// What takes the place of the shared key when both ends have a key of their own.
const EXPORTER_KEY: &[u8] = b"EXPORTER-tributary-quic-key";
/// Idle timeout of a connection, as for sessions.
const IDLE: Duration = Duration::from_secs(30);
/// Interval of keep-alives on an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Bytes that the peer may send before they are read, over all streams: the windows of 16 streams that nobody reads, and
/// of one that is read. Neither library sizes windows itself, so more stalled streams stop the others. A stalled stream
/// holds nothing of the send window, because only bytes with credit of their stream are accepted.
const WINDOW: u32 = 17 * single::STREAM_WINDOW;
const _: () = assert!(multi::STREAM_WINDOW <= single::STREAM_WINDOW);
/// Bytes written and not yet acknowledged over all streams.
const SEND_WINDOW: u64 = 10 << 20;
/// Streams the peer may have open at once, as in a session.
const STREAMS: u32 = 1024;

/// Progress of a handshake, for connections whose streams can be used before it is over (0-RTT, RFC 9001 §4.6).
#[derive(Clone, Debug)]
pub struct Handshake(watch::Receiver<Option<bool>>);

impl Handshake {
    fn pending() -> (watch::Sender<Option<bool>>, Self) {
        let (tell, seen) = watch::channel(None);
        (tell, Self(seen))
    }

    fn finished() -> Self {
        Self(watch::channel(Some(false)).1)
    }

    /// Whether the handshake is over. From then on, data from the peer is not a replay.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.outcome().is_some()
    }

    /// The result of the handshake; `None` until it is over. Client: whether the server accepted early data. If not,
    /// streams opened before are lost, and streams opened afterwards work.
    #[must_use]
    pub fn outcome(&self) -> Option<bool> {
        *self.0.borrow()
    }

    /// Waits for [`Self::outcome`]; `None` when the connection failed. Cancellation: safe, it only watches.
    pub async fn over(&mut self) -> Option<bool> {
        // When the connection fails, the sender is dropped.
        self.0.wait_for(Option::is_some).await.ok().and_then(|over| *over)
    }
}

/// Proofs that an end knows the key, for one connection.
struct Proof(hmac::Key);

impl Proof {
    fn new(key: &Key, binding: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &derive(binding, key.bytes(), &[b"tributary quic proof"])))
    }

    fn client(&self) -> [u8; CLIENT_PROOF] {
        let mut out = [0; CLIENT_PROOF];
        out[..MAGIC.len()].copy_from_slice(&MAGIC);
        out[MAGIC.len()..].copy_from_slice(hmac::sign(&self.0, b"client").as_ref());
        out
    }

    fn server(&self) -> [u8; SERVER_PROOF] {
        let mut out = [0; SERVER_PROOF];
        out.copy_from_slice(hmac::sign(&self.0, b"server").as_ref());
        out
    }

    /// Checks the client's proof, in constant time.
    fn is_client(&self, bytes: &[u8]) -> bool {
        bytes.strip_prefix(&MAGIC).is_some_and(|mac| hmac::verify(&self.0, b"client", mac).is_ok())
    }

    fn is_server(&self, bytes: &[u8]) -> bool {
        hmac::verify(&self.0, b"server", bytes).is_ok()
    }
}

/// The keys that authenticate the peer, if there are any; otherwise certificates do.
fn keys(config: &TransportConfig) -> Option<Keys> {
    config.certificates.is_none().then(|| config.common.as_ref().map(|common| common.keys.clone())).flatten()
}

fn protocol(keys: &Keys) -> Vec<u8> {
    if keys.shared().is_some() { PROTOCOL_SHARED } else { PROTOCOL_OWN }.to_vec()
}

fn client_tls(config: &TransportConfig) -> Result<(Arc<rustls::ClientConfig>, String), TransportError> {
    if let Some(certificates) = &config.certificates {
        let tls = certificates.client.clone();
        let tls = tls.ok_or_else(|| TransportError::Tls("no certificates to trust were given".to_owned()))?;
        return Ok((tls, certificates.server_name.clone()));
    }
    let common = config.common.as_ref().ok_or(TransportError::NoKey("quic"))?;
    let failed = |error: rustls::Error| TransportError::Tls(error.to_string());
    let mut tls = rustls::ClientConfig::clone(&*tls::client_config(&common.keys).map_err(failed)?);
    tls.alpn_protocols = vec![protocol(&common.keys)];
    Ok((Arc::new(tls), "tributary".to_owned()))
}

fn server_tls(config: &TransportConfig) -> Result<Arc<rustls::ServerConfig>, TransportError> {
    if let Some(certificates) = &config.certificates {
        let tls = certificates.server.clone();
        return tls.ok_or_else(|| TransportError::Tls("no certificate of the server was given".to_owned()));
    }
    let common = config.common.as_ref().ok_or(TransportError::NoKey("quic"))?;
    let failed = |error: rustls::Error| TransportError::Tls(error.to_string());
    let mut tls = tls::server_config(&common.keys).map_err(failed)?.unnamed().clone();
    tls.alpn_protocols = vec![protocol(&common.keys)];
    Ok(Arc::new(tls))
}

fn unknown_controller(name: &str) -> TransportError {
    super::UnknownName::new("congestion control of QUIC", name, QUIC_CONTROLLERS).into()
}

/// A UDP socket bound to this address.
fn bound(address: SocketAddr, device: Option<&str>) -> Result<UdpSocket, TransportError> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(system("socket"))?;
    if let Some(name) = device {
        let bound = socket.bind_device(Some(name.as_bytes()));
        bound.map_err(system(format!("binding to interface {name}")))?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(system("IPV6_V6ONLY"))?;
    }
    enlarge(&socket);
    socket.set_nonblocking(true).map_err(system("making a socket non-blocking"))?;
    socket.bind(&address.into()).map_err(bound_to(address))?;
    Ok(socket.into())
}

/// A server's socket at this address, a passed one if there is one.
fn server_socket(config: &TransportConfig, address: SocketAddr) -> Result<UdpSocket, TransportError> {
    match config.passed.take(config.port(address)).map_err(bound_to(address))? {
        Some(socket) => {
            enlarge(&socket);
            Ok(socket.into())
        }
        None => bound(address, None),
    }
}

/// A path, and the server address used on it.
#[derive(Clone, Debug)]
struct Route {
    path: PathConfig,
    server: SocketAddr,
}

impl Route {
    /// Resolves the server's name and takes the first address that the local end has a route to.
    async fn of(path: &PathConfig) -> Result<Self, TransportError> {
        let addresses = path.resolve().await.map_err(system(format!("finding the server of {path}")))?;
        let routes = addresses.into_iter().map(|server| Self { path: path.clone(), server });
        let mut error = None;
        for route in routes {
            match path_socket(&route) {
                Ok(_) => return Ok(route),
                Err(problem) => error = Some(problem),
            }
        }
        Err(error
            .unwrap_or_else(|| system(format!("finding the server of {path}"))(ErrorKind::NotFound.into())))
    }
}

/// The routes of these paths.
async fn routes(paths: &[PathConfig]) -> Result<Vec<Route>, TransportError> {
    let mut routes = Vec::new();
    for path in paths {
        routes.push(Route::of(path).await?);
    }
    Ok(routes)
}

/// The client's socket of a path. It is bound to the source address of its packets, so that the server can
/// distinguish the paths, and so that the routing table cannot change a path.
fn path_socket(Route { path, server }: &Route) -> Result<UdpSocket, TransportError> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let (address, device) = match &path.local {
        Local::Address(address) => (*address, None),
        Local::Interface(name) => (any, Some(name.as_str())),
        Local::Any | Local::Auto => (any, None),
    };
    if !address.is_unspecified() {
        return bound((address, 0).into(), None);
    }
    // Connecting a UDP socket sends nothing; it only looks up the source address in the routing table.
    let doing = || system(format!("asking for the route of {path}"));
    let probe = bound((any, 0).into(), device)?;
    probe.connect(server).map_err(doing())?;
    bound((probe.local_addr().map_err(doing())?.ip(), 0).into(), device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_invalid_for_another_key_connection_or_role() {
        let proof = Proof::new(&Key::from_bytes([1; 32]), &[2; 32]);
        assert!(proof.is_client(&proof.client()) && proof.is_server(&proof.server()));
        assert!(!proof.is_server(&proof.client()[MAGIC.len()..]));
        for other in
            [Proof::new(&Key::from_bytes([3; 32]), &[2; 32]), Proof::new(&Key::from_bytes([1; 32]), &[4; 32])]
        {
            assert!(!other.is_client(&proof.client()) && !other.is_server(&proof.server()));
        }
        for bit in 0..CLIENT_PROOF * 8 {
            let mut bad = proof.client();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!proof.is_client(&bad), "bit {bit}");
        }
        assert!(!proof.is_client(b"") && !proof.is_server(b""));
    }
}
