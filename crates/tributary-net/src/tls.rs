//! TLS 1.3 of a subflow: rustls does the handshake, [`record`] protects the data that follows.
//!
//! Ends with key pairs of their own use them as raw public keys ([`raw`]): then TLS authenticates both ends, and an exporter
//! takes the place of the shared key in what follows.
//!
//! With a shared key, every process creates a self-signed certificate at its start. The server sends a MAC of the certificate under the
//! pre-shared key with it, and the client accepts no other certificate. So the client has authenticated the server
//! before it sends anything but a ticket. Then both ends prove the key again, in messages bound to this TLS
//! connection by its exporter (RFC 8446 §7.5, RFC 9266), so that an attacker in the middle cannot relay them. The
//! ticket is sent as the name of an application protocol (ALPN, RFC 7301) in the ClientHello. Source: RFC 8446.

mod raw;
pub(crate) mod record;

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, Connection, DigitallySignedStruct, ServerConfig, SignatureScheme,
};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::hello::{self, Binding, Form, HelloError, Mode, Peer};
use crate::identity::PublicKey;
use crate::key::Key;
use crate::keys::Keys;
#[cfg(test)]
use crate::ticket::TICKET_LENGTH;
use crate::ticket::{self, SEALED_LENGTH};
use record::{Opener, Sealer};

pub(crate) const EXPORTER_HELLO: &[u8] = b"EXPORTER-tributary-hello";
/// What takes the place of the shared key when both ends have a key of their own.
pub(crate) const EXPORTER_KEY: &[u8] = b"EXPORTER-tributary-key";
const VERSION_PREFIX: &[u8] = b"tributary/";
const EXPORTER_EPOCHS: &[u8] = b"EXPORTER-tributary-epochs";
/// Maximum size of a TLS record without its header (RFC 8446 §5.2).
const MAX_RECORD: usize = 16384 + 256;
/// Maximum size of a ClientHello; small, because it is read from unauthenticated clients.
const MAX_CLIENT_HELLO: usize = 2048;

/// Why a TLS handshake failed.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The connection broke.
    #[error("TLS handshake: {0}")]
    Io(#[from] io::Error),
    /// The protocol was violated, or the peer does not speak TLS 1.3.
    #[error("TLS handshake: {0}; does one side run in plaintext mode?")]
    Tls(#[from] rustls::Error),
    /// A record longer than the protocol allows.
    #[error("TLS handshake: the peer does not speak TLS (does it run in plaintext mode?)")]
    NotTls,
    /// The peer did not prove that it has the key.
    #[error(transparent)]
    Unauthenticated(#[from] HelloError),
}

/// The version of the wire format as the name of an application protocol. A client offers it behind its ticket, and the
/// server selects it if it is its own.
pub(crate) fn version_name() -> Vec<u8> {
    [VERSION_PREFIX, hello::VERSION.to_string().as_bytes()].concat()
}

/// The version in such a name.
fn named_version(name: &[u8]) -> Option<u8> {
    std::str::from_utf8(name.strip_prefix(VERSION_PREFIX)?).ok()?.parse().ok()
}

/// A connection after its handshake: the keys of both directions, and the values that identify the connection.
pub(crate) struct Secured {
    /// The peer has named its version, which is ours. Otherwise it is older than these names.
    pub names_version: bool,
    pub sealer: Sealer,
    pub opener: Opener,
    pub binding: Binding,
    /// The peer's own key and the connection's secret, if the ends do not have a shared key.
    pub own: Option<(PublicKey, Key)>,
}

/// AES-128-GCM first, the fastest cipher on processors with AES instructions; ChaCha20 for the others.
fn suites() -> CryptoProvider {
    use provider::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    let cipher_suites =
        vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    CryptoProvider { cipher_suites, ..provider::default_provider() }
}

/// A new self-signed certificate with the proof that its owner has the server's key, and its private key.
///
/// # Errors
/// The errors of rustls, when no key pair can be made.
pub fn proved_certificate(
    keys: &Keys,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rustls::Error> {
    let general = |error: rcgen::Error| rustls::Error::General(error.to_string());
    let made = rcgen::generate_simple_self_signed(vec!["tributary".to_owned()]).map_err(general)?;
    let proof = match keys {
        Keys::Shared(key) => ticket::certificate_proof(key, made.cert.der()).to_vec(),
        Keys::Server { own, .. } => own.sign(&signed_certificate(made.cert.der())).to_vec(),
        Keys::Client { .. } => return Err(wrong_end("client", "server")),
    };
    let chain = vec![made.cert.der().clone(), CertificateDer::from(proof)];
    Ok((chain, PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into())))
}

/// What a server with a key of its own signs to prove that a certificate is its own.
fn signed_certificate(certificate: &[u8]) -> Vec<u8> {
    [&b"tributary certificate"[..], certificate].concat()
}

/// Accepts certificates of [`proved_certificate`] of the server that these keys belong to, for any name, and no others.
#[must_use]
pub fn proof_verifier(keys: &Keys) -> Arc<dyn ServerCertVerifier> {
    Arc::new(ProvedCertificate { provider: Arc::new(suites()), keys: keys.clone() })
}

/// The client's TLS settings: only a server with the expected key is accepted.
pub(crate) fn client_config(keys: &Keys) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(suites());
    let mut config = match keys {
        Keys::Client { own, server } => raw::client(provider, own, *server)?,
        Keys::Shared(_) => ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(proof_verifier(keys))
            .with_no_client_auth(),
        Keys::Server { .. } => return Err(wrong_end("server", "client")),
    };
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

fn wrong_end(of: &str, needed: &str) -> rustls::Error {
    rustls::Error::General(format!("these are the keys of a {of}, and a {needed}'s are needed"))
}

/// The server's TLS settings.
#[derive(Debug)]
pub(crate) struct Acceptor {
    form: Form,
    current: Arc<ServerConfig>,
    /// For clients that do not name their version: they do not expect the server to select a name.
    unnamed: Arc<ServerConfig>,
}

impl Acceptor {
    /// Settings without names of application protocols.
    pub(crate) fn unnamed(&self) -> &ServerConfig {
        &self.unnamed
    }
}

/// The server's TLS settings: its own key, or a new certificate with the proof that its owner has the shared key.
pub(crate) fn server_config(keys: &Keys) -> Result<Arc<Acceptor>, rustls::Error> {
    let provider = Arc::new(suites());
    let (form, mut unnamed) = match keys {
        Keys::Server { own, .. } => (Form::Own, raw::server(provider, own)?),
        Keys::Shared(_) => {
            let (chain, key) = proved_certificate(keys)?;
            let config = ServerConfig::builder_with_provider(provider)
                .with_protocol_versions(&[&rustls::version::TLS13])?
                .with_no_client_auth()
                .with_single_cert(chain, key)?;
            (Form::Shared, config)
        }
        Keys::Client { .. } => return Err(wrong_end("client", "server")),
    };
    // No session tickets after the handshake: the record layer used afterwards accepts only application data.
    unnamed.send_tls13_tickets = 0;
    unnamed.enable_secret_extraction = true;
    let mut current = unnamed.clone();
    current.alpn_protocols = vec![version_name()];
    Ok(Arc::new(Acceptor { form, current: Arc::new(current), unnamed: Arc::new(unnamed) }))
}

/// Does the handshake as the client, which sends its ticket first.
pub(crate) async fn connect(
    stream: &mut TcpStream,
    config: Arc<ClientConfig>,
    ticket: Vec<u8>,
) -> Result<Secured, TlsError> {
    connect_naming(stream, config, vec![ticket, version_name()]).await
}

/// Does the handshake as the client that offers these names.
async fn connect_naming(
    stream: &mut TcpStream,
    config: Arc<ClientConfig>,
    names: Vec<Vec<u8>>,
) -> Result<Secured, TlsError> {
    let name = ServerName::try_from("tributary").map_err(|_| TlsError::NotTls)?;
    let connection = rustls::ClientConnection::new_with_alpn(config, name, names)?;
    shake(stream, Connection::Client(connection), true).await
}

/// Does the handshake as the server. `admit` gets the ticket before anything is computed or stored. A client that names
/// another version is told the server's, without any protection: neither end draws any other conclusion from it.
pub(crate) async fn accept(
    stream: &mut TcpStream,
    config: &Acceptor,
    admit: impl FnOnce(&[u8]) -> Result<(), HelloError>,
) -> Result<Secured, TlsError> {
    let Offer { accepted, ticket, version } = read_offer(stream).await?;
    if let Some(Err(error)) = version.map(|version| Peer::Client.check(version)) {
        stream.write_all(&hello::START).await?;
        return Err(error.into());
    }
    let theirs = if ticket.len() == SEALED_LENGTH { Form::Own } else { Form::Shared };
    // A client of version 4 or older has a shared key, and does not understand the answer.
    if theirs != config.form && version.is_some() {
        stream.write_all(&config.form.start()).await?;
        return Err(HelloError::OtherForm { peer: Peer::Client, form: theirs }.into());
    }
    admit(&ticket)?;
    let config = if version.is_some() { &config.current } else { &config.unnamed };
    let connection = accepted.into_connection(config.clone()).map_err(|(error, _)| error)?;
    shake(stream, Connection::Server(connection), false).await
}

/// What a ClientHello says before anything is computed for it.
pub(crate) struct Offer {
    accepted: rustls::server::Accepted,
    pub ticket: Vec<u8>,
    /// The version that the client names.
    version: Option<u8>,
}

/// Reads a ClientHello, of a limited size because nothing is known of the client.
pub(crate) async fn read_offer(stream: &mut (impl AsyncRead + Unpin)) -> Result<Offer, TlsError> {
    let mut first = Vec::new();
    read_record(stream, &mut first, MAX_CLIENT_HELLO, Peer::Client).await?;
    let mut acceptor = rustls::server::Acceptor::default();
    acceptor.read_tls(&mut first.as_slice())?;
    let accepted = acceptor.accept().map_err(|(error, _)| error)?.ok_or(TlsError::NotTls)?;
    let (ticket, version) = {
        let hello = accepted.client_hello();
        let mut names = hello.alpn().into_iter().flatten();
        let ticket = names.next().ok_or(HelloError::Garbage)?.to_vec();
        (ticket, names.find_map(named_version))
    };
    Ok(Offer { accepted, ticket, version })
}

/// Reads one record, head included.
async fn read_record(
    stream: &mut (impl AsyncRead + Unpin),
    record: &mut Vec<u8>,
    most: usize,
    peer: Peer,
) -> Result<(), TlsError> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).await?;
    // A peer of another version names it instead of speaking TLS.
    match hello::check_start(&head, peer) {
        Err(HelloError::Garbage) => {}
        Ok(()) => return Err(other_form(stream, head, peer).await),
        Err(version) => return Err(version.into()),
    }
    let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
    // 20 to 23 are the record types of TLS.
    if !(20..=23).contains(&head[0]) || length > most {
        return Err(TlsError::NotTls);
    }
    record.clear();
    record.extend_from_slice(&head);
    record.resize(5 + length, 0);
    stream.read_exact(&mut record[5..]).await?;
    Ok(())
}

/// Why a peer of this version does not speak TLS: it may be a server that names the form of its keys.
async fn other_form(stream: &mut (impl AsyncRead + Unpin), head: [u8; 5], peer: Peer) -> TlsError {
    let mut start = hello::START;
    start[..head.len()].copy_from_slice(&head);
    if let Err(error) = stream.read_exact(&mut start[head.len()..]).await {
        return error.into();
    }
    match Form::named(&start) {
        Some(form) if peer == Peer::Server => HelloError::OtherForm { peer, form }.into(),
        _ => TlsError::NotTls,
    }
}

/// Does the handshake. rustls gets one record at a time, so it never buffers bytes that follow the handshake.
async fn shake(stream: &mut TcpStream, mut tls: Connection, client: bool) -> Result<Secured, TlsError> {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        while tls.wants_write() {
            tls.write_tls(&mut bytes)?;
        }
        stream.write_all(&bytes).await?;
        if !tls.is_handshaking() {
            break;
        }
        read_record(stream, &mut bytes, MAX_RECORD, if client { Peer::Server } else { Peer::Client }).await?;
        let mut unread = bytes.as_slice();
        while !unread.is_empty() {
            tls.read_tls(&mut unread)?;
            if let Err(error) = tls.process_new_packets() {
                let mut alert = Vec::new();
                let _ = tls.write_tls(&mut alert);
                let _ = stream.try_write(&alert);
                return Err(refused(error));
            }
        }
    }
    let binding = export(&tls, EXPORTER_HELLO)?;
    let epochs: [u8; 64] = export(&tls, EXPORTER_EPOCHS)?;
    // With a shared key the server has a certificate, and the client nothing.
    let peer = tls.peer_certificates().and_then(|shown| PublicKey::from_spki(shown.first()?));
    let own = match peer {
        Some(peer) => Some((peer, Key::from_bytes(export(&tls, EXPORTER_KEY)?))),
        None => None,
    };
    let names_version = tls.alpn_protocol().is_some();
    let secrets = tls.dangerous_extract_secrets()?;
    let (up, down) = epochs.split_at(32);
    let (ours, theirs) = if client { (up, down) } else { (down, up) };
    let binding = Binding { mode: Mode::Tls, bytes: binding };
    let (sealer, opener) = (Sealer::new(secrets.tx, ours)?, Opener::new(secrets.rx, theirs)?);
    Ok(Secured { names_version, sealer, opener, binding, own })
}

/// Keying material of the connection (RFC 8446 §7.5).
fn export<const N: usize>(tls: &Connection, label: &[u8]) -> Result<[u8; N], rustls::Error> {
    match tls {
        Connection::Client(c) => c.export_keying_material([0; N], label, None),
        Connection::Server(c) => c.export_keying_material([0; N], label, None),
    }
}

/// What the end of a handshake means: the peer's key is a wrong one, or another error of TLS.
fn refused(error: rustls::Error) -> TlsError {
    match &error {
        rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            HelloError::WrongKey.into()
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) => {
            other.0.downcast_ref::<HelloError>().map_or_else(|| error.clone().into(), |error| (*error).into())
        }
        _ => error.into(),
    }
}

/// Accepts a certificate that comes with its proof, if its owner signs the handshake.
#[derive(Debug)]
struct ProvedCertificate {
    provider: Arc<CryptoProvider>,
    keys: Keys,
}

impl ServerCertVerifier for ProvedCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        beside: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let [proof] = beside else { return Err(CertificateError::ApplicationVerificationFailure.into()) };
        let is_proved = match &self.keys {
            Keys::Shared(key) => ticket::verify_certificate(key, certificate, proof).is_ok(),
            Keys::Client { server, .. } => server.has_signed(&signed_certificate(certificate), proof),
            Keys::Server { .. } => false,
        };
        if !is_proved {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not supported".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
impl Acceptor {
    /// What a server of version 4 does: it selects no name.
    pub(crate) fn of_version_4(key: &Key) -> Self {
        let unnamed = server_config(&key.clone().into()).expect("TLS can be set up").unnamed.clone();
        Self { form: Form::Shared, current: unnamed.clone(), unnamed }
    }
}

/// What a client of another version does: it names that version, or none.
#[cfg(test)]
pub(crate) async fn connect_as(
    stream: &mut TcpStream,
    key: &Key,
    ticket: &[u8; TICKET_LENGTH],
    version: Option<u8>,
) -> Result<Secured, TlsError> {
    let version = version.map(|version| [VERSION_PREFIX, version.to_string().as_bytes()].concat());
    let names = core::iter::once(ticket.to_vec()).chain(version).collect();
    connect_naming(stream, client_config(&key.clone().into())?, names).await
}
