//! Every transport on loopback through the common interface.

#[cfg(feature = "quic")]
mod keys;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tributary_testing::{becomes, not_run, succeeds};

use super::*;
use crate::Key;
use crate::config::Common;

fn config(name: &str, key: u8) -> TransportConfig {
    TransportConfig::new(name.parse().unwrap()).with_common(Common::new(Key::from_bytes([key; 32])))
}

fn paths(server: SocketAddr, count: usize) -> Vec<PathConfig> {
    (2..2 + count).map(|n| format!("127.0.0.{n}={server}").parse().unwrap()).collect()
}

fn is_multipath(name: &str) -> bool {
    matches!(name, "session" | "mpquic")
}

/// A server that sends every stream's bytes back, and resets one that begins with `r`.
async fn echo(config: &TransportConfig) -> SocketAddr {
    let mut acceptor = Acceptor::bind(config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let address = acceptor.addresses()[0];
    tokio::spawn(async move {
        while let Some((connection, _)) = acceptor.accept().await {
            tokio::spawn(async move {
                while let Ok(mut stream) = connection.accept_stream().await {
                    tokio::spawn(async move {
                        let mut all = Vec::new();
                        if stream.read_to_end(&mut all).await.is_err() {
                            return;
                        }
                        if all.starts_with(b"r") {
                            return stream.reset(7);
                        }
                        stream.write_all(&all).await.unwrap();
                        stream.shutdown().await.unwrap();
                    });
                }
            });
        }
    });
    address
}

async fn ask(connection: &Connection, what: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = connection.open_stream(1).await.unwrap();
    if what.len() < 1000 {
        let message = Bytes::copy_from_slice(what);
        let sent = stream.send.write_message(message, Some(Duration::from_secs(10))).await?;
        assert_eq!(sent, Sent::Taken);
    } else {
        let (head, tail) = what.split_at(what.len() / 2);
        stream.write_all(head).await?;
        stream.send.write_chunk(Bytes::copy_from_slice(tail)).await?;
    }
    stream.shutdown().await?;
    let mut all = Vec::new();
    while let Some(chunk) = stream.recv.read_chunk().await? {
        all.extend_from_slice(&chunk);
    }
    Ok(all)
}

/// Whether this kernel has the transport. In CI a missing transport is a failure.
fn has(name: &str) -> bool {
    let has = name != "mptcp" || crate::sockopt::mptcp_socket(socket2::Domain::IPV4).is_ok();
    if !has {
        not_run("this kernel has no MPTCP");
    }
    has
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_transport_carries_streams_and_counts_them() {
    for name in tributary_proto::transport::names() {
        if !has(name) {
            continue;
        }
        let config = config(name, 1);
        let server = echo(&config).await;
        let paths = paths(server, if is_multipath(name) { 2 } else { 1 });
        let connection = Connection::connect(&config, &paths).await.unwrap();
        let big = vec![42; 1 << 20];
        for text in [b"first".as_slice(), &big, b""] {
            assert_eq!(ask(&connection, text).await.unwrap(), text, "{name}");
        }
        let held = connection.open_stream(0).await.unwrap();
        assert!(ask(&connection, b"reset me").await.is_err(), "{name}: a reset stream ended normally");
        // A session reads the kernel's counters at intervals. With kernel sockets, streams that have ended are not
        // counted.
        let counted = async {
            let enough = if matches!(name, "tcp" | "mptcp") { 0 } else { 1 << 20 };
            let is_counted = |stats: &TransportStats| {
                let delivered: u64 = stats.paths.iter().map(|path| path.delivered).sum();
                delivered >= enough && stats.paths.iter().all(|path| path.window > 0)
            };
            while !is_counted(&connection.stats()) {
                assert_eq!(ask(&connection, b"there and back").await.unwrap(), b"there and back");
            }
        };
        tokio::time::timeout(Duration::from_secs(20), counted).await.expect(name);
        let stats = connection.stats();
        assert!(!stats.paths.is_empty(), "{name}: {stats:?}");
        assert!(
            stats.paths.iter().any(|path| path.name.contains("127.0.0.2") || name == "session"),
            "{stats:?}"
        );
        drop(held);
        connection.close().await;
    }
}

/// Waits for the connection's end, and checks that every way to learn it says the same.
async fn end_of(connection: &Connection) -> ConnectionClosed {
    let closed = connection.closed().await;
    assert_eq!(connection.close_reason().as_ref(), Some(&closed));
    assert_eq!(connection.accept_stream().await.unwrap_err(), closed);
    let error = connection.open_stream(0).await.unwrap_err();
    assert!(matches!(error, TransportError::Closed(reason) if reason == closed), "{closed}");
    closed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_opens_streams_and_both_ends_learn_why_the_connection_ended() {
    for name in ["session", "quic", "mpquic"] {
        let config = config(name, 1);
        let mut acceptor = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let paths = paths(acceptor.addresses()[0], 1);
        let serving = tokio::spawn(async move {
            let (connection, _) = acceptor.accept().await.unwrap();
            let mut stream = connection.open_stream(3).await.unwrap();
            stream.write_all(b"news").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            (answer, end_of(&connection).await)
        });
        let connection = Connection::connect(&config, &paths).await.unwrap();
        assert_eq!(connection.close_reason(), None, "{name}");
        let mut stream = connection.accept_stream().await.unwrap();
        let mut news = String::new();
        stream.read_to_string(&mut news).await.unwrap();
        stream.write_all(b"thanks").await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
        connection.close().await;
        let (answer, theirs) = serving.await.unwrap();
        assert_eq!((news.as_str(), answer.as_str()), ("news", "thanks"), "{name}");
        let ours = end_of(&connection).await;
        assert!(ours.is_orderly() && theirs.is_orderly(), "{name}: {ours}; {theirs}");
        assert!(matches!(ours, ConnectionClosed::Closed { by_peer: false, .. }), "{name}: {ours}");
        assert!(matches!(theirs, ConnectionClosed::Closed { by_peer: true, .. }), "{name}: {theirs}");
    }
}

#[tokio::test]
async fn kernel_sockets_carry_one_stream_that_the_client_opens() {
    let config = config("tcp", 1);
    let mut acceptor = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let connection = Connection::connect(&config, &paths(acceptor.addresses()[0], 1)).await.unwrap();
    let mut stream = connection.open_stream(0).await.unwrap();
    stream.write_all(b"x").await.unwrap();
    let (accepted, _) = acceptor.accept().await.unwrap();
    assert!(matches!(accepted.open_stream(0).await, Err(TransportError::ClientOpens)));
    let mut taken = accepted.accept_stream().await.unwrap();
    assert_eq!(taken.read_u8().await.unwrap(), b'x');
    assert_eq!(accepted.accept_stream().await.unwrap_err(), ConnectionClosed::NoMoreStreams);
    assert_eq!(connection.close_reason(), None);
    connection.close().await;
    assert!(end_of(&connection).await.is_orderly());
}

/// Both QUIC libraries end a connection when too many pieces wait for the reader, with or without gaps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_delivers_what_was_finished() {
    for name in tributary_proto::transport::names().into_iter().filter(|name| has(name)) {
        let config = config(name, 1);
        let mut acceptor = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let paths = paths(acceptor.addresses()[0], 1);
        let reading = tokio::spawn(async move {
            let (connection, _) = acceptor.accept().await.unwrap();
            let mut stream = connection.accept_stream().await.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.map(|_| all.len())
        });
        let connection = Connection::connect(&config, &paths).await.unwrap();
        let mut stream = connection.open_stream(0).await.unwrap();
        let unfinished = connection.open_stream(0).await.unwrap();
        stream.write_all(&vec![5; 1 << 20]).await.unwrap();
        stream.shutdown().await.unwrap();
        drop(stream);
        tokio::time::timeout(Duration::from_secs(20), connection.close()).await.expect(name);
        drop(unfinished);
        assert_eq!(reading.await.unwrap().unwrap(), 1 << 20, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_lags_behind_by_a_whole_window_gets_everything() {
    const LENGTH: usize = 8 << 20;
    for (name, window) in [("quic", quic::single::STREAM_WINDOW), ("mpquic", quic::multi::STREAM_WINDOW)] {
        let config = config(name, 1);
        let mut acceptor = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let address = acceptor.addresses()[0];
        let serving = tokio::spawn(async move {
            let (connection, _) = acceptor.accept().await.unwrap();
            let mut stream = connection.accept_stream().await.unwrap();
            // The size of a piece leaves a short frame after some long ones.
            for piece in vec![7; LENGTH].chunks(8192) {
                stream.write_all(piece).await.unwrap();
            }
            stream.shutdown().await.unwrap();
            // Wait until the client has closed the connection.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        });
        let connection = Connection::connect(&config, &paths(address, 1)).await.unwrap();
        let mut stream = connection.open_stream(0).await.unwrap();
        stream.write_all(b"go").await.unwrap();
        let received = || connection.stats().paths.iter().map(|path| path.received).sum::<u64>();
        becomes("the window is full", || received() >= u64::from(window)).await;
        let mut all = vec![0; LENGTH];
        stream.recv.read_exact(&mut all).await.expect(name);
        assert!(all.iter().all(|byte| *byte == 7), "{name}");
        connection.close().await;
        serving.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_player_moves_from_each_transport_to_the_next() {
    let mut before: Option<Connection> = None;
    for name in
        ["tcp", "mpquic", "mptcp", "session", "quic", "mptcp", "tcp"].into_iter().filter(|name| has(name))
    {
        let config = config(name, 1);
        let server = echo(&config).await;
        let next = Connection::connect(&config, &paths(server, 1)).await.unwrap();
        if let Some(before) = before.take() {
            // Both are used at the same time, then the old one is closed.
            let (old, new) = tokio::join!(ask(&before, b"old"), ask(&next, b"new"));
            assert_eq!(
                (old.unwrap().as_slice(), new.unwrap().as_slice()),
                (b"old".as_slice(), b"new".as_slice())
            );
            before.close().await;
        }
        assert_eq!(ask(&next, b"alone").await.unwrap(), b"alone", "{name}");
        before = Some(next);
    }
}

#[tokio::test]
async fn the_paths_of_multipath_quic_come_up() {
    let config = config("mpquic", 1);
    let server = echo(&config).await;
    let connection = Connection::connect(&config, &paths(server, 3)).await.unwrap();
    let all_up = async {
        while connection.stats().paths.len() < 3 {
            assert_eq!(ask(&connection, b"there and back").await.unwrap(), b"there and back");
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_up).await.expect("not all paths came up");
    let names: Vec<String> = connection.stats().paths.into_iter().map(|path| path.name).collect();
    for local in ["127.0.0.2=", "127.0.0.3=", "127.0.0.4="] {
        assert!(names.iter().any(|name| name.starts_with(local)), "{names:?}");
    }
}

#[tokio::test]
async fn a_wrong_key_is_refused_by_both_ends() {
    for name in ["quic", "mpquic"] {
        let server = echo(&config(name, 1)).await;
        let error = Connection::connect(&config(name, 2), &paths(server, 1)).await.unwrap_err();
        assert!(matches!(error, TransportError::WrongKey), "{name}: {error}");
        // The server still accepts clients.
        assert!(Connection::connect(&config(name, 1), &paths(server, 1)).await.is_ok());
    }
}

#[tokio::test]
async fn certificates_can_be_used_instead_of_the_key() {
    let made = rcgen::generate_simple_self_signed(vec!["video.example".to_owned()]).unwrap();
    let (certificate, provider) =
        (made.cert.der().clone(), Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let versions = [&rustls::version::TLS13];
    let client = rustls::ClientConfig::builder_with_provider(provider.clone());
    let mut client =
        client.with_protocol_versions(&versions).unwrap().with_root_certificates(roots).with_no_client_auth();
    let server =
        rustls::ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions).unwrap();
    let mut server = server.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    (client.alpn_protocols, server.alpn_protocols) = (vec![b"h3".to_vec()], vec![b"h3".to_vec()]);
    let certificates = |server_name: &str| Certificates {
        client: Some(Arc::new(client.clone())),
        server_name: server_name.to_owned(),
        server: Some(Arc::new(server.clone())),
    };
    for name in ["quic", "mpquic"] {
        let mut config = TransportConfig::new(name.parse().unwrap());
        config.certificates = Some(certificates("video.example"));
        let address = echo(&config).await;
        let connection = Connection::connect(&config, &paths(address, 1)).await.unwrap();
        assert_eq!(ask(&connection, b"h3").await.unwrap(), b"h3");
        config.certificates = Some(certificates("other.example"));
        assert!(
            Connection::connect(&config, &paths(address, 1)).await.is_err(),
            "{name}: a certificate for another name"
        );
    }
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_way_out() {
    for name in ["session", "tcp", "mptcp", "quic", "mpquic"].into_iter().filter(|name| has(name)) {
        let config = config(name, 1);
        let first = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let address = first.addresses()[0];
        let error = Acceptor::bind(&config, &[address]).await.unwrap_err().to_string();
        for part in [address.to_string(), "give another one".to_owned(), "ss -lntup".to_owned()] {
            assert!(error.contains(&part), "{name}: {error}");
        }
    }
}

#[tokio::test]
async fn impossible_settings_are_refused_with_the_reason() {
    let server: SocketAddr = "127.0.0.1:9".parse().unwrap();
    for (name, count, part) in [
        ("tcp", 2, "tcp:PATH"),
        ("mptcp", 2, "path manager"),
        ("tcp:wlan9", 1, "unknown path `wlan9`; known: 127.0.0.2"),
        ("mptcp/min-rtt", 1, "the kernel schedules MPTCP itself"),
        ("tcp", 0, "0 were given"),
    ] {
        let error =
            Connection::connect(&config(name, 1), &paths(server, count)).await.unwrap_err().to_string();
        assert!(error.contains(part), "{name}: {error}");
    }
    for name in ["session", "quic"] {
        let config = TransportConfig::new(name.parse().unwrap());
        let error = Connection::connect(&config, &paths(server, 1)).await.unwrap_err().to_string();
        assert!(error.contains("tributary keygen"), "{name}: {error}");
    }
    let mut config = config("quic", 1);
    config.congestion = Some("warp".to_owned());
    let error = Connection::connect(&config, &paths(server, 1)).await.unwrap_err().to_string();
    assert!(error.contains("`warp`; known: bbr, cubic, reno"), "{error}");
}

#[tokio::test]
async fn a_tcp_server_holds_no_more_than_its_limits() {
    let mut config = config("tcp", 1);
    config.limits.sessions = 2;
    let mut acceptor = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let paths = paths(acceptor.addresses()[0], 1);
    let mut held = Vec::new();
    for _ in 0..2 {
        let connection = Connection::connect(&config, &paths).await.unwrap();
        let mut stream = connection.open_stream(0).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        let (accepted, _) = acceptor.accept().await.unwrap();
        held.push((stream, accepted.accept_stream().await.unwrap()));
    }
    // The third connection is ended at once.
    let third = Connection::connect(&config, &paths).await.unwrap();
    let mut third = third.open_stream(0).await.unwrap();
    assert!(matches!(third.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    // A freed place is given to the next connection.
    held.clear();
    // The server frees it when it has seen the end of the old connection.
    let mut nothing = [0; 1];
    succeeds("a freed place is given away", async || {
        let fourth = Connection::connect(&config, &paths).await.unwrap();
        let mut fourth = fourth.open_stream(0).await.unwrap();
        fourth.write_all(b"x").await.is_ok()
            && tokio::select! {
                accepted = acceptor.accept() => accepted.is_some(),
                _ended = fourth.read(&mut nothing) => false,
            }
    })
    .await;
}

/// A connection to a server on loopback from this address.
async fn open_from(local: &str, server: SocketAddr) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(format!("{local}:0").parse().unwrap()).unwrap();
    socket.connect(server).await.unwrap()
}

/// The address of the next client that is served.
async fn next_served(acceptor: &mut Acceptor) -> SocketAddr {
    let accepted = tokio::time::timeout(Duration::from_secs(20), acceptor.accept()).await;
    accepted.expect("no client is served").unwrap().1
}

#[tokio::test]
async fn an_address_that_floods_a_tcp_server_loses_its_own_silent_connections() {
    let mut config = config("tcp", 1);
    config.limits.sessions = 4;
    config.limits.handshake = Duration::from_secs(600);
    let mut acceptor = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let server = acceptor.addresses()[0];
    let mut flood = vec![open_from("127.0.0.2", server).await];
    let mut honest = open_from("127.0.0.3", server).await;
    for _ in 0..20 {
        flood.push(open_from("127.0.0.2", server).await);
    }
    // The newest three of the flood stay. Once the last of the others has been closed, all have been accepted.
    for tcp in &mut flood[..18] {
        let read = tokio::time::timeout(Duration::from_secs(20), tcp.read(&mut [0; 1])).await;
        assert!(matches!(read.expect("a connection of the flood is kept"), Ok(0) | Err(_)));
    }
    honest.write_all(b"x").await.unwrap();
    assert_eq!(next_served(&mut acceptor).await, honest.local_addr().unwrap());
}

#[tokio::test]
async fn silent_connections_do_not_use_the_places_of_served_ones() {
    let mut config = config("tcp", 1);
    config.limits.sessions = 2;
    config.limits.handshake = Duration::from_secs(600);
    let mut acceptor = Acceptor::bind(&config, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
    let server = acceptor.addresses()[0];
    let mut silent = Vec::new();
    for _ in 0..4 {
        silent.push(open_from("127.0.0.2", server).await);
    }
    let mut honest = open_from("127.0.0.3", server).await;
    honest.write_all(b"x").await.unwrap();
    assert_eq!(next_served(&mut acceptor).await, honest.local_addr().unwrap());
}
