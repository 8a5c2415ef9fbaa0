//! Statistics of every transport, per path.

use std::time::Duration;

use tributary_proto::SubflowStats;

use crate::sockopt::TcpInfo;
use crate::stats::Stats;

/// A snapshot of a transport.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TransportStats {
    /// The paths in use. Kernel TCP has one for each of its connections.
    pub paths: Vec<PathStats>,
    /// An MPTCP connection fell back to plain TCP.
    pub fallback: bool,
}

/// A snapshot of one path, as this end sees it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// Which path: local and remote address, or its number in a session.
    pub name: String,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Bytes that this end sent and that arrived.
    pub delivered: u64,
    /// Bytes that this end retransmitted. QUIC: bytes that it declared lost.
    pub retransmitted: u64,
    /// Bytes sent that are neither acknowledged nor declared lost; `None` if the implementation does not report them
    /// (QUIC).
    pub in_flight: Option<u64>,
    /// Congestion window in bytes.
    pub window: u64,
    /// Bytes that arrived from the peer.
    pub received: u64,
}

impl PathStats {
    pub(super) fn of_tcp(name: String, tcp: &TcpInfo) -> Self {
        Self {
            name,
            rtt: tcp.rtt,
            delivered: tcp.bytes_acked,
            retransmitted: tcp.bytes_retrans,
            in_flight: Some(tcp.in_flight()),
            window: tcp.cwnd_bytes(),
            received: tcp.bytes_received,
        }
    }
}

impl TransportStats {
    pub(super) fn of_session(stats: &Stats) -> Self {
        let path = |open: &SubflowStats| {
            // The kernel's counters are read only when data moves. Before that, only the path of a subflow is
            // known.
            let known = stats.kernel.iter().find(|report| report.subflow == open.subflow);
            let tcp = known.map(|report| report.tcp).unwrap_or_default();
            PathStats::of_tcp(format!("path {}", open.path.0), &tcp)
        };
        Self { paths: stats.subflows.iter().map(path).collect(), fallback: false }
    }
}
