//! The server end: a flow becomes a UDP socket that is connected to its target.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tributary_proto::wire::Ecn;

use super::{BATCH, Socket, Used};
use crate::clients::{Throttle, Way};
use crate::flow::Flow;

/// Carries the datagrams of a flow, whose head was read, to and from this address until the flow ends or is idle.
///
/// # Errors
/// The system's, when there is no socket; `ConnectionRefused` when the target says that nothing listens there.
pub(in super::super) async fn serve(
    flow: &Flow,
    target: SocketAddr,
    throttle: Option<&Throttle>,
) -> io::Result<()> {
    let any: SocketAddr =
        if target.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = Socket::bind(any).await?;
    socket.plain().connect(target).await?;
    let used = Used::new();
    tokio::select! {
        ended = outward(flow, (&socket, target), &used, throttle) => ended,
        ended = inward(flow, &socket, &used, throttle) => ended,
        () = used.idle() => Ok(()),
    }
}

async fn outward(
    flow: &Flow,
    (socket, target): (&Socket, SocketAddr),
    used: &Used,
    throttle: Option<&Throttle>,
) -> io::Result<()> {
    let mut batch = Vec::new();
    while let Ok(1..) = flow.recv_datagrams(&mut batch, BATCH).await {
        used.now();
        if let Some(throttle) = throttle {
            batch.retain(|datagram| throttle.admits(Way::FromClient, datagram.bytes.len()));
        }
        socket.send(target, &batch).await?;
        batch.clear();
    }
    Ok(())
}

async fn inward(flow: &Flow, socket: &Socket, used: &Used, throttle: Option<&Throttle>) -> io::Result<()> {
    let is_admitted = |(datagram, _): &(&[u8], u8)| {
        throttle.is_none_or(|throttle| throttle.admits(Way::ToClient, datagram.len()))
    };
    let mut is_open = true;
    while is_open {
        let ready = socket.plain().ready(Interest::READABLE | Interest::ERROR).await?;
        if ready.is_error() {
            refusal(socket.plain())?;
        }
        let received = socket.receive(|batch| {
            used.now();
            let datagrams = batch.runs().flat_map(|(_, datagrams)| datagrams).filter(is_admitted);
            is_open =
                flow.send_datagrams(datagrams.map(|(datagram, ecn)| (datagram, Ecn::from_bits(ecn)))).is_ok();
        });
        match received {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
            Err(error) => tracing::debug!(%error, "a target's datagrams"),
            Ok(()) => {}
        }
    }
    Ok(())
}

/// The error of an earlier datagram, if it says that nothing listens at the target.
fn refusal(socket: &UdpSocket) -> io::Result<()> {
    // An attempt that would block makes the runtime wait for the next error.
    let none = || io::Error::from(io::ErrorKind::WouldBlock);
    match socket.try_io(Interest::ERROR, || socket.take_error()?.ok_or_else(none)) {
        Ok(error) if error.kind() == io::ErrorKind::ConnectionRefused => Err(error),
        _ => Ok(()),
    }
}
