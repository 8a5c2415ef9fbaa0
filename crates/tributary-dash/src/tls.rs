//! The server's identity and the client's trust: TLS settings of HTTP/3, and of HTTP/1.1 and HTTP/2 over TLS.
//!
//! A server uses the certificate of a file, or a fresh one, which comes with a proof if the server has a key. A client trusts
//! the authorities of a file, a pinned certificate, the proof of a server's key, or, if requested, any server. Session tickets allow 0-RTT. The server keeps the secrets of its tickets and accepts
//! each ticket once, so early data cannot be replayed. Source: RFC 8446, RFC 9001.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ServerSessionMemoryCache;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};
use thiserror::Error;
use tributary_net::{KeyError, Keys, proof_verifier, proved_certificate, read_secret};

/// Application protocol (ALPN) of HTTP/3.
const HTTP_3: &[u8] = b"h3";
/// Maximum number of tickets that a server keeps; the oldest are dropped first.
const TICKETS: usize = 16 << 10;

/// Why TLS cannot be set up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A PEM file cannot be used.
    #[error("{}: {reason}; a PEM file with {wanted} is needed", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The required content.
        wanted: &'static str,
        /// Description of the error.
        reason: String,
    },
    /// The file with the private key cannot be read, or others may read it.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Certificate and key do not match, or cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A fresh certificate cannot be made.
    #[error("TLS: no certificate can be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A fingerprint is malformed.
    #[error("`{0}` is not a fingerprint: 64 hexadecimal digits, as the server prints them")]
    Fingerprint(String),
}

/// The certificate and private key of a server.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads the certificate chain and the private key from PEM files.
    ///
    /// # Errors
    /// [`TlsError::File`], [`TlsError::Key`].
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let text = read_secret(key)?;
        let read = PrivateKeyDer::from_pem_slice(text.as_bytes());
        let key = read.map_err(|error| unusable(key, "a private key", &error))?;
        Ok(Self { chain, key })
    }

    /// Makes a fresh self-signed certificate, with a proof of the server's key if keys are given.
    ///
    /// # Errors
    /// [`TlsError`] when no key pair can be made.
    pub fn fresh(keys: Option<&Keys>) -> Result<Self, TlsError> {
        if let Some(keys) = keys {
            let (chain, key) = proved_certificate(keys)?;
            return Ok(Self { chain, key });
        }
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
        Ok(Self { chain: vec![made.cert.der().clone()], key })
    }

    /// SHA-256 of the certificate in hexadecimal digits, for clients that pin it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let hash = digest(&SHA256, self.chain.first().map_or(&[], |certificate| certificate.as_ref()));
        hash.as_ref().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    fn settings(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Result<ServerConfig, TlsError> {
        let settings = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()));
        let settings = settings.with_protocol_versions(versions)?.with_no_client_auth();
        let mut settings = settings.with_single_cert(self.chain.clone(), self.key.clone_key())?;
        settings.session_storage = ServerSessionMemoryCache::new(TICKETS);
        Ok(settings)
    }

    /// Settings for HTTP/3, with 0-RTT.
    ///
    /// # Errors
    /// [`TlsError`] when certificate and key do not match.
    pub fn http_3(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let mut settings = self.settings(&[&rustls::version::TLS13])?;
        settings.alpn_protocols = vec![HTTP_3.to_vec()];
        // QUIC allows only this value and 0 (RFC 9001 §4.6.1).
        settings.max_early_data_size = u32::MAX;
        Ok(Arc::new(settings))
    }

    /// Settings for HTTP/2 and HTTP/1.1 over TCP, without early data.
    ///
    /// # Errors
    /// As [`Identity::http_3`].
    pub fn https(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let mut settings = self.settings(rustls::DEFAULT_VERSIONS)?;
        settings.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(settings))
    }
}

/// The servers that a client trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The authorities, or the server's certificate, in a PEM file.
    File(PathBuf),
    /// The server that these keys of a client belong to, by its proof.
    Keys(Keys),
    /// The server whose certificate has this SHA-256.
    Pin([u8; 32]),
    /// Any server: for tests on a private network.
    Anybody,
}

impl Trust {
    /// Parses the hexadecimal digits that the server prints; colons are skipped.
    ///
    /// # Errors
    /// [`TlsError::Fingerprint`].
    pub fn pin(text: &str) -> Result<Self, TlsError> {
        let malformed = || TlsError::Fingerprint(text.to_owned());
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let mut pin = [0; 32];
        if digits.len() != 64 {
            return Err(malformed());
        }
        for (byte, pair) in pin.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(malformed);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(Self::Pin(pin))
    }

    /// Settings for HTTP/3. Connections with the same settings share their tickets.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn http_3(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = Arc::new(provider::default_provider());
        let pinned = |pin| Arc::new(Pinned { pin, provider: provider.clone() });
        let verifier: Arc<dyn ServerCertVerifier> = match self {
            Self::Keys(keys) => proof_verifier(keys),
            Self::Pin(pin) => pinned(Some(*pin)),
            Self::Anybody => pinned(None),
            Self::File(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate)?;
                }
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
                verifier.map_err(|error| unusable(path, "certificates", &error))?
            }
        };
        let settings = ClientConfig::builder_with_provider(provider);
        let mut settings = settings
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        settings.alpn_protocols = vec![HTTP_3.to_vec()];
        settings.enable_early_data = true;
        Ok(Arc::new(settings))
    }
}

fn unusable(path: &Path, wanted: &'static str, reason: &dyn std::error::Error) -> TlsError {
    TlsError::File { path: path.to_owned(), wanted, reason: reason.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wanted = "certificates";
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| unusable(path, wanted, &error))?;
    if read.is_empty() {
        return Err(TlsError::File { path: path.to_owned(), wanted, reason: "it contains none".to_owned() });
    }
    Ok(read)
}

/// Accepts one certificate, or any, if its owner signed the handshake.
#[derive(Debug)]
struct Pinned {
    pin: Option<[u8; 32]>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _beside: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_it = |pin: [u8; 32]| digest(&SHA256, certificate).as_ref() == pin;
        if self.pin.is_none_or(is_it) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
