//! A redundant flow through the proxy beside a radio that is blocked: the datagrams come over the other one, without a wait.
//!
//! The first path leads through a relay that can stand still, as a radio in a blockage does: connections stay, and nothing passes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tributary_net::proxy::{ForwardConfig, Forwarder, ServeConfig, Server};
use tributary_net::{Common, ConnectConfig, Key, ListenConfig, PathConfig, PathState};
use tributary_testing::{becomes, in_time};

/// One way over the second path takes this much longer, so that the first one is preferred.
const LONGER: Duration = Duration::from_millis(2);
const TRIALS: usize = 7;

fn common() -> Common {
    Common::new(Key::from_bytes([42; 32]))
}

/// Passes bytes on, each after `delay`, while `passes` says so.
async fn pass(
    (mut from, mut to): (tokio::net::tcp::OwnedReadHalf, tokio::net::tcp::OwnedWriteHalf),
    mut passes: watch::Receiver<bool>,
    delay: Duration,
) {
    let mut buffer = vec![0; 64 << 10];
    while passes.wait_for(|passes| *passes).await.is_ok()
        && let Ok(length @ 1..) = from.read(&mut buffer).await
    {
        // real time: the longer way.
        tokio::time::sleep(delay).await;
        if passes.wait_for(|passes| *passes).await.is_err() || to.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}

/// A relay to the server; its address.
async fn relay(server: SocketAddr, passes: watch::Receiver<bool>, delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(server).await else { continue };
            for socket in [&near, &far] {
                socket.set_nodelay(true).unwrap();
            }
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::spawn(pass((near_in, far_out), passes.clone(), delay));
            tokio::spawn(pass((far_in, near_out), passes.clone(), delay));
        }
    });
    address
}

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

/// The median time of a datagram to the echo and back that is sent just after the first path was blocked.
async fn after_a_blockage(rules: &[&str]) -> Duration {
    let priorities = || rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], common());
    let targets = vec!["127.0.0.1:9".parse().unwrap()];
    let udp = vec![format!("game={}", echo().await).parse().unwrap()];
    let server = ServeConfig { udp, priorities: priorities(), ..ServeConfig::new(listen, targets) };
    let server = Server::bind(server).await.unwrap();
    let to = server.addresses()[0];
    tokio::spawn(server.run());
    let (works, passes) = watch::channel(true);
    let (_always, open) = watch::channel(true);
    let relays = [relay(to, passes, Duration::ZERO).await, relay(to, open, LONGER).await];
    let local = ["127.0.0.2", "127.0.0.3"];
    let path =
        |(local, server): (&str, SocketAddr)| format!("{local}={server}").parse::<PathConfig>().unwrap();
    let paths = local.into_iter().zip(relays).map(path).collect();
    let connect = ConnectConfig { paths, common: common(), timeout: Duration::from_secs(10) };
    let udp = vec!["127.0.0.1:0=game".parse().unwrap()];
    let forward = ForwardConfig { udp, priorities: priorities(), ..ForwardConfig::new(connect, Vec::new()) };
    let forwarder = Forwarder::bind(forward).await.unwrap();
    let (session, address) = (forwarder.session().unwrap(), forwarder.udp_addresses()[0]);
    tokio::spawn(forwarder.run());
    let up = || session.stats().paths.iter().filter(|path| path.state == PathState::Up).count() == 2;
    let application = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    application.connect(address).await.unwrap();
    let mut times = Vec::new();
    for trial in 0..TRIALS {
        becomes("both paths are up", up).await;
        // Both ends measure the paths with a few datagrams.
        for blocked in [false, false, false, true] {
            works.send_replace(!blocked);
            let (sent, mut answer) = (Instant::now(), [0; 100]);
            application.send(&[trial as u8; 50]).await.unwrap();
            assert_eq!(application.recv(&mut answer).await.unwrap(), 50);
            if blocked {
                // real time: 5 ms over the second path alone; without a copy, the time comes first after which the datagram is late.
                times.push(sent.elapsed());
            }
        }
        works.send_replace(true);
    }
    session.abort(0, "done");
    times.sort_unstable();
    times[TRIALS / 2]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_radio_delays_no_redundant_datagram() {
    in_time(async {
        let once = after_a_blockage(&[]).await;
        let everywhere = after_a_blockage(&["game=7:redundant"]).await;
        assert!(everywhere * 3 < once * 2, "{everywhere:?} instead of {once:?}");
    })
    .await;
}
