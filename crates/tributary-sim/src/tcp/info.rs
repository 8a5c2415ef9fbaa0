//! What can be read off a connection: its state, its error, its numbers. Linux's `tcp_info`.

use core::time::Duration;

use thiserror::Error;
use tributary_types::Bitrate;

/// Where a connection stands (RFC 9293 §3.3.2, with the closing states as seen by the application).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcpState {
    /// Waits for a SYN.
    Listening,
    /// Sent a SYN.
    #[default]
    Connecting,
    /// Answered a SYN.
    Accepting,
    /// Both directions may carry data, unless ended.
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
    /// This end gave it up.
    #[error("the connection was aborted")]
    Aborted,
}

/// A connection's numbers now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInfo {
    /// State.
    pub state: TcpState,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Mean deviation of the round-trip time: what Linux reports as `tcpi_rttvar`.
    pub mean_deviation: Duration,
    /// Deviation term of the time-out (four mean deviations, floor included).
    pub rttvar: Duration,
    /// Least round-trip time; zero before the first sample.
    pub min_rtt: Duration,
    /// Present time-out, back-off included.
    pub rto: Duration,
    /// Bytes that may be in flight.
    pub cwnd: u64,
    /// Slow-start threshold, bytes; `u64::MAX` until there is one.
    pub ssthresh: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes written but not sent.
    pub unsent: u64,
    /// Newest delivery rate that the application did not limit, or a higher one that it did.
    pub delivery_rate: Bitrate,
    /// The application limited that rate.
    pub app_limited: bool,
    /// Payload bytes sent for the first time.
    pub sent: u64,
    /// Payload bytes sent again.
    pub retransmitted: u64,
    /// Bytes found lost.
    pub lost: u64,
    /// Payload bytes received more than once.
    pub duplicates: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Time-outs since the last acknowledgement of new data: a path with any is "potentially failed".
    pub timeouts_in_a_row: u32,
    /// Losses that turned out to be none.
    pub spurious: u64,
    /// A loss is being recovered from.
    pub in_recovery: bool,
    /// Bytes held by the receiver for reassembly and reading.
    pub receive_held: u64,
    /// The peer's window from the first unacknowledged byte on.
    pub peer_window: u64,
}
