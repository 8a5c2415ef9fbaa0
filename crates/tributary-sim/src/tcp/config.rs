//! Settings of a TCP connection. Defaults are those of Linux 6.x (`net.ipv4.tcp_*`, `include/net/tcp.h`).

use core::time::Duration;

/// Loss detection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossDetection {
    /// By time, with tail-loss probes (RFC 8985).
    #[default]
    Rack,
    /// Three segments above are selectively acknowledged (RFC 6675); no tail-loss probes.
    DupAck,
    /// Three duplicate acknowledgements, then a segment a round trip (RFC 6582): selective acknowledgements are not
    /// read. No tail-loss probes.
    NewReno,
}

/// Settings of one end.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Payload bytes of a full segment: 1500 less IPv4 and TCP headers with timestamps.
    pub mss: u64,
    /// First window in segments (RFC 6928).
    pub initial_window_segments: u64,
    /// Most payload bytes held for reassembly and reading, and so the largest window. Linux's `tcp_rmem`
    /// counts kernel memory instead.
    pub receive_buffer: u64,
    /// Window at the start, before auto-tuning.
    pub initial_receive_window: u64,
    /// Buffers grow with the window (dynamic right-sizing). Otherwise they have their full size from the
    /// beginning.
    pub auto_tune: bool,
    /// Most payload bytes written but not acknowledged.
    pub send_buffer: u64,
    /// Longest delay of an acknowledgement.
    pub delayed_ack: Duration,
    /// Least deviation term of the retransmission timeout, which is `srtt` plus at least this.
    pub min_rto: Duration,
    /// Longest retransmission time-out.
    pub max_rto: Duration,
    /// Time-out before the first round-trip sample (RFC 6298).
    pub initial_rto: Duration,
    /// Tick of the clock of timeouts, probes and delayed acknowledgements: 4 ms with the kernel's default of
    /// 250 Hz. Zero means an exact clock.
    pub tick: Duration,
    /// Loss detection.
    pub loss_detection: LossDetection,
    /// Paces controllers without their own rate, at 2 cwnd/srtt in slow start and 1.2 cwnd/srtt after, as the
    /// `fq` queue discipline does. Controllers with a rate are always paced.
    pub pacing: bool,
    /// An unused window decays (RFC 2861). Restarting after idle time is a setting of the controllers
    /// (`Setup::idle_restart`).
    pub slow_start_after_idle: bool,
    /// A small segment waits while another is unacknowledged (RFC 896, Minshall's variant).
    pub nagle: bool,
    /// New data is sent in bursts of about a millisecond, as with segmentation offload.
    pub segmentation_offload: bool,
    /// Compresses acknowledgements of out-of-order data: they are delayed by up to 1 ms or a twentieth of a
    /// round trip.
    pub compress_sacks: bool,
    /// Consecutive retransmission timeouts after which the connection fails.
    pub retries: u32,
    /// Retransmissions of SYN after which the connection fails.
    pub syn_retries: u32,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window_segments: 10,
            receive_buffer: 6 << 20,
            initial_receive_window: 65_535,
            auto_tune: true,
            send_buffer: 4 << 20,
            delayed_ack: Duration::from_millis(40),
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(120),
            initial_rto: Duration::from_secs(1),
            tick: Duration::from_millis(4),
            loss_detection: LossDetection::Rack,
            pacing: false,
            slow_start_after_idle: true,
            nagle: true,
            segmentation_offload: true,
            compress_sacks: true,
            retries: 15,
            syn_retries: 6,
        }
    }
}
