//! Packets. A segment carries sequence numbers, not bytes; its contents wait in a queue beside it.
//!
//! TCP is reliable and in order, so stream bytes need not be copied into packets. The sender leaves them in a
//! queue that both ends share, and the receiver reads as many as arrived in order.

use bytes::Bytes;
use tributary_types::Instant;

use crate::id::RouteId;

/// Bytes of IPv4 and TCP headers with timestamps: a full segment has 1500 − 52 = 1448 payload bytes.
pub const HEADER: u32 = 52;

/// Most SACK blocks of a segment, beside timestamps (RFC 2018).
pub const MAX_SACK_BLOCKS: usize = 3;

/// A range of bytes received out of order: `[from, to)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// First byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
}

/// A TCP segment. Sequence numbers are 64 bits wide and never wrap; SYN and FIN count one each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSegment {
    /// The connection (subflow) of the host that it belongs to.
    pub connection: u32,
    /// Number of the first payload byte.
    pub seq: u64,
    /// Payload bytes.
    pub length: u32,
    /// Next byte expected; meaningful with `is_ack`.
    pub ack: u64,
    /// Receive window in bytes from `ack` on (of the whole connection for MPTCP).
    pub window: u64,
    /// MPTCP: next data sequence number expected in order (RFC 8684 §3.3.2); zero otherwise.
    pub data_ack: u64,
    /// Opens the connection.
    pub is_syn: bool,
    /// Ends this direction.
    pub is_fin: bool,
    /// Acknowledges.
    pub is_ack: bool,
    /// Ends the connection at once.
    pub is_reset: bool,
    /// When it was sent; the peer echoes it (RFC 7323).
    pub timestamp: Instant,
    /// The timestamp of the segment that it answers.
    pub echo: Instant,
    /// Out-of-order blocks, newest first (RFC 2018).
    pub sack: [SackBlock; MAX_SACK_BLOCKS],
    /// How many of them are set.
    pub sack_count: u8,
}

impl TcpSegment {
    /// Sequence space it occupies: payload, SYN and FIN.
    #[must_use]
    pub fn span(&self) -> u64 {
        u64::from(self.length) + u64::from(self.is_syn) + u64::from(self.is_fin)
    }

    /// The SACK blocks that are set.
    #[must_use]
    pub fn sack_blocks(&self) -> &[SackBlock] {
        &self.sack[..usize::from(self.sack_count).min(MAX_SACK_BLOCKS)]
    }
}

/// Contents of a packet.
#[derive(Clone, Debug)]
pub enum Body {
    /// A TCP segment.
    Segment(TcpSegment),
    /// A UDP datagram with its bytes (QUIC).
    Datagram(Bytes),
    /// Bytes of background traffic, which are discarded.
    Filler,
}

/// A packet in the network.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Its route.
    pub route: RouteId,
    /// Number of links of the route that it has crossed.
    pub(crate) hop: u8,
    /// Bytes on the wire, headers included.
    pub size: u32,
    /// Its number in the order of sending, over all packets of the world.
    pub(crate) number: u64,
    /// Its contents.
    pub body: Body,
}

impl Packet {
    /// A packet at the beginning of `route`.
    #[must_use]
    pub fn new(route: RouteId, size: u32, body: Body) -> Self {
        Self { route, hop: 0, size, number: 0, body }
    }

    /// A TCP segment with [`HEADER`] bytes of headers.
    #[must_use]
    pub fn segment(route: RouteId, segment: TcpSegment) -> Self {
        Self::new(route, segment.length + HEADER, Body::Segment(segment))
    }

    /// The packet's number in the order of sending.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}
