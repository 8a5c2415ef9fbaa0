//! Counters of a session and of its subflows.

use tributary_proto::{SessionStats, SubflowStats};
use tributary_types::{PathId, SubflowId};

use crate::paths::PathStatus;
use crate::pipe::SubflowProtocol;
use crate::sockopt::TcpInfo;

/// The view of one subflow that its connection has at its last refresh.
#[derive(Clone, Copy, Debug)]
pub struct SubflowReport {
    /// The subflow.
    pub subflow: SubflowId,
    /// Its path.
    pub path: PathId,
    /// The connection that carries it.
    pub protocol: SubflowProtocol,
    /// The connection's counters. QUIC's: those that it knows, segments are packets of the largest size, and retransmitted is
    /// what it declared lost.
    pub tcp: TcpInfo,
}

/// A snapshot of a session.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The session's counters.
    pub session: SessionStats,
    /// Its paths, those without a connection included.
    pub paths: Vec<PathStatus>,
    /// The session's view of its open subflows.
    pub subflows: Vec<SubflowStats>,
    /// The kernel's view of them.
    pub kernel: Vec<SubflowReport>,
}
