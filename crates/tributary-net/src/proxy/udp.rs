//! The proxy's datagrams: UDP over flows of a session.
//!
//! - A client end makes one [`FlowTable`], whose [`Answers`] go back to a source. A *source* is the key of a flow: the address of a
//!   socket, or the addresses and ports of both ends.
//! - It passes every datagram to [`FlowTable::send`] with its source and the flow's [`Opening`]: head (`Head::encode`) and mode. The first
//!   one opens a flow, whose first datagram is the head; a flow that has been idle for [`IDLE`] ends. Nothing waits: what there is no room for is dropped,
//!   as UDP does.
//! - The server gives the session's flows to [`serve`], with the address that a head leads to.
//!
//! Client ends: [`Listening`] for UDP sockets of this machine, [`Association`] for SOCKS5, [`Packets`] for a TUN device. Not here:
//! how a flow is sent ([`tributary_proto::flow`]).

mod associate;
mod listen;
mod packets;
mod serve;
mod socket;
mod table;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tributary_tun::MOST_BYTES;

pub(super) use associate::Association;
pub(super) use listen::Listening;
pub(super) use packets::Packets;
pub(super) use serve::serve;
use socket::Socket;
use table::{Answers, FlowTable, Opening};

use crate::flow::Datagram;

/// A flow without datagrams in either direction ends after this time (RFC 4787 REQ-5: not less than two minutes).
const IDLE: Duration = Duration::from_secs(120);
/// Flows of one client end: half of the streams and flows that a server allows by default.
const MOST_FLOWS: usize = 512;
/// Datagrams that are taken from a device or a flow at once: some that the kernel takes together.
const BATCH: usize = 256;

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

/// Number of datagrams at the beginning, `most` at most, that the kernel takes at once: all with the first one's ECN codepoint and as long
/// as it, but the last may be shorter.
fn alike(datagrams: &[Datagram], most: usize) -> usize {
    let Some((each, ecn)) = datagrams.first().map(|first| (first.bytes.len(), first.ecn)) else { return 0 };
    if each == 0 {
        return 1;
    }
    let most = (MOST_BYTES / each).min(most).max(1);
    let is_alike = |datagram: &&Datagram| datagram.bytes.len() == each && datagram.ecn == ecn;
    let same = datagrams.iter().take(most).take_while(is_alike).count();
    let is_shorter = |last: &Datagram| (1..each).contains(&last.bytes.len()) && last.ecn == ecn;
    same + usize::from(same < most && datagrams.get(same).is_some_and(is_shorter))
}

#[cfg(test)]
mod tests {
    use tributary_proto::wire::Ecn;

    use super::*;

    #[test]
    fn datagrams_of_one_length_and_a_shorter_last_one_are_alike() {
        for (lengths, runs) in [
            (&[1400, 1400, 1400, 30, 1400][..], &[4, 1][..]),
            (&[30, 1400, 1400], &[1, 2]),
            (&[0, 0, 5, 0], &[1, 1, 1, 1]),
            (&[65_507, 65_507, 1], &[1, 1, 1]),
            (&[1400; 100], &[46, 46, 8]),
            (&[10; 100], &[64, 36]),
        ] {
            let make = |length: &usize| Datagram { bytes: vec![0; *length].into(), ecn: Ecn::NotCapable };
            let all: Vec<Datagram> = lengths.iter().map(make).collect();
            let (mut rest, mut found) = (&all[..], Vec::new());
            while !rest.is_empty() {
                found.push(alike(rest, 64));
                rest = &rest[found[found.len() - 1]..];
            }
            assert_eq!(found, runs, "{lengths:?}");
            assert_eq!(alike(&all, 1), 1);
        }
        assert_eq!(alike(&[], 64), 0);
        let marked = [(1400, Ecn::Capable0), (1400, Ecn::Congested), (30, Ecn::Capable0)]
            .map(|(length, ecn)| Datagram { bytes: vec![0; length].into(), ecn });
        assert_eq!([alike(&marked, 64), alike(&marked[1..], 64)], [1, 1], "one codepoint a call");
    }
}
