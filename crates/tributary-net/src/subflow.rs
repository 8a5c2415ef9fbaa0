//! One subflow on its connection: gathered writes, large reads into reused blocks, and the number of bytes that the subflow
//! can take soon.
//!
//! Not here: the choice of data (the session decides) and the handshake. All calls are non-blocking; those that take
//! a context register a wake-up when they return `Pending` or zero.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tributary_proto::room::Room;
use tributary_proto::wire::Head;
use tributary_proto::{SubflowInfo, Transmit};
use tributary_types::{Instant, PathId, SubflowId};

use crate::handshake::{AwaitedReply, Credentials, Established, HandshakeError, hung_up};
use crate::hello::reply_length;
use crate::pipe::{MOST_OVERTAKING, Pipe, SubflowProtocol};
use crate::sockopt::TcpInfo;
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
    /// Whole frames that have overtaken others.
    Overtaking(Bytes),
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
    stream: Pipe,
    security: Option<(Sealer, Opener)>,
    reply: Option<Reply>,
    /// The last input had overtaken others.
    overtook: bool,
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
    /// Whole frames that may overtake the queue, those of each part together.
    overtaking: VecDeque<BytesMut>,
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
        let mut channel = established.channel;
        let rule = Room::new(channel.security.is_some());
        channel.stream.admit();
        channel.stream.set_unsent_target(rule.target())?;
        Ok(Self {
            id: established.subflow,
            path: established.path,
            stream: channel.stream,
            security: channel.security,
            reply: established.reply.map(|awaited| Reply { awaited, bytes: Vec::new() }),
            overtook: false,
            behind: None,
            block: BytesMut::with_capacity(BLOCK),
            fresh: true,
            used: VecDeque::new(),
            kept: 0,
            queue: VecDeque::new(),
            queued: 0,
            overtaking: VecDeque::new(),
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
        // They alternate, so that neither holds up the other.
        if std::mem::take(&mut self.overtook)
            && let Poll::Ready(input) = self.poll_input(cx)
        {
            return Poll::Ready(input);
        }
        if let Poll::Ready(frames) = self.stream.poll_overtaking(cx) {
            self.overtook = true;
            return Poll::Ready(frames.map(Input::Overtaking));
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
            ready!(self.stream.poll_readable(cx))?;
            self.make_space();
            if ready!(self.stream.poll_read_buf(cx, &mut self.block))? == 0 {
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
        self.stream.set_least_input(missing.max(1))
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
            None if transmit.may_overtake && self.stream.protocol() != SubflowProtocol::Tcp => {
                if self.overtaking.back().is_none_or(|part| part.len() + transmit.len() > MOST_OVERTAKING) {
                    self.overtaking.push_back(BytesMut::new());
                }
                let part = self.overtaking.back_mut().expect("one was added");
                part.extend_from_slice(transmit.head.as_slice());
                part.extend_from_slice(&transmit.payload);
            }
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

    /// Bytes queued here that the connection has not taken yet.
    pub(crate) fn held(&self) -> usize {
        let sealed = self.security.as_ref().map_or(0, |(sealer, _)| sealer.held());
        let overtaking: usize = self.overtaking.iter().map(BytesMut::len).sum();
        self.queued + sealed + overtaking + self.stream.held()
    }

    /// Writes what is queued until the connection has taken all.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some((sealer, _)) = &mut self.security {
            sealer.finish();
            while sealer.held() > 0 {
                let n = ready!(self.stream.poll_write(cx, &[IoSlice::new(sealer.pending())]))?;
                sealer.advance(n);
            }
            return Poll::Ready(Ok(()));
        }
        ready!(self.stream.poll_finish_overtaking(cx))?;
        while let Some(mut part) = self.overtaking.pop_front() {
            if !self.stream.overtake(&mut part) {
                // In order then.
                self.queued += part.len();
                self.queue.push_back(Transmit {
                    subflow: self.id,
                    head: Head::default(),
                    payload: part.freeze(),
                    may_overtake: false,
                });
            }
            ready!(self.stream.poll_finish_overtaking(cx))?;
        }
        while self.queued > 0 {
            let n = ready!(self.poll_write_queue(cx))?;
            self.written(n);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_queue(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
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
        self.stream.poll_write(cx, &slices[..count])
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
        let room = self.stream.poll_room(cx, &self.rule)?;
        // Room was zero and a wake-up is registered: query the room again.
        self.room = (room > 0).then_some(room);
        Ok(room)
    }

    // ---- the connection's state

    /// Reads the connection's state again if the last one is old enough.
    pub(crate) fn refresh(&mut self, now: Instant) -> Option<SubflowInfo> {
        if !self.rule.poll_ask(now) {
            return None;
        }
        let (seen, info) = self.stream.info(now, self.held() as u64).ok()?;
        self.info = info;
        let target = self.rule.target();
        let told = self.rule.handle_info(&seen);
        if self.rule.target() != target {
            let _ = self.stream.set_unsent_target(self.rule.target());
            self.room = None;
        }
        Some(told)
    }

    /// Which connection it is on.
    pub(crate) fn protocol(&self) -> SubflowProtocol {
        self.stream.protocol()
    }

    /// The last state. QUIC's has the same fields where it knows them.
    pub(crate) fn tcp_info(&self) -> TcpInfo {
        self.info
    }

    // ---- ending

    /// Ends the connection at once: TCP with RST.
    pub(crate) fn abort(mut self) {
        self.stream.abort();
    }

    /// Closes the connection: writes what is queued, sends the end, and waits for the peer's end. Without the wait,
    /// unread input would turn the close into a reset.
    pub(crate) async fn finish(mut self, within: Duration) {
        let _ = tokio::time::timeout(within, async {
            if let Some((sealer, _)) = &mut self.security {
                sealer.close();
            }
            std::future::poll_fn(|cx| self.poll_flush(cx)).await?;
            self.stream.finish_writing()?;
            // What comes before the end is not wanted any more.
            while let Input::Data(..) | Input::Overtaking(_) | Input::Accepted(_) =
                std::future::poll_fn(|cx| self.poll_read(cx)).await?
            {}
            self.stream.delivered().await;
            io::Result::Ok(())
        })
        .await;
    }
}
