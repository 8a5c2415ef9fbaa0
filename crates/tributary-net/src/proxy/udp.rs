//! The proxy's datagrams: UDP over flows of a session.
//!
//! - A client end makes one [`FlowTable`], whose [`Answers`] go back to a source. A *source* is the key of a flow: the address of a
//!   socket, or the addresses and ports of both ends.
//! - It passes every datagram to [`FlowTable::send`] with its source and the flow's head (`Head::encode`). The first one opens a flow,
//!   whose first datagram is the head; a flow that has been idle for [`IDLE`] ends. Nothing waits: what there is no room for is dropped,
//!   as UDP does.
//! - The server gives the session's flows to [`serve`], with the address that a head leads to.
//!
//! Client ends: [`Listening`] for UDP sockets of this machine, [`Association`] for SOCKS5, [`Packets`] for a TUN device. Not here:
//! how a flow is sent ([`tributary_proto::flow`]).

mod associate;
mod listen;
mod packets;
mod serve;
mod table;

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

pub(super) use associate::Association;
pub(super) use listen::Listening;
pub(super) use packets::Packets;
pub(super) use serve::serve;
use table::{Answers, FlowTable};

/// A flow without datagrams in either direction ends after this time (RFC 4787 REQ-5: not less than two minutes).
const IDLE: Duration = Duration::from_secs(120);
/// Flows of one client end: half of the streams and flows that a server allows by default.
const MOST_FLOWS: usize = 512;
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

/// Datagrams that were received at once, each with its source.
struct Batch<K> {
    bytes: Box<[u8]>,
    at: usize,
    datagrams: Vec<(K, Range<usize>)>,
}

impl<K: PartialEq> Batch<K> {
    fn new() -> Self {
        Self { bytes: vec![0; BUFFER].into(), at: 0, datagrams: Vec::with_capacity(BATCH) }
    }

    fn clear(&mut self) {
        self.datagrams.clear();
        self.at = 0;
    }

    /// Whether the longest datagram fits, too.
    fn has_room(&self) -> bool {
        self.datagrams.len() < BATCH && self.bytes.len() - self.at >= LONGEST
    }

    fn push(&mut self, source: K, datagram: &[u8]) {
        let range = self.at..self.at + datagram.len();
        self.bytes[range.clone()].copy_from_slice(datagram);
        self.at = range.end;
        self.datagrams.push((source, range));
    }

    /// Receives what waits. An error without any datagram is returned.
    fn fill(&mut self, receive: impl Fn(&mut [u8]) -> io::Result<(usize, K)>) -> io::Result<()> {
        self.clear();
        while self.has_room() {
            match receive(&mut self.bytes[self.at..]) {
                Ok((length, from)) => {
                    self.datagrams.push((from, self.at..self.at + length));
                    self.at += length;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if self.datagrams.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Runs of datagrams from one source.
    fn runs(&self) -> impl Iterator<Item = (&K, impl Iterator<Item = &[u8]> + Clone)> {
        self.datagrams.chunk_by(|a, b| a.0 == b.0).map(|run| {
            let datagrams = run.iter().map(|(_, range)| &self.bytes[range.clone()]);
            (&run[0].0, datagrams)
        })
    }
}
