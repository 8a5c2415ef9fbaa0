//! QUIC on several paths with noq (draft-ietf-quic-multipath). A client has a socket for each path.

mod sockets;

use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

#[path = "end.rs"]
#[allow(clippy::duplicate_mod)] // Compiled against both libraries, on purpose.
mod end;

use noq as library;

use super::super::stream::{Recv, Send};
use super::super::{Kind, PathStats, TransportError, system};
use super::{Handshake, IDLE, KEEP_ALIVE, Route, SEND_WINDOW, STREAMS, WINDOW, unknown_controller};
pub(in super::super) use end::{Connection, connect, listen};
use sockets::Sockets;

/// Maximum number of paths: eight, and eight more for paths that replace them.
const PATHS: u32 = 16;
/// Bytes that the peer may send on a stream before they are read. noq-proto 1.4 ends a connection when more than
/// 2048 frames wait for the reader, in order or not ("too many gaps in stream buffer"), and frames of a bulk
/// transfer have 1170 bytes or more. quinn-proto 0.11.19 first joins adjacent frames (quinn#2814).
pub(in super::super) const STREAM_WINDOW: u32 = 2 << 20;
/// Idle timeout of a path; its data then goes to the other paths.
const PATH_IDLE: Duration = Duration::from_secs(5);
/// Interval of keep-alives on every path.
const PATH_KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Pause before a failed path is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

fn settings(congestion: Option<&str>) -> Result<library::TransportConfig, TransportError> {
    use library::congestion::{Bbr3Config, CubicConfig, NewRenoConfig};
    let mut settings = library::TransportConfig::default();
    match congestion {
        None | Some("cubic") => settings.congestion_controller_factory(Arc::new(CubicConfig::default())),
        Some("reno") => settings.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        Some("bbr") => settings.congestion_controller_factory(Arc::new(Bbr3Config::default())),
        Some(name) => return Err(unknown_controller(name)),
    };
    settings
        .max_concurrent_multipath_paths(PATHS)
        .default_path_max_idle_timeout(Some(PATH_IDLE))
        .default_path_keep_alive_interval(Some(PATH_KEEP_ALIVE))
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

/// A connection after its handshake. No data is sent before.
async fn begun(
    connecting: library::Connecting,
    _early: bool,
) -> Result<(library::Connection, Handshake), library::ConnectionError> {
    Ok((connecting.await?, Handshake::finished()))
}

fn client_endpoint(routes: &[Route]) -> Result<library::Endpoint, TransportError> {
    let (runtime, config) = (Arc::new(library::TokioRuntime), library::EndpointConfig::default());
    let sockets = Box::new(Sockets::of(routes)?);
    let endpoint = library::Endpoint::new_with_abstract_socket(config, None, sockets, runtime);
    endpoint.map_err(system("registering UDP sockets"))
}

/// Opens the paths beyond the first, and opens each again when it fails, as long as the connection exists.
fn open_paths(connection: &library::Connection, routes: &[Route]) {
    for route in &routes[1..] {
        let (connection, route) = (connection.weak_handle(), route.clone());
        tokio::spawn(async move {
            while let Some(alive) = connection.upgrade() {
                if let Err(error) = open(alive, &route).await {
                    tracing::info!(path = %route.path, %error, "a path is not up");
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        });
    }
}

/// Opens a path unless it is open. The connection is not kept alive while the path opens.
async fn open(connection: library::Connection, route: &Route) -> Result<(), String> {
    let local = sockets::source_of(route).map_err(|error| error.to_string())?;
    let tuple = library::FourTuple::new(route.server, Some(local));
    let opening = connection.open_path_ensure(tuple, library::PathStatus::Available);
    drop(connection);
    opening.await.map(drop).map_err(|error| error.to_string())
}

/// `first` is the local address of the first path, which noq does not report before a packet has arrived.
fn path_stats(connection: &library::Connection, first: Option<IpAddr>) -> Vec<PathStats> {
    let open = (0..2 * PATHS).filter_map(|id| connection.path(library::PathId::from(id)));
    open.map(|path| {
        let stats = path.stats();
        let local =
            path.local_ip().ok().flatten().or(first).map_or_else(|| "any".to_owned(), |ip| ip.to_string());
        let remote = path.remote_address().map_or_else(|_| "gone".to_owned(), |remote| remote.to_string());
        PathStats {
            name: format!("{local}={remote}"),
            rtt: stats.rtt,
            delivered: stats.sent_bytes.saturating_sub(stats.lost_bytes),
            retransmitted: stats.lost_bytes,
            in_flight: None,
            window: stats.cwnd,
            received: stats.udp_rx.bytes,
        }
    })
    .collect()
}

fn recv(stream: library::RecvStream) -> Recv {
    Recv::Mpquic(stream)
}

fn send(stream: library::SendStream) -> Send {
    Send::Mpquic(stream)
}

fn seam(connection: Connection) -> super::super::Connection {
    Kind::Mpquic(connection).into()
}
