//! TLS 1.3 of a subflow: rustls shakes hands, [`record`] protects what follows.
//!
//! The server's certificate is self-signed and made afresh by every process; the client accepts any.
//! Who the peer is, is decided by the pre-shared key: both ends prove to know it in messages bound to
//! this very TLS connection by its exporter (RFC 8446 §7.5, RFC 9266), so that nobody in the middle can
//! relay them. Source: RFC 8446.

pub(crate) mod record;

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, Connection, DigitallySignedStruct, ServerConfig, SignatureScheme};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::hello::{Binding, Mode};
use record::{Opener, Sealer};

const EXPORTER_HELLO: &[u8] = b"EXPORTER-tributary-hello";
const EXPORTER_EPOCHS: &[u8] = b"EXPORTER-tributary-epochs";
/// Most bytes of a TLS record besides its head (RFC 8446 §5.2).
const MAX_RECORD: usize = 16384 + 256;

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
}

/// A shaken connection: keys of both directions and what identifies it.
pub(crate) struct Secured {
    pub sealer: Sealer,
    pub opener: Opener,
    pub binding: Binding,
}

/// AES-128-GCM first: the fastest where the processor has AES; ChaCha20 serves the others.
fn suites() -> CryptoProvider {
    use provider::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    let cipher_suites =
        vec![TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256];
    CryptoProvider { cipher_suites, ..provider::default_provider() }
}

/// The client's TLS settings.
pub(crate) fn client_config() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(suites());
    let verifier = Arc::new(AnyCertificate(provider.clone()));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.enable_sni = false;
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// The server's TLS settings, with a certificate of its own making.
pub(crate) fn server_config() -> Result<Arc<ServerConfig>, rustls::Error> {
    let general = |error: rcgen::Error| rustls::Error::General(error.to_string());
    let made = rcgen::generate_simple_self_signed(vec!["tributary".to_owned()]).map_err(general)?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(Arc::new(suites()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    // No ticket may follow the handshake: the record layer that takes over knows application data only.
    config.send_tls13_tickets = 0;
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// Shakes hands as the client.
pub(crate) async fn connect(stream: &mut TcpStream, config: Arc<ClientConfig>) -> Result<Secured, TlsError> {
    let name = ServerName::try_from("tributary").map_err(|_| TlsError::NotTls)?;
    let connection = rustls::ClientConnection::new(config, name)?;
    shake(stream, Connection::Client(connection), true).await
}

/// Shakes hands as the server.
pub(crate) async fn accept(stream: &mut TcpStream, config: Arc<ServerConfig>) -> Result<Secured, TlsError> {
    let connection = rustls::ServerConnection::new(config)?;
    shake(stream, Connection::Server(connection), false).await
}

/// One record is fed at a time, so that rustls never holds bytes that belong to what follows.
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
        let mut head = [0; 5];
        stream.read_exact(&mut head).await?;
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        // 20 to 23 are the record types of TLS.
        if !(20..=23).contains(&head[0]) || length > MAX_RECORD {
            return Err(TlsError::NotTls);
        }
        bytes.clear();
        bytes.extend_from_slice(&head);
        bytes.resize(5 + length, 0);
        stream.read_exact(&mut bytes[5..]).await?;
        let mut unread = bytes.as_slice();
        while !unread.is_empty() {
            tls.read_tls(&mut unread)?;
            if let Err(error) = tls.process_new_packets() {
                let mut alert = Vec::new();
                let _ = tls.write_tls(&mut alert);
                let _ = stream.try_write(&alert);
                return Err(error.into());
            }
        }
    }
    let mut binding = [0; 32];
    let mut epochs = [0; 64];
    match &tls {
        Connection::Client(c) => {
            c.export_keying_material(&mut binding, EXPORTER_HELLO, None)?;
            c.export_keying_material(&mut epochs, EXPORTER_EPOCHS, None)?;
        }
        Connection::Server(c) => {
            c.export_keying_material(&mut binding, EXPORTER_HELLO, None)?;
            c.export_keying_material(&mut epochs, EXPORTER_EPOCHS, None)?;
        }
    }
    let secrets = tls.dangerous_extract_secrets()?;
    let (up, down) = epochs.split_at(32);
    let (ours, theirs) = if client { (up, down) } else { (down, up) };
    let binding = Binding { mode: Mode::Tls, bytes: binding };
    Ok(Secured { sealer: Sealer::new(secrets.tx, ours)?, opener: Opener::new(secrets.rx, theirs)?, binding })
}

/// Accepts any certificate whose owner signs the handshake with it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
