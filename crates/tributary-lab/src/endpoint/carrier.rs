//! Kernel sockets of the contestants: plain TCP and MPTCP, with their congestion control pinned.

use super::{EndpointError, Plan, system};
use crate::contestant::{Contestant, SessionSettings};
use core::time::Duration;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use tokio::net::{TcpListener, TcpStream};
use tributary_net::{Common, Key, sockopt};

/// Time for a connection, +500 ms of delay and a lost SYN included.
const CONNECT: Duration = Duration::from_secs(10);

fn socket(contestant: &Contestant, congestion: &str) -> Result<Socket, EndpointError> {
    let socket = match contestant {
        Contestant::Mptcp => sockopt::mptcp_socket(Domain::IPV4).map_err(EndpointError::NoMptcp)?,
        _ => Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).map_err(system("socket"))?,
    };
    socket.set_nonblocking(true).map_err(system("making a socket non-blocking"))?;
    // Before `listen` and before `connect`: a socket switched later stays paced by its first controller.
    sockopt::set_congestion(socket.as_fd(), congestion)?;
    socket.set_tcp_nodelay(true).map_err(system("TCP_NODELAY"))?;
    Ok(socket)
}

/// Listens with a kernel transport.
pub(super) fn listen(plan: &Plan, address: Ipv4Addr) -> Result<TcpListener, EndpointError> {
    let socket = socket(&plan.contestant, &plan.congestion)?;
    let address = SocketAddr::from((address, 0));
    socket.bind(&address.into()).map_err(system(format!("binding to {address}")))?;
    socket.listen(16).map_err(system(format!("listening on {address}")))?;
    TcpListener::from_std(socket.into()).map_err(system("registering a listener"))
}

/// Connects with a kernel transport.
pub(super) async fn connect(
    plan: &Plan,
    local: Ipv4Addr,
    server: SocketAddr,
) -> Result<TcpStream, EndpointError> {
    let socket = socket(&plan.contestant, &plan.congestion)?;
    let local = SocketAddr::from((local, 0));
    socket.bind(&local.into()).map_err(system(format!("binding to {local}")))?;
    let doing = || format!("connecting from {} to {server}", local.ip());
    // To tokio an MPTCP socket is a TCP socket.
    let connecting = tokio::net::TcpSocket::from_std_stream(socket.into()).connect(server);
    match tokio::time::timeout(CONNECT, connecting).await {
        Ok(result) => result.map_err(system(doing())),
        Err(_) => Err(system(doing())(std::io::ErrorKind::TimedOut.into())),
    }
}

/// Settings that both ends of a Tributary session share.
pub(super) fn common(plan: &Plan, settings: &SessionSettings) -> Result<Common, EndpointError> {
    let mut common = Common::new(Key::parse(&plan.key, "the plan")?);
    common.plaintext = settings.plaintext;
    common.congestion = Some(plan.congestion.clone());
    common.rto_max = settings.rto_max_ms.map(Duration::from_millis);
    common.session.scheduler.clone_from(&settings.scheduler);
    if let Some(window) = settings.window {
        common.session.window = window;
    }
    Ok(common)
}

/// Name of a socket's congestion control, after it was checked to be the plan's.
pub(super) fn checked_congestion(plan: &Plan, socket: &TcpStream) -> Result<String, EndpointError> {
    sockopt::assert_congestion(socket.as_fd(), &plan.congestion)?;
    Ok(plan.congestion.clone())
}
