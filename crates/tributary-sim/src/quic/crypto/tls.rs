//! Repeatable TLS 1.3 with rustls: certificate and key are fixed, the endpoint provides the randomness,
//! certificates' dates are not checked.
//!
//! Deviates: the key exchange has X25519's name and sizes, but its "secret" is the sum of both public values,
//! because aws-lc-rs draws ephemeral keys from the operating system only. The simulated packets are therefore not
//! secret.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
    aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, NamedGroup, ServerConfig};
use rustls::{PeerMisbehaved, SignatureScheme};

use super::super::random;

/// The name on the certificate.
pub(in super::super) const SERVER_NAME: &str = "simulated.invalid";

/// Self-signed, Ed25519, 350 bytes, made by `openssl req -x509` from [`KEY`].
const CERTIFICATE: &[u8] = include_bytes!("certificate.der");

/// PKCS #8 around the 32 bytes "tributary simulator, not secret!".
const KEY: [u8; 48] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20\
tributary simulator, not secret!";

/// Application protocol of the simulator's connections (RFC 7301).
const PROTOCOL: &[u8] = b"tributary-sim";

/// A client's configuration.
pub(in super::super) fn client() -> ClientConfig {
    let provider = Arc::new(provider());
    let verifier = Pinned { provider: Arc::clone(&provider) };
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(NoClock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has a TLS 1.3 suite and group")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config
}

/// A server's configuration.
pub(in super::super) fn server() -> ServerConfig {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(KEY.to_vec()));
    let mut config = ServerConfig::builder_with_details(Arc::new(provider()), Arc::new(NoClock))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has a TLS 1.3 suite and group")
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key)
        .expect("the certificate belongs to the key");
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.max_early_data_size = u32::MAX; // QUIC allows no other than this and zero (RFC 9001 §4.6.1)
    config
}

fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![&OpenExchange],
        secure_random: &Lent,
        ..aws_lc_rs::default_provider()
    }
}

/// Draws from the endpoint's generator.
#[derive(Debug)]
struct Lent;

impl SecureRandom for Lent {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        if random::fill_lent(bytes) { Ok(()) } else { Err(GetRandomFailed) }
    }
}

/// Virtual time has no date.
#[derive(Debug)]
struct NoClock;

impl TimeProvider for NoClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(core::time::Duration::ZERO))
    }
}

/// X25519 in name and sizes only; not secret.
#[derive(Debug)]
struct OpenExchange;

impl SupportedKxGroup for OpenExchange {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut public = [0; 32];
        if !random::fill_lent(&mut public) {
            return Err(Error::FailedToGetRandomBytes);
        }
        Ok(Box::new(Share { public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Share {
    public: [u8; 32],
}

impl ActiveKeyExchange for Share {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        if peer.len() != self.public.len() {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        let sum: Vec<u8> = self.public.iter().zip(peer).map(|(own, peer)| own.wrapping_add(*peer)).collect();
        Ok(SharedSecret::from(sum))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Accepts only the fixed certificate.
#[derive(Debug)]
struct Pinned {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if end_entity.as_ref() == CERTIFICATE {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}
