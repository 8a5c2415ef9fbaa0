//! `TCP_INFO`: the kernel's state of a connection. Parsed as a prefix of the kernel's struct: an older kernel returns
//! fewer bytes, and the missing fields are zero.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Prefix of `struct tcp_info` (`include/uapi/linux/tcp.h`), up to `tcpi_snd_wnd`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Raw {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    wscale: u8,
    app_limited: u8,
    words: [u32; 24],
    rates: [u64; 4],
    segs: [u32; 2],
    notsent_bytes: u32,
    min_rtt: u32,
    data_segs: [u32; 2],
    delivery_rate: u64,
    limited: [u64; 3],
    delivered: [u32; 2],
    sent_bytes: [u64; 2],
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
}

/// A snapshot of a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Kernel state number (1 = established).
    pub state: u8,
    /// Consecutive retransmission timeouts.
    pub retransmits: u8,
    /// The last delivery-rate sample was taken while the application had nothing to send.
    pub app_limited: bool,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Largest segment sent, in bytes.
    pub snd_mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Segments thought lost.
    pub lost: u32,
    /// Time since data was last sent.
    pub last_data_sent: Duration,
    /// Time since an acknowledgement last arrived.
    pub last_ack_recv: Duration,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Variance of the round-trip time.
    pub rttvar: Duration,
    /// Slow-start threshold, in segments.
    pub snd_ssthresh: u32,
    /// Congestion window, in segments.
    pub snd_cwnd: u32,
    /// Segments retransmitted in all.
    pub total_retrans: u32,
    /// Pacing rate, bytes per second (`u64::MAX` when unpaced).
    pub pacing_rate: u64,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Segments that the peer has acknowledged, in order or selectively (Linux 4.18).
    pub delivered: u32,
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes in the send queue that were never sent.
    pub notsent_bytes: u32,
    /// Least round-trip time of the kernel's window; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Delivery rate, bytes per second.
    pub delivery_rate: u64,
    /// Time busy sending.
    pub busy_time: Duration,
    /// Time limited by the peer's receive window.
    pub rwnd_limited: Duration,
    /// Time limited by the send buffer.
    pub sndbuf_limited: Duration,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes retransmitted.
    pub bytes_retrans: u64,
    /// Length of the kernel's answer; a newer kernel returns more.
    pub kernel_length: usize,
}

/// Reads `TCP_INFO` of a socket.
pub fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    let (raw, length) = super::get::<Raw>(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    // Every kernel with this option returns at least 104 bytes; a shorter answer is invalid.
    if length < 104 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "TCP_INFO answer shorter than 104 bytes"));
    }
    Ok(TcpInfo::from_raw(&raw, length))
}

impl TcpInfo {
    pub(super) fn from_raw(raw: &Raw, length: usize) -> Self {
        let micros = |n: u32| Duration::from_micros(u64::from(n));
        let millis = |n: u32| Duration::from_millis(u64::from(n));
        let w = &raw.words;
        Self {
            state: raw.state,
            retransmits: raw.retransmits,
            app_limited: raw.app_limited & 1 == 1,
            rto: micros(w[0]),
            snd_mss: w[2],
            unacked: w[4],
            lost: w[6],
            last_data_sent: millis(w[9]),
            last_ack_recv: millis(w[12]),
            rtt: micros(w[15]),
            rttvar: micros(w[16]),
            snd_ssthresh: w[17],
            snd_cwnd: w[18],
            total_retrans: w[23],
            pacing_rate: raw.rates[0],
            bytes_acked: raw.rates[2],
            delivered: raw.delivered[0],
            bytes_received: raw.rates[3],
            notsent_bytes: raw.notsent_bytes,
            min_rtt: (raw.min_rtt != u32::MAX && raw.min_rtt != 0).then(|| micros(raw.min_rtt)),
            delivery_rate: raw.delivery_rate,
            busy_time: Duration::from_micros(raw.limited[0]),
            rwnd_limited: Duration::from_micros(raw.limited[1]),
            sndbuf_limited: Duration::from_micros(raw.limited[2]),
            bytes_sent: raw.sent_bytes[0],
            bytes_retrans: raw.sent_bytes[1],
            kernel_length: length,
        }
    }

    /// Bytes in flight: sent, not acknowledged, not thought lost.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        u64::from(self.unacked.saturating_sub(self.lost)) * u64::from(self.snd_mss)
    }

    /// The congestion window in bytes.
    #[must_use]
    pub fn cwnd_bytes(&self) -> u64 {
        u64::from(self.snd_cwnd) * u64::from(self.snd_mss)
    }
}
