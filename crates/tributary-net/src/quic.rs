//! Subflows over QUIC: how their connections are dialled, accepted and authenticated.
//!
//! A connection is authenticated as TLS is on TCP, by the same keys. The hello is bound to it by its exporter (RFC 8446 §7.5). There is no
//! early data: a hello could be replayed. Source: `docs/wire-quic.md`. Not here: what a subflow does with its
//! connection ([`crate::pipe`]).

mod dial;
mod listen;

use std::io;
use std::sync::Arc;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use rustls::pki_types::CertificateDer;
use socket2::Socket;

use crate::config::Common;
use crate::handshake::{Channel, HandshakeError};
use crate::hello::{Binding, HelloError, Mode};
use crate::identity::PublicKey;
use crate::key::Key;
use crate::keys::Keys;
use crate::pipe::Pipe;
use crate::pipe::quic::Quic;
use crate::tls::{EXPORTER_HELLO, EXPORTER_KEY, version_name};
pub(crate) use dial::dial;
pub(crate) use listen::Endpoint;

/// Bytes of the kernel's buffers of a UDP socket.
const SOCKET_BUFFER: usize = 7 << 20;

/// The first stream of a connection whose handshake is over, as a channel for the hello.
fn channel(quic: Quic, keys: &Keys) -> Result<Channel, HandshakeError> {
    let export = |label| {
        let mut bytes = [0; 32];
        let exported = quic.connection().export_keying_material(&mut bytes, label, &[]);
        exported.map(|()| bytes).map_err(|_| io::Error::other("no keying material can be exported"))
    };
    let binding = Binding { mode: Mode::Tls, bytes: export(EXPORTER_HELLO)? };
    let (secret, peer) = match (keys.shared(), peer_key(quic.connection())) {
        (Some(key), _) => (key.clone(), None),
        (None, Some(peer)) => (Key::from_bytes(export(EXPORTER_KEY)?), Some(peer)),
        (None, None) => return Err(HelloError::WrongKey.into()),
    };
    Ok(Channel { stream: Pipe::from(quic), security: None, binding, secret, peer })
}

/// The key that the peer showed as a raw public key.
fn peer_key(connection: &quinn::Connection) -> Option<PublicKey> {
    let shown = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    PublicKey::from_spki(shown.first()?)
}

/// quinn's congestion control of this name; cubic without one. `None` if there is none of that name.
pub(crate) fn congestion(name: Option<&str>) -> Option<Arc<dyn ControllerFactory + Send + Sync>> {
    Some(match name {
        None | Some("cubic") => Arc::new(CubicConfig::default()),
        Some("bbr") => Arc::new(BbrConfig::default()),
        Some("reno") => Arc::new(NewRenoConfig::default()),
        Some(_) => return None,
    })
}

fn settings(common: &Common) -> quinn::TransportConfig {
    let congestion = congestion(common.congestion.as_deref());
    crate::pipe::quic::settings(congestion.expect("other names were refused when the settings were checked"))
}

/// Asks for buffers of a UDP socket that hold 20 ms at 3 Gbit/s. The kernel limits them to net.core.rmem_max and wmem_max.
pub(crate) fn enlarge(socket: &Socket) {
    let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
}

/// The application protocol (ALPN): the version of the wire format, and the form of the keys.
fn protocol(keys: &Keys) -> Vec<u8> {
    let form: &[u8] = if keys.shared().is_some() { b"" } else { b"/own" };
    [&version_name()[..], b"/quic", form].concat()
}
