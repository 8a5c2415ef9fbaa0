//! State, error and numbers of a connection, as in Linux's `tcp_info`.

use core::time::Duration;

use thiserror::Error;
use tributary_types::{Bitrate, Instant};

/// State of a connection (RFC 9293 §3.3.2, with the closing states as the application sees them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpState {
    /// Waits for a SYN.
    Listening,
    /// Sent a SYN.
    #[default]
    Connecting,
    /// Answered a SYN.
    Accepting,
    /// Both directions may carry data, unless they have ended.
    Established,
    /// Over.
    Closed,
}

/// Why a connection ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TcpError {
    /// The peer did not answer for as long as `retries` allow.
    #[error("the peer did not answer {0} transmissions; the path is dead or `retries` too low")]
    TimedOut(u32),
    /// The peer sent a reset.
    #[error("the peer reset the connection")]
    Reset,
    /// This end aborted it.
    #[error("the connection was aborted")]
    Aborted,
}

/// The present numbers of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// State.
    pub state: TcpState,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Mean deviation of the round-trip time: what Linux reports as `tcpi_rttvar`.
    pub mean_deviation: Duration,
    /// Deviation term of the timeout (four mean deviations, at least the floor).
    pub rttvar: Duration,
    /// Least round-trip time; zero before the first sample.
    pub min_rtt: Duration,
    /// Present timeout, including back-off.
    pub rto: Duration,
    /// Bytes that may be in flight.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` until there is one.
    pub ssthresh: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes written but not sent.
    pub unsent: u64,
    /// Newest delivery rate that was not limited by the application, or a higher one that was.
    pub delivery_rate: Bitrate,
    /// Whether the application limited that rate.
    pub app_limited: bool,
    /// Payload bytes sent for the first time.
    pub sent: u64,
    /// Bytes that the peer has acknowledged, in order or selectively: `tcpi_delivered`, in bytes.
    pub delivered: u64,
    /// When the last acknowledgement arrived: what Linux reports as the time since then, `tcpi_last_ack_recv`.
    pub heard_at: Instant,
    /// Payload bytes sent again.
    pub retransmitted: u64,
    /// Bytes detected as lost.
    pub lost: u64,
    /// Payload bytes received more than once.
    pub duplicates: u64,
    /// Acknowledgements that repeated the number while data was in flight (RFC 5681 §2).
    pub duplicate_acks: u64,
    /// Fast recoveries begun, each by a fast retransmission.
    pub fast_recoveries: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Timeouts since the last acknowledgement of new data. MPTCP calls a path with any "potentially failed".
    pub timeouts_in_a_row: u32,
    /// Losses that turned out to be spurious.
    pub spurious: u64,
    /// Whether it is recovering from a loss.
    pub in_recovery: bool,
    /// Bytes held by the receiver for reassembly and reading.
    pub receive_held: u64,
    /// The peer's window from the first unacknowledged byte on.
    pub peer_window: u64,
}
