//! The liveness rule on sockets: applications and targets of the proxy that stop reading do not stop others.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tributary_net::ListenConfig;
use tributary_net::proxy::{ForwardConfig, Forwarder, ServeConfig, Server};

use crate::common::{client, in_time, paths, settings};

/// First byte of a connection: the target writes without end, reads nothing, or counts what it reads.
const WRITE: u8 = b'w';
const STALL: u8 = b's';
const COUNT: u8 = b'c';
/// Stalled connections in each direction.
const STALLED: usize = 8;
/// More than the session's credit and both send buffers hold, so that every stalled connection gets its turn.
const BYTES: usize = 160 << 20;

async fn serve(mut tcp: TcpStream) -> std::io::Result<()> {
    let block = vec![7; 64 << 10];
    match tcp.read_u8().await? {
        WRITE => loop {
            tcp.write_all(&block).await?;
        },
        STALL => std::future::pending().await,
        _ => {
            let (mut buffer, mut count) = (vec![0; 64 << 10], 0);
            loop {
                match tcp.read(&mut buffer).await? {
                    0 => return tcp.write_u64(count).await,
                    read => count += read as u64,
                }
            }
        }
    }
}

async fn target() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(serve(tcp));
        }
    });
    address
}

async fn open(address: SocketAddr, kind: u8) -> TcpStream {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_u8(kind).await.unwrap();
    tcp
}

async fn upload(address: SocketAddr, bytes: usize) {
    let mut tcp = open(address, COUNT).await;
    let block = vec![7; bytes.min(64 << 10)];
    for _ in 0..bytes / block.len() {
        tcp.write_all(&block).await.unwrap();
    }
    tcp.shutdown().await.unwrap();
    assert_eq!(tcp.read_u64().await.unwrap(), bytes as u64);
}

async fn download(address: SocketAddr, bytes: usize) {
    let mut tcp = open(address, WRITE).await;
    let mut block = vec![0; 64 << 10];
    for _ in 0..bytes / block.len() {
        tcp.read_exact(&mut block).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_nobody_reads_do_not_stop_the_others() {
    in_time(async {
        let listen = ListenConfig::new(vec!["127.0.0.1:0".parse().unwrap()], settings(true));
        let targets = vec![target().await.to_string().parse().unwrap()];
        let server = Server::bind(ServeConfig::new(listen, targets));
        let server = server.await.unwrap();
        let connect = client(settings(true), paths(2, server.addresses()[0]));
        tokio::spawn(server.run());
        let forwarder = Forwarder::bind(ForwardConfig::new(connect, vec!["127.0.0.1:0".parse().unwrap()]));
        let forwarder = forwarder.await.unwrap();
        let address = forwarder.addresses()[0];
        tokio::spawn(forwarder.run());
        let mut downloads = Vec::new();
        for _ in 0..STALLED {
            downloads.push(open(address, WRITE).await);
            let mut up = open(address, STALL).await;
            tokio::spawn(async move { while up.write_all(&[7; 64 << 10]).await.is_ok() {} });
        }
        tokio::join!(download(address, BYTES), upload(address, BYTES));
        for _ in 0..20 {
            upload(address, 100).await;
        }
    })
    .await;
}
