//! Ends of one TCP connection and of a kernel MPTCP connection, with blocking calls and a thread of
//! their own: the cheapest way to use them.

use super::{CONGESTION, Carrier, EndPlan, EndReply, EndResult, Meter, Outcome, PIECE, reply};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use tributary_net::sockopt;

/// A socket with its congestion control set before it listens or connects.
pub(super) fn socket(carrier: Carrier) -> Outcome<Socket> {
    let socket = match carrier {
        Carrier::Mptcp => sockopt::mptcp_socket(Domain::IPV4)?,
        _ => Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?,
    };
    sockopt::set_congestion(socket.as_fd(), CONGESTION)?;
    Ok(socket)
}

/// A listening socket on a port of the kernel's choice.
pub(super) fn listen(carrier: Carrier, addresses: &[Ipv4Addr]) -> Outcome<Socket> {
    let socket = socket(carrier)?;
    let address = addresses.first().ok_or("a sink needs an address")?;
    socket.bind(&SocketAddr::from((*address, 0)).into())?;
    socket.listen(1)?;
    let local = socket.local_addr()?.as_socket().ok_or("a listener without an address")?;
    reply(&EndReply::Ready(vec![local]));
    Ok(socket)
}

/// A connection over the first path.
pub(super) fn connect(carrier: Carrier, paths: &[(Ipv4Addr, SocketAddr)]) -> Outcome<Socket> {
    let socket = socket(carrier)?;
    let (local, server) = paths.first().ok_or("a source needs a path")?;
    socket.bind(&SocketAddr::from((*local, 0)).into())?;
    socket.connect(&(*server).into())?;
    sockopt::assert_congestion(socket.as_fd(), CONGESTION)?;
    Ok(socket)
}

pub(super) fn sink(plan: &EndPlan, addresses: &[Ipv4Addr]) -> Outcome<EndResult> {
    // Kept to the end: MPTCP's further subflows knock at the listener, too.
    let listener = listen(plan.carrier, addresses)?;
    let mut stream = listener.accept()?.0;
    sockopt::assert_congestion(stream.as_fd(), CONGESTION)?;
    let mut buffer = vec![0; PIECE];
    let mut meter = Meter::new(plan.until);
    while let n @ 1.. = stream.read(&mut buffer)? {
        meter.add(n);
    }
    Ok(meter.finish(1))
}

pub(super) fn source(plan: &EndPlan, paths: &[(Ipv4Addr, SocketAddr)]) -> Outcome<EndResult> {
    let mut stream = connect(plan.carrier, paths)?;
    let buffer = vec![1; PIECE];
    let mut meter = Meter::new(plan.until);
    meter.begin();
    while !meter.is_over() {
        meter.add(stream.write(&buffer)?);
    }
    let subflows = if plan.carrier == Carrier::Mptcp { subflows_of(&stream)? } else { 1 };
    Ok(meter.finish(subflows))
}

/// How many subflows an MPTCP connection has; a fallback to TCP is no measurement of MPTCP.
fn subflows_of(socket: &Socket) -> Outcome<usize> {
    let state = sockopt::mptcp_state(socket.as_fd())?;
    if state.fallback {
        return Err("the connection fell back to TCP".into());
    }
    Ok(1 + usize::from(state.extra_subflows))
}
