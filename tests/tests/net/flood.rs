//! A flood of connections that prove nothing, going on while honest clients far away connect and come back.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tributary_net::{Limits, Session, connect};

use crate::common::{client, in_time, listen_with, paths, settings};

/// One way between the honest clients and the server.
const DELAY: Duration = Duration::from_millis(50);
const HONEST: usize = 100;
/// Places for handshakes: fewer than honest clients connect at once.
const PLACES: usize = 16;
/// Connections that each flooding task holds open, and tasks.
const HELD: usize = 40;
const FLOODERS: u32 = 16;

/// Carries bytes one way, each `DELAY` later than it came, until either end is gone or `cut` says so.
async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut cut: watch::Receiver<u64>,
) {
    let (late, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(1024);
    let reading = async move {
        let mut block = vec![0; 16 << 10];
        while let Ok(count @ 1..) = from.read(&mut block).await {
            if late.send((Instant::now() + DELAY, block[..count].to_vec())).await.is_err() {
                break;
            }
        }
    };
    let writing = async move {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        _ = async { tokio::join!(reading, writing) } => {}
        _ = cut.changed() => {}
    }
}

/// A long way to the server. A change of `cut` breaks every connection on it.
async fn far_away(server: SocketAddr, cut: watch::Receiver<u64>) -> SocketAddr {
    let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = relay.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = relay.accept().await {
            let cut = cut.clone();
            tokio::spawn(async move {
                let Ok(far) = TcpStream::connect(server).await else { return };
                let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
                tokio::join!(carry(near_in, far_out, cut.clone()), carry(far_in, near_out, cut));
            });
        }
    });
    address
}

/// Opens connections without end, each from another address: silent ones, and ones that begin a handshake.
async fn flood(server: SocketAddr, number: u32, opened: Arc<AtomicU64>) {
    let mut held = std::collections::VecDeque::new();
    for round in 0_u32.. {
        let socket = TcpSocket::new_v4().unwrap();
        let from = Ipv4Addr::from(0x7f01_0000 + number * 4096 + round % 4096);
        socket.bind((from, 0).into()).unwrap();
        if let Ok(mut tcp) = socket.connect(server).await {
            opened.fetch_add(1, Ordering::Relaxed);
            if round % 2 == 0 {
                let _ = tcp.write_all(&[22, 3, 1, 0, 200, 1]).await;
            }
            held.push_back(tcp);
        }
        if held.len() > HELD {
            held.pop_front();
        }
    }
}

/// Waits until the session's first subflows are gone and others carry it.
async fn came_back(session: &Session, before: usize) -> bool {
    let newer = |session: &Session| session.stats().subflows.iter().any(|s| s.subflow.0 as usize >= before);
    for _ in 0..1000 {
        if session.is_closed() || newer(session) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await; // polls statistics, bounded by the loop
    }
    !session.is_closed() && newer(session)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_keeps_no_honest_client_from_connecting_or_coming_back() {
    in_time(async {
        let limits = Limits { half_open: PLACES, ..Limits::default() };
        let mut listener = listen_with(settings(false), limits).await;
        let server = listener.addresses()[0];
        tokio::spawn(async move {
            let mut kept = Vec::new();
            while let Some((session, _)) = listener.accept().await {
                kept.push(session);
            }
        });
        let opened = Arc::new(AtomicU64::new(0));
        let mut flooding = JoinSet::new();
        for number in 0..FLOODERS {
            flooding.spawn(flood(server, number, opened.clone()));
        }
        let (cut, cuts) = watch::channel(0);
        let through = far_away(server, cuts).await;
        let (mut connected, mut back) = (0, 0);
        for _ in 0..HONEST / 20 {
            let mut attempts = JoinSet::new();
            for _ in 0..20 {
                attempts.spawn(connect(client(settings(false), paths(1, through))));
            }
            let sessions: Vec<Session> = attempts.join_all().await.into_iter().flatten().collect();
            connected += sessions.len();
            let last = |s: &Session| s.stats().subflows.iter().map(|s| s.subflow.0).max().unwrap_or(0);
            let before: Vec<_> = sessions.iter().map(|session| last(session) as usize + 1).collect();
            cut.send_modify(|cut| *cut += 1);
            for (session, before) in sessions.iter().zip(before) {
                back += usize::from(came_back(session, before).await);
            }
        }
        let opened = opened.load(Ordering::Relaxed);
        assert!(opened > 20 * PLACES as u64, "the flood was none: {opened} connections");
        let least = HONEST * 99 / 100;
        assert!(connected >= least && back >= least, "{connected} connected, {back} came back of {HONEST}");
    })
    .await;
}
