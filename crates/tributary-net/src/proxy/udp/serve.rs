//! The server end: a flow becomes a UDP socket that is connected to its target.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;
use tributary_proto::wire::Ecn;

use super::{BATCH, Batch, Used};
use crate::flow::Flow;
use crate::proxy::throttle::{Throttle, Way};

/// Carries the datagrams of a flow, whose head was read, to and from this address until the flow ends or is idle.
///
/// # Errors
/// The system's, when there is no socket.
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
        () = outward(flow, &socket, &used, throttle) => {}
        () = inward(flow, (&socket, target), &used, throttle) => {}
        () = used.idle() => {}
    }
    Ok(())
}

async fn outward(flow: &Flow, socket: &UdpSocket, used: &Used, throttle: Option<&Throttle>) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Ok(1..) = flow.recv_datagrams(&mut batch, BATCH).await {
        used.now();
        for datagram in batch.drain(..) {
            if throttle.is_some_and(|throttle| !throttle.admits(Way::FromClient, datagram.bytes.len())) {
                continue;
            }
            // A datagram that the network refuses is lost; an ICMP error of an earlier one is reported here, too.
            let sent = socket.try_send(&datagram.bytes);
            if sent.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                let _ = socket.send(&datagram.bytes).await;
            }
        }
    }
}

async fn inward(
    flow: &Flow,
    (socket, target): (&UdpSocket, SocketAddr),
    used: &Used,
    throttle: Option<&Throttle>,
) {
    let mut batch = Batch::new();
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        let filled = batch.fill(|buffer| Ok((socket.try_recv(buffer)?, target)));
        if let Err(error) = filled {
            tracing::debug!(%error, "a target's datagrams");
        }
        for (_, datagrams) in batch.runs() {
            used.now();
            let is_admitted = |datagram: &&[u8]| {
                throttle.is_none_or(|throttle| throttle.admits(Way::ToClient, datagram.len()))
            };
            let datagrams: Vec<_> = datagrams.filter(is_admitted).collect();
            if flow.send_datagrams(datagrams.into_iter().map(|datagram| (datagram, Ecn::NotCapable))).is_err()
            {
                return;
            }
        }
    }
}
