//! Ends of one TCP connection and of a kernel MPTCP connection, with blocking calls on one thread. This is the
//! cheapest way to use them, so peers are measured at their best. Not here: the product's sockets
//! ([`tributary_net::transport`]), which wait for readiness.

use super::{EndReply, EndResult, EndRole, EndTask, Meter, Outcome, PIECE, reply};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use tributary_net::sockopt;

/// Runs one end of kernel MPTCP or of TCP.
pub(super) fn run(task: &EndTask, mptcp: bool) -> Outcome<EndResult> {
    match &task.role {
        EndRole::Sink(addresses) => sink(task, mptcp, addresses),
        EndRole::Source(paths) => source(task, mptcp, paths),
    }
}

/// A socket with its congestion control set before it listens or connects.
fn socket(mptcp: bool, congestion: &str) -> Outcome<Socket> {
    let socket = if mptcp {
        sockopt::mptcp_socket(Domain::IPV4)?
    } else {
        Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?
    };
    sockopt::set_congestion(socket.as_fd(), congestion)?;
    Ok(socket)
}

/// A listening socket on a port that the kernel chooses.
pub(super) fn listen(mptcp: bool, congestion: &str, addresses: &[Ipv4Addr]) -> Outcome<Socket> {
    let socket = socket(mptcp, congestion)?;
    let address = addresses.first().ok_or("a sink needs an address")?;
    socket.bind(&SocketAddr::from((*address, 0)).into())?;
    socket.listen(1)?;
    let local = socket.local_addr()?.as_socket().ok_or("a listener without an address")?;
    reply(&EndReply::Ready(vec![local]));
    Ok(socket)
}

/// Connects over the first path.
pub(super) fn connect(mptcp: bool, congestion: &str, paths: &[(Ipv4Addr, SocketAddr)]) -> Outcome<Socket> {
    let socket = socket(mptcp, congestion)?;
    let (local, server) = paths.first().ok_or("a source needs a path")?;
    socket.bind(&SocketAddr::from((*local, 0)).into())?;
    socket.connect(&(*server).into())?;
    sockopt::assert_congestion(socket.as_fd(), congestion)?;
    Ok(socket)
}

fn sink(task: &EndTask, mptcp: bool, addresses: &[Ipv4Addr]) -> Outcome<EndResult> {
    // The listener is kept to the end, because MPTCP's further subflows arrive at it, too.
    let listener = listen(mptcp, &task.congestion, addresses)?;
    let mut stream = listener.accept()?.0;
    sockopt::assert_congestion(stream.as_fd(), &task.congestion)?;
    let mut buffer = vec![0; PIECE];
    let mut meter = Meter::new(task.until);
    while let n @ 1.. = stream.read(&mut buffer)? {
        meter.add(n);
    }
    Ok(meter.finish(1))
}

fn source(task: &EndTask, mptcp: bool, paths: &[(Ipv4Addr, SocketAddr)]) -> Outcome<EndResult> {
    let mut stream = connect(mptcp, &task.congestion, paths)?;
    let buffer = vec![1; PIECE];
    let mut meter = Meter::new(task.until);
    meter.begin();
    while !meter.is_over() {
        meter.add(stream.write(&buffer)?);
    }
    let subflows = if mptcp { subflows_of(&stream)? } else { 1 };
    Ok(meter.finish(subflows))
}

/// Number of subflows of an MPTCP connection. A connection that fell back to TCP is an error, because it does not
/// measure MPTCP.
fn subflows_of(socket: &Socket) -> Outcome<usize> {
    let state = sockopt::mptcp_state(socket.as_fd())?;
    if state.fallback {
        return Err("the connection fell back to TCP".into());
    }
    Ok(1 + usize::from(state.extra_subflows))
}
