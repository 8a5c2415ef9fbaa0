//! What the engine is told, and what it decides.

use core::time::Duration;

use tributary_types::{Instant, PathId};

/// What the controller and the transport report of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathReport {
    /// The path.
    pub path: PathId,
    /// Mean RTT; `None` when it cannot be reached.
    pub rtt: Option<Duration>,
    /// Retransmissions on it since the session began.
    pub retransmissions: u64,
    /// Share of probes lost in each direction in the last five seconds, 0 to 1, without those lost while the queue was
    /// long, because that is what playback itself does to a path; `None` while it is not known.
    pub loss: Option<f64>,
}

impl PathReport {
    /// A report without retransmissions and with unknown loss.
    #[must_use]
    pub fn new(path: PathId, rtt: Option<Duration>) -> Self {
        Self { path, rtt, retransmissions: 0, loss: None }
    }

    /// An RTT in milliseconds as a controller reports it. `None` for an impossible value: not a number, not above
    /// zero, or above one minute.
    #[must_use]
    pub fn rtt_from_millis(millis: f64) -> Option<Duration> {
        let plausible = millis > 0.0 && millis <= 60_000.0;
        plausible.then(|| Duration::from_secs_f64(millis / 1000.0))
    }
}

/// Playback at the time of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Media in the play buffer.
    pub level: Duration,
    /// Throughput of the downloads, bit/s; `None` while it is not known.
    pub throughput: Option<f64>,
    /// Whether QUIC can be used.
    pub udp: bool,
}

/// Transport of the media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP on the default route.
    Tcp,
    /// QUIC on one path.
    Quic(PathId),
    /// Multipath TCP on these paths.
    Mptcp(Vec<PathId>),
    /// Multipath QUIC on these paths.
    MultipathQuic(Vec<PathId>),
    /// A session on these paths.
    Session(Vec<PathId>),
}

impl Transport {
    /// Its paths; none for TCP, which follows the default route.
    #[must_use]
    pub fn paths(&self) -> &[PathId] {
        match self {
            Self::Tcp => &[],
            Self::Quic(path) => core::slice::from_ref(path),
            Self::Mptcp(paths) | Self::MultipathQuic(paths) | Self::Session(paths) => paths,
        }
    }
}

/// Reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no controller, or it reports no usable path.
    NoController,
    /// UDP does not get through.
    UdpBlocked,
    /// Only one path is usable.
    OnePath,
    /// The RTT ratios of the paths in use are below the threshold.
    Balanced,
    /// The path's RTT is too far above the lowest.
    Rtt,
    /// The path retransmits too much.
    Retransmissions,
    /// Packets are lost on the path, or on all paths in use.
    Loss,
    /// Loss on the paths in use has ended.
    LossEnded,
    /// The path cannot be reached.
    Unreachable,
    /// The path is usable again.
    Recovered,
    /// One path is left and the play buffer is nearly empty.
    BufferCritical,
}

/// Instruction to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Begin with this transport.
    Start(Transport),
    /// Stop using a path; it stays monitored.
    Remove(PathId),
    /// Replace a path by another one.
    Replace {
        /// The path that leaves.
        out: PathId,
        /// The path that joins.
        with: PathId,
    },
    /// Use a path again.
    Add(PathId),
    /// Abort the running request and continue over this transport.
    Move(Transport),
}

/// A decision with its input.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// When.
    pub at: Instant,
    /// What to do.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// The paths as they were reported.
    pub paths: Vec<PathReport>,
    /// The play buffer; zero at the start.
    pub level: Duration,
}
