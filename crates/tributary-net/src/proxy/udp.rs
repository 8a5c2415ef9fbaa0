//! The proxy's datagrams: UDP over flows of a session.
//!
//! How to use it, for another client end (SOCKS5's UDP ASSOCIATE, a TUN device):
//!
//! - Make one [`FlowTable`] with a function that hands the datagrams that come back to a source. A *source* is the key of a flow: the
//!   address of a socket, or addresses and ports of both ends.
//! - Pass every datagram to [`FlowTable::send`] with its source and the flow's head (`Head::encode`). The first one opens a flow,
//!   whose first datagram is the head; a flow that has been idle for [`IDLE`] ends. Nothing waits: what there is no room for is dropped,
//!   as UDP does.
//! - At the server give the session's flows to [`serve`], with a function that resolves a head.
//!
//! [`Listening`] is the client end for UDP sockets of this machine. Not here: how a flow is sent ([`tributary_proto::flow`]).

mod listen;
mod serve;
mod table;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

pub(super) use listen::Listening;
pub(super) use serve::serve;
pub(super) use table::FlowTable;

/// A flow without datagrams in either direction ends after this time (RFC 4787 REQ-5: not less than two minutes).
const IDLE: Duration = Duration::from_secs(120);
/// Datagrams that are taken from a socket or a flow at once.
const BATCH: usize = 64;
/// Buffer for datagrams of one batch, bytes.
const BUFFER: usize = 128 << 10;
/// Longest datagram of UDP, bytes.
const LONGEST: usize = 65_535;

/// When a flow was last used.
#[derive(Debug)]
struct Used {
    since: Instant,
    millis: AtomicU64,
}

impl Used {
    fn new() -> Self {
        Self { since: Instant::now(), millis: AtomicU64::new(0) }
    }

    fn now(&self) {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    fn at(&self) -> Instant {
        self.since + Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    /// Waits until the flow has not been used for [`IDLE`].
    async fn idle(&self) {
        while self.at().elapsed() < IDLE {
            tokio::time::sleep_until(self.at() + IDLE).await;
        }
    }
}

/// Datagrams that were received from a socket at once.
struct Batch {
    bytes: Box<[u8]>,
    datagrams: Vec<(SocketAddr, Range<usize>)>,
}

impl Batch {
    fn new() -> Self {
        Self { bytes: vec![0; BUFFER].into(), datagrams: Vec::with_capacity(BATCH) }
    }

    /// Receives what waits. An error without any datagram is returned; an ICMP error caused by an earlier datagram counts as
    /// nothing received.
    fn fill(&mut self, receive: impl Fn(&mut [u8]) -> io::Result<(usize, SocketAddr)>) -> io::Result<()> {
        self.datagrams.clear();
        let mut at = 0;
        while self.datagrams.len() < BATCH && self.bytes.len() - at >= LONGEST {
            match receive(&mut self.bytes[at..]) {
                Ok((length, from)) => {
                    self.datagrams.push((from, at..at + length));
                    at += length;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if self.datagrams.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Runs of datagrams from one sender.
    fn runs(&self) -> impl Iterator<Item = (SocketAddr, impl Iterator<Item = &[u8]> + Clone)> {
        self.datagrams.chunk_by(|a, b| a.0 == b.0).map(|run| {
            let datagrams = run.iter().map(|(_, range)| &self.bytes[range.clone()]);
            (run[0].0, datagrams)
        })
    }
}
