//! HTTP/3 with the server: resumption, early requests, replays, and truncated responses.

use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Once;
use std::time::Duration;

use http::{Method, Request};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tributary_net::transport::{Certificates, TransportConfig};

use super::*;
use crate::server::{Limits, Server, ServerConfig};
use crate::tls::{Identity, Trust};

/// Starts a server with three addresses that share their tickets.
async fn serve(identity: &Identity) -> (tempfile::TempDir, Vec<SocketAddr>) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.mpd"), b"<MPD/>").unwrap();
    std::fs::write(directory.path().join("large"), vec![7; 32 << 20]).unwrap();
    let mut config = TransportConfig::new("quic".parse().unwrap());
    let server = Some(identity.http_3().unwrap());
    config.certificates = Some(Certificates { server, ..Certificates::default() });
    let listen = vec![(config, vec!["127.0.0.1:0".parse().unwrap(); 3])];
    let config = ServerConfig { directory: directory.path().to_owned(), listen, limits: Limits::default() };
    let server = Server::bind(config).await.unwrap();
    let addresses = server.addresses()[0].clone();
    tokio::spawn(server.run_until(std::future::pending(), Duration::ZERO));
    (directory, addresses)
}

/// A client that keeps its session tickets.
struct Client(TransportConfig);

impl Client {
    fn new(identity: &Identity) -> Self {
        let trust = Trust::pin(&identity.fingerprint()).unwrap();
        let mut config = TransportConfig::new("quic".parse().unwrap());
        config.early = true;
        let client = Some(trust.http_3().unwrap());
        config.certificates =
            Some(Certificates { client, server_name: "video.example".to_owned(), server: None });
        Self(config)
    }

    async fn connect(&self, server: SocketAddr) -> Http3 {
        let path = format!("127.0.0.1={server}").parse().unwrap();
        Http3::over(&Connection::connect(&self.0, &[path]).await.unwrap()).unwrap()
    }
}

fn request(method: Method, path: &str) -> Request<()> {
    Request::builder().method(method).uri(format!("https://video.example{path}")).body(()).unwrap()
}

async fn body(response: Response<Answer>) -> Result<usize, Http3Error> {
    let (mut body, mut length) = (response.into_body(), 0);
    while let Some(piece) = body.next().await {
        length += piece?.len();
    }
    Ok(length)
}

async fn get(http: &Http3) -> usize {
    let response = http.ask(&request(Method::GET, "/a.mpd")).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    body(response).await.unwrap()
}

thread_local! {
    /// Receiver of this thread's log.
    static LINES: RefCell<Option<mpsc::UnboundedSender<String>>> = const { RefCell::new(None) };
}

/// The log of this thread, line by line.
fn log() -> mpsc::UnboundedReceiver<String> {
    struct Lines;
    impl Write for Lines {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            LINES.with_borrow(|lines| {
                lines.as_ref().map(|lines| lines.send(String::from_utf8_lossy(line).into_owned()))
            });
            Ok(line.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    // One subscriber for all threads. With one for each thread, tracing may cache the interest of a thread that has
    // none.
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(|| Lines)
            .finish();
        tracing::subscriber::set_global_default(subscriber).expect("the only one of this program");
    });
    let (tell, lines) = mpsc::unbounded_channel();
    LINES.set(Some(tell));
    lines
}

/// Waits for a line of the server about a request.
async fn answered(lines: &mut mpsc::UnboundedReceiver<String>) -> String {
    loop {
        let line = tokio::time::timeout(Duration::from_secs(60), lines.recv()).await;
        let line = line.expect("the server logged no request within a minute").expect("the log is open");
        if let Some((_, request)) = line.split_once("method=") {
            return request.trim().to_owned();
        }
    }
}

#[tokio::test]
async fn with_a_ticket_repeatable_requests_are_answered_before_the_handshake_ends() {
    let identity = Identity::fresh(None).unwrap();
    let (_directory, servers) = serve(&identity).await;
    let client = Client::new(&identity);
    let first = client.connect(servers[0]).await;
    assert!(first.handshake.is_over());
    assert_eq!(get(&first).await, 6);
    let second = client.connect(servers[0]).await;
    assert!(!second.handshake.is_over(), "the second connection waited for its handshake");
    let mut lines = log();
    let posted = second.ask(&request(Method::POST, "/a.mpd")).await.unwrap();
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert!(answered(&mut lines).await.ends_with("status=425"), "a POST was carried out early");
    assert!(answered(&mut lines).await.ends_with("status=405"));
    assert_eq!(second.handshake.clone().over().await, Some(true));
    assert_eq!(get(&second).await, 6);
}

#[tokio::test]
async fn requests_rejected_with_an_unknown_ticket_are_repeated_after_the_handshake() {
    let identity = Identity::fresh(None).unwrap();
    let client = Client::new(&identity);
    for _ in 0..3 {
        // The servers have the same certificate but different ticket keys, as after a restart.
        let (_directory, servers) = serve(&identity).await;
        let http = client.connect(servers[0]).await;
        assert_eq!(get(&http).await, 6);
        assert_eq!(http.handshake.clone().over().await, Some(false));
        assert_eq!(get(&http).await, 6);
    }
}

#[tokio::test]
async fn a_replayed_flight_is_answered_once_and_the_client_continues_without_0_rtt() {
    tokio::time::timeout(Duration::from_secs(120), replay()).await.expect("a packet or an answer is missing");
}

async fn replay() {
    let identity = Identity::fresh(None).unwrap();
    let (_directory, servers) = serve(&identity).await;
    let client = Client::new(&identity);
    assert_eq!(get(&client.connect(servers[0]).await).await, 6);
    let any = || UdpSocket::bind("127.0.0.1:0");
    let (middle, thief, other_thief) = (any().await.unwrap(), any().await.unwrap(), any().await.unwrap());
    let http = client.connect(middle.local_addr().unwrap()).await;
    assert!(!http.handshake.is_over());
    let mut lines = log();
    let asking = tokio::spawn(async move { get(&http).await });
    // The client's packets are sent to the second address from another socket, and the server answers the request in
    // them.
    let (mut packet, mut flight, mut sender) = ([0; 2048], Vec::new(), None);
    let line = loop {
        tokio::select! {
            received = middle.recv_from(&mut packet) => {
                let (length, from) = received.unwrap();
                sender = Some(from);
                thief.send_to(&packet[..length], servers[1]).await.unwrap();
                flight.push(packet[..length].to_vec());
            }
            line = answered(&mut lines) => break line,
        }
    };
    assert!(line.starts_with("GET") && line.ends_with("status=200"), "{line}");
    // The same packets again, to the third address: the server answers the handshake but not the request.
    for packet in &flight {
        other_thief.send_to(packet, servers[2]).await.unwrap();
    }
    other_thief.recv_from(&mut packet).await.unwrap();
    // Finally the client's own packets are delivered.
    let (upstream, sender) = (any().await.unwrap(), sender.unwrap());
    let relay = async {
        let (mut up, mut down) = ([0; 2048], [0; 2048]);
        loop {
            tokio::select! {
                received = middle.recv_from(&mut up) => {
                    upstream.send_to(&up[..received.unwrap().0], servers[0]).await.unwrap();
                }
                received = upstream.recv_from(&mut down) => {
                    middle.send_to(&down[..received.unwrap().0], sender).await.unwrap();
                }
            }
        }
    };
    tokio::select! {
        () = relay => {}
        length = asking => assert_eq!(length.unwrap(), 6),
    }
    assert!(answered(&mut lines).await.starts_with("GET"));
    lines.close();
    while let Some(line) = lines.recv().await {
        assert!(!line.contains("method="), "answered a third time: {line}");
    }
}

#[tokio::test]
async fn a_truncated_response_is_an_error() {
    let identity = Identity::fresh(None).unwrap();
    let (directory, servers) = serve(&identity).await;
    let http = Client::new(&identity).connect(servers[0]).await;
    let mut response = http.ask(&request(Method::GET, "/large")).await.unwrap();
    response.body_mut().next().await.unwrap().unwrap();
    std::fs::File::options().write(true).open(directory.path().join("large")).unwrap().set_len(100).unwrap();
    body(response).await.unwrap_err();
    // The connection still works.
    assert_eq!(get(&http).await, 6);
}

#[tokio::test]
async fn a_server_with_another_certificate_than_the_pinned_one_is_refused() {
    let (_directory, servers) = serve(&Identity::fresh(None).unwrap()).await;
    let client = Client::new(&Identity::fresh(None).unwrap());
    let path = format!("127.0.0.1={}", servers[0]).parse().unwrap();
    let error = Connection::connect(&client.0, &[path]).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_server_that_allows_no_control_streams_is_given_up() {
    let identity = Identity::fresh(None).unwrap();
    let tls = std::sync::Arc::unwrap_or_clone(identity.http_3().unwrap());
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let mut transport = quinn::TransportConfig::default();
    transport.max_concurrent_uni_streams(0_u32.into());
    config.transport_config(Arc::new(transport));
    let server = quinn::Endpoint::server(config, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = server.local_addr().unwrap();
    let accepting = tokio::spawn(async move { server.accept().await.unwrap().await.unwrap().closed().await });
    let mut http = Client::new(&identity).connect(address).await;
    http.opening = Duration::from_millis(50);
    for _ in 0..2 {
        let error = http.ask(&request(Method::GET, "/a.mpd")).await.map(drop).unwrap_err();
        assert!(matches!(error, Http3Error::NoStreams(_)), "{error}");
    }
    accepting.abort();
}
