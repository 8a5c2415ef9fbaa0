//! Invalid input from peers and users is refused with a reason that names it, and other sessions are not affected.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tributary_net::{
    Common, ConnectError, HandshakeError, Key, KeyError, Limits, ListenConfig, ListenError, Listener, connect,
};

use crate::common::{
    check_pattern, client, in_time, listen, listen_with, pair, paths, send_pattern, settings,
};

/// Bytes of the hello, and of ticket and challenge in plaintext mode, see `docs/wire-handshake.md`.
const HELLO: usize = 112;
const TICKET: usize = 80;
const CHALLENGE: usize = 72;

#[tokio::test]
async fn a_wrong_key_is_named_when_the_time_is_over() {
    for plaintext in [true, false] {
        let listener = listen(settings(plaintext)).await;
        let common = Common { plaintext, ..Common::new(Key::from_bytes([1; 32])) };
        let mut config = client(common, paths(2, listener.addresses()[0]));
        config.timeout = Duration::from_secs(1);
        let error = in_time(connect(config)).await.unwrap_err();
        assert!(matches!(error, ConnectError::Handshake(HandshakeError::HungUp)), "{error}");
        assert!(error.to_string().contains("wrong key"), "{error}");
    }
}

#[tokio::test]
async fn plaintext_and_tls_peers_refuse_each_other() {
    for plaintext in [true, false] {
        let listener = listen(settings(!plaintext)).await;
        let mut config = client(settings(plaintext), paths(1, listener.addresses()[0]));
        config.timeout = Duration::from_secs(2);
        assert!(in_time(connect(config)).await.is_err());
    }
}

#[tokio::test]
async fn a_replayed_handshake_is_refused() {
    in_time(async {
        let mut listener = listen(settings(true)).await;
        let server = listener.addresses()[0];
        // A relay that records what the client sends.
        let relay = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let through = relay.local_addr().unwrap();
        let record = tokio::spawn(async move {
            let (mut near, _) = relay.accept().await.unwrap();
            let mut far = TcpStream::connect(server).await.unwrap();
            let mut ticket = [0; TICKET];
            near.read_exact(&mut ticket).await.unwrap();
            far.write_all(&ticket).await.unwrap();
            let mut challenge = [0; CHALLENGE];
            far.read_exact(&mut challenge).await.unwrap();
            near.write_all(&challenge).await.unwrap();
            let mut hello = [0; HELLO];
            near.read_exact(&mut hello).await.unwrap();
            far.write_all(&hello).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
            [&ticket[..], &hello].concat()
        });
        let session = connect(client(settings(true), paths(1, through))).await.unwrap();
        let recorded = record.await.unwrap();
        let _peer = listener.accept().await.unwrap();
        let mut replay = TcpStream::connect(server).await.unwrap();
        replay.write_all(&recorded).await.unwrap();
        let mut reply = Vec::new();
        let _ = replay.read_to_end(&mut reply).await;
        assert!(reply.is_empty(), "the server must not answer a replay");
        assert!(!session.is_closed());
    })
    .await;
}

#[tokio::test]
async fn garbage_and_truncation_do_not_disturb_other_connections() {
    in_time(async {
        for plaintext in [true, false] {
            let (client, server, listener) = pair(settings(plaintext), 2).await;
            let address = listener.addresses()[0];
            for garbage in
                [&b""[..], &b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], &[22, 3, 1, 0, 4, 1, 0, 0, 0]]
            {
                let mut tcp = TcpStream::connect(address).await.unwrap();
                let _ = tcp.write_all(garbage).await;
                let _ = tcp.shutdown().await;
                let _ = tcp.read_to_end(&mut Vec::new()).await;
            }
            let mut stream = client.open_stream(0).await.unwrap();
            send_pattern(&mut stream, 1_000_000).await;
            let mut peer = server.accept_stream().await.unwrap();
            assert_eq!(check_pattern(&mut peer).await, 1_000_000);
        }
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_half_open_connections_leaves_room_for_other_clients() {
    in_time(async {
        let limits = Limits { half_open: 8, ..Limits::default() };
        let mut listener = listen_with(settings(false), limits).await;
        let address = listener.addresses()[0];
        let mut flood = Vec::new();
        for _ in 0..200 {
            flood.push(TcpStream::connect(address).await.unwrap());
        }
        let session = connect(client(settings(false), paths(2, address))).await.unwrap();
        let _peer = listener.accept().await.unwrap();
        assert!(!session.is_closed());
        // All but the newest were disconnected long before their time limit.
        for mut tcp in flood.drain(..150) {
            assert!(matches!(tcp.read(&mut [0; 64]).await, Ok(0) | Err(_)));
        }
    })
    .await;
}

#[tokio::test]
async fn silent_connections_are_closed_and_sessions_are_counted() {
    in_time(async {
        let limits = Limits { sessions: 1, handshake: Duration::from_millis(50), ..Limits::default() };
        let listener = listen_with(settings(false), limits).await;
        let address = listener.addresses()[0];
        let mut silent = TcpStream::connect(address).await.unwrap();
        assert_eq!(silent.read(&mut [0; 1]).await.unwrap(), 0);
        let limits = Limits { sessions: 1, ..Limits::default() };
        let listener = listen_with(settings(false), limits).await;
        let address = listener.addresses()[0];
        let _first = connect(client(settings(false), paths(1, address))).await.unwrap();
        let mut config = client(settings(false), paths(1, address));
        config.timeout = Duration::from_secs(1);
        let error = connect(config).await.unwrap_err().to_string();
        assert!(error.contains("limit of sessions"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_stops_reading_holds_bounded_memory_and_blocks_no_other_peer() {
    in_time(async {
        let (client, server, _listener) = pair(settings(false), 2).await;
        let mut stuck = client.open_stream(0).await.unwrap();
        let writer = tokio::spawn(async move {
            let chunk = bytes::Bytes::from(vec![7; 1 << 20]);
            while stuck.write_chunk(chunk.clone()).await.is_ok() {}
        });
        let _unread = server.accept_stream().await.unwrap();
        let mut stream = client.open_stream(0).await.unwrap();
        let reading = async { check_pattern(&mut server.accept_stream().await.unwrap()).await };
        let ((), read) = tokio::join!(send_pattern(&mut stream, 3_000_000), reading);
        assert_eq!(read, 3_000_000);
        let limit = settings(false).session.receive_credit;
        assert!(server.stats().session.receive_held_most <= limit);
        assert!(client.stats().session.send_held <= settings(false).session.send_buffer as u64 + (2 << 20));
        writer.abort();
    })
    .await;
}

#[tokio::test]
async fn invalid_settings_are_refused_by_name() {
    let server = "127.0.0.1:9".parse().unwrap();
    let with = |change: fn(&mut Common)| {
        let mut common = settings(false);
        change(&mut common);
        common
    };
    let unknown = with(|common| common.congestion = Some("warp".to_owned()));
    let error = connect(client(unknown.clone(), paths(1, server))).await.unwrap_err().to_string();
    assert!(error.contains("`warp`") && error.contains("reno"), "{error}");
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let listen = ListenConfig::new(addresses, unknown);
    let error = Listener::bind(listen).await.unwrap_err();
    assert!(matches!(error, ListenError::Socket(_)) && error.to_string().contains("`warp`"), "{error}");
    let unknown = with(|common| common.session.scheduler = "fastest".to_owned());
    let error = connect(client(unknown, paths(1, server))).await.unwrap_err().to_string();
    assert!(error.contains("`fastest`") && error.contains("min-rtt"), "{error}");
    let error = connect(client(settings(false), Vec::new())).await.unwrap_err().to_string();
    assert!(error.contains("one to eight"), "{error}");
}

#[test]
fn key_files_are_checked_and_errors_name_file_and_line() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("key");
    let write = |text: &str, mode| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    assert!(matches!(Key::load(&path), Err(KeyError::Unreadable { .. })));
    let key = Key::generate().unwrap();
    write(&format!("# lab\n{}\n", *key.to_line()), 0o600);
    assert_eq!(Key::load(&path).unwrap(), key);
    write("# lab\n\nsecret\n", 0o600);
    let error = Key::load(&path).unwrap_err().to_string();
    assert!(error.contains(&format!("{}:3", path.display())), "{error}");
    write(&key.to_line(), 0o644);
    assert!(Key::load(&path).unwrap_err().to_string().contains("chmod 600"));
}
