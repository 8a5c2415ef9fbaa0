//! Small messages beside a run's workload, on real sockets: their settings and their measurements.
//!
//! The server sends them at fixed intervals, each with its time of sending. Both ends use the machine's monotonic
//! clock, which their namespaces share. Not here: the two ends ([`crate::endpoint`]).

use serde::{Deserialize, Serialize};
use tributary_report::stats;

/// Bytes of a message that hold its time of sending.
pub(crate) const STAMP: usize = 8;

/// Messages of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageFlow {
    /// Name of the kind.
    pub name: String,
    /// Messages per second, from 1 to 10 000.
    pub per_second: u32,
    /// Bytes of each message, from 16 to 65 536; of a datagram at most 1400.
    pub size: usize,
    /// Priority of their stream in a session. With other transports they have their own connection, without priority.
    pub priority: u8,
    /// They are datagrams: a flow of the session, whose behaviour decides its priority, or with TCP on one path UDP on that path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub datagrams: bool,
}

impl MessageFlow {
    /// Head movement and control: a thousand a second.
    #[must_use]
    pub fn imu() -> Self {
        Self { name: "imu".to_owned(), per_second: 1000, size: 64, priority: 7, datagrams: false }
    }

    /// Sound: a frame of 20 ms at 128 kbit/s.
    #[must_use]
    pub fn audio() -> Self {
        Self { name: "audio".to_owned(), per_second: 50, size: 320, priority: 6, datagrams: false }
    }

    /// A game: 60 datagrams of 200 bytes a second.
    #[must_use]
    pub fn game() -> Self {
        Self { name: "game".to_owned(), per_second: 60, size: 200, priority: 0, datagrams: true }
    }

    /// Media of 3 Mbit/s in datagrams of seven packets of an MPEG transport stream, as SRT sends them.
    #[must_use]
    pub fn media() -> Self {
        Self { name: "media".to_owned(), per_second: 285, size: 1316, priority: 0, datagrams: true }
    }

    /// The values clamped to the range that an endpoint accepts.
    pub(crate) fn bounded(&self) -> Self {
        Self {
            per_second: self.per_second.clamp(1, 10_000),
            size: self.size.clamp(2 * STAMP, if self.datagrams { 1400 } else { 65_536 }),
            ..self.clone()
        }
    }
}

/// Latencies from sending a message to its arrival in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// Their kind.
    pub name: String,
    /// Number of messages that arrived.
    pub arrived: usize,
    /// Number of messages sent that had not arrived when the run ended. They count with their age at that time, a
    /// lower bound of their latency. Without them, a blocked flow would look fast. Lost datagrams have no latency.
    pub missing: usize,
    /// Median, milliseconds.
    pub p50_ms: f64,
    /// 95th percentile, milliseconds.
    pub p95_ms: f64,
    /// 99th percentile, milliseconds.
    pub p99_ms: f64,
    /// The longest, milliseconds.
    pub longest_ms: f64,
    /// The percentiles from 0 to 100, milliseconds; empty if no message was sent.
    pub percentiles_ms: Vec<f64>,
}

impl MessageRecord {
    /// From the latencies of messages that arrived and the ages of those that did not, milliseconds.
    pub(crate) fn new(name: &str, latencies_ms: &[f64], ages_ms: &[f64]) -> Self {
        let mut sorted = [latencies_ms, ages_ms].concat();
        sorted.sort_by(f64::total_cmp);
        let each = (0..=100).map(|percent| stats::percentile(&sorted, f64::from(percent)));
        let percentiles_ms: Vec<f64> = each.flatten().collect();
        let percentile = |percent: usize| percentiles_ms.get(percent).copied().unwrap_or(0.0);
        Self {
            name: name.to_owned(),
            arrived: latencies_ms.len(),
            missing: ages_ms.len(),
            p50_ms: percentile(50),
            p95_ms: percentile(95),
            p99_ms: percentile(99),
            longest_ms: percentile(100),
            percentiles_ms,
        }
    }

    /// Datagrams: from the latencies of those that arrived, milliseconds, and the number of those that did not.
    pub(crate) fn with_lost(name: &str, latencies_ms: &[f64], lost: usize) -> Self {
        Self { missing: lost, ..Self::new(name, latencies_ms, &[]) }
    }

    /// Share of the sent messages that arrived, per cent.
    #[must_use]
    pub fn arrived_percent(&self) -> f64 {
        100.0 * self.arrived as f64 / (self.arrived + self.missing).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_percentiles_of_latencies_and_ages() {
        let half = |half: i32| f64::from(half) * 0.5;
        let arrived: Vec<f64> = (0..=100).rev().map(half).collect();
        let ages: Vec<f64> = (101..=200).map(half).collect();
        let record = MessageRecord::new("imu", &arrived, &ages);
        assert_eq!((record.arrived, record.missing, record.percentiles_ms.len()), (101, 100, 101));
        let summary = [record.p50_ms, record.p95_ms, record.p99_ms, record.longest_ms];
        assert!(
            summary.iter().zip([50.0, 95.0, 99.0, 100.0]).all(|(a, b)| (a - b).abs() < 1.0),
            "{record:?}"
        );
        let none = MessageRecord::new("imu", &[], &[]);
        assert_eq!((none.arrived, none.percentiles_ms.len()), (0, 0));
    }
}
