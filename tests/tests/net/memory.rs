//! Sessions that share a server's memory: hostile ones write and never read, an honest one continues.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tributary_net::proxy::{ForwardConfig, Forwarder, ServeConfig, Server};
use tributary_net::{Common, Limits, ListenConfig, Session, Stream, connect};

use crate::common::{
    becomes, check_pattern, client, in_time, listen_with, paths, send_pattern, settings, succeeds,
};

const MIB: u64 = 1 << 20;
/// Unread payload in a session with the smallest initial window.
const LEAST: u64 = MIB;
const HOSTILE: usize = 40;
/// Number of streams of each hostile client.
const STREAMS: usize = 8;

/// A client that uses little memory itself.
fn lean() -> Common {
    let mut common = settings(true);
    common.session.send_buffer = 512 << 10;
    common.session.receive_credit = MIB;
    common
}

/// Writes as much as a stream accepts before any of it is read, and keeps the stream open. Further writes would fill
/// the client's send buffer, and the other streams could not use the session's window.
async fn write_on(mut stream: Stream) {
    let chunk = Bytes::from_static(&[7; 16 << 10]);
    for _ in 0..16 {
        if stream.write_chunk(chunk.clone()).await.is_err() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Payload that a session holds in both directions.
fn held(session: &Session) -> (u64, u64) {
    let stats = session.stats().session;
    (stats.receive_held, stats.send_held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_never_reads_holds_the_least_memory_and_others_continue() {
    in_time(async {
        // Memory for 48 sessions, and the same amount to share.
        let limits = Limits { memory: 96 * Limits::SESSION, ..Limits::default() };
        let mut listener = listen_with(settings(true), limits).await;
        let server = listener.addresses()[0];
        let mut tasks = JoinSet::new();
        let (mut clients, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..HOSTILE {
            let session = connect(client(lean(), paths(1, server))).await.unwrap();
            let (peer, _) = listener.accept().await.unwrap();
            for _ in 0..STREAMS {
                tasks.spawn(write_on(session.open_stream(0).await.unwrap()));
                tasks.spawn(write_on(peer.open_stream(0).await.unwrap()));
            }
            clients.push(session);
            peers.push(peer);
        }
        // Streams that are not read take a part of the window, not all of it.
        for peer in &peers {
            becomes("its streams are full", || held(peer).0 >= LEAST / 4).await;
        }
        let honest = connect(client(settings(true), paths(2, server))).await.unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        let mut up = honest.open_stream(0).await.unwrap();
        let sending = tokio::spawn(async move { send_pattern(&mut up, 48 * MIB).await });
        let mut arriving = peer.accept_stream().await.unwrap();
        assert_eq!(check_pattern(&mut arriving).await, 48 * MIB);
        sending.await.unwrap();
        let mut ample = 0;
        for peer in &peers {
            let (received, sent) = held(peer);
            ample += u64::from(received > LEAST);
            assert!(received <= Limits::AMPLE && sent <= 2 * Limits::AMPLE, "{received} {sent}");
        }
        // A quarter of the memory is for large initial windows.
        assert!(ample * Limits::AMPLE <= limits.memory / 4, "{ample} sessions began amply");
        let all: u64 = peers.iter().map(held).map(|(received, sent)| received + sent).sum();
        assert!(all <= limits.memory, "{all} bytes of {}", limits.memory);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_gets_no_more_than_the_least_still_moves_everything_both_ways() {
    in_time(async {
        // One session and 4 MiB to share: too little for a large initial window, and for growing twice.
        let limits = Limits { memory: Limits::LEAST_MEMORY, ..Limits::default() };
        let mut listener = listen_with(settings(true), limits).await;
        let session = connect(client(settings(true), paths(2, listener.addresses()[0]))).await.unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        let mut up = session.open_stream(0).await.unwrap();
        let mut down = peer.open_stream(0).await.unwrap();
        let sending = tokio::spawn(async move { send_pattern(&mut up, 24 * MIB).await });
        let answering = tokio::spawn(async move { send_pattern(&mut down, 24 * MIB).await });
        let reading =
            tokio::spawn(async move { check_pattern(&mut peer.accept_stream().await.unwrap()).await });
        assert_eq!(check_pattern(&mut session.accept_stream().await.unwrap()).await, 24 * MIB);
        assert_eq!(reading.await.unwrap(), 24 * MIB);
        sending.await.unwrap();
        answering.await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_beyond_the_memory_are_refused_until_one_has_ended() {
    in_time(async {
        let limits = Limits { memory: 6 * Limits::SESSION, ..Limits::default() };
        let mut listener = listen_with(settings(true), limits).await;
        let server = listener.addresses()[0];
        let mut sessions = Vec::new();
        for _ in 0..3 {
            let session = connect(client(settings(true), paths(1, server))).await.unwrap();
            sessions.push((session, listener.accept().await.unwrap()));
        }
        let error = connect(client(settings(true), paths(1, server))).await.unwrap_err().to_string();
        assert!(error.contains("sessions"), "{error}");
        let (session, accepted) = sessions.pop().unwrap();
        session.close().await.unwrap();
        drop(accepted);
        // The server removes the session a little later.
        succeeds("another session is accepted", async || {
            connect(client(settings(true), paths(1, server))).await.is_ok()
        })
        .await;
    })
    .await;
}

/// A connection through the proxy that is kept open; `None` when it was reset, which can be before `connect` returns.
async fn hold(address: std::net::SocketAddr) -> Option<TcpStream> {
    let mut tcp = TcpStream::connect(address).await.ok()?;
    tcp.write_all(b"?").await.ok()?;
    let mut answer = [0];
    tcp.read_exact(&mut answer).await.ok()?;
    Some(tcp)
}

/// Number of connections out of a hundred that can be open at once.
async fn hold_many(address: std::net::SocketAddr) -> usize {
    let mut held = Vec::new();
    for _ in 0..100 {
        held.extend(hold(address).await);
    }
    held.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sessions_connections_take_half_of_the_shared_memory_and_give_it_back() {
    in_time(async {
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forward = target.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut tcp, _)) = target.accept().await {
                tokio::spawn(async move {
                    let mut word = [0];
                    while tcp.read_exact(&mut word).await.is_ok() && tcp.write_all(&word).await.is_ok() {}
                });
            }
        });
        // One session and 4 MiB to share: enough for a dozen connections, not for a hundred.
        let limits = Limits { memory: Limits::LEAST_MEMORY, ..Limits::default() };
        let common = settings(true);
        let listen =
            ListenConfig { limits, ..ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common) };
        let targets = vec![forward.parse().unwrap()];
        let server = Server::bind(ServeConfig::new(listen, targets)).await.unwrap();
        let connect = client(settings(true), paths(1, server.addresses()[0]));
        let watch = server.watch();
        tokio::spawn(server.run());
        let config = ForwardConfig::new(connect, vec!["127.0.0.1:0".parse().unwrap()]);
        let forwarder = Forwarder::bind(config).await.unwrap();
        let address = forwarder.addresses()[0];
        tokio::spawn(forwarder.run());
        let first = hold_many(address).await;
        assert!((8..=16).contains(&first), "{first} of 100 connections");
        let seen = watch.snapshot();
        let memory = seen.memory.expect("a server has a bound");
        assert_eq!(memory.bound, Limits::LEAST_MEMORY);
        assert!(memory.taken <= memory.bound && memory.refused >= 100 - first as u64, "{memory:?}");
        assert!(seen.sessions[0].memory <= memory.bound, "{seen:?}");
        // After both proxies have seen the ends of the connections, there is room again.
        while hold_many(address).await < first {}
    })
    .await;
}
