//! TLS with raw public keys at both ends (RFC 7250): the client accepts one server, the server learns the client's key.
//!
//! The server completes the handshake with every client that owns the key that it shows, and decides afterwards: so it can
//! give a client that it does not know the reason. QUIC uses the same settings. Not here: which clients are admitted.

use std::sync::Arc;

use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, OtherError, ServerConfig,
    SignatureScheme,
};

use crate::hello::HelloError;
use crate::identity::{PrivateKey, PublicKey};

/// The client's settings: this key of its own, and this server only.
pub(super) fn client(
    provider: Arc<CryptoProvider>,
    own: &PrivateKey,
    server: PublicKey,
) -> Result<ClientConfig, rustls::Error> {
    let verifier = RawKey { provider: provider.clone(), server: Some(server) };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified(own)))))
}

/// The server's settings: this key of its own, and every client that owns a key.
pub(super) fn server(provider: Arc<CryptoProvider>, own: &PrivateKey) -> Result<ServerConfig, rustls::Error> {
    let verifier = RawKey { provider: provider.clone(), server: None };
    Ok(ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(own)))))
}

fn certified(own: &PrivateKey) -> Arc<CertifiedKey> {
    Arc::new(CertifiedKey::new(vec![own.public().spki().into()], Arc::new(own.clone())))
}

/// Accepts raw public keys whose owner signs the handshake: the server's only if it is this one.
#[derive(Debug)]
struct RawKey {
    provider: Arc<CryptoProvider>,
    server: Option<PublicKey>,
}

impl RawKey {
    fn verify(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key.as_ref().into(), signature, algorithms)
    }
}

fn no_tls_1_2() -> rustls::Error {
    rustls::Error::General("TLS 1.2 is not supported".to_owned())
}

fn read(key: &CertificateDer<'_>) -> Result<PublicKey, rustls::Error> {
    PublicKey::from_spki(key).ok_or_else(|| CertificateError::BadEncoding.into())
}

/// The methods that both verifiers have.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _key: &CertificateDer<'_>,
            _signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(no_tls_1_2())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            self.verify(message, key, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for RawKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _beside: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let shown = read(key)?;
        match self.server {
            Some(expected) if expected != shown => {
                let error = HelloError::WrongServer { expected, shown };
                Err(CertificateError::Other(OtherError(Arc::new(error))).into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    signatures!();
}

impl ClientCertVerifier for RawKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _beside: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        read(key).map(|_| ClientCertVerified::assertion())
    }

    signatures!();
}
