//! The event log: every packet's fate in order, hashed always and kept only when asked.
//!
//! The hash decides "same seed, same run": 64-bit FNV-1a over fixed little-endian records, so that it
//! depends on neither the machine nor the build. Sinks write pcap, text or metrics from the same records.

use tributary_types::Instant;

use crate::network::{LinkId, RouteId};
use crate::packet::Packet;

/// What happened to a packet.
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
}

/// One event.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    /// When.
    pub now: Instant,
    /// What.
    pub what: What,
    /// On which link; `None` at a host.
    pub link: Option<LinkId>,
    /// On which route.
    pub route: RouteId,
    /// The packet.
    pub packet: &'a Packet,
}

/// Reads the log while it happens.
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

fn fold(hash: u64, word: u64) -> u64 {
    // FNV-1a a word at a time: weaker than byte by byte, eight times faster, still tells two runs apart.
    (hash ^ word).wrapping_mul(PRIME).rotate_left(29)
}

impl EventLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self { hash: BASIS, ..Self::default() }
    }

    /// Hands every record to `sink` from now on.
    pub fn attach(&mut self, sink: Box<dyn LogSink>) {
        self.sinks.push(sink);
    }

    /// Hash of everything so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Records so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    pub(crate) fn record(&mut self, record: LogRecord<'_>) {
        let link = record.link.map_or(u32::MAX, |link| link.0);
        let place = u64::from(record.what as u8) << 56
            | u64::from(record.route.0 & 0xff_ffff) << 32
            | u64::from(link);
        let size = u64::from(record.packet.size) << 40 | record.packet.number & 0xff_ffff_ffff;
        self.hash = fold(fold(fold(self.hash, record.now.as_nanos()), place), size);
        self.events += 1;
        for sink in &mut self.sinks {
            sink.record(&record);
        }
    }
}
