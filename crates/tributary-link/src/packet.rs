//! Input and output of a link: packets, including GSO super-frames of many segments, and chunks.

use tributary_types::Instant;

/// A packet, or a super-frame that stands for several segments with a common header.
#[derive(Clone, Debug)]
pub struct Packet<P> {
    /// Header bytes that every segment repeats (network and transport header).
    pub header: u32,
    /// Payload bytes of all segments together.
    pub payload: u32,
    /// Largest payload of one segment; zero if the packet is not segmented.
    pub segment: u32,
    /// The driver's own reference to the bytes; cloned once per chunk.
    pub handle: P,
}

impl<P> Packet<P> {
    /// A packet of `length` bytes that is never segmented.
    pub fn whole(length: u32, handle: P) -> Self {
        Self { header: length, payload: 0, segment: 0, handle }
    }

    /// Number of segments: at least one.
    #[must_use]
    pub fn segments(&self) -> u32 {
        if self.segment == 0 { 1 } else { self.payload.div_ceil(self.segment).max(1) }
    }

    /// Bytes that segments `first .. first + count` occupy on the link, headers included.
    #[must_use]
    pub fn length_of(&self, first: u32, count: u32) -> u64 {
        if self.segment == 0 {
            return if count == 0 { 0 } else { u64::from(self.header) + u64::from(self.payload) };
        }
        let headers = u64::from(self.header) * u64::from(count);
        let payload_before =
            |segments: u32| (u64::from(segments) * u64::from(self.segment)).min(u64::from(self.payload));
        headers + payload_before(first.saturating_add(count)) - payload_before(first)
    }
}

/// Neighbouring segments of one packet that leave the link together.
#[derive(Clone, Debug)]
pub struct Chunk<P> {
    /// The packet's handle.
    pub handle: P,
    /// Index of the first segment.
    pub first: u32,
    /// Number of segments: at least one.
    pub count: u32,
    /// Bytes on the link, headers included.
    pub length: u64,
    /// When the packet entered the link.
    pub arrived: Instant,
    /// When the chunk leaves the far end: its last segment's departure plus the link's delay.
    pub due: Instant,
}
