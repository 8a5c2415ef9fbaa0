//! Drop-tail queue limits: bytes, packets, or time at the link's present rate.

use core::time::Duration;
use tributary_types::{Bitrate, DataSize};

/// How much may wait at a link, the segment in transmission included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueSpec {
    /// At most this many bytes.
    Bytes(DataSize),
    /// At most this many packets.
    Packets(u64),
    /// The bytes that the *present* rate carries in `time`, but never fewer than `floor`:
    /// a radio whose driver keeps its queue short when it slows down.
    Time {
        /// Queueing time at the present rate.
        time: Duration,
        /// Least limit, in force when the rate is near zero.
        floor: DataSize,
    },
}

impl QueueSpec {
    /// Floor of a queue that follows the rate, unless another is given: 20 packets.
    pub const DEFAULT_FLOOR: DataSize = DataSize::from_bytes(30_000);

    /// The limit in bytes at `rate`; `None` when packets are counted instead.
    #[must_use]
    pub fn byte_limit(&self, rate: Bitrate) -> Option<u64> {
        match self {
            Self::Bytes(size) => Some(size.as_bytes()),
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
