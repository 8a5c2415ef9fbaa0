//! Small messages beside a run's workload, on real sockets: what is asked for and what was measured.
//!
//! The server makes them by the clock and writes on each when it was made; both ends read the machine's
//! monotonic clock, which their namespaces share. Not here: the two ends ([`crate::endpoint`]).

use serde::{Deserialize, Serialize};
use tributary_report::stats;

/// Bytes of a message that say when it was made.
pub(crate) const STAMP: usize = 8;

/// Messages of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageFlow {
    /// What they are.
    pub name: String,
    /// How many a second, from 1 to 10 000.
    pub per_second: u32,
    /// Bytes of each, from 8 to 65 536.
    pub size: usize,
    /// Of their stream, in sessions; elsewhere they have a connection of their own.
    pub priority: u8,
}

impl MessageFlow {
    /// Head movement and control: a thousand a second.
    #[must_use]
    pub fn imu() -> Self {
        Self { name: "imu".to_owned(), per_second: 1000, size: 64, priority: 7 }
    }

    /// Sound: a frame of 20 ms at 128 kbit/s.
    #[must_use]
    pub fn audio() -> Self {
        Self { name: "audio".to_owned(), per_second: 50, size: 320, priority: 6 }
    }

    /// Within what an endpoint accepts from a plan.
    pub(crate) fn bounded(&self) -> Self {
        Self {
            per_second: self.per_second.clamp(1, 10_000),
            size: self.size.clamp(STAMP, 65_536),
            ..self.clone()
        }
    }
}

/// From making a message to its arrival in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// Their kind.
    pub name: String,
    /// How many arrived.
    pub arrived: usize,
    /// Median, milliseconds.
    pub p50_ms: f64,
    /// 95th percentile, milliseconds.
    pub p95_ms: f64,
    /// 99th percentile, milliseconds.
    pub p99_ms: f64,
    /// The longest, milliseconds.
    pub longest_ms: f64,
}

impl MessageRecord {
    pub(crate) fn new(name: &str, latencies_ms: &[f64]) -> Self {
        let percentile = |percent| stats::percentile(latencies_ms, percent).unwrap_or(0.0);
        Self {
            name: name.to_owned(),
            arrived: latencies_ms.len(),
            p50_ms: percentile(50.0),
            p95_ms: percentile(95.0),
            p99_ms: percentile(99.0),
            longest_ms: percentile(100.0),
        }
    }
}
