//! A redundant flow through the proxy: every datagram goes over both radios, and arrives once.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
use tributary_net::proxy::{ForwardConfig, Forwarder, ServeConfig, Server};
use tributary_net::{Common, ConnectConfig, Key, ListenConfig, PathConfig, PathState};
use tributary_testing::{becomes, in_time};

const DATAGRAMS: u8 = 100;
const BYTES: usize = 500;

async fn echo() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let _ = socket.send_to(&buffer[..length], from).await;
        }
    });
    address
}

/// Payload bytes that the client sends and receives on its less used subflow while an application sends one datagram after the other to an
/// echo.
async fn on_the_less_used_path(rules: &[&str]) -> (u64, u64) {
    let common = || Common::new(Key::from_bytes([42; 32]));
    let priorities = || rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common());
    let targets = vec!["127.0.0.1:9".parse().unwrap()];
    let udp = vec![format!("game={}", echo().await).parse().unwrap()];
    let server = ServeConfig { udp, priorities: priorities(), ..ServeConfig::new(listen, targets) };
    let server = Server::bind(server).await.unwrap();
    let to = server.addresses()[0];
    tokio::spawn(server.run());
    let path = |local| format!("{local}={to}").parse::<PathConfig>().unwrap();
    let paths = ["127.0.0.2", "127.0.0.3"].map(path).into();
    let connect = ConnectConfig { paths, common: common(), timeout: Duration::from_secs(10) };
    let udp = vec!["127.0.0.1:0=game".parse().unwrap()];
    let forward = ForwardConfig { udp, priorities: priorities(), ..ForwardConfig::new(connect, Vec::new()) };
    let forwarder = Forwarder::bind(forward).await.unwrap();
    let (session, address) = (forwarder.session().unwrap(), forwarder.udp_addresses()[0]);
    tokio::spawn(forwarder.run());
    let up = || session.stats().paths.iter().filter(|path| path.state == PathState::Up).count() == 2;
    becomes("both paths are up", up).await;
    let application = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    application.connect(address).await.unwrap();
    let mut answer = [0; 2 * BYTES];
    for n in 0..DATAGRAMS {
        application.send(&[n; BYTES]).await.unwrap();
        // A copy would be the answer to the datagram before.
        assert_eq!(application.recv(&mut answer).await.unwrap(), BYTES);
        assert_eq!(answer[0], n);
    }
    let stats = session.stats();
    session.abort(0, "done");
    let least = |bytes: &mut dyn Iterator<Item = u64>| bytes.min().unwrap();
    (
        least(&mut stats.subflows.iter().map(|subflow| subflow.sent)),
        least(&mut stats.subflows.iter().map(|subflow| subflow.received)),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn every_datagram_of_a_redundant_flow_goes_over_both_radios_and_arrives_once() {
    in_time(async {
        let all = u64::from(DATAGRAMS) * BYTES as u64;
        let (sent, received) = on_the_less_used_path(&["game=7:redundant"]).await;
        assert!(sent >= all, "{sent} of {all} bytes");
        // The copy of the last answer may still be on its way.
        assert!(received >= all - BYTES as u64, "{received} of {all} bytes");
        let (sent, received) = on_the_less_used_path(&[]).await;
        assert!(sent < all * 3 / 4 && received < all * 3 / 4, "{sent} and {received} of {all} bytes");
    })
    .await;
}
