//! Events of a session for its driver and its application, and bytes to transmit.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::{DataSeq, PathId, StreamId, SubflowId};

use crate::scheduler::PriorityDecision;
use crate::wire::Head;

/// Bytes to write on a subflow: `head`, then `payload`. Either may be empty, not both.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// The subflow to write to.
    pub subflow: SubflowId,
    /// Frame head, inline.
    pub head: Head,
    /// Payload, or a whole control frame.
    pub payload: Bytes,
    /// It may arrive before what was written on the subflow before it: an acknowledgement or, on a subflow with
    /// [`Session::let_overtake`](crate::Session::let_overtake), datagrams that are delivered as they arrive. Other segments may not, because
    /// the peer's count of those that arrived says which. The peer takes it with
    /// [`Session::handle_overtaking`](crate::Session::handle_overtaking).
    pub may_overtake: bool,
}

impl Transmit {
    /// Bytes in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.as_slice().len() + self.payload.len()
    }

    /// Whether there is nothing to write. A session never returns an empty transmit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What happened in a session, and requests to its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Driver: connect this path now and use this identifier in the handshake.
    OpenSubflow {
        /// The path.
        path: PathId,
        /// The identifier of the attempt and, if it succeeds, of the subflow.
        subflow: SubflowId,
    },
    /// Driver: the attempt is no longer wanted.
    AbandonConnect {
        /// The attempt.
        subflow: SubflowId,
    },
    /// Driver: close the subflow; with `abort` at once and without flushing.
    CloseSubflow {
        /// The subflow.
        subflow: SubflowId,
        /// Reset instead of a normal close.
        abort: bool,
    },
    /// The peer opened a stream.
    StreamOpened(StreamId),
    /// The peer opened a flow of datagrams.
    FlowOpened(StreamId),
    /// There is data, or a datagram, to read.
    StreamReadable(StreamId),
    /// There is room to write.
    StreamWritable(StreamId),
    /// The peer has received everything up to the end of the stream.
    StreamFinished(StreamId),
    /// The peer no longer reads the stream; writes to it fail.
    StreamStopped(StreamId, u32),
    /// Messages were dropped because their deadline passed before any of their bytes got a data sequence number.
    MessageExpired {
        /// Their stream.
        stream: StreamId,
        /// How many.
        messages: u32,
        /// Bytes in all.
        bytes: usize,
    },
    /// The session is over.
    Closed {
        /// Zero: closed normally.
        code: u32,
        /// Reason, as text for people.
        reason: String,
        /// The peer ended it.
        by_peer: bool,
    },
    /// A subflow is open and carries data.
    SubflowUp {
        /// The subflow.
        subflow: SubflowId,
        /// Its path.
        path: PathId,
    },
    /// A subflow has ended; its unacknowledged segments are sent on others.
    SubflowDown {
        /// The subflow.
        subflow: SubflowId,
        /// Its path.
        path: PathId,
        /// Segments that were outstanding on it.
        orphans: usize,
    },
    /// Nothing sent on this path has arrived for `silence`.
    PathSilent {
        /// The path.
        path: PathId,
        /// Time since the last progress.
        silence: Duration,
    },
    /// Driver: use small segments for new connections on this path, or the system's size again.
    ///
    /// Several connections in a row were established on the path, but no full-size segment got through: the path drops
    /// long packets without an ICMP error (RFC 2923 §2.1).
    SmallSegments {
        /// The path.
        path: PathId,
        /// Use small segments, or full-size ones again because small ones did not help.
        small: bool,
    },
    /// The path was removed, here or by the client.
    PathRemoved {
        /// The path.
        path: PathId,
    },
    /// A silent path delivers data again.
    PathBack {
        /// The path.
        path: PathId,
    },
    /// Telemetry: segments `first..end` were numbered as one transmission window.
    WindowLoaded {
        /// First segment.
        first: DataSeq,
        /// One past the last.
        end: DataSeq,
        /// Payload bytes.
        bytes: u64,
    },
    /// Telemetry: a segment was sent again on another subflow.
    Reinjected {
        /// The segment.
        seq: DataSeq,
        /// The subflow that carries the copy.
        onto: SubflowId,
    },
    /// Telemetry: the subflow chosen for a prioritised segment, and why.
    Prioritised(PriorityDecision),
}

impl Event {
    /// Whether the event describes a decision about segments; emitted only with [`crate::Config::telemetry`].
    #[must_use]
    pub fn is_telemetry(&self) -> bool {
        matches!(self, Self::WindowLoaded { .. } | Self::Reinjected { .. } | Self::Prioritised(_))
    }
}
