//! Carries TCP connections of other programs over a transport by name: the client's end listens on a local address,
//! the server's end connects to a target. For experiments with programs that support only TCP. Not here: the
//! product's proxy ([`tributary_net::proxy`]), which uses sessions only and limits the data in front of slow radios.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tributary_net::transport::{Connection, TransportConfig, TransportStream};

use crate::transport::{Paths, listen};

/// Maximum number of bytes that the client's end holds for a program that does not read.
const HELD: u32 = 64 << 10;
const BACKLOG: u32 = 64;

/// Why an end of the relay ended, as text.
pub type Outcome = Result<(), Box<dyn core::error::Error + Send + Sync>>;

/// The server's end: every stream becomes a connection to `target`. Sends its addresses to `ready`, and ends with
/// `stop`.
///
/// # Errors
/// The transport's.
pub async fn serve(
    config: &TransportConfig,
    addresses: &[Ipv4Addr],
    target: SocketAddr,
    ready: oneshot::Sender<Vec<SocketAddr>>,
    mut stop: watch::Receiver<()>,
) -> Outcome {
    let (mut acceptor, listening) = listen(config, addresses).await?;
    // If the experiment has failed, the receiver no longer exists; `stop` then ends this task.
    let _ = ready.send(listening);
    loop {
        tokio::select! {
            accepted = acceptor.accept() => match accepted {
                Some((connection, _)) => drop(tokio::spawn(streams(connection, target))),
                None => return Err("the listener has ended".into()),
            },
            _ = stop.changed() => return Ok(()),
        }
    }
}

async fn streams(connection: Connection, target: SocketAddr) {
    while let Ok(stream) = connection.accept_stream().await {
        tokio::spawn(async move {
            if let Ok(socket) = TcpStream::connect(target).await {
                carry(stream, socket).await;
            }
        });
    }
}

/// The client's end: every connection to its address becomes a stream. Sends the address to `ready` once it is
/// connected to the server, and ends with `stop`.
///
/// # Errors
/// The transport's.
pub async fn connect(
    config: &TransportConfig,
    paths: &[(Ipv4Addr, SocketAddr)],
    ready: oneshot::Sender<SocketAddr>,
    mut stop: watch::Receiver<()>,
) -> Outcome {
    let connection = Paths::new(&config.name, paths).connect(config).await?;
    // Accepted connections inherit this size. The kernel's automatic size would grow to megabytes, which are seconds
    // of a film.
    let socket = TcpSocket::new_v4()?;
    socket.set_send_buffer_size(HELD)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    let _ = ready.send(listener.local_addr()?);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (socket, connection) = (accepted?.0, connection.clone());
                tokio::spawn(async move {
                    // If no stream can be opened, the connection is closed, as a proxy does when its server is
                    // unreachable.
                    if let Ok(stream) = connection.open_stream(0).await {
                        carry(stream, socket).await;
                    }
                });
            }
            _ = stop.changed() => return Ok(()),
        }
    }
}

/// Carries both directions until they have ended. After an error both are reset.
async fn carry(mut stream: TransportStream, mut socket: TcpStream) {
    if copy_bidirectional(&mut stream, &mut socket).await.is_err() {
        stream.reset(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{SessionSettings, config};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tributary_net::Key;

    #[tokio::test]
    async fn connections_are_carried_over_every_kind_of_transport() {
        for name in ["tcp", "min-rtt", "fbdt"] {
            let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = target.local_addr().unwrap();
            let name = tributary_proto::transport::TransportName::find(name, None, &["a"]).unwrap();
            let config = config(&name, "cubic", Key::from_bytes([7; 32]), &SessionSettings::default());
            let (stop, stopped) = watch::channel(());
            let (tell, told) = oneshot::channel();
            let (serving, ends) = (config.clone(), stopped.clone());
            let server = tokio::spawn(async move {
                serve(&serving, &[Ipv4Addr::LOCALHOST], address, tell, ends).await.map_err(|e| e.to_string())
            });
            let paths = [(Ipv4Addr::LOCALHOST, told.await.unwrap()[0])];
            let (tell, told) = oneshot::channel();
            let client = tokio::spawn(async move {
                connect(&config, &paths, tell, stopped).await.map_err(|e| e.to_string())
            });
            let near = told.await.unwrap();
            for round in 0..2_u8 {
                let mut asking = TcpStream::connect(near).await.unwrap();
                asking.write_all(&[round; 3]).await.unwrap();
                let (mut answering, _) = target.accept().await.unwrap();
                let mut heard = [0; 3];
                answering.read_exact(&mut heard).await.unwrap();
                answering.write_all(&[heard[0] + 1; 100_000]).await.unwrap();
                drop(answering);
                let mut answer = Vec::new();
                asking.read_to_end(&mut answer).await.unwrap();
                assert_eq!(answer, [round + 1; 100_000]);
            }
            drop(stop);
            assert_eq!((server.await.unwrap(), client.await.unwrap()), (Ok(()), Ok(())));
        }
    }
}
