//! A QUIC connection below a subflow (quinn).
//!
//! Its first bidirectional stream carries what TCP would, in order. Frames that may overtake others go on unidirectional
//! streams, those of one driver's turn on one stream: packets that are lost delay only the streams that they belong to
//! (RFC 9000 §2). Not here: how it is dialled and authenticated ([`crate::quic`]).
//!
//! quinn accepts data up to its send window. That follows the bytes in flight, so that as little is unsent as
//! in a TCP socket with `TCP_NOTSENT_LOWAT`.

mod meter;
mod rest;

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use quinn::congestion::ControllerFactory;
use quinn::{ConnectionError, RecvStream, SendStream, VarInt};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tributary_proto::room::{Room, TransportInfo};
use tributary_types::{Bitrate, Instant};

use crate::first::first_of;
use crate::sockopt::TcpInfo;
use meter::{Metered, MeteredFactory, Seen};
use rest::Rest;

/// Unidirectional streams that the peer may have open: at one in a millisecond, those of a round trip of 250 ms.
const OVERTAKING_STREAMS: u32 = 256;
/// Most bytes of one; what is read of it is held until its end.
pub(crate) const MOST_OVERTAKING: usize = 32 * 1024;
/// Streams that are read at the same time. The others count in the windows below.
const MOST_READ: usize = 64;
/// Bytes that the peer may send before they are read: in order, and in all. The driver reads at once, so this limits a path
/// whose product of rate and round trip is larger.
const ORDERED_WINDOW: u32 = 4 << 20;
const WINDOW: u32 = ORDERED_WINDOW + (2 << 20);
/// The same before the peer's hello was checked: a hello, and the first data of a client that does not wait for the reply.
const UNKNOWN_WINDOW: u32 = 128 * 1024;
/// A read of fewer bytes is followed by a pause.
const LITTLE: usize = 32 * 1024;
/// Frames that overtake may raise the send window to this.
const MOST_WINDOW: u64 = 64 << 20;
/// Bytes of the send window before the first measurement.
const FIRST_WINDOW: u64 = 64 * 1024;
/// An idle connection ends by itself after this time. The session notices sooner that a path is silent, and its pings keep the
/// connection alive.
const IDLE: Duration = Duration::from_secs(60);
/// Application error codes of a connection that is aborted, and of one that ends.
const CODE_ABORTED: VarInt = VarInt::from_u32(1);
const CODE_DONE: VarInt = VarInt::from_u32(0);

/// The connection of a subflow.
pub(crate) struct Quic {
    connection: quinn::Connection,
    send: SendStream,
    recv: RecvStream,
    /// Whole frames that overtook others, once the peer is known.
    overtaking: Option<mpsc::Receiver<io::Result<Bytes>>>,
    /// A unidirectional stream that has not taken all its frames.
    unfinished: Option<(SendStream, Bytes)>,
    /// Bytes that may be unsent.
    target: u64,
    /// quinn's send window.
    window: u64,
    /// The last write was not accepted whole.
    blocked: bool,
    /// Pauses after a read of few bytes and after a write that filled the window, so that not every packet and every
    /// acknowledgement wakes the driver.
    reads: Rest,
    writes: Rest,
    seen: Seen,
    /// Packets that were declared lost, and when that was seen.
    lost: (u64, Instant),
}

impl Quic {
    /// The first stream of a connection whose handshake is over.
    pub(crate) fn new(connection: quinn::Connection, (send, recv): (SendStream, RecvStream)) -> Self {
        let (target, window, seen) = (FIRST_WINDOW, FIRST_WINDOW, Seen::default());
        connection.set_send_window(window);
        Self {
            connection,
            send,
            recv,
            overtaking: None,
            unfinished: None,
            target,
            window,
            blocked: false,
            reads: Rest::default(),
            writes: Rest::default(),
            seen,
            lost: (0, Instant::ZERO),
        }
    }

    /// The peer's hello was checked.
    pub(super) fn admit(&mut self) {
        let (give, overtaking) = mpsc::channel(OVERTAKING_STREAMS as usize);
        tokio::spawn(take_overtaking(self.connection.clone(), give));
        self.overtaking = Some(overtaking);
        self.connection.set_max_concurrent_uni_streams(OVERTAKING_STREAMS.into());
        self.connection.set_receive_window(WINDOW.into());
    }

    /// The connection, for what identifies it.
    pub(crate) fn connection(&self) -> &quinn::Connection {
        &self.connection
    }

    pub(super) fn peer(&self) -> io::Result<SocketAddr> {
        Ok(self.connection.remote_address())
    }

    // ---- reading

    pub(super) fn reader(&mut self) -> &mut RecvStream {
        &mut self.recv
    }

    pub(super) fn poll_read_buf(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        ready!(self.reads.poll(cx));
        match ready!(tokio_util::io::poll_read_buf(Pin::new(&mut self.recv), cx, into)) {
            // The peer has closed the connection, after it had read the end of what this end wrote.
            Err(_) if is_closed(self.connection.close_reason()) => Poll::Ready(Ok(0)),
            read => {
                if matches!(read, Ok(1..LITTLE)) {
                    self.reads.begin();
                }
                Poll::Ready(read)
            }
        }
    }

    pub(super) fn poll_overtaking(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let Some(overtaking) = &mut self.overtaking else { return Poll::Pending };
        match ready!(overtaking.poll_recv(cx)) {
            Some(frames) => Poll::Ready(frames),
            // The connection has ended; the stream in order says so.
            None => Poll::Pending,
        }
    }

    // ---- writing

    /// Bytes that a unidirectional stream has not taken yet.
    pub(super) fn held(&self) -> usize {
        self.unfinished.as_ref().map_or(0, |(_, rest)| rest.len())
    }

    /// Opens a stream for these frames. Not while another one waits, and not if the peer allows no more streams.
    pub(super) fn overtake(&mut self, frames: &mut BytesMut) -> bool {
        if self.unfinished.is_some() || frames.len() > MOST_OVERTAKING {
            return false;
        }
        let opened = pin!(self.connection.open_uni()).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(send)) = opened else { return false };
        // They are sent before what was written in order.
        let _ = send.set_priority(1);
        self.unfinished = Some((send, frames.split().freeze()));
        true
    }

    /// Writes what the unidirectional stream has not taken.
    pub(super) fn poll_finish_overtaking(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((send, rest)) = &mut self.unfinished {
            let mut taken = Pin::new(&mut *send).poll_write(cx, rest);
            if taken.is_pending() && self.window < MOST_WINDOW {
                // What was written in order has left no room for them.
                self.window += rest.len() as u64;
                self.connection.set_send_window(self.window);
                taken = Pin::new(&mut *send).poll_write(cx, rest);
            }
            let taken = ready!(taken).map_err(io::Error::from)?;
            let _ = rest.split_to(taken);
            if rest.is_empty() {
                let _ = send.finish();
                self.unfinished = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.writes.poll(cx));
        let mut written = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let taken = match Pin::new(&mut self.send).poll_write(cx, slice) {
                Poll::Ready(taken) => taken.map_err(io::Error::from)?,
                // Woken by the next acknowledgement, however long that takes.
                Poll::Pending => 0,
            };
            written += taken;
            self.blocked = taken < slice.len();
            if self.blocked {
                break;
            }
        }
        if self.blocked && written == 0 {
            return Poll::Pending;
        }
        if self.blocked {
            self.writes.begin();
        }
        Poll::Ready(Ok(written))
    }

    /// While quinn takes what is written, the whole target is free.
    pub(super) fn poll_room(&mut self, _: &mut Context<'_>, rule: &Room) -> io::Result<usize> {
        Ok(rule.bytes(0))
    }

    pub(super) fn set_unsent_target(&mut self, bytes: u64) -> io::Result<()> {
        self.target = bytes;
        Ok(())
    }

    // ---- the connection's state

    pub(super) fn info(&mut self, now: Instant, held: u64) -> io::Result<(TransportInfo, TcpInfo)> {
        let stats = self.connection.stats();
        // A path that changed has a new controller.
        if let Ok(controller) = self.connection.congestion_state().into_any().downcast::<Metered>() {
            self.seen = controller.seen();
        }
        let (path, mss) = (&stats.path, u32::from(stats.path.current_mtu));
        if self.lost.0 != path.lost_packets {
            self.lost = (path.lost_packets, now);
        }
        let repairing = self.lost.0 > 0 && now < self.lost.1 + 2 * path.rtt;
        self.follow(path.cwnd, repairing);
        let seen = &self.seen;
        let view = TransportInfo {
            srtt: path.rtt,
            rttvar: seen.rttvar,
            min_rtt: seen.min_rtt.unwrap_or(path.rtt),
            cwnd: path.cwnd,
            in_flight: seen.in_flight,
            unsent: held + if self.blocked { self.target } else { 0 },
            delivery_rate: Bitrate::from_bps(seen.rate.saturating_mul(8)),
            app_limited: seen.app_limited,
            mss,
            delivered: seen.delivered,
            heard_at: now - seen.heard_at.map_or(Duration::ZERO, |at| at.elapsed()),
        };
        let segments = |bytes: u64| u32::try_from(bytes / u64::from(mss.max(1))).unwrap_or(u32::MAX);
        let counters = TcpInfo {
            app_limited: seen.app_limited,
            snd_mss: mss,
            unacked: segments(seen.in_flight),
            rtt: path.rtt,
            rttvar: seen.rttvar,
            min_rtt: seen.min_rtt,
            snd_cwnd: segments(path.cwnd),
            total_retrans: u32::try_from(path.lost_packets).unwrap_or(u32::MAX),
            pacing_rate: u64::MAX,
            bytes_acked: seen.delivered,
            bytes_received: stats.udp_rx.bytes,
            delivery_rate: seen.rate,
            bytes_sent: stats.udp_tx.bytes,
            bytes_retrans: path.lost_bytes,
            ..TcpInfo::default()
        };
        Ok((view, counters))
    }

    /// The send window follows what is in flight: data beyond it is unsent. It may grow by the target twice before the next
    /// look, and is never more than the congestion window and the target. Until a loss is repaired, quinn also counts what
    /// was acknowledged behind it.
    fn follow(&mut self, cwnd: u64, repairing: bool) {
        let window = match repairing {
            true => 2 * cwnd + self.target,
            false => cwnd.min(self.seen.in_flight + 2 * self.target) + self.target,
        };
        if window.abs_diff(self.window) * 8 > self.window {
            self.window = window;
            self.connection.set_send_window(window);
        }
    }

    // ---- ending

    pub(super) fn abort(&mut self) {
        self.connection.close(CODE_ABORTED, b"");
    }

    pub(super) fn finish_writing(&mut self) -> io::Result<()> {
        // It may have been finished before.
        let _ = self.send.finish();
        Ok(())
    }

    /// Waits until the peer has acknowledged everything, or has closed the connection.
    pub(super) async fn delivered(&mut self) {
        let _ = self.send.stopped().await;
        self.connection.close(CODE_DONE, b"");
    }

    pub(super) async fn let_go(mut self, within: Duration) {
        let _ = self.send.finish();
        let _ = tokio::time::timeout(within, self.delivered()).await;
    }
}

/// The peer, or this end, has ended the connection in order.
fn is_closed(reason: Option<ConnectionError>) -> bool {
    match reason {
        Some(ConnectionError::ApplicationClosed(close)) => close.error_code == CODE_DONE,
        _ => false,
    }
}

/// Ends the connection also when the session lets the subflow go without another word: the task that reads unidirectional
/// streams would keep it.
impl Drop for Quic {
    fn drop(&mut self) {
        self.connection.close(CODE_ABORTED, b"");
    }
}

/// What a unidirectional stream carries, read in order, so that quinn keeps no packet of a peer that sends single bytes.
async fn read_whole(recv: RecvStream) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    recv.take(MOST_OVERTAKING as u64 + 1).read_to_end(&mut bytes).await?;
    if bytes.len() > MOST_OVERTAKING {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "more frames on one stream than are allowed"));
    }
    Ok(bytes.into())
}

/// Reads the unidirectional streams, each to its end. Ends with the connection, and with the first stream that breaks the rules.
async fn take_overtaking(connection: quinn::Connection, give: mpsc::Sender<io::Result<Bytes>>) {
    let mut reading = Vec::new();
    loop {
        let read = tokio::select! {
            biased;
            read = first_of(&mut reading), if !reading.is_empty() => read,
            () = give.closed() => return,
            opened = connection.accept_uni(), if reading.len() < MOST_READ => {
                let Ok(recv) = opened else { return };
                reading.push(Box::pin(read_whole(recv)));
                continue;
            }
        };
        let is_over = read.is_err();
        if give.send(read).await.is_err() || is_over {
            return;
        }
    }
}

/// The settings of connections with this congestion control.
pub(crate) fn settings(congestion: Arc<dyn ControllerFactory + Send + Sync>) -> quinn::TransportConfig {
    let mut settings = quinn::TransportConfig::default();
    settings
        .congestion_controller_factory(Arc::new(MeteredFactory(congestion)))
        .max_idle_timeout(IDLE.try_into().ok())
        .max_concurrent_bidi_streams(1_u32.into())
        .max_concurrent_uni_streams(0_u32.into())
        .stream_receive_window(ORDERED_WINDOW.into())
        .receive_window(UNKNOWN_WINDOW.into())
        .send_window(FIRST_WINDOW)
        .datagram_receive_buffer_size(None);
    settings
}
