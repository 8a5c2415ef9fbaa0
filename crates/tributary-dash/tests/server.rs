//! The server on sockets: every transport, both HTTP versions over TCP, misbehaving clients, and shutting
//! down in order.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tributary_dash::server::{Limits, Server, ServerConfig};
use tributary_dash::tls::{Identity, Trust};
use tributary_net::proxy::Drained;
use tributary_net::transport::{Certificates, Connection, TransportConfig};
use tributary_net::{Common, Key};

/// Larger than all buffers between the server and a client that does not read.
const LARGE: usize = 32 << 20;

struct Running {
    directory: tempfile::TempDir,
    address: SocketAddr,
    addresses: Vec<SocketAddr>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Drained>,
}

fn transport(name: &str) -> TransportConfig {
    TransportConfig::new(name.parse().unwrap()).with_common(Common::new(Key::from_bytes([1; 32])))
}

async fn start(name: &str, limits: Limits, drain: Duration) -> Running {
    start_all(vec![transport(name)], limits, drain).await
}

async fn start_all(transports: Vec<TransportConfig>, limits: Limits, drain: Duration) -> Running {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.mpd"), b"<MPD/>").unwrap();
    std::fs::write(directory.path().join("large"), (0..LARGE).map(large).collect::<Vec<_>>()).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listen = transports.into_iter().map(|transport| (transport, vec![any])).collect();
    let config = ServerConfig { directory: directory.path().to_owned(), listen, limits };
    let server = Server::bind(config).await.unwrap();
    let addresses: Vec<_> = server.addresses().into_iter().flatten().collect();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(server.run_until(async { drop(stopped.await) }, drain));
    Running { directory, address: addresses[0], addresses, stop, ended }
}

/// A byte of the large file.
fn large(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

/// Runs `work` with a blocking socket on its own thread.
async fn blocking<T: Send + 'static>(
    address: SocketAddr,
    work: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> T {
    tokio::task::spawn_blocking(move || work(TcpStream::connect(address).unwrap())).await.unwrap()
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path).header("host", "localhost").body(Empty::new()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_1_over_every_transport() {
    for name in ["tcp", "mptcp", "session", "mpquic"] {
        let server = start(name, Limits::default(), Duration::from_secs(10)).await;
        let paths =
            ["127.0.0.2", "127.0.0.3"].map(|local| format!("{local}={}", server.address).parse().unwrap());
        let paths = if matches!(name, "session" | "mpquic") { &paths[..] } else { &paths[..1] };
        // On a kernel without MPTCP the server listens with TCP, and so does this test's client.
        let client = match Connection::connect(&transport(name), paths).await {
            Err(tributary_net::transport::TransportError::NoMptcp(_)) => {
                Connection::connect(&transport("tcp"), paths).await
            }
            other => other,
        }
        .unwrap();
        for _ in 0..2 {
            let stream = client.open_stream(0).await.unwrap();
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.unwrap();
            let connection = tokio::spawn(connection);
            for (path, length) in [("/a.mpd", 6), ("/large", LARGE), ("/none", 14)] {
                sender.ready().await.unwrap();
                let response = sender.send_request(get(path)).await.unwrap();
                let body = response.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(body.len(), length, "{name} {path}");
                let right = path != "/large" || body.iter().copied().eq((0..LARGE).map(large));
                assert!(right, "{name}: the response differs from the file");
            }
            drop(sender);
            let _ = connection.await.unwrap();
        }
        client.close().await;
        server.stop.send(()).unwrap();
        assert_eq!(server.ended.await.unwrap(), Drained::default(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    let server = start("tcp", Limits::default(), Duration::from_secs(10)).await;
    // The kernel sends the long parts, but not the short file and the error.
    let asked = [("large", 0..100_000), ("a.mpd", 0..6), ("large", 99_999..LARGE), ("large", 5..70_000)];
    let requests: String = asked
        .iter()
        .map(|(path, part)| {
            format!("GET /{path} HTTP/1.1\r\nhost: x\r\nrange: bytes={}-{}\r\n\r\n", part.start, part.end - 1)
        })
        .collect();
    let received = blocking(server.address, move |mut tcp| {
        tcp.write_all(requests.as_bytes()).unwrap();
        tcp.write_all(b"GET /none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut received = Vec::new();
        tcp.read_to_end(&mut received).unwrap();
        received
    })
    .await;
    let mut rest = &received[..];
    for (path, part) in asked {
        let head = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(rest.starts_with(b"HTTP/1.1 206 "), "{path} {part:?}");
        let (body, after) = rest[head..].split_at(part.len());
        let whole = |at: usize| if path == "large" { large(at) } else { b"<MPD/>"[at] };
        assert!(body.iter().copied().eq(part.map(whole)), "{path}");
        rest = after;
    }
    assert!(rest.starts_with(b"HTTP/1.1 404 "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_becomes_shorter_ends_its_response_with_the_connection() {
    const LENGTH: u64 = 256 << 20;
    let server = start("tcp", Limits::default(), Duration::from_secs(10)).await;
    let path = server.directory.path().join("sparse");
    let file = std::fs::File::create(path).unwrap();
    file.set_len(LENGTH).unwrap();
    let received = blocking(server.address, move |mut tcp| {
        tcp.write_all(b"GET /sparse HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        tcp.read_exact(&mut [0; 1000]).unwrap();
        // Most of it is not in the buffers of the sockets yet.
        file.set_len(1 << 20).unwrap();
        std::io::copy(&mut tcp, &mut std::io::sink()).unwrap_or_default()
    })
    .await;
    assert!(received < LENGTH / 2, "{received} bytes of a file that has 1 MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_2_serves_requests_side_by_side() {
    let server = start("tcp", Limits::default(), Duration::from_secs(10)).await;
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let ask = |path: &'static str| {
        let mut sender = sender.clone();
        async move {
            let request =
                Request::get(format!("http://localhost{path}")).body(Empty::<Bytes>::new()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            response.into_body().collect().await.unwrap().to_bytes().len()
        }
    };
    assert_eq!(tokio::join!(ask("/large"), ask("/a.mpd"), ask("/large")), (LARGE, 6, LARGE));
    drop(sender);
    connection.await.unwrap().unwrap();
}

fn certified(name: &str, settings: Arc<rustls::ServerConfig>) -> TransportConfig {
    let mut config = transport(name);
    config.certificates = Some(Certificates { server: Some(settings), ..Certificates::default() });
    config
}

/// Connects over QUIC, with these TLS settings.
async fn connect_quic(server: SocketAddr, tls: Arc<rustls::ClientConfig>) -> Connection {
    let mut config = transport("quic");
    config.certificates =
        Some(Certificates { client: Some(tls), server_name: "localhost".to_owned(), server: None });
    Connection::connect(&config, &[format!("127.0.0.1={server}").parse().unwrap()]).await.unwrap()
}

type Http3Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// HTTP/3 over a connection, and the task that drives it until the sender is dropped.
async fn http_3(connection: &Connection) -> (Http3Sender, JoinHandle<h3::error::ConnectionError>) {
    let quic = h3_quinn::Connection::new(connection.quic().unwrap().clone());
    let (mut driver, sender) = h3::client::new(quic).await.unwrap();
    (sender, tokio::spawn(async move { driver.wait_idle().await }))
}

/// Requests a file over HTTP/3. Returns the status and the length of the body.
async fn ask_http_3(
    mut sender: Http3Sender,
    path: &'static str,
) -> Result<(u16, usize), h3::error::StreamError> {
    let request = Request::get(format!("https://localhost{path}")).body(()).unwrap();
    let mut stream = sender.send_request(request).await?;
    stream.finish().await?;
    let status = stream.recv_response().await?.status().as_u16();
    let mut length = 0;
    while let Some(piece) = stream.recv_data().await? {
        length += bytes::Buf::remaining(&piece);
    }
    Ok((status, length))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_3_serves_requests_side_by_side_and_ends_in_order() {
    let identity = Identity::fresh(None).unwrap();
    let quic = certified("quic", identity.http_3().unwrap());
    let server = start_all(vec![quic], Limits::default(), Duration::from_secs(30)).await;
    let trust = Trust::pin(&identity.fingerprint()).unwrap();
    let connection = connect_quic(server.address, trust.http_3().unwrap()).await;
    let (sender, driver) = http_3(&connection).await;
    let ask = |path| ask_http_3(sender.clone(), path);
    let answers = tokio::try_join!(ask("/large"), ask("/a.mpd"), ask("/large"), ask("/none")).unwrap();
    assert_eq!(answers, ((200, LARGE), (200, 6), (200, LARGE), (404, 14)));
    // The server waits for the client to close the connection.
    server.stop.send(()).unwrap();
    drop(sender);
    driver.await.unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained::default());
}

/// Passes datagrams between a client and the server, but loses the client's second one.
async fn second_datagram_lost(server: SocketAddr) -> SocketAddr {
    let [front, back] =
        [tokio::net::UdpSocket::bind("127.0.0.1:0"), tokio::net::UdpSocket::bind("127.0.0.1:0")];
    let (front, back) = (front.await.unwrap(), back.await.unwrap());
    back.connect(server).await.unwrap();
    let address = front.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let (length, client) = front.recv_from(&mut up).await.unwrap();
        back.send(&up[..length]).await.unwrap();
        front.recv(&mut up).await.unwrap();
        loop {
            tokio::select! {
                Ok(length) = front.recv(&mut up) => drop(back.send(&up[..length]).await),
                Ok(length) = back.recv(&mut down) => drop(front.send_to(&down[..length], client).await),
                else => break,
            }
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_3_serves_a_client_whose_first_message_arrives_in_two_parts() {
    let identity = Identity::fresh(None).unwrap();
    let quic = certified("quic", identity.http_3().unwrap());
    // The limits are so long that no timeout of the server wakes it.
    let limits = Limits { headers: Duration::from_secs(3600), ..Limits::default() };
    let server = start_all(vec![quic], limits, Duration::ZERO).await;
    let mut tls = Trust::pin(&identity.fingerprint()).unwrap().http_3().unwrap();
    // These names make the ClientHello as long as one with a post-quantum key share, which ring does not have: two
    // datagrams. The second one is sent again after a second, when the server has processed the first.
    let unknown = (0..10).map(|at| vec![b'a' + at; 150]);
    Arc::make_mut(&mut tls).alpn_protocols.extend(unknown);
    let connection = connect_quic(second_datagram_lost(server.address).await, tls).await;
    let (sender, _driver) = http_3(&connection).await;
    let answer = tokio::time::timeout(Duration::from_secs(30), ask_http_3(sender, "/a.mpd")).await;
    assert_eq!(answer.expect("the server reads the request").unwrap(), (200, 6));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http_3_client_that_allows_no_streams_is_disconnected() {
    let identity = Identity::fresh(None).unwrap();
    let quic = certified("quic", identity.http_3().unwrap());
    let limits = Limits { headers: Duration::from_millis(100), ..Limits::default() };
    let server = start_all(vec![quic], limits, Duration::from_secs(60)).await;
    let tls = Trust::pin(&identity.fingerprint()).unwrap().http_3().unwrap();
    let mut config =
        quinn::ClientConfig::new(Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap()));
    let mut settings = quinn::TransportConfig::default();
    settings.max_concurrent_uni_streams(0u32.into()).keep_alive_interval(Some(Duration::from_secs(1)));
    config.transport_config(Arc::new(settings));
    let endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = endpoint.connect_with(config, server.address, "localhost").unwrap();
    let ended = match connecting.await {
        Ok(connection) => connection.closed().await,
        // The connection was closed before the end of the handshake.
        Err(error) => error,
    };
    use quinn::ConnectionError::{ApplicationClosed, ConnectionClosed};
    assert!(matches!(ended, ApplicationClosed(_) | ConnectionClosed(_)), "{ended}");
    server.stop.send(()).unwrap();
    assert_eq!(server.ended.await.unwrap(), Drained::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_over_tcp_names_the_port_of_http_3() {
    let identity = Identity::fresh(None).unwrap();
    let both =
        vec![certified("tcp", identity.https().unwrap()), certified("quic", identity.http_3().unwrap())];
    let server = start_all(both, Limits::default(), Duration::ZERO).await;
    for (protocol, version) in [("h2", hyper::Version::HTTP_2), ("http/1.1", hyper::Version::HTTP_11)] {
        let mut settings = Trust::pin(&identity.fingerprint()).unwrap().http_3().unwrap();
        Arc::make_mut(&mut settings).alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let stream = tokio_rustls::TlsConnector::from(settings).connect(name, stream).await.unwrap();
        let io = TokioIo::new(stream);
        let response = if protocol == "h2" {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            sender
                .send_request(Request::get("https://localhost/a.mpd").body(Empty::<Bytes>::new()).unwrap())
                .await
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(get("/a.mpd")).await
        }
        .unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, version));
        let expected = format!("h3=\":{}\"", server.addresses[1].port());
        assert_eq!(response.headers()["alt-svc"], expected.as_str());
    }
    // A client without TLS gets no answer.
    let answer = blocking(server.address, |mut stream| {
        stream.write_all(b"GET /a.mpd HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    });
    assert!(!answer.await.starts_with(b"HTTP"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_clients_are_disconnected() {
    let short = Duration::from_millis(100);
    let limits = Limits { headers: short, idle: short, ..Limits::default() };
    let server = start("tcp", limits, Duration::from_secs(60)).await;
    // Half a request, and the first bytes of HTTP/2's preface: the server closes the connection.
    for sent in ["GET /a.mpd HTTP/1.1\r\nHost:", "PRI * HT"] {
        let answer = blocking(server.address, move |mut stream| {
            stream.write_all(sent.as_bytes()).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            answer
        });
        assert!(!answer.await.starts_with(b"HTTP/1.1 200"), "{sent}");
    }
    // The response is not read: the server resets the connection, and no connection is open when the server ends.
    let held = blocking(server.address, |mut stream| {
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 12]).unwrap();
        stream
    })
    .await;
    server.stop.send(()).unwrap();
    assert_eq!(server.ended.await.unwrap().reset, 0, "a connection outlived its limit");
    drop(held);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_connections_than_allowed_are_refused_and_the_others_served() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = start("tcp", limits, Duration::ZERO).await;
    let (tell, told) = std::sync::mpsc::channel();
    let held: Vec<_> = (0..2)
        .map(|_| {
            let (address, tell) = (server.address, tell.clone());
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /a.mpd HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).unwrap();
                tell.send(answer).unwrap();
                stream
            })
        })
        .collect();
    let held: Vec<TcpStream> = tokio::task::spawn_blocking(move || {
        for _ in 0..2 {
            assert_eq!(&told.recv().unwrap(), b"HTTP/1.1 200");
        }
        held.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
    .await
    .unwrap();
    let refused = blocking(server.address, |mut stream| {
        let _ = stream.write_all(b"GET /a.mpd HTTP/1.1\r\nHost: a\r\n\r\n");
        stream.read(&mut [0; 1])
    })
    .await;
    assert!(!matches!(refused, Ok(1..)), "{refused:?}");
    drop(held);
}

/// A connection from this address that has asked for a file.
async fn ask_from(host: &str, server: SocketAddr, path: &str) -> std::io::Result<tokio::net::TcpStream> {
    use tokio::io::AsyncWriteExt;
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(format!("{host}:0").parse().unwrap())?;
    let mut stream = socket.connect(server).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await?;
    Ok(stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_of_one_address_leave_places_to_another() {
    use tokio::io::AsyncReadExt;
    let limits = Limits { connections: 50, ..Limits::default() };
    let server = start("tcp", limits, Duration::ZERO).await;
    let mut slow = Vec::new();
    let mut served = 0;
    for _ in 0..50 {
        let mut stream = ask_from("127.0.0.2", server.address, "/large").await.unwrap();
        // They read the beginning of the answer, and nothing after it. The last ones get none.
        served += usize::from(stream.read_exact(&mut [0; 12]).await.is_ok());
        slow.push(stream);
    }
    assert_eq!(served, 44, "an address leaves places to others");
    let began = std::time::Instant::now();
    let mut other = ask_from("127.0.0.3", server.address, "/a.mpd").await.unwrap();
    let mut answer = [0; 12];
    other.read_exact(&mut answer).await.unwrap();
    // real time: printed for the reader, not judged.
    eprintln!("served beside {served} slow readers after {:?}", began.elapsed());
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_of_one_address_may_connect_before_they_ask() {
    let mut tcp = transport("tcp");
    // Limits the handshakes of sessions and QUIC only.
    tcp.limits.half_open = 4;
    let server = start_all(vec![tcp], Limits { connections: 64, ..Limits::default() }, Duration::ZERO).await;
    let address = server.address;
    let answered = tokio::task::spawn_blocking(move || {
        let clients: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let answers = clients.into_iter().filter(|mut client| {
            let mut answer = [0; 12];
            client.write_all(b"GET /a.mpd HTTP/1.1\r\nHost: a\r\n\r\n").is_ok()
                && client.read_exact(&mut answer).is_ok()
                && &answer == b"HTTP/1.1 200"
        });
        answers.count()
    });
    assert_eq!(answered.await.unwrap(), 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn responses_under_way_finish_before_the_end_and_later_ones_are_reset() {
    for (drain, expected) in [(Duration::from_secs(30), 0), (Duration::ZERO, 1)] {
        let server = start("tcp", Limits::default(), drain).await;
        let (begun, has_begun) = oneshot::channel();
        let (go, may_go) = std::sync::mpsc::channel();
        let reading = tokio::spawn(blocking(server.address, move |mut stream| {
            stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let mut all = vec![0; 1];
            stream.read_exact(&mut all).unwrap();
            begun.send(()).unwrap();
            may_go.recv().unwrap();
            stream.read_to_end(&mut all).map(|_| all.len())
        }));
        has_begun.await.unwrap();
        server.stop.send(()).unwrap();
        if expected == 0 {
            go.send(()).unwrap();
            assert!(reading.await.unwrap().unwrap() > LARGE);
            assert_eq!(server.ended.await.unwrap().reset, 0);
        } else {
            assert_eq!(server.ended.await.unwrap().reset, 1);
            go.send(()).unwrap();
            assert!(!matches!(reading.await.unwrap(), Ok(length) if length > LARGE));
        }
    }
}
