//! Handshakes of strangers and of honest clients.

use std::net::UdpSocket;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::Key;
use crate::config::Common;
use crate::transport::{Acceptor, Connection, TransportConfig};

fn source(host: u8) -> Option<Source> {
    Some(Source::of(([127, 0, 0, host], 1).into()))
}

#[tokio::test]
async fn strangers_leave_the_places_of_validated_addresses() {
    let limits = Limits { half_open: 8, sessions: 16, ..Limits::default() };
    let handshakes = Arc::new(HandshakePlaces::new(&limits));
    let strangers: Vec<Place> = (0..4)
        .map(|_| {
            assert!(handshakes.has_place_for_unvalidated());
            handshakes.enter(None)
        })
        .collect();
    assert!(!handshakes.has_place_for_unvalidated());
    let honest = handshakes.enter(source(1));
    let flood: Vec<Place> = (0..8).map(|_| handshakes.enter(source(2))).collect();
    // The flood displaced its own oldest handshake, not the other address's.
    flood[0].displaced().await;
    assert_eq!(handshakes.taken().validated.taken(), 8);
    drop((honest, flood, strangers));
    let taken = handshakes.taken();
    assert_eq!((taken.validated.taken(), taken.unvalidated), (0, 0));
}

fn config(name: &str) -> TransportConfig {
    TransportConfig::new(name.parse().unwrap()).with_common(Common::new(Key::from_bytes([4; 32])))
}

/// First packets of connections that nobody continues. Each has its own connection identifier.
async fn first_packets(name: &str, count: usize) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = sink.local_addr().unwrap();
    let mut packets = Vec::new();
    let mut packet = [0; 2048];
    while packets.len() < count {
        let path = format!("127.0.0.2={server}").parse().unwrap();
        let (config, paths) = (config(name), [path]);
        let connecting = tokio::spawn(async move { drop(Connection::connect(&config, &paths).await) });
        let sink = sink.try_clone().unwrap();
        let received = tokio::task::spawn_blocking(move || {
            sink.recv(&mut packet).map(|length| packet[..length].to_vec())
        });
        packets.push(received.await.unwrap().unwrap());
        connecting.abort();
    }
    packets
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_packets_from_addresses_that_are_not_validated_keep_no_honest_client_out() {
    for name in ["quic", "mpquic"] {
        let mut server = config(name);
        server.limits.sessions = 8;
        let mut acceptor = Acceptor::bind(&server, &["127.0.0.1:0".parse().unwrap()]).await.unwrap();
        let address = acceptor.addresses()[0];
        for (at, packet) in first_packets(name, 40).await.iter().enumerate() {
            let host = format!("127.1.0.{}:0", 1 + at);
            UdpSocket::bind(host).unwrap().send_to(packet, address).unwrap();
        }
        let serving = tokio::spawn(async move {
            let mut served = Vec::new();
            while let Some((connection, _)) = acceptor.accept().await {
                let mut stream = connection.accept_stream().await.unwrap();
                stream.write_all(b"served").await.unwrap();
                stream.shutdown().await.unwrap();
                served.push(connection);
            }
        });
        let mut honest = tokio::task::JoinSet::new();
        for host in 2..10 {
            let config = config(name);
            honest.spawn(async move {
                let path = format!("127.0.0.{host}={address}").parse().unwrap();
                let connection = Connection::connect(&config, &[path]).await.unwrap();
                let mut stream = connection.open_stream(0).await.unwrap();
                stream.write_all(b"?").await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                (connection, answer)
            });
        }
        let answers = honest.join_all().await;
        assert!(answers.iter().all(|(_, answer)| answer == "served"), "{name}");
        serving.abort();
    }
}
