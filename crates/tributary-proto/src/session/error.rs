//! Why a session refuses a subflow or input from its peer. Not here: errors of the application's calls (`application`).

use thiserror::Error;
use tributary_types::{StreamId, SubflowId};

use crate::wire::{DecodeError, MAX_DATAGRAM};

/// Why a subflow cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The identifier was used before in this session.
    #[error("{0} was used before: identifiers are never used again")]
    Reused(SubflowId),
    /// The session has reached its limit of subflows.
    #[error("the session has its {0} subflows; close one first")]
    TooMany(usize),
    /// The path already has a subflow that delivers: this one was started before that was known.
    #[error("the path already has {0}, which delivers")]
    Superfluous(SubflowId),
    /// The session is over.
    #[error("the session is closed")]
    Closed,
}

/// A peer's violation of the protocol. The subflow on which it arrived must be aborted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// Bytes that are not a frame.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Frames that arrived outside a subflow's order end within one.
    #[error("the peer sent a part of a frame outside its subflow's order")]
    CutFrame,
    /// More payload than this side allowed.
    #[error("the peer exceeded its credit on {0}")]
    CreditExceeded(StreamId),
    /// A segment numbered too far ahead of what has arrived.
    #[error("the peer numbered a segment too far ahead")]
    TooFarAhead,
    /// More streams than this side allowed.
    #[error("the peer opened more than the {0} streams it may")]
    TooManyStreams(u32),
    /// The peer raised its settings again and again.
    #[error("the peer raised its settings more often than it may")]
    TooManySettings,
    /// A stream of this side that it never opened.
    #[error("the peer used {0}, which this side has not opened")]
    UnknownStream(StreamId),
    /// Bytes past the end, or a second, different end.
    #[error("the peer moved the end of {0}")]
    EndMoved(StreamId),
    /// Bytes of a stream on a flow of datagrams.
    #[error("the peer sent bytes on {0}, which carries datagrams")]
    BytesOnFlow(StreamId),
    /// A segment of a flow that is not whole datagrams, or has one that is too long.
    #[error("the peer sent a segment on {0} that is not whole datagrams of at most {MAX_DATAGRAM} bytes")]
    NoDatagrams(StreamId),
    /// Datagrams at an offset that others have, with another number.
    #[error("the peer sent datagrams on {0} at an offset that others have")]
    DatagramsOverlap(StreamId),
    /// Acknowledged data that was never sent.
    #[error("the peer acknowledged a segment that was never sent")]
    AckUnsent,
    /// Input for a subflow that is not open.
    #[error("{0} is not open")]
    UnknownSubflow(SubflowId),
}
