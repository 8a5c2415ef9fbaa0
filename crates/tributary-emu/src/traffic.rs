//! Plain kernel TCP through the network: the reference of the emulator's tests and benchmarks.

use crate::network::{Network, NetworkError, Side};
use core::time::Duration;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Instant;
use thiserror::Error;
use tributary_types::{Bitrate, DataSize};

/// Protocol number of MPTCP for socket(2).
const MPTCP: i32 = 262;
/// Time limit for establishing a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A bulk transfer from the server to the client.
#[derive(Clone, Debug)]
pub struct TcpFlow {
    /// Index of the path whose addresses both ends use.
    pub path: usize,
    /// Whether to use IPv6.
    pub v6: bool,
    /// Kernel MPTCP instead of TCP; further paths must be announced with `ip mptcp`.
    pub mptcp: bool,
    /// Server port.
    pub port: u16,
    /// Congestion control of both ends; refused when the kernel lacks it.
    pub congestion: String,
    /// Time before the measurement begins.
    pub warm_up: Duration,
    /// Duration of the measurement.
    pub measured: Duration,
}

/// Both ends of a connection.
#[derive(Debug)]
pub struct Connection {
    /// The server's end.
    pub server: TcpStream,
    /// The client's end.
    pub client: TcpStream,
    /// Kept open, because further MPTCP subflows join through it.
    _listener: Socket,
}

impl TcpFlow {
    /// A flow with cubic over IPv4 on a path, measured for four seconds after two seconds of warm-up. With
    /// this warm-up a burst that waits for a retransmission at the start of the measurement has little
    /// effect.
    #[must_use]
    pub fn on_path(path: usize) -> Self {
        Self {
            path,
            v6: false,
            mptcp: false,
            port: 5000,
            congestion: "cubic".to_owned(),
            warm_up: Duration::from_secs(2),
            measured: Duration::from_secs(4),
        }
    }

    fn address(&self, side: Side) -> SocketAddr {
        let ip =
            if self.v6 { IpAddr::V6(side.address6(self.path)) } else { IpAddr::V4(side.address(self.path)) };
        SocketAddr::new(ip, if side == Side::Server { self.port } else { 0 })
    }

    /// A socket bound to this flow's address of the side, in the namespace of the calling thread.
    fn socket(&self, side: Side) -> io::Result<Socket> {
        let domain = if self.v6 { Domain::IPV6 } else { Domain::IPV4 };
        let protocol = if self.mptcp { Protocol::from(MPTCP) } else { Protocol::TCP };
        let socket = Socket::new(domain, Type::STREAM, Some(protocol))?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_congestion(self.congestion.as_bytes())?;
        socket.bind(&self.address(side).into())?;
        Ok(socket)
    }

    /// An established connection.
    pub fn connect(&self, network: &Network) -> Result<Connection, TrafficError> {
        let listen = || {
            let socket = self.socket(Side::Server)?;
            socket.listen(1)?;
            Ok::<_, io::Error>(socket)
        };
        let listener = network.run(Side::Server, listen)?.map_err(TrafficError::Socket)?;
        let connect = || {
            let socket = self.socket(Side::Client)?;
            socket.connect_timeout(&self.address(Side::Server).into(), CONNECT_LIMIT)?;
            Ok::<_, io::Error>(socket)
        };
        let client = network.run(Side::Client, connect)?.map_err(TrafficError::Socket)?;
        let (server, _) = listener.accept().map_err(TrafficError::Socket)?;
        Ok(Connection { server: server.into(), client: client.into(), _listener: listener })
    }

    /// Sends as fast as possible; returns the goodput of the measured time.
    pub fn run(&self, network: &Network) -> Result<Bitrate, TrafficError> {
        let Connection { server, client, _listener } = self.connect(network)?;
        std::thread::scope(|scope| {
            scope.spawn(|| send_until_closed(&server));
            let end = Instant::now() + self.warm_up + self.measured;
            let goodput = self.receive(client, end);
            // The close of the client's socket ends a blocked write over MPTCP only after `net.mptcp.close_timeout`, 60 s.
            let _ = server.shutdown(Shutdown::Both);
            goodput.map_err(TrafficError::Socket)
        })
    }

    fn receive(&self, mut client: TcpStream, end: Instant) -> io::Result<Bitrate> {
        client.set_read_timeout(Some(Duration::from_millis(50)))?;
        let warm = end - self.measured;
        let mut buffer = vec![0; 256 * 1024];
        let (mut first, mut last, mut bytes) = (None, warm, 0_u64);
        loop {
            let read = match client.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            if now >= end {
                break;
            }
            if read > 0 && now >= warm {
                match first {
                    None => first = Some(now),
                    Some(_) => (bytes, last) = (bytes + read, now),
                }
            }
        }
        // If the transfer stalled at the end, the stall counts too.
        let stalled = end.saturating_duration_since(last) > Duration::from_millis(100);
        let begin = first.unwrap_or(warm);
        let time = (if stalled { end } else { last }).saturating_duration_since(begin);
        Ok(Bitrate::of(DataSize::from_bytes(bytes), time).unwrap_or(Bitrate::ZERO))
    }
}

/// Sends until the stream is closed at either end.
fn send_until_closed(mut stream: &TcpStream) {
    let block = vec![0x5a; 256 * 1024];
    while stream.write_all(&block).is_ok() {}
}

/// Why a transfer failed.
#[derive(Debug, Error)]
pub enum TrafficError {
    /// The network could not be used.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A socket failed.
    #[error("a socket of the transfer failed: {0}")]
    Socket(io::Error),
}
