//! A server and a client on loopback, and data whose integrity can be checked.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tributary_net::{
    Common, ConnectConfig, Key, Limits, ListenConfig, Listener, PathConfig, Session, Stream, connect,
};
pub use tributary_testing::{becomes, in_time, succeeds};

pub fn settings(plaintext: bool) -> Common {
    Common { plaintext, ..Common::new(Key::from_bytes([42; 32])) }
}

pub async fn listen(common: Common) -> Listener {
    listen_with(common, Limits::default()).await
}

pub async fn listen_with(common: Common, limits: Limits) -> Listener {
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    Listener::bind(ListenConfig { limits, ..ListenConfig::new(addresses, common) }).await.unwrap()
}

/// Paths from 127.0.0.2, 127.0.0.3 … to the server.
pub fn paths(count: u8, server: SocketAddr) -> Vec<PathConfig> {
    (2..2 + count).map(|host| format!("127.0.0.{host}={server}").parse().unwrap()).collect()
}

pub fn client(common: Common, paths: Vec<PathConfig>) -> ConnectConfig {
    ConnectConfig { paths, common, timeout: Duration::from_secs(10) }
}

/// A session over `count` paths, both ends.
pub async fn pair(common: Common, count: u8) -> (Session, Session, Listener) {
    let mut listener = listen(common.clone()).await;
    let session = connect(client(common, paths(count, listener.addresses()[0]))).await.unwrap();
    let (peer, _) = listener.accept().await.unwrap();
    (session, peer, listener)
}

/// Byte `at` of the test pattern. Its period is above 2⁶⁴, so a misplaced segment is always detected.
fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Writes bytes `from..to` of the pattern.
pub async fn write_pattern(stream: &mut Stream, from: u64, to: u64) {
    let mut at = from;
    while at < to {
        let end = to.min(at + 100_000);
        stream.write_chunk(Bytes::from_iter((at..end).map(pattern))).await.unwrap();
        at = end;
    }
}

/// Writes `bytes` of the pattern and finishes.
pub async fn send_pattern(stream: &mut Stream, bytes: u64) {
    write_pattern(stream, 0, bytes).await;
    stream.finish().unwrap();
}

/// Reads to the end and checks every byte; returns how many there were.
pub async fn check_pattern(stream: &mut Stream) -> u64 {
    let mut at = 0;
    while let Some(chunk) = stream.read_chunk().await.unwrap() {
        for (offset, &byte) in (at..).zip(&chunk) {
            assert_eq!(byte, pattern(offset), "byte {offset}");
        }
        at += chunk.len() as u64;
    }
    at
}

/// A TCP service that sends received bytes back; returns its address.
pub async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = tcp.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

/// A server whose queue of connections is full, so that the kernel drops every further SYN. Returns the sockets that
/// must stay open, and its address.
pub async fn silent() -> ((TcpListener, TcpStream), SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let filler = TcpStream::connect(address).await.unwrap();
    ((listener, filler), address)
}
