//! The event log: the outcome of every packet in order. Always hashed, kept only on request.
//!
//! Equal hashes mean equal runs. Each record is a few 64-bit words, mixed in by a multiplication and a
//! rotation, so that the hash depends on neither the machine nor the build. The record of a sent TCP segment
//! includes its numbers and flags; that of a datagram only time, place and size. Packets that are lost inside
//! a link are counted, not identified. Sinks write pcap, text or metrics from the same records.

use tributary_types::Instant;

use crate::id::LinkId;
use crate::packet::{Body, Packet, TcpSegment};

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum What {
    /// A host sent it.
    Sent = 1,
    /// A link's queue had no room for it.
    Overflowed = 2,
    /// It left a link.
    Crossed = 3,
    /// It reached its host.
    Arrived = 4,
    /// A link lost packets that it had accepted: by its loss process, its queue management or a dead radio.
    Dropped = 5,
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// Time of the event.
    pub now: Instant,
    /// Kind of event.
    pub what: What,
    /// The link; `None` at a host.
    pub link: Option<LinkId>,
    /// The packet; `None` for dropped packets, which the link only counts.
    pub packet: Option<&'a Packet>,
    /// Number of packets; above one only for dropped packets.
    pub count: u64,
}

/// Receives the records during the run.
pub trait LogSink {
    /// One event, in order.
    fn record(&mut self, record: &LogRecord<'_>);
}

/// The log of one world.
#[derive(Default)]
pub struct EventLog {
    hash: u64,
    events: u64,
    sinks: Vec<Box<dyn LogSink>>,
}

impl core::fmt::Debug for EventLog {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EventLog").field("hash", &self.hash).field("events", &self.events).finish()
    }
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x100_0000_01b3;

/// Mixes a word into the hash. Fast and sufficient to tell two runs apart; not cryptographic.
fn fold(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(PRIME).rotate_left(29)
}

/// Hash of a segment's fields. Independent of the log's hash, so that the processor can compute both at the
/// same time.
fn contents(segment: &TcpSegment) -> u64 {
    let flags = u64::from(segment.is_syn)
        | u64::from(segment.is_fin) << 1
        | u64::from(segment.is_ack) << 2
        | u64::from(segment.is_reset) << 3;
    let shape = u64::from(segment.length) | flags << 32 | u64::from(segment.connection) << 36;
    let numbers = fold(fold(BASIS, segment.seq), segment.ack);
    let windows = fold(fold(shape, segment.window), segment.data_ack);
    let blocks = segment.sack_blocks().iter();
    blocks.fold(fold(numbers, windows), |hash, block| fold(fold(hash, block.from), block.to))
}

impl EventLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self { hash: BASIS, ..Self::default() }
    }

    /// Passes every record to `sink` from now on.
    pub fn attach(&mut self, sink: Box<dyn LogSink>) {
        self.sinks.push(sink);
    }

    /// Hash of all records so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Number of records so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn record(&mut self, record: LogRecord<'_>) {
        let link = record.link.map_or(u32::MAX, |link| link.0);
        let route = record.packet.map_or(u32::MAX, |packet| packet.route.0);
        let place = u64::from(record.what as u8) << 56 | u64::from(route & 0xff_ffff) << 32 | u64::from(link);
        let size = record
            .packet
            .map_or(record.count, |packet| u64::from(packet.size) << 40 | packet.number & 0xff_ffff_ffff);
        self.hash = fold(fold(fold(self.hash, record.now.as_nanos()), place), size);
        if let (What::Sent, Some(Body::Segment(segment))) = (record.what, record.packet.map(|p| &p.body)) {
            self.hash = fold(self.hash, contents(segment));
        }
        self.events += 1;
        for sink in &mut self.sinks {
            sink.record(&record);
        }
    }
}
