//! One subflow on a socket: gathered writes, large reads into reused blocks, and the number of bytes that the subflow
//! can take soon.
//!
//! Not here: the choice of data (the session decides) and the handshake. All calls are non-blocking; those that take
//! a context register a wake-up when they return `Pending` or zero.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;
use tributary_proto::room::{Room, TransportInfo};
use tributary_proto::{SubflowInfo, Transmit};
use tributary_types::{Bitrate, Instant, PathId, SubflowId};

use crate::handshake::{AwaitedReply, Credentials, Established, HandshakeError, hung_up};
use crate::hello::reply_length;
use crate::sockopt::{self, TcpInfo};
use crate::tls::record::{self, Opener, Sealer};

/// Size of a receive block: one read call fills at most this much.
pub(crate) const BLOCK: usize = 256 * 1024;
/// Minimum free space for a read call.
const LEAST_READ: usize = 64 * 1024;
/// Slices per write call.
const SLICES: usize = 128;

/// Result of a read.
pub(crate) enum Input {
    /// Bytes, and whether they are the first of a receive block.
    Data(Bytes, bool),
    End,
    /// The reply to the hello: the server has accepted it.
    Accepted(Box<Credentials>),
    /// The reply did not arrive, or it is a refusal.
    Refused(HandshakeError),
}

/// A reply that is arriving: how to check it, the bytes received so far, and those that came after it.
struct Reply {
    awaited: AwaitedReply,
    bytes: Vec<u8>,
}

/// A subflow that is up.
pub(crate) struct Subflow {
    pub id: SubflowId,
    pub path: PathId,
    stream: TcpStream,
    security: Option<(Sealer, Opener)>,
    reply: Option<Reply>,
    /// Bytes that came after the reply in the same read.
    behind: Option<(Bytes, bool)>,
    block: BytesMut,
    /// No bytes of the current block have been handed on.
    fresh: bool,
    used: VecDeque<BytesMut>,
    /// Number of blocks kept for reuse once the application has dropped their bytes.
    kept: usize,
    queue: VecDeque<Transmit>,
    queued: usize,
    /// Bytes at the front of the queue that are already written.
    front: usize,
    rule: Room,
    /// Room at the last query. Without a write since then, the true room is at least this.
    room: Option<usize>,
    /// The kernel reports input only when a whole record has arrived (`SO_RCVLOWAT` is set).
    patient: bool,
    info: TcpInfo,
}

impl Subflow {
    pub(crate) fn new(established: Established) -> io::Result<Self> {
        let channel = established.channel;
        let rule = Room::new(channel.security.is_some());
        SockRef::from(&channel.stream).set_tcp_notsent_lowat(rule.target() as u32)?;
        Ok(Self {
            id: established.subflow,
            path: established.path,
            stream: channel.stream,
            security: channel.security,
            reply: established.reply.map(|awaited| Reply { awaited, bytes: Vec::new() }),
            behind: None,
            block: BytesMut::with_capacity(BLOCK),
            fresh: true,
            used: VecDeque::new(),
            kept: 0,
            queue: VecDeque::new(),
            queued: 0,
            front: 0,
            rule,
            room: None,
            patient: false,
            info: TcpInfo::default(),
        })
    }

    // ---- reading

    /// Whether the server's reply is still missing.
    pub(crate) fn awaits_reply(&self) -> bool {
        self.reply.is_some()
    }

    /// The next input. The reply comes before all other bytes.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Input>> {
        if let Some((data, fresh)) = self.behind.take() {
            return Poll::Ready(Ok(Input::Data(data, fresh)));
        }
        while self.awaits_reply() {
            let refused = |error| Poll::Ready(Ok(Input::Refused(error)));
            match ready!(self.poll_input(cx)) {
                Ok(Input::Data(data, fresh)) => match self.answered(data, fresh) {
                    None => {}
                    Some(Ok(credentials)) => return Poll::Ready(Ok(Input::Accepted(Box::new(credentials)))),
                    Some(Err(error)) => return refused(error),
                },
                Ok(_) => return refused(HandshakeError::HungUp),
                Err(error) => return refused(hung_up(error)),
            }
        }
        self.poll_input(cx)
    }

    /// Adds bytes to the reply. Returns the result of its check once the reply is complete.
    fn answered(&mut self, mut data: Bytes, fresh: bool) -> Option<Result<Credentials, HandshakeError>> {
        let reply = self.reply.as_mut()?;
        // How long it is, its beginning says.
        while reply.bytes.len() < reply_length(&reply.bytes) {
            if data.is_empty() {
                return None;
            }
            let missing = reply_length(&reply.bytes) - reply.bytes.len();
            reply.bytes.extend_from_slice(&data.split_to(missing.min(data.len())));
        }
        self.behind = (!data.is_empty()).then_some((data, fresh));
        let Reply { awaited, bytes } = self.reply.take()?;
        Some(awaited.check(&bytes))
    }

    fn poll_input(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Input>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            self.make_space();
            // After a short read the runtime waits for the next event, without a system call that finds the socket empty.
            if ready!(poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.block))? == 0 {
                return Poll::Ready(Ok(Input::End));
            }
            if let Some(input) = self.take_input()? {
                return Poll::Ready(Ok(input));
            }
        }
    }

    fn take_input(&mut self) -> io::Result<Option<Input>> {
        let Some((_, opener)) = &mut self.security else {
            let fresh = std::mem::take(&mut self.fresh);
            return Ok(Some(Input::Data(self.block.split().freeze(), fresh)));
        };
        let opened =
            opener.open(&mut self.block).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        let plain = self.block.split_to(opened.plaintext).freeze();
        self.block.advance(opened.consumed - opened.plaintext);
        self.wait_for_record(plain.is_empty() && !opened.closed)?;
        if !plain.is_empty() {
            // An end of stream in the same read is reported again by the next read.
            return Ok(Some(Input::Data(plain, std::mem::take(&mut self.fresh))));
        }
        Ok(opened.closed.then_some(Input::End))
    }

    /// On a slow path a record arrives in many packets, and waking up for each would waste CPU time. After a wake-up
    /// that completed no record, `SO_RCVLOWAT` is set to the number of missing bytes.
    fn wait_for_record(&mut self, fruitless: bool) -> io::Result<()> {
        if !fruitless && !self.patient {
            return Ok(());
        }
        let missing = if fruitless { record::missing(&self.block) } else { 0 };
        self.patient = missing > 0;
        sockopt::set_receive_lowat(self.stream.as_fd(), missing.max(1))
    }

    /// Makes room for a read: continues the block, reuses one whose bytes are no longer in use, or takes a new
    /// one.
    fn make_space(&mut self) {
        if self.block.capacity() - self.block.len() >= LEAST_READ {
            return;
        }
        let reusable = self.used.iter_mut().rposition(|block| block.try_reclaim(BLOCK));
        let mut fresh = match reusable.and_then(|at| self.used.remove(at)) {
            Some(block) => block,
            None => BytesMut::with_capacity(BLOCK),
        };
        // The beginning of a record that is not complete yet.
        fresh.extend_from_slice(&self.block);
        self.block.clear();
        self.used.push_back(std::mem::replace(&mut self.block, fresh));
        self.fresh = true;
        self.keep(self.kept);
    }

    /// Keeps at most this many blocks for reuse.
    pub(crate) fn keep(&mut self, blocks: usize) {
        self.kept = blocks;
        while self.used.len() > blocks {
            self.used.pop_front();
        }
    }

    // ---- writing

    /// Queues bytes; nothing is written yet.
    pub(crate) fn push(&mut self, transmit: Transmit) {
        self.room = None;
        match &mut self.security {
            Some((sealer, _)) => {
                sealer.push(transmit.head.as_slice());
                sealer.push(&transmit.payload);
            }
            None => {
                self.queued += transmit.len();
                self.queue.push_back(transmit);
            }
        }
    }

    /// Takes what is queued, so that it is never written. Not for a subflow with TLS.
    #[cfg(feature = "script")]
    pub(crate) fn take_queued(&mut self) -> impl Iterator<Item = Transmit> {
        self.queued = 0;
        self.queue.drain(..)
    }

    /// Bytes queued here and not yet in the kernel.
    pub(crate) fn held(&self) -> usize {
        self.queued + self.security.as_ref().map_or(0, |(sealer, _)| sealer.held())
    }

    /// Writes what is queued until it is all in the kernel.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some((sealer, _)) = &mut self.security {
            sealer.finish();
            while sealer.held() > 0 {
                ready!(self.stream.poll_write_ready(cx))?;
                match self.stream.try_write(sealer.pending()) {
                    Ok(n) => sealer.advance(n),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            return Poll::Ready(Ok(()));
        }
        while self.queued > 0 {
            ready!(self.stream.poll_write_ready(cx))?;
            match self.write_queue() {
                Ok(n) => self.written(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    fn write_queue(&self) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        let mut skip = self.front;
        'gather: for transmit in &self.queue {
            for part in [transmit.head.as_slice(), &transmit.payload[..]] {
                let rest = &part[skip.min(part.len())..];
                skip -= part.len() - rest.len();
                if rest.is_empty() {
                    continue;
                }
                if count == SLICES {
                    break 'gather;
                }
                slices[count] = IoSlice::new(rest);
                count += 1;
            }
        }
        self.stream.try_write_vectored(&slices[..count])
    }

    fn written(&mut self, mut n: usize) {
        self.queued -= n;
        n += self.front;
        while let Some(front) = self.queue.front() {
            if n < front.len() {
                break;
            }
            n -= front.len();
            self.queue.pop_front();
        }
        self.front = n;
    }

    /// How many bytes the path can take soon: what it delivers in a few milliseconds, less what is unsent.
    /// When the result is zero, a wake-up is registered for the moment when half of that is free.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>) -> io::Result<usize> {
        if self.held() > 0 {
            return Ok(0); // `poll_flush` waits for the socket
        }
        if let Some(room) = self.room {
            return Ok(room);
        }
        let room = self.ask_room(cx)?;
        // Room was zero and a wake-up is registered: query the room again.
        self.room = (room > 0).then_some(room);
        Ok(room)
    }

    fn ask_room(&mut self, cx: &mut Context<'_>) -> io::Result<usize> {
        loop {
            let room = self.rule.bytes(sockopt::unsent(self.stream.as_fd())? as u64);
            if room > 0 {
                return Ok(room);
            }
            let asked = self.stream.try_io(Interest::WRITABLE, || {
                if sockopt::poll_writable(self.stream.as_fd())? {
                    Ok(())
                } else {
                    Err(io::ErrorKind::WouldBlock.into())
                }
            });
            match asked {
                // Half of the target has become free since the wake-up was registered.
                Ok(()) => return Ok(self.rule.bytes(self.rule.target() / 2 - 1)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.stream.poll_write_ready(cx) {
                        Poll::Pending => return Ok(0),
                        Poll::Ready(ready) => ready?,
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    // ---- the kernel's view

    /// Reads the kernel's view again if the last one is old enough.
    pub(crate) fn refresh(&mut self, now: Instant) -> Option<SubflowInfo> {
        if !self.rule.poll_ask(now) {
            return None;
        }
        let info = sockopt::tcp_info(self.stream.as_fd()).ok()?;
        self.info = info;
        let target = self.rule.target();
        let told = self.rule.handle_info(&TransportInfo {
            srtt: info.rtt,
            rttvar: info.rttvar,
            min_rtt: info.min_rtt.unwrap_or(info.rtt),
            cwnd: info.cwnd_bytes(),
            in_flight: info.in_flight(),
            unsent: u64::from(info.notsent_bytes) + self.held() as u64,
            delivery_rate: Bitrate::from_bps(info.delivery_rate.saturating_mul(8)),
            app_limited: info.app_limited,
            mss: info.snd_mss,
            delivered: u64::from(info.delivered),
            heard_at: now - info.last_ack_recv,
        });
        if self.rule.target() != target {
            let _ = SockRef::from(&self.stream).set_tcp_notsent_lowat(self.rule.target() as u32);
            self.room = None;
        }
        Some(told)
    }

    /// The last `TCP_INFO`.
    pub(crate) fn tcp_info(&self) -> TcpInfo {
        self.info
    }

    // ---- ending

    /// Ends the connection at once, with RST.
    pub(crate) fn abort(self) {
        let _ = sockopt::set_abort_on_drop(self.stream.as_fd());
    }

    /// Closes the connection: writes what is queued, sends the end, and waits for the peer's end. Without the wait,
    /// unread input would turn the close into a reset.
    pub(crate) async fn finish(mut self, within: Duration) {
        let _ = tokio::time::timeout(within, async {
            if let Some((sealer, _)) = &mut self.security {
                sealer.close();
            }
            std::future::poll_fn(|cx| self.poll_flush(cx)).await?;
            SockRef::from(&self.stream).shutdown(Shutdown::Write)?;
            loop {
                match std::future::poll_fn(|cx| self.poll_read(cx)).await? {
                    Input::Data(..) | Input::Accepted(_) => {}
                    Input::End | Input::Refused(_) => return io::Result::Ok(()),
                }
            }
        })
        .await;
    }
}
