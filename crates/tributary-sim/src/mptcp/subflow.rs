//! One subflow of an MPTCP connection: its TCP, its mappings, and its outstanding data.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_cc::Siblings;
use tributary_proto::scheduler::SubflowView;
use tributary_types::{Bitrate, DataSeq, DataSize, Instant, PathId, SubflowId};

use super::mapping::Mappings;
use super::report::{Observation, SubflowReport};
use crate::id::RouteId;
use crate::packet::TcpSegment;
use crate::tcp::{TcpInfo, TcpSocket, TcpState};

/// The kernel's send buffer of a subflow, per segment of its congestion window: memory for two segments, each
/// of 2048 bytes and 256 for bookkeeping (`tcp_sndbuf_expand`). The connection's is the sum of its subflows',
/// and payload counts against it (Linux 6.18, measured: docs/models/mptcp.md).
const SEND_BUFFER_SEGMENT: u64 = 2 * (2048 + 256);
/// The send buffer at the start (`tcp_wmem`).
const SEND_BUFFER_FIRST: u64 = 65_536;

/// A copy in flight.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    seq: DataSeq,
    /// Bytes given to the subflow up to and including it.
    position: u64,
    at: Instant,
}

/// A subflow.
#[derive(Debug)]
pub(super) struct Subflow {
    pub number: u32,
    pub id: SubflowId,
    pub path: usize,
    pub route: RouteId,
    pub socket: TcpSocket,
    pub established: bool,
    /// Linux: it made no progress while others did.
    pub stale: bool,
    pub stale_count: u8,
    /// Time of its last received segment, at the last check of staleness.
    pub stale_heard: Instant,
    pub heard: Instant,
    /// Timeouts already handled.
    pub timeouts: u64,
    /// The connection is closing it.
    pub finishing: bool,
    /// Round-trip time as the receiver of data measures it.
    pub receiver_rtt: Duration,
    pub observation: Observation,
    input: Mappings,
    output: Mappings,
    handed: u64,
    outstanding: VecDeque<Outstanding>,
    send_buffer: u64,
    /// Mean rate in bit/s over the bytes given to it (`avg_pacing_rate`); zero before the first.
    average_rate: u64,
}

impl Subflow {
    pub fn new(
        number: u32,
        path: (usize, RouteId),
        socket: TcpSocket,
        [input, output]: [Mappings; 2],
    ) -> Self {
        Self {
            number,
            id: SubflowId(number),
            path: path.0,
            route: path.1,
            socket,
            established: false,
            stale: false,
            stale_count: 0,
            stale_heard: Instant::ZERO,
            heard: Instant::ZERO,
            timeouts: 0,
            finishing: false,
            receiver_rtt: Duration::ZERO,
            observation: Observation::default(),
            input,
            output,
            handed: 0,
            outstanding: VecDeque::new(),
            send_buffer: SEND_BUFFER_FIRST,
            average_rate: 0,
        }
    }

    /// Gives a segment to TCP; calls `each` with the connection's bytes that arrived in order.
    pub fn handle_segment(
        &mut self,
        now: Instant,
        segment: &TcpSegment,
        siblings: Siblings<'_>,
        each: impl FnMut(u64, u64),
    ) {
        self.heard = now;
        self.stale = false; // `mptcp_subflow_active`
        if segment.length > 0 && segment.echo > Instant::ZERO {
            // As in Linux's `tcp_rcv_rtt_measure_ts`: an eighth of each sample.
            let sample = now.saturating_since(segment.echo);
            self.receiver_rtt =
                if self.receiver_rtt.is_zero() { sample } else { (self.receiver_rtt * 7 + sample) / 8 };
        }
        self.socket.handle_segment(now, segment, siblings);
        let bytes = self.socket.readable();
        if bytes > 0 {
            self.socket.read(now, bytes);
            self.input.advance(bytes, each);
        }
        self.forget_delivered(now);
    }

    fn delivered(&self) -> u64 {
        self.handed - self.socket.unsent() - self.socket.unacknowledged()
    }

    /// What it has carried so far.
    pub fn report(&self, path: u8) -> SubflowReport {
        let info = self.socket.info();
        SubflowReport {
            duplicate_acks: info.duplicate_acks,
            fast_recoveries: info.fast_recoveries,
            lost: info.lost,
            retransmitted: info.retransmitted,
            ..self.observation.report(path, self.handed)
        }
    }

    fn forget_delivered(&mut self, now: Instant) {
        let delivered = self.delivered();
        self.observation.delivered(now, delivered);
        while self.outstanding.front().is_some_and(|o| o.position <= delivered) {
            self.outstanding.pop_front();
        }
    }

    /// Gives TCP a copy of a segment: `bytes` of the connection from `offset` on. Returns its position.
    pub fn carry(&mut self, now: Instant, seq: DataSeq, (offset, bytes): (u64, u32)) -> u64 {
        let bytes = u64::from(bytes);
        self.average(bytes);
        self.output.push(offset, bytes);
        self.handed += bytes;
        let taken = self.socket.write(bytes);
        debug_assert_eq!(taken, bytes, "subflows are bounded by room, not by their socket");
        let position = self.handed;
        self.outstanding.push_back(Outstanding { seq, position, at: now });
        position
    }

    /// Segments that TCP has not delivered yet.
    pub fn outstanding(&self) -> impl Iterator<Item = DataSeq> + '_ {
        self.outstanding.iter().map(|o| o.seq)
    }

    /// Most bytes that the kernel would hold here, queued or in flight.
    pub fn send_buffer(&self) -> u64 {
        self.send_buffer
    }

    /// Nothing is queued or in flight.
    pub fn is_idle(&self) -> bool {
        self.socket.unsent() + self.socket.unacknowledged() == 0
    }

    /// Whether TCP has just completed its handshake.
    pub fn came_up(&mut self) -> bool {
        let up = !self.established && self.socket.info().state == TcpState::Established;
        self.established |= up;
        up
    }

    /// The scheduler's view. With `buffered`, room is the free send buffer, as in Linux; otherwise what the
    /// congestion window allows to be sent at once, as at multipath-tcp.org.
    pub fn view(&mut self, buffered: bool) -> SubflowView {
        let info = self.socket.info();
        let queued = self.socket.unsent() + self.socket.unacknowledged();
        // Send buffers grow and do not shrink.
        self.send_buffer = self.send_buffer.max(info.cwnd * SEND_BUFFER_SEGMENT / self.socket.mss());
        let room = if buffered {
            self.send_buffer.saturating_sub(queued)
        } else {
            self.socket.can_send().saturating_sub(self.socket.unsent())
        };
        let present = rate(&info);
        let rate = if buffered && self.average_rate > 0 {
            Some(Bitrate::from_bps(self.average_rate))
        } else {
            present
        };
        SubflowView {
            id: self.id,
            path: PathId(self.path as u8),
            room: if self.finishing { 0 } else { room as usize },
            srtt: info.srtt,
            rttvar: info.mean_deviation,
            min_rtt: info.min_rtt,
            least_delay: info.min_rtt,
            usual_blockage: Duration::ZERO,
            cwnd: info.cwnd,
            in_flight: queued,
            delivered: self.delivered(),
            rate,
            long_rate: rate,
            sustained_rate: rate,
            oldest_sent: self.outstanding.front().map(|o| o.at),
            silent: if buffered { self.stale } else { info.timeouts_in_a_row > 0 },
            rank: 0,
        }
    }

    /// Queued data keeps the rate at which it was queued (`mptcp_subflow_get_send`).
    fn average(&mut self, bytes: u64) {
        let Some(present) = rate(&self.socket.info()) else { return };
        let queued = self.socket.unsent() + self.socket.unacknowledged();
        let before = if self.average_rate == 0 { present.as_bps() } else { self.average_rate };
        let sum = u128::from(before) * u128::from(queued) + u128::from(present.as_bps()) * u128::from(bytes);
        self.average_rate = (sum / u128::from(queued + bytes)) as u64;
    }
}

/// One window per round trip: Linux's pacing rate without its factor.
fn rate(info: &TcpInfo) -> Option<Bitrate> {
    Bitrate::of(DataSize::from_bytes(info.cwnd), info.srtt)
}
