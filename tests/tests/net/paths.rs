//! Paths that fail, are added and are removed during a transfer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tributary_net::{ListenConfig, Listener, PathConfig, Session, connect};
use tributary_types::PathId;

use crate::common::{
    becomes, check_pattern, client, in_time, listen, paths, send_pattern, settings, write_pattern,
};

/// A relay that forwards nothing more after `limit` bytes, without closing the connection.
async fn dying_relay(server: std::net::SocketAddr, limit: u64) -> (std::net::SocketAddr, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let died = Arc::new(Notify::new());
    let (told, passed) = (died.clone(), Arc::new(AtomicU64::new(0)));
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(server).await.unwrap();
            let (near_read, near_write) = near.into_split();
            let (far_read, far_write) = far.into_split();
            for (mut read, mut write) in [(near_read, far_write), (far_read, near_write)] {
                let (passed, told) = (passed.clone(), told.clone());
                tokio::spawn(async move {
                    let mut buffer = vec![0; 64 * 1024];
                    while let Ok(n @ 1..) = read.read(&mut buffer).await {
                        if passed.fetch_add(n as u64, Ordering::Relaxed) > limit {
                            told.notify_one();
                            std::future::pending::<()>().await;
                        }
                        if write.write_all(&buffer[..n]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        }
    });
    (address, died)
}

/// The future's output if it is ready.
async fn ready_now<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_dies_silently_loses_no_data() {
    in_time(async {
        for plaintext in [true, false] {
            let mut listener = listen(settings(plaintext)).await;
            let server = listener.addresses()[0];
            let (through, died) = dying_relay(server, 2_000_000).await;
            let mut both = paths(1, server);
            both.push(format!("127.0.0.3={through}").parse().unwrap());
            let session = connect(client(settings(plaintext), both)).await.unwrap();
            let (peer, _) = listener.accept().await.unwrap();
            let receive = tokio::spawn(async move {
                let mut stream = peer.accept_stream().await.unwrap();
                check_pattern(&mut stream).await
            });
            let mut stream = session.open_stream(0).await.unwrap();
            // Until the relay has failed under load, and longer.
            let dead = died.notified();
            tokio::pin!(dead);
            let mut sent = 0;
            while ready_now(dead.as_mut()).await.is_none() {
                write_pattern(&mut stream, sent, sent + 1_000_000).await;
                sent += 1_000_000;
            }
            write_pattern(&mut stream, sent, sent + 20_000_000).await;
            stream.finish().unwrap();
            assert_eq!(receive.await.unwrap(), sent + 20_000_000);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_come_and_go_while_data_flows() {
    in_time(async {
        let mut listener = listen(settings(false)).await;
        let server = listener.addresses()[0];
        let all = paths(3, server);
        let session = connect(client(settings(false), all[..1].to_vec())).await.unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        let receive = tokio::spawn(async move {
            let mut stream = peer.accept_stream().await.unwrap();
            check_pattern(&mut stream).await
        });
        let changes = session.clone();
        let change = tokio::spawn(async move {
            changes.add_path(PathId(1), all[1].clone());
            changes.add_path(PathId(2), all[2].clone());
            becomes("three subflows are there", || changes.stats().subflows.len() >= 3).await;
            changes.remove_path(PathId(0));
            changes.remove_path(PathId(1));
            changes.stats().subflows.iter().map(|subflow| subflow.path).collect::<Vec<_>>()
        });
        let mut stream = session.open_stream(0).await.unwrap();
        send_pattern(&mut stream, 60_000_000).await;
        assert_eq!(receive.await.unwrap(), 60_000_000);
        assert_eq!(change.await.unwrap(), [PathId(2)]);
        drop(stream);
        session.close().await.unwrap();
    })
    .await;
}

/// Bytes to the server, then as many back, on a new stream.
async fn there_and_back(client: &Session, server: &Session) {
    const BYTES: u64 = 8_000_000;
    let answer = async {
        let mut stream = server.accept_stream().await.unwrap();
        assert_eq!(check_pattern(&mut stream).await, BYTES);
        send_pattern(&mut stream, BYTES).await;
    };
    let ask = async {
        let mut stream = client.open_stream(0).await.unwrap();
        send_pattern(&mut stream, BYTES).await;
        assert_eq!(check_pattern(&mut stream).await, BYTES);
    };
    tokio::join!(answer, ask);
}

/// One path is IPv4 and the other IPv6: both together, each alone, and both again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_of_both_families_carry_one_session() {
    in_time(async {
        for plaintext in [true, false] {
            let listen = ["127.0.0.1:0", "[::1]:0"].map(|address| address.parse().unwrap());
            let config = ListenConfig::new(listen.to_vec(), settings(plaintext));
            let mut listener = Listener::bind(config).await.unwrap();
            let servers = listener.addresses();
            let paths: Vec<PathConfig> =
                [format!("127.0.0.2={}", servers[0]), format!("[::1]={}", servers[1])]
                    .iter()
                    .map(|path| path.parse().unwrap())
                    .collect();
            let session = connect(client(settings(plaintext), paths.clone())).await.unwrap();
            let (peer, _) = listener.accept().await.unwrap();
            let up = || session.stats().subflows.iter().map(|subflow| subflow.path.0).collect::<Vec<_>>();
            becomes("both are up", || up().len() == 2).await;
            there_and_back(&session, &peer).await;
            for gone in [0, 1] {
                session.remove_path(PathId(gone));
                assert_eq!(up(), [1 - gone], "only the other family is left");
                there_and_back(&session, &peer).await;
                session.add_path(PathId(gone), paths[usize::from(gone)].clone());
                becomes("both are up again", || up().len() == 2).await;
            }
            there_and_back(&session, &peer).await;
            session.close().await.unwrap();
        }
    })
    .await;
}
