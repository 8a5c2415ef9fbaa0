//! QUIC on one path with quinn.

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

#[path = "end.rs"]
#[allow(clippy::duplicate_mod)] // Compiled against both libraries, on purpose.
mod end;

use quinn as library;

use super::super::stream::{Recv, Send};
use super::super::{Kind, PathStats, TransportError, system};
use super::{
    Handshake, IDLE, KEEP_ALIVE, Route, SEND_WINDOW, STREAMS, WINDOW, path_socket, unknown_controller,
};
pub(in super::super) use end::{Connection, connect, listen};

/// Bytes that the peer may send on a stream before they are read.
pub(in super::super) const STREAM_WINDOW: u32 = 4 << 20;

fn settings(congestion: Option<&str>) -> Result<library::TransportConfig, TransportError> {
    let controller = crate::quic::congestion(congestion);
    let unknown = || unknown_controller(congestion.unwrap_or_default());
    let mut settings = library::TransportConfig::default();
    settings
        .congestion_controller_factory(controller.ok_or_else(unknown)?)
        .max_idle_timeout(IDLE.try_into().ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_bidi_streams(STREAMS.into())
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(WINDOW.into())
        .send_window(SEND_WINDOW);
    Ok(settings)
}

fn endpoint(
    server: Option<library::ServerConfig>,
    socket: UdpSocket,
) -> Result<library::Endpoint, TransportError> {
    let runtime = Arc::new(library::TokioRuntime);
    let endpoint = library::Endpoint::new(library::EndpointConfig::default(), server, socket, runtime);
    endpoint.map_err(system("registering a UDP socket"))
}

/// A connection after its handshake. With `early`, it is returned as soon as streams can be used: at the client at
/// once if it has a ticket, at the server with the client's first packets.
async fn begun(
    connecting: library::Connecting,
    early: bool,
) -> Result<(library::Connection, Handshake), library::ConnectionError> {
    let begun = if early { connecting.into_0rtt() } else { Err(connecting) };
    let connecting = match begun {
        Ok((connection, accepted)) => {
            let (tell, handshake) = Handshake::pending();
            let shaking = connection.clone();
            tokio::spawn(async move {
                let accepted = accepted.await;
                // A connection that failed also reports `false`.
                if shaking.close_reason().is_none() {
                    tell.send_replace(Some(accepted));
                }
            });
            return Ok((connection, handshake));
        }
        Err(connecting) => connecting,
    };
    Ok((connecting.await?, Handshake::finished()))
}

fn client_endpoint(routes: &[Route]) -> Result<library::Endpoint, TransportError> {
    endpoint(None, path_socket(&routes[0])?)
}

/// There is only one path, and it is open already.
fn open_paths(_: &library::Connection, _: &[Route]) {}

fn path_stats(connection: &library::Connection, local: Option<IpAddr>) -> Vec<PathStats> {
    let stats = connection.stats();
    let local = connection.local_ip().or(local).map_or_else(|| "any".to_owned(), |ip| ip.to_string());
    vec![PathStats {
        name: format!("{local}={}", connection.remote_address()),
        rtt: stats.path.rtt,
        delivered: stats.udp_tx.bytes.saturating_sub(stats.path.lost_bytes),
        retransmitted: stats.path.lost_bytes,
        in_flight: None,
        window: stats.path.cwnd,
        received: stats.udp_rx.bytes,
    }]
}

fn recv(stream: library::RecvStream) -> Recv {
    Recv::Quic(stream)
}

fn send(stream: library::SendStream) -> Send {
    Send::Quic(stream)
}

#[cfg(feature = "h3")]
impl Connection {
    pub(in super::super) fn library(&self) -> &library::Connection {
        &self.connection
    }
}

fn seam(connection: Connection) -> super::super::Connection {
    Kind::Quic(connection).into()
}
