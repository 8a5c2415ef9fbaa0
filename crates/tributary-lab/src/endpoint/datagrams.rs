//! Both ends of a flow of datagrams beside the workload: a flow of the session or, with TCP on one path, UDP on that path.
//!
//! The client's first datagram says which kind it wants. Each of the server's has the time at which it was made and its number.

use super::messages::{Received, ticks};
use super::{EndpointError, system};
use crate::messages::{MessageFlow, STAMP};
use core::time::Duration;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::UdpSocket;
use tributary_net::transport::Connection;
use tributary_net::{Flow, FlowConfig, Session};

/// After this time the client asks again for datagrams.
const ASKED_AGAIN: Duration = Duration::from_millis(200);

/// One end.
pub(super) enum End {
    Flow(Flow),
    Udp(UdpSocket),
}

impl End {
    /// Client: the flow of a session, or a socket for UDP from the first path's address to the server's.
    pub async fn open(
        connection: &Connection,
        paths: &[(Ipv4Addr, SocketAddr)],
    ) -> Result<Self, EndpointError> {
        if let Some(session) = connection.session() {
            let flow = session.open_flow(FlowConfig::default()).await;
            return flow.map(Self::Flow).map_err(io::Error::other).map_err(system("opening a flow"));
        }
        let udp = async {
            let (local, server) = paths.first().ok_or(io::ErrorKind::NotFound)?;
            let socket = UdpSocket::bind((*local, 0)).await?;
            socket.connect(server).await?;
            io::Result::Ok(socket)
        };
        udp.await.map(Self::Udp).map_err(system("UDP beside the transfer"))
    }

    async fn send(&self, datagram: &[u8]) -> bool {
        match self {
            Self::Flow(flow) => flow.send_datagram(datagram).is_ok(),
            Self::Udp(socket) => socket.send(datagram).await.is_ok(),
        }
    }

    /// The next datagram; `false` at the end.
    async fn receive(&self, into: &mut Vec<u8>) -> bool {
        match self {
            Self::Flow(flow) => {
                let Ok(Some(datagram)) = flow.recv_datagram().await else { return false };
                into.clear();
                into.extend_from_slice(&datagram.bytes);
            }
            Self::Udp(socket) => {
                into.resize(usize::from(u16::MAX), 0);
                let Ok(length) = socket.recv(into).await else { return false };
                into.truncate(length);
            }
        }
        true
    }

    /// Client: asks for the kind, and records what arrives, until dropped.
    pub async fn record(&self, kind: u8, received: &mut Received) {
        received.begin();
        let mut datagram = Vec::new();
        // The first one may be lost on its way.
        let asking = async {
            while self.send(&[kind]).await {
                tokio::time::sleep(ASKED_AGAIN).await;
            }
            core::future::pending::<()>().await;
        };
        tokio::select! {
            () = asking => {}
            _ = self.receive(&mut datagram) => {}
        }
        loop {
            if let (Some(made), Some(number)) = (word(&datagram, 0), word(&datagram, STAMP)) {
                received.datagram(made, number);
            }
            if !self.receive(&mut datagram).await {
                break;
            }
        }
        core::future::pending::<()>().await;
    }

    /// Server: sends datagrams of this kind until the flow ends.
    async fn push(&self, flow: &MessageFlow) {
        let mut datagram = vec![0; flow.size];
        let mut ticks = ticks(flow);
        for number in 0_u64.. {
            let made = ticks.next().await;
            datagram[..STAMP].copy_from_slice(&made.to_be_bytes());
            datagram[STAMP..2 * STAMP].copy_from_slice(&number.to_be_bytes());
            if !self.send(&datagram).await {
                return;
            }
        }
    }
}

fn word(datagram: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*datagram.get(at..)?.first_chunk()?))
}

/// The flow of this kind, if it has one.
fn wanted(flows: &[MessageFlow], kind: Option<&u8>) -> Option<MessageFlow> {
    let flow = flows.get(usize::from(*kind?).checked_sub(1)?)?;
    flow.datagrams.then(|| flow.clone())
}

/// Server: the flows of a session.
pub(super) async fn serve_flows(session: Session, flows: Arc<[MessageFlow]>) {
    while let Ok(flow) = session.accept_flow().await {
        let flows = flows.clone();
        tokio::spawn(async move {
            let Ok(Some(first)) = flow.recv_datagram().await else { return };
            if let Some(wanted) = wanted(&flows, first.bytes.first()) {
                End::Flow(flow).push(&wanted).await;
            }
        });
    }
}

/// Server: UDP at the addresses of its TCP listeners.
pub(super) async fn serve_udp(addresses: &[SocketAddr], flows: &Arc<[MessageFlow]>) -> io::Result<()> {
    for address in addresses.iter().filter(|_| flows.iter().any(|flow| flow.datagrams)) {
        let (socket, flows) = (UdpSocket::bind(address).await?, flows.clone());
        tokio::spawn(async move {
            let mut first = [0];
            let (length, from) = socket.recv_from(&mut first).await?;
            socket.connect(from).await?;
            if let Some(wanted) = wanted(&flows, first.get(..length).and_then(<[u8]>::first)) {
                End::Udp(socket).push(&wanted).await;
            }
            io::Result::Ok(())
        });
    }
    Ok(())
}
