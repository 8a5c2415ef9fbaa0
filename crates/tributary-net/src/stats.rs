//! Counters of a session and of its subflows.

use tributary_proto::{SessionStats, SubflowStats};
use tributary_types::{PathId, SubflowId};

use crate::paths::PathStatus;
use crate::sockopt::TcpInfo;

/// The kernel's view of one subflow at its last refresh.
#[derive(Clone, Copy, Debug)]
pub struct SubflowReport {
    /// The subflow.
    pub subflow: SubflowId,
    /// Its path.
    pub path: PathId,
    /// The kernel's counters.
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
