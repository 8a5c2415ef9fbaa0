//! The client end for SOCKS5's UDP ASSOCIATE: datagrams with their destination in front. Source: RFC 1928 §7.
//!
//! Not here: the request, and the connection with which an association ends (`requested`).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::priority::LivePriorities;
use super::super::request::{read_datagram, write_datagram};
use super::super::sessions::Sessions;
use super::super::target::Head;
use super::{Answers, FlowTable, MOST_FLOWS, Opening, Socket};
use crate::destination::Destination;
use crate::flow::Datagram;

/// Time before the socket is read again after an error.
const AFTER_ERROR: Duration = Duration::from_millis(20);

/// A socket for the datagrams of one application.
#[derive(Debug)]
pub(in super::super) struct Association {
    socket: Arc<Socket>,
    application: IpAddr,
}

impl Association {
    /// Binds a socket to this local address for an application at this address.
    ///
    /// # Errors
    /// The system's.
    pub(in super::super) async fn bind(local: IpAddr, application: IpAddr) -> io::Result<Self> {
        Ok(Self { socket: Arc::new(Socket::bind((local, 0).into()).await?), application })
    }

    /// Where the application is to send its datagrams.
    ///
    /// # Errors
    /// The system's.
    pub(in super::super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.plain().local_addr()
    }

    /// Carries datagrams in both directions for ever. While there is no session they are dropped.
    pub(in super::super) async fn run(self, sessions: &Sessions, priorities: &LivePriorities) {
        let flows = FlowTable::new(MOST_FLOWS, Application(self.socket.clone()));
        loop {
            let received = match self.socket.plain().readable().await {
                Ok(()) => self.socket.receive(|batch| {
                    let Some(session) = sessions.current() else { return };
                    // RFC 1928 §7: from no other host.
                    for (from, datagrams) in batch.runs().filter(|(from, _)| from.ip() == self.application) {
                        let addressed = |(datagram, ecn)| Some((read_datagram(datagram)?, ecn));
                        for ((to, payload), ecn) in datagrams.filter_map(addressed) {
                            let source = Conversation { from, to };
                            let opening = || Opening {
                                head: Head::Destination(source.to.clone()).encode(),
                                config: priorities.of_flow(source.to.port, None),
                            };
                            flows.send(&session, (&source, opening), std::iter::once((payload, ecn)));
                        }
                    }
                }),
                error => error,
            };
            if let Err(error) = received {
                tracing::debug!(%error, "datagrams of an application");
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
    }
}

/// The application's address, and with whom it exchanges datagrams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Conversation {
    from: SocketAddr,
    to: Destination,
}

impl fmt::Display for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.from, self.to)
    }
}

/// The application. There is no answer that says that a destination is refused.
struct Application(Arc<Socket>);

impl Answers<Conversation> for Application {
    fn datagrams(&self, Conversation { from, to }: &Conversation, datagrams: &[Datagram]) {
        let (mut out, mut ends) = (Vec::new(), Vec::with_capacity(datagrams.len()));
        for datagram in datagrams {
            write_datagram(&mut out, to, &datagram.bytes);
            ends.push(out.len());
        }
        let (out, mut begin) = (Bytes::from(out), 0);
        let answer = |(datagram, end): (&Datagram, usize)| {
            let bytes = out.slice(std::mem::replace(&mut begin, end)..end);
            Datagram { bytes, ecn: datagram.ecn }
        };
        let answers: Vec<Datagram> = datagrams.iter().zip(ends).map(answer).collect();
        self.0.try_send(*from, &answers);
    }
}
