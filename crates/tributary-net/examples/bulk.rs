//! Bulk throughput between two processes: a session, and its peers TCP, kernel MPTCP and TLS over TCP.
//!
//! `bulk idle SECONDS` shows what two idle ends of a session cost. `bulk sink ADDR:PORT MODE` and `bulk source SECONDS MODE LOCAL=SERVER:PORT…`, where MODE is `plain`, `tls`,
//! `tcp`, `mptcp` or `rustls` (one TLS-over-TCP connection of tokio-rustls). The source prints Gbit/s, both print their CPU seconds per GB.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tributary_net::{
    Common, ConnectConfig, Key, Limits, ListenConfig, Listener, PathConfig, connect, sockopt,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn common(mode: &str) -> Common {
    Common {
        plaintext: mode == "plain",
        congestion: Some("cubic".to_owned()),
        ..Common::new(Key::from_bytes([7; 32]))
    }
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat.split_whitespace().skip(13).take(2).filter_map(|f| f.parse().ok()).collect();
    fields.iter().sum::<f64>() / 100.0
}

fn kernel_socket(mode: &str, address: std::net::SocketAddr) -> Outcome<socket2::Socket> {
    let domain = sockopt::domain(address);
    let socket = match mode {
        "mptcp" => sockopt::mptcp_socket(domain)?,
        _ => socket2::Socket::new(domain, socket2::Type::STREAM, None)?,
    };
    sockopt::set_congestion(socket.as_fd(), "cubic")?;
    Ok(socket)
}

#[derive(Debug)]
struct Any;
impl rustls::client::danger::ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// The cipher that sessions prefer, so that the comparison is one of plumbing.
fn provider() -> rustls::crypto::CryptoProvider {
    use rustls::crypto::ring::{cipher_suite::TLS13_AES_128_GCM_SHA256, default_provider};
    rustls::crypto::CryptoProvider { cipher_suites: vec![TLS13_AES_128_GCM_SHA256], ..default_provider() }
}

async fn rustls_sink(address: &str) -> Outcome<u64> {
    let made = rcgen::generate_simple_self_signed(vec!["bulk".to_owned()])?;
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let config = rustls::ServerConfig::builder_with_provider(provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    let socket = kernel_socket("tcp", address.parse()?)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.parse::<std::net::SocketAddr>()?.into())?;
    socket.listen(1)?;
    socket.set_nonblocking(true)?;
    let stream = tokio::net::TcpListener::from_std(socket.into())?.accept().await?.0;
    let mut stream = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config)).accept(stream).await?;
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    while let Ok(n @ 1..) = tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await {
        received += n as u64;
    }
    Ok(received)
}

async fn rustls_source(path: PathConfig, until: Instant) -> Outcome<u64> {
    let config = rustls::ClientConfig::builder_with_provider(provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(std::sync::Arc::new(Any))
        .with_no_client_auth();
    let socket = kernel_socket("tcp", path.server)?;
    socket.connect(&path.server.into())?;
    socket.set_nonblocking(true)?;
    let stream = tokio::net::TcpStream::from_std(socket.into())?;
    let name = rustls::pki_types::ServerName::try_from("bulk")?;
    let mut stream =
        tokio_rustls::TlsConnector::from(std::sync::Arc::new(config)).connect(name, stream).await?;
    let buffer = vec![1; 1 << 20];
    let mut sent = 0;
    while Instant::now() < until {
        sent += tokio::io::AsyncWriteExt::write(&mut stream, &buffer).await? as u64;
    }
    tokio::io::AsyncWriteExt::shutdown(&mut stream).await?;
    Ok(sent)
}

async fn sink(address: &str, mode: &str) -> Outcome<u64> {
    if mode == "rustls" {
        return rustls_sink(address).await;
    }
    let mut received = 0;
    if mode == "tcp" || mode == "mptcp" {
        let socket = kernel_socket(mode, address.parse()?)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.parse::<std::net::SocketAddr>()?.into())?;
        socket.listen(1)?;
        let mut stream = socket.accept()?.0;
        let mut buffer = vec![0; 1 << 20];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            received += n as u64;
        }
        return Ok(received);
    }
    let config =
        ListenConfig { addresses: vec![address.parse()?], common: common(mode), limits: Limits::default() };
    let mut listener = Listener::bind(config).await?;
    let (session, _) = listener.accept().await.ok_or("no session")?;
    let mut stream = session.accept_stream().await.ok_or("no stream")?;
    while let Some(chunk) = stream.read_chunk().await? {
        received += chunk.len() as u64;
    }
    drop(stream);
    session.closed().await;
    Ok(received)
}

async fn source(seconds: u64, mode: &str, paths: &[String]) -> Outcome<u64> {
    let until = Instant::now() + Duration::from_secs(seconds);
    if mode == "rustls" {
        return rustls_source(paths[0].parse()?, until).await;
    }
    let mut sent = 0;
    if mode == "tcp" || mode == "mptcp" {
        let path: PathConfig = paths[0].parse()?;
        let mut stream = kernel_socket(mode, path.server)?;
        stream.connect(&path.server.into())?;
        let buffer = vec![1; 1 << 20];
        while Instant::now() < until {
            sent += stream.write(&buffer)? as u64;
        }
        return Ok(sent);
    }
    let paths = paths.iter().map(|path| path.parse()).collect::<Result<_, _>>()?;
    let config = ConnectConfig { paths, common: common(mode), timeout: Duration::from_secs(5) };
    let session = connect(config).await?;
    let mut stream = session.open_stream(0).await?;
    let chunk = Bytes::from(vec![1; 1 << 20]);
    while Instant::now() < until {
        stream.write_chunk(chunk.clone()).await?;
        sent += chunk.len() as u64;
    }
    stream.finish()?;
    println!("{:#?}", session.stats());
    session.close().await?;
    Ok(sent)
}

/// Both ends of a session over two loopback paths, with nothing to do.
async fn idle(seconds: u64) -> Outcome<u64> {
    let addresses = vec!["127.0.0.1:0".parse()?];
    let config = ListenConfig { addresses, common: common("tls"), limits: Limits::default() };
    let mut listener = Listener::bind(config).await?;
    let server = listener.addresses()[0];
    let paths = ["127.0.0.2", "127.0.0.3"].map(|local| format!("{local}={server}").parse());
    let paths = paths.into_iter().collect::<Result<_, _>>()?;
    let config = ConnectConfig { paths, common: common("tls"), timeout: Duration::from_secs(5) };
    let _session = connect(config).await?;
    let _peer = listener.accept().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = cpu_nanos();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let share = (cpu_nanos() - before) as f64 / 1e9 / seconds as f64;
    println!("idle: {:.4} % of a core for both ends", share * 100.0);
    Ok(1)
}

/// Time on a processor of this thread, exact where `/proc/self/stat` counts ticks.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let threads = std::env::var("THREADS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let runtime = match threads {
        1 => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        n => tokio::runtime::Builder::new_multi_thread().worker_threads(n).enable_all().build()?,
    };
    let begin = Instant::now();
    let bytes = match words.as_slice() {
        [_, "sink", address, mode] => runtime.block_on(sink(address, mode))?,
        [_, "idle", seconds] => return runtime.block_on(idle(seconds.parse()?)).map(|_| ()),
        [_, "source", seconds, mode, ..] => {
            runtime.block_on(source(seconds.parse()?, mode, &arguments[4..]))?
        }
        _ => {
            return Err(
                "usage: bulk sink ADDR:PORT MODE | bulk source SECONDS MODE LOCAL=SERVER:PORT…".into()
            );
        }
    };
    let (time, gigabytes) = (begin.elapsed().as_secs_f64(), bytes as f64 / 1e9);
    println!("{} {:.2} Gbit/s, {:.3} CPU s/GB", words[1], gigabytes * 8.0 / time, cpu_seconds() / gigabytes);
    Ok(())
}
