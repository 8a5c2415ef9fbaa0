//! The streams and flows of a session on real sockets, as the application of a trial uses them.

use bytes::Bytes;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::collections::BTreeMap;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tributary_net::flow::Datagram;
use tributary_net::{Flow, FlowConfig, RecvHalf, SendHalf, Session, Stream, StreamError, StreamId};
use tributary_proto::{ReadError, WriteError};
use tributary_sim::trial::Streams;
use tributary_types::Instant;

/// A session with the streams and flows that exist.
pub(super) struct Sockets {
    session: Session,
    streams: BTreeMap<StreamId, (RecvHalf, SendHalf)>,
    flows: BTreeMap<StreamId, Flow>,
    /// Where bytes are read to.
    buffer: Vec<u8>,
}

/// The same in a task: what cannot be done now wakes the task when it can.
pub(super) struct InTask<'a, 'b> {
    sockets: &'a mut Sockets,
    cx: &'a mut Context<'b>,
}

impl Sockets {
    pub fn new(session: Session) -> Self {
        Self { session, streams: BTreeMap::new(), flows: BTreeMap::new(), buffer: Vec::new() }
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Close code and reason, once it has ended.
    pub fn ended(&self) -> Option<(u32, String)> {
        self.session.close_reason().map(|closed| (closed.code, closed.reason))
    }

    /// Begins to close in order; it goes on by itself.
    pub fn close(&self) {
        let mut nobody = Context::from_waker(std::task::Waker::noop());
        let _ = pin!(self.session.close()).poll(&mut nobody);
    }

    /// Takes what the peer has opened.
    pub fn accept(&mut self, cx: &mut Context<'_>, mut opened: impl FnMut(StreamId)) {
        while let Poll::Ready(Ok(stream)) = pin!(self.session.accept_stream()).poll(cx) {
            opened(keep(&mut self.streams, stream));
        }
        while let Poll::Ready(Ok(flow)) = pin!(self.session.accept_flow()).poll(cx) {
            opened(flow.id());
            self.flows.insert(flow.id(), flow);
        }
    }

    pub fn with<'a, 'b>(&'a mut self, cx: &'a mut Context<'b>) -> InTask<'a, 'b> {
        InTask { sockets: self, cx }
    }
}

/// Keeps the stream with its identifier.
fn keep(streams: &mut BTreeMap<StreamId, (RecvHalf, SendHalf)>, stream: Stream) -> StreamId {
    let id = stream.id();
    streams.insert(id, stream.into_split());
    id
}

/// The session's error behind that of a stream.
fn reason(error: &io::Error) -> Option<StreamError> {
    error.get_ref()?.downcast_ref().copied()
}

fn write_error(error: &io::Error) -> WriteError {
    match reason(error) {
        Some(StreamError::Abandoned(code)) => WriteError::Stopped(code),
        Some(StreamError::SessionClosed) => WriteError::Closed,
        _ => WriteError::NotOpen,
    }
}

fn read_error(error: Option<StreamError>) -> ReadError {
    match error {
        Some(StreamError::Abandoned(code)) => ReadError::Reset(code),
        Some(StreamError::SessionClosed) => ReadError::Closed,
        _ => ReadError::NotOpen,
    }
}

impl Streams for InTask<'_, '_> {
    fn open_stream(&mut self, priority: u8) -> Option<StreamId> {
        let opened = pin!(self.sockets.session.open_stream(priority)).poll(self.cx);
        let Poll::Ready(Ok(stream)) = opened else { return None };
        Some(keep(&mut self.sockets.streams, stream))
    }

    fn open_flow(&mut self, _now: Instant) -> Option<StreamId> {
        let opened = pin!(self.sockets.session.open_flow(FlowConfig::default())).poll(self.cx);
        let Poll::Ready(Ok(flow)) = opened else { return None };
        let id = flow.id();
        self.sockets.flows.insert(id, flow);
        Some(id)
    }

    fn write(&mut self, id: StreamId, bytes: &'static [u8]) -> Result<usize, WriteError> {
        let (_, send) = self.sockets.streams.get_mut(&id).ok_or(WriteError::NotOpen)?;
        match Pin::new(send).poll_write(self.cx, bytes) {
            Poll::Ready(Ok(taken)) => Ok(taken),
            Poll::Ready(Err(error)) => Err(write_error(&error)),
            Poll::Pending => Err(WriteError::Blocked),
        }
    }

    fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        if let Some(flow) = self.sockets.flows.get(&id) {
            flow.finish();
            return Ok(());
        }
        let (_, send) = self.sockets.streams.get_mut(&id).ok_or(WriteError::NotOpen)?;
        match Pin::new(send).poll_shutdown(self.cx) {
            Poll::Ready(Ok(())) => Ok(()),
            Poll::Ready(Err(error)) => Err(write_error(&error)),
            Poll::Pending => Err(WriteError::Blocked),
        }
    }

    fn reset(&mut self, id: StreamId, code: u32) {
        if let Some((_, send)) = self.sockets.streams.get_mut(&id) {
            send.reset(code);
        }
    }

    fn stop(&mut self, id: StreamId, code: u32) {
        if let Some((recv, _)) = self.sockets.streams.get_mut(&id) {
            recv.stop(code);
        }
    }

    fn set_priority(&mut self, id: StreamId, priority: u8) {
        if let Some((_, send)) = self.sockets.streams.get(&id) {
            send.set_priority(priority);
        }
    }

    fn read_most(&mut self, id: StreamId, most: usize) -> Result<Option<Bytes>, ReadError> {
        let Sockets { streams, buffer, .. } = &mut *self.sockets;
        let (recv, _) = streams.get_mut(&id).ok_or(ReadError::NotOpen)?;
        buffer.resize(buffer.len().max(most), 0);
        let mut buffer = ReadBuf::new(&mut buffer[..most]);
        match Pin::new(recv).poll_read(self.cx, &mut buffer) {
            Poll::Ready(Ok(())) if buffer.filled().is_empty() => Ok(None),
            Poll::Ready(Ok(())) => Ok(Some(Bytes::copy_from_slice(buffer.filled()))),
            Poll::Ready(Err(error)) => Err(read_error(reason(&error))),
            Poll::Pending => Err(ReadError::Blocked),
        }
    }

    fn send_datagram(&mut self, _now: Instant, id: StreamId, datagram: &[u8]) {
        if let Some(flow) = self.sockets.flows.get(&id) {
            // As in the simulator: refused once the peer receives no more.
            let _ = flow.send_datagram(datagram);
        }
    }

    fn recv_datagrams(
        &mut self,
        id: StreamId,
        most: usize,
        out: &mut Vec<Datagram>,
    ) -> Result<usize, ReadError> {
        let flow = self.sockets.flows.get(&id).ok_or(ReadError::NotOpen)?;
        match flow.poll_recv(self.cx, out, most) {
            Poll::Ready(Ok(count)) => Ok(count),
            Poll::Ready(Err(error)) => Err(read_error(Some(error))),
            Poll::Pending => Err(ReadError::Blocked),
        }
    }
}
