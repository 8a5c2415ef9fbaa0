//! Ends of one TLS-over-TCP connection made with tokio-rustls: the peer of sessions with TLS. It uses the same
//! library, provider (aws-lc-rs) and cipher suite, so only the code around them differs.

use super::{EndResult, EndRole, EndTask, Meter, Outcome, PIECE, kernel};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A provider with only the cipher that sessions prefer.
fn provider() -> CryptoProvider {
    let suite = aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    CryptoProvider { cipher_suites: vec![suite], ..aws_lc_rs::default_provider() }
}

pub(super) async fn run(task: &EndTask) -> Outcome<EndResult> {
    match &task.role {
        EndRole::Sink(addresses) => sink(task, addresses).await,
        EndRole::Source(paths) => source(task, paths).await,
    }
}

async fn sink(task: &EndTask, addresses: &[Ipv4Addr]) -> Outcome<EndResult> {
    let made = rcgen::generate_simple_self_signed(vec!["bench".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    let socket = kernel::listen(false, &task.congestion, addresses)?;
    socket.set_nonblocking(true)?;
    let stream = TcpListener::from_std(socket.into())?.accept().await?.0;
    tributary_net::sockopt::assert_congestion(stream.as_fd(), &task.congestion)?;
    let mut stream = TlsAcceptor::from(Arc::new(config)).accept(stream).await?;
    let mut buffer = vec![0; PIECE];
    let mut meter = Meter::new(task.until);
    while let n @ 1.. = stream.read(&mut buffer).await? {
        meter.add(n);
    }
    Ok(meter.finish(1))
}

async fn source(task: &EndTask, paths: &[(Ipv4Addr, SocketAddr)]) -> Outcome<EndResult> {
    let config = ClientConfig::builder_with_provider(provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let socket = kernel::connect(false, &task.congestion, paths)?;
    socket.set_nonblocking(true)?;
    let stream = TcpStream::from_std(socket.into())?;
    let name = ServerName::try_from("bench")?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let buffer = vec![1; PIECE];
    let mut meter = Meter::new(task.until);
    meter.begin();
    while !meter.is_over() {
        meter.add(stream.write(&buffer).await?);
    }
    stream.shutdown().await?;
    let result = meter.finish(1);
    // The server's session tickets must be read, because closing with unread input would reset the connection.
    let _ = stream.read_to_end(&mut Vec::new()).await;
    Ok(result)
}

/// Accepts every certificate: both ends are this program on one machine.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
