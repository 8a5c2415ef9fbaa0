//! The client end for UDP sockets of this machine: every address that sends to a listening socket gets a flow.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::super::priority::LivePriorities;
use super::super::sessions::Sessions;
use super::super::target::{Entrance, Head, TargetName};
use super::{Answers, FlowTable, MOST_FLOWS, Opening, Socket};
use crate::flow::Datagram;
use crate::rate_limited::RateLimited;

/// A local UDP socket whose datagrams go to a target of the server.
#[derive(Debug)]
pub(in super::super) struct Listening {
    socket: Arc<Socket>,
    target: Option<TargetName>,
}

impl Listening {
    /// Binds the socket.
    ///
    /// # Errors
    /// The system's.
    pub(in super::super) async fn bind(entrance: &Entrance) -> std::io::Result<Self> {
        let socket = Arc::new(Socket::bind(entrance.address).await?);
        Ok(Self { socket, target: entrance.target().cloned() })
    }

    /// The local address, with the port the system chose.
    pub(in super::super) fn address(&self) -> Option<SocketAddr> {
        self.socket.plain().local_addr().ok()
    }

    /// Carries datagrams in both directions for ever. While there is no session they are dropped.
    pub(in super::super) async fn run(self, sessions: Arc<Sessions>, priorities: LivePriorities) {
        let port = self.address().map_or(0, |address| address.port());
        let opening = || Opening {
            head: Head::Target(self.target.clone()).encode(),
            config: priorities.of_flow(port, self.target.as_ref()),
        };
        let flows = FlowTable::new(MOST_FLOWS, Senders(self.socket.clone()));
        let failures = RateLimited::default();
        loop {
            let received = match self.socket.plain().readable().await {
                Ok(()) => self.socket.receive(|batch| {
                    let Some(session) = sessions.current() else { return };
                    for (source, datagrams) in batch.runs() {
                        flows.send(&session, (&source, opening), datagrams);
                    }
                }),
                error => error,
            };
            if let Err(error) = received {
                failures.tell(|more| tracing::warn!("cannot receive datagrams: {error}{more}"));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

/// Those who send to the socket.
struct Senders(Arc<Socket>);

impl Answers<SocketAddr> for Senders {
    fn datagrams(&self, source: &SocketAddr, datagrams: &[Datagram]) {
        self.0.try_send(*source, datagrams);
    }
}
