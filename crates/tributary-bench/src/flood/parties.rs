//! The parties: the server, the stream's client, honest clients that come and go, and the flood.
//!
//! Each runs on one thread in one namespace until the scene is over. The counters show failures.

use core::time::Duration;
use std::collections::VecDeque;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tributary_emu::{Network, Side};
use tributary_lab::process::output;
use tributary_net::{
    Common, ConnectConfig, Key, ListenConfig, Listener, Local, PathConfig, Session, connect,
};

use super::{Attempts, HONEST_CLIENTS, Scene};
use crate::BenchError;

/// Time for a client to connect or come back; three round trips are needed.
const WITHIN: Duration = Duration::from_secs(4);
/// Interval at which a party checks whether the scene is over.
const LOOK: Duration = Duration::from_millis(50);
/// Last part of the first honest client's address.
const FIRST_HOST: u8 = 10;
/// Connections that the flood holds open.
const HELD: usize = 256;
/// Connections that the flood opens at once.
const BATCH: u32 = 16;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives every honest client its own address on the second radio.
pub(super) fn give_addresses(network: &Network) -> Result<(), BenchError> {
    for host in FIRST_HOST..FIRST_HOST + HONEST_CLIENTS {
        let mut command = network.command(Side::Client, "ip");
        command.args(["address", "add", &format!("{}/24", address(host)), "dev", "clients"]);
        output(command, "iproute2")?;
    }
    Ok(())
}

fn address(host: u8) -> Ipv4Addr {
    let [a, b, c, _] = Side::Client.address(1).octets();
    Ipv4Addr::new(a, b, c, host)
}

fn common() -> Common {
    // Both ends are this program on one machine, so the key is not secret.
    Common { congestion: Some("cubic".to_owned()), ..Common::new(Key::from_bytes([7; 32])) }
}

/// Runs a party until it ends or the scene is over.
fn perform(scene: &Scene, party: impl Future<Output = ()>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let over = async {
            while !scene.over.load(Relaxed) {
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = party => {}
            () = over => {}
        }
    });
}

/// The server: sends endless zeros on every stream.
pub(super) fn serve(scene: &Scene, tell: Sender<Vec<SocketAddr>>) {
    perform(scene, async {
        let own = [Side::Server.address(0), Side::Server.address(1), Ipv4Addr::LOCALHOST];
        let addresses = own.map(|address| SocketAddr::from((address, 0))).to_vec();
        let config = ListenConfig::new(addresses, common());
        let Ok(mut listener) = Listener::bind(config).await else { return };
        let _ = tell.send(listener.addresses().to_vec());
        while let Some((session, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Ok(mut stream) = session.accept_stream().await {
                    let zeros = Bytes::from_static(&[0; 64 << 10]);
                    tokio::spawn(async move { while stream.write_chunk(zeros.clone()).await.is_ok() {} });
                }
            });
        }
    });
}

/// The stream's client.
pub(super) fn watch(scene: &Scene, server: SocketAddr) {
    perform(scene, async {
        let local = Local::Address(Side::Client.address(0).into());
        let path = PathConfig::new(local, server);
        let config = ConnectConfig { paths: vec![path], common: common(), timeout: WITHIN };
        let Ok(session) = connect(config).await else { return };
        let Ok(mut stream) = session.open_stream(0).await else { return };
        stream.announce();
        while let Ok(Some(chunk)) = stream.read_chunk().await {
            scene.received.fetch_add(chunk.len() as u64, Relaxed);
        }
    });
}

/// Honest clients: twenty connect together, lose their connections together, come back and leave, repeatedly.
pub(super) fn visit(scene: &Scene, server: SocketAddr) {
    perform(scene, async {
        let cut = Arc::new(watch::Sender::new(()));
        let Some(relay) = relay(server, cut.clone()).await else { return };
        loop {
            let change = scene.change.load(Relaxed);
            let (connects, rejoins) = round(relay, &cut).await;
            if change == scene.change.load(Relaxed) {
                add(&scene.connects, connects);
                add(&scene.rejoins, rejoins);
            }
        }
    });
}

fn add(sum: &Mutex<Attempts>, more: Attempts) {
    let mut sum = lock(sum);
    sum.made += more.made;
    sum.took_ms.extend(more.took_ms);
}

/// Forwards each client's connections from 127.0.0.*host* with its address on the radio. A change of `cut`
/// breaks all of them.
async fn relay(server: SocketAddr, cut: Arc<watch::Sender<()>>) -> Option<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await.ok()?;
    let relay = listener.local_addr().ok()?;
    tokio::spawn(async move {
        while let Ok((near, from)) = listener.accept().await {
            let mut cut = cut.subscribe();
            tokio::spawn(async move {
                tokio::select! {
                    _ = carry(near, from, server) => {}
                    _ = cut.changed() => {}
                }
            });
        }
    });
    Some(relay)
}

async fn carry(mut near: TcpStream, from: SocketAddr, server: SocketAddr) -> std::io::Result<()> {
    let IpAddr::V4(from) = from.ip() else { return Ok(()) };
    let socket = TcpSocket::new_v4()?;
    socket.bind((address(from.octets()[3]), 0).into())?;
    let mut far = socket.connect(server).await?;
    far.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

async fn round(relay: SocketAddr, cut: &watch::Sender<()>) -> (Attempts, Attempts) {
    let mut attempts = JoinSet::new();
    for host in FIRST_HOST..FIRST_HOST + HONEST_CLIENTS {
        attempts.spawn(async move {
            let began = Instant::now();
            let local = Local::Address(Ipv4Addr::new(127, 0, 0, host).into());
            let path = PathConfig::new(local, relay);
            let config = ConnectConfig { paths: vec![path], common: common(), timeout: WITHIN };
            let session = timeout(WITHIN, connect(config)).await.ok()?.ok()?;
            let first = newer(&session, None).await?;
            Some((session, first, began.elapsed()))
        });
    }
    let sessions: Vec<_> = attempts.join_all().await.into_iter().flatten().collect();
    let millis = |took: Duration| took.as_secs_f64() * 1e3;
    let took_ms = sessions.iter().map(|(_, _, took)| millis(*took)).collect();
    let connects = Attempts { made: u64::from(HONEST_CLIENTS), took_ms };
    cut.send_replace(());
    let broken = Instant::now();
    let mut returns = JoinSet::new();
    for (session, first, _) in sessions {
        returns.spawn(async move {
            let back = newer(&session, Some(first)).await.map(|_| broken.elapsed());
            let _ = timeout(WITHIN, session.close()).await;
            back
        });
    }
    let made = returns.len() as u64;
    let took_ms = returns.join_all().await.into_iter().flatten().map(millis).collect();
    (connects, Attempts { made, took_ms })
}

/// Waits for a subflow newer than `known`; `None` if none comes in time.
async fn newer(session: &Session, known: Option<u32>) -> Option<u32> {
    let mut looks = interval(Duration::from_millis(5));
    timeout(WITHIN, async {
        while !session.is_closed() {
            let newest = session.stats().subflows.iter().map(|report| report.subflow.0).max();
            if newest > known {
                return newest;
            }
            looks.tick().await;
        }
        None
    })
    .await
    .ok()?
}

/// Opens connections, each from another address, while the flood is on. Some stay silent, others begin a TLS
/// handshake.
pub(super) fn flood(scene: &Scene, server: SocketAddr, per_second: u32) {
    perform(scene, async {
        let mut held = VecDeque::new();
        let mut ticks = interval(Duration::from_secs(1) * BATCH / per_second);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0_u32.. {
            if number % BATCH == 0 {
                ticks.tick().await;
                while !scene.flooding.load(Relaxed) {
                    held.clear();
                    sleep(LOOK).await;
                }
            }
            let Some(mut tcp) = open(server, number).await else { continue };
            scene.flooded.fetch_add(1, Relaxed);
            if number % 2 == 0 {
                let _ = tcp.write_all(&[22, 3, 1, 0, 200, 1]).await;
            }
            held.push_back(tcp);
            if held.len() > HELD {
                held.pop_front();
            }
        }
    });
}

async fn open(server: SocketAddr, number: u32) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind((Ipv4Addr::from(0x7f01_0000 + number % 0x1_0000), 0).into()).ok()?;
    timeout(LOOK, socket.connect(server)).await.ok()?.ok()
}
