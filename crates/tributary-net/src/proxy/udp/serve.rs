//! The server end: a flow becomes a UDP socket that is connected to its target.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::Interest;
use tokio::net::UdpSocket;
use tributary_proto::wire::Ecn;

use super::{BATCH, Batch, Used};
use crate::flow::Flow;
use crate::proxy::throttle::{Throttle, Way};

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
    let socket = UdpSocket::bind(any).await?;
    socket.connect(target).await?;
    let used = Used::new();
    tokio::select! {
        ended = outward(flow, &socket, &used, throttle) => ended,
        ended = inward(flow, &socket, &used, throttle) => ended,
        () = used.idle() => Ok(()),
    }
}

async fn outward(
    flow: &Flow,
    socket: &UdpSocket,
    used: &Used,
    throttle: Option<&Throttle>,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    while let Ok(1..) = flow.recv_datagrams(&mut batch, BATCH).await {
        used.now();
        for datagram in batch.drain(..) {
            if throttle.is_some_and(|throttle| !throttle.admits(Way::FromClient, datagram.bytes.len())) {
                continue;
            }
            let sent = match socket.try_send(&datagram.bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.send(&datagram.bytes).await,
                sent => sent,
            };
            match sent {
                // The answer to an earlier one.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
                // Refused by the network, and lost.
                Err(error) => tracing::debug!(%error, "a datagram to a target"),
                Ok(_) => {}
            }
        }
    }
    Ok(())
}

async fn inward(flow: &Flow, socket: &UdpSocket, used: &Used, throttle: Option<&Throttle>) -> io::Result<()> {
    let mut batch = Batch::new();
    loop {
        let ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
        if ready.is_error() {
            refusal(socket)?;
        }
        match batch.fill(|buffer| Ok((socket.try_recv(buffer)?, ()))) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(error),
            Err(error) => tracing::debug!(%error, "a target's datagrams"),
            Ok(()) => {}
        }
        for (_, datagrams) in batch.runs() {
            used.now();
            let is_admitted = |datagram: &&[u8]| {
                throttle.is_none_or(|throttle| throttle.admits(Way::ToClient, datagram.len()))
            };
            let datagrams: Vec<_> = datagrams.filter(is_admitted).collect();
            if flow.send_datagrams(datagrams.into_iter().map(|datagram| (datagram, Ecn::NotCapable))).is_err()
            {
                return Ok(());
            }
        }
    }
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
