//! The target behind the server. The first byte of a connection selects its behaviour.

use crate::BenchError;
use crate::failed;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Reads everything, writes nothing.
pub(super) const SINK: u8 = b'u';
/// Writes for ever.
pub(super) const SOURCE: u8 = b'd';
/// Writes for ever and reads nothing.
pub(super) const DEAF: u8 = b'x';
/// Size of the kernel's buffers of each connection. Small, so that data which a target does not read, and data for
/// a server that does not read, waits in the processes and not in the kernel.
const KERNEL: u32 = 64 << 10;

async fn serve(mut tcp: TcpStream) -> std::io::Result<()> {
    let mut piece = vec![3; 64 << 10];
    match tcp.read_u8().await? {
        SINK => while tcp.read(&mut piece).await? > 0 {},
        SOURCE | DEAF => loop {
            tcp.write_all(&piece).await?;
        },
        _ => {}
    }
    Ok(())
}

/// Listens until the runtime ends.
pub(super) async fn start() -> Result<SocketAddr, BenchError> {
    let listen = || {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(KERNEL)?;
        socket.set_send_buffer_size(KERNEL)?;
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        socket.listen(1024)
    };
    let listener = listen().map_err(|error| failed("the target", error))?;
    let address = listener.local_addr().map_err(|error| failed("the target", error))?;
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            tokio::spawn(serve(tcp));
        }
    });
    Ok(address)
}
