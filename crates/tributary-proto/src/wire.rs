//! Wire format: the frames inside a subflow, as specified byte by byte in `docs/wire-format.md`.
//!
//! Integers are variable-length (RFC 9000 §16). Every frame that must arrive carries a data
//! sequence number and is a *segment*; the others describe state and are repeated when it changes.
//! Not here: the handshake that opens a subflow, which belongs to the runtime.

mod datagrams;
mod decode;
mod encode;
mod varint;

use bytes::Bytes;
use tributary_types::{Bitrate, DataSeq, PathId, StreamId, SubflowId};

pub use datagrams::{Ecn, MAX_DATAGRAM, MAX_PREFIX};
pub(crate) use datagrams::{are_datagrams, encode_prefix, next_datagram};
pub use decode::{DecodeError, Decoder, Item};
pub use encode::{Head, encode_control, encode_segment_head};

/// Version of this format. The handshake says it before anything is authenticated, and a peer with another version is
/// refused.
pub const VERSION: u8 = 5;
/// Most payload bytes in one segment.
pub const MAX_SEGMENT: usize = 64 * 1024;
/// Most bytes a frame may have besides a segment's payload.
pub const MAX_FRAME_HEAD: usize = 2048;
/// A receiver refuses segments numbered this far beyond the first missing one.
pub const MAX_AHEAD: u64 = 1 << 15;
/// A sender numbers payload less than this far beyond the first unacknowledged segment. It is half of the above, so
/// that control segments always fit.
pub const MAX_OUTSTANDING: u64 = MAX_AHEAD / 2;
/// Most received ranges one acknowledgement lists above the cumulative number.
pub const MAX_ACK_RANGES: usize = 64;
/// Most subflows one acknowledgement reports on.
pub const MAX_ACK_SUBFLOWS: usize = 32;
/// Unit of a cap, bit/s, and the highest cap in it.
const KBIT: u64 = 1000;
const MOST_CAP: u64 = u32::MAX as u64;
/// Most bytes of a close reason.
pub const MAX_REASON: usize = 256;
/// Streams from this identifier on are flows of datagrams. Frames that only flows have name them without it.
pub const FIRST_FLOW: u32 = 1 << 31;

/// Whether a stream is a flow of datagrams.
#[must_use]
pub fn is_flow(id: StreamId) -> bool {
    id.0 >= FIRST_FLOW
}

/// Head of a segment: its meaning, and the position of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHead {
    /// Its number in this direction of the session.
    pub seq: DataSeq,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// What it carries.
    pub kind: SegmentKind,
}

/// The kinds of segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// `length` bytes of the stream from `offset`; with `fin` the stream ends after them.
    Data {
        /// Byte offset in the stream.
        offset: u64,
        /// Payload bytes, at most [`MAX_SEGMENT`].
        length: u32,
        /// The stream ends here in this direction.
        fin: bool,
    },
    /// The sender resets the stream.
    Reset {
        /// Application code.
        code: u32,
        /// Bytes of the stream that were numbered; all of them count against credit, whether they arrive or not.
        end: u64,
    },
    /// In place of a data segment of an abandoned stream, so that the numbers have no gap. The stream's
    /// [`SegmentKind::Reset`] is a segment of its own.
    Void {
        /// Payload bytes of the data segment, which are not sent; at most [`MAX_SEGMENT`].
        length: u32,
    },
    /// Whole datagrams of a flow, each behind its length ([`Ecn`]), at `offset` of all that the flow has sent.
    Datagrams {
        /// Byte offset in the flow.
        offset: u64,
        /// Payload bytes, at most [`MAX_SEGMENT`].
        length: u32,
        /// They are delivered after everything below `offset`, and not as they arrive.
        in_order: bool,
    },
    /// In place of datagrams whose deadline has passed.
    Skip {
        /// Byte offset in the flow.
        offset: u64,
        /// Payload bytes that are not sent; at most [`MAX_SEGMENT`].
        length: u32,
    },
    /// The receiver no longer reads the stream.
    Stop {
        /// Application code.
        code: u32,
    },
    /// Credit: the stream may be sent up to this byte offset.
    Credit {
        /// First offset that may not be sent.
        limit: u64,
    },
}

impl SegmentKind {
    /// Payload bytes that follow the head.
    #[must_use]
    pub fn payload(&self) -> u32 {
        match *self {
            Self::Data { length, .. } | Self::Datagrams { length, .. } => length,
            _ => 0,
        }
    }

    /// On a subflow with [`Session::let_overtake`](crate::Session::let_overtake) it may arrive before what was sent before it:
    /// datagrams that are delivered as they arrive.
    #[must_use]
    pub fn may_overtake(&self) -> bool {
        matches!(self, Self::Datagrams { in_order: false, .. })
    }
}

/// A frame that is not a segment: state, repeated rather than retransmitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Acknowledgement, from both ends of the window and for each subflow (FBDT §3.2).
    Ack(Ack),
    /// Limits of this side; the first frame on every subflow.
    Settings(DeclaredLimits),
    /// Asks for a [`Control::Pong`] with the same number.
    Ping(u64),
    /// Answers a ping.
    Pong(u64),
    /// For the sender of data this path is silent: asks the client for a new connection on it.
    Refresh(PathId),
    /// For the sender of data this path's connection is far slower than its radio: asks the client to replace it,
    /// although it delivers.
    Replace(PathId),
    /// The client asks the server to send no more than this over the path of the subflow that carries the frame, in steps of a kbit/s;
    /// `None`: as much as it can.
    Cap(Option<Bitrate>),
    /// The client has removed the path of this subflow: nothing more arrives on it.
    Gone(SubflowId),
    /// Segments that may overtake others ([`SegmentKind::may_overtake`]) and arrived on this subflow since it opened, duplicates
    /// included. [`Ack::progress`] does not count them.
    Apart {
        /// The subflow.
        subflow: SubflowId,
        /// How many.
        count: u64,
    },
    /// The session is over: everything before it was acknowledged, unless `code` is not zero.
    Close {
        /// Zero: closed normally.
        code: u32,
        /// Reason, as text for people; a peer may send invalid UTF-8.
        reason: Bytes,
    },
}

/// An acknowledgement. May travel on any subflow; a later one replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ack {
    /// Every segment below this number has arrived: the forward cursor.
    pub next: DataSeq,
    /// Total bytes of stream payload the peer may number in this session.
    pub max_data: u64,
    /// Ranges that arrived above `next`, ascending, half-open, apart: the backward cursors.
    pub ranges: Vec<(DataSeq, DataSeq)>,
    /// Segments that arrived on each subflow in its order, duplicates included, since it opened.
    pub progress: Vec<(SubflowId, u64)>,
}

/// Limits one side declares to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredLimits {
    /// Initial session credit, bytes.
    pub max_data: u64,
    /// Initial credit of each stream the peer sends on, bytes.
    pub stream_credit: u64,
    /// Streams the peer may have open at once.
    pub max_streams: u32,
}

/// The least part of the session credit that a stream is always entitled to, and its largest value, bytes.
const LEAST_PART: u64 = 4096;
const MOST_LEAST: u64 = 16 << 10;

impl DeclaredLimits {
    /// Bytes that every stream may send ahead of its reader, however little credit is left: so little that a thousand
    /// streams that nobody reads use a quarter of the session credit.
    #[must_use]
    pub fn least_share(&self) -> u64 {
        (self.max_data / LEAST_PART).clamp(1, MOST_LEAST)
    }
}

#[cfg(test)]
mod tests;
