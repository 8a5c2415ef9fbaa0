//! Queue limits: drop-tail in bytes, in packets or in time at the present rate; and CoDel.

use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

/// Limit of a link's queue, including the segment in transmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueSpec {
    /// At most this many bytes.
    Bytes(DataSize),
    /// At most this many packets.
    Packets(u64),
    /// At most the bytes that the *current* rate carries in `time`, and at least `floor`. Models a radio whose driver
    /// keeps its queue short when it slows down.
    Time {
        /// Queueing time at the present rate.
        time: Duration,
        /// Smallest limit, for rates near zero.
        floor: DataSize,
    },
    /// At most `limit` bytes, and CoDel drops at the head while packets have waited too long (RFC 8289).
    Codel {
        /// Acceptable standing waiting time.
        target: Duration,
        /// Time for which the waiting time may exceed the target: about the longest RTT.
        interval: Duration,
        /// Maximum number of bytes.
        limit: DataSize,
    },
}

impl QueueSpec {
    /// Default floor of a queue limited in time: 20 packets.
    pub const DEFAULT_FLOOR: DataSize = DataSize::from_bytes(30_000);

    /// Default target of CoDel: RFC 8289 §4.4.
    pub const CODEL_TARGET: Duration = Duration::from_millis(5);
    /// Default interval of CoDel: RFC 8289 §4.3.
    pub const CODEL_INTERVAL: Duration = Duration::from_millis(100);
    /// Default limit of CoDel: 1000 packets.
    pub const CODEL_LIMIT: DataSize = DataSize::from_bytes(1_500_000);

    /// The limit in bytes at `rate`; `None` if packets are counted instead.
    #[must_use]
    pub fn byte_limit(&self, rate: Bitrate) -> Option<u64> {
        match self {
            Self::Bytes(size) | Self::Codel { limit: size, .. } => Some(size.as_bytes()),
            Self::Packets(_) => None,
            Self::Time { time, floor } => Some(rate.size_in(*time).max(*floor).as_bytes()),
        }
    }
}

impl Default for QueueSpec {
    /// 256 KiB.
    fn default() -> Self {
        Self::Bytes(DataSize::from_bytes(256 * 1024))
    }
}
