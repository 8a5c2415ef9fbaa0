//! How proxied connections end: when the proxy is stopped, and when the session ends.
//!
//! Data that an application has sent is delivered, or the application gets a reset.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tributary_net::proxy::{Drained, ForwardConfig, Forwarder, PriorityRules, ServeConfig, Server};
use tributary_net::{Limits, ListenConfig, Session};

use crate::common::{client, in_time, paths, settings, succeeds};

/// More than the kernel's buffers of a connection with an idle target and the session hold together.
const UPLOAD: usize = Limits::AMPLE as usize;
const LONG: Duration = Duration::from_secs(50);

/// A proxy whose target is the test itself.
struct Proxied {
    target: TcpListener,
    server: Ending,
    client: Ending,
    address: SocketAddr,
    session: Session,
}

/// One running end of the proxy.
struct Ending {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Drained>,
}

impl Ending {
    fn stop(self) -> JoinHandle<Drained> {
        self.stop.send(()).expect("it runs");
        self.task
    }
}

async fn proxied(drain: Duration) -> Proxied {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let targets = vec![target.local_addr().unwrap().to_string().parse().unwrap()];
    let addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let listen = ListenConfig::new(addresses, settings(false));
    let priorities = PriorityRules::default();
    let server =
        Server::bind(ServeConfig { priorities: priorities.clone(), ..ServeConfig::new(listen, targets) })
            .await
            .unwrap();
    let config = ForwardConfig {
        priorities,
        ..ForwardConfig::new(
            client(settings(false), paths(1, server.addresses()[0])),
            vec!["127.0.0.1:0".parse().unwrap()],
        )
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(server.run_until(async { drop(stopped.await) }, drain));
    let server = Ending { stop, task };
    let forwarder = Forwarder::bind(config).await.unwrap();
    let (address, session) = (forwarder.addresses()[0], forwarder.session().unwrap());
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(forwarder.run_until(async { drop(stopped.await) }, drain));
    Proxied { target, server, client: Ending { stop, task }, address, session }
}

/// An application that has sent all its bytes, and waits for the answer.
async fn uploaded(address: SocketAddr, bytes: usize) -> io::Result<TcpStream> {
    let mut application = TcpStream::connect(address).await?;
    application.write_all(&vec![7; bytes]).await?;
    application.shutdown().await?;
    Ok(application)
}

/// An application that sends its bytes and reads the answer, both as fast as the proxy lets it.
fn upload(address: SocketAddr, bytes: usize) -> JoinHandle<io::Result<Vec<u8>>> {
    tokio::spawn(async move {
        let mut answer = Vec::new();
        uploaded(address, bytes).await?.read_to_end(&mut answer).await?;
        Ok(answer)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_under_way_during_shutdown_arrives_complete() {
    for stop_server in [false, true] {
        in_time(async {
            let proxied = proxied(LONG).await;
            let application = upload(proxied.address, UPLOAD);
            let (mut tcp, _) = proxied.target.accept().await.unwrap();
            let (stopping, _other) = match stop_server {
                true => (proxied.server.stop(), proxied.client),
                false => (proxied.client.stop(), proxied.server),
            };
            // The target starts to read only here.
            let mut received = Vec::new();
            tcp.read_to_end(&mut received).await.unwrap();
            assert_eq!(received.len(), UPLOAD);
            tcp.write_all(b"thanks").await.unwrap();
            drop(tcp);
            assert_eq!(application.await.unwrap().unwrap(), b"thanks");
            assert_eq!(stopping.await.unwrap(), Drained::default());
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_not_delivered_in_time_ends_with_a_reset() {
    for stop_server in [false, true] {
        in_time(async {
            let proxied = proxied(Duration::from_millis(50)).await;
            let application = upload(proxied.address, UPLOAD);
            // A target that never reads.
            let (mut tcp, _) = proxied.target.accept().await.unwrap();
            let (stopping, _other) = match stop_server {
                true => (proxied.server.stop(), proxied.client),
                false => (proxied.client.stop(), proxied.server),
            };
            let error = application.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(stopping.await.unwrap().reset, 1);
            // The target never takes truncated data for complete data.
            if let Ok(bytes) = tcp.read_to_end(&mut Vec::new()).await {
                assert_eq!(bytes, UPLOAD);
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_is_dropped_resets_its_connections() {
    in_time(async {
        let proxied = proxied(LONG).await;
        let mut application = uploaded(proxied.address, 1000).await.unwrap();
        let (_tcp, _) = proxied.target.accept().await.unwrap();
        proxied.client.task.abort();
        let error = application.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    })
    .await;
}

#[tokio::test]
async fn a_stopping_end_accepts_no_connections() {
    in_time(async {
        let proxied = proxied(LONG).await;
        let _held = uploaded(proxied.address, 1).await;
        let _tcp = proxied.target.accept().await.unwrap();
        let stopping = proxied.client.stop();
        // The listener closes after the end has received the stop signal.
        succeeds("the listener is closed", async || TcpStream::connect(proxied.address).await.is_err()).await;
        assert!(!stopping.is_finished());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_target_is_disconnected_when_the_session_has_ended() {
    in_time(async {
        let proxied = proxied(LONG).await;
        let mut application = uploaded(proxied.address, 1000).await.unwrap();
        let (mut tcp, _) = proxied.target.accept().await.unwrap();
        // The target has the whole request and delays its answer.
        tcp.read_to_end(&mut Vec::new()).await.unwrap();
        proxied.session.abort(9, "lost for the test");
        assert!(application.read_to_end(&mut Vec::new()).await.is_err());
        // The proxy has closed its side, so a write is answered with a reset.
        succeeds("the target sees the end", async || tcp.write_all(b"an answer").await.is_err()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_application_is_disconnected_when_the_session_has_ended() {
    in_time(async {
        let proxied = proxied(LONG).await;
        let mut application = TcpStream::connect(proxied.address).await.unwrap();
        let (mut tcp, _) = proxied.target.accept().await.unwrap();
        // The target has ended its direction; the application has not, and sends no data.
        tcp.write_all(b"hello").await.unwrap();
        tcp.shutdown().await.unwrap();
        application.read_to_end(&mut Vec::new()).await.unwrap();
        proxied.session.abort(9, "lost for the test");
        succeeds("the application sees the end", async || application.write_all(b"more").await.is_err())
            .await;
    })
    .await;
}
