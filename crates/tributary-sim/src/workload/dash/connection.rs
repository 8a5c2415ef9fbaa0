//! One connection of a DASH client: its end of the transport and the stream in use.

use tributary_types::Instant;

use super::requests::{REQUEST, Requests};
use crate::host::Outbox;
use crate::id::HostId;
use crate::multipath::{self, SubflowPath};
use crate::packet::{Body, Packet};
use crate::transport::{Notice, StreamKey, Transport};

/// The client's end of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// `None` once the client has given it up.
    transport: Option<Box<dyn Transport>>,
    requests: Requests,
    ways: Vec<SubflowPath>,
    server: HostId,
    /// A stream for each request, as in HTTP/3; else one for many.
    per_request: bool,
    connected: bool,
    stream: Option<StreamKey>,
    /// Bytes of a request that the transport has not taken.
    unsent: u64,
}

impl Connection {
    pub(crate) fn new(
        transport: Box<dyn Transport>,
        requests: Requests,
        (ways, server): (Vec<SubflowPath>, HostId),
        per_request: bool,
    ) -> Self {
        let transport = Some(transport);
        Self { transport, requests, ways, server, per_request, connected: false, stream: None, unsent: 0 }
    }

    /// The host at its other end.
    pub(super) fn server(&self) -> HostId {
        self.server
    }

    pub(super) fn is_open(&self) -> bool {
        self.transport.is_some()
    }

    /// Whether packets of this route belong to it.
    pub(super) fn has(&self, packet: &Packet) -> bool {
        self.ways.iter().any(|way| way.down == packet.route)
    }

    /// Sends a request for a body of this length. Returns its stream; `None` while that is not possible.
    pub(super) fn ask(&mut self, now: Instant, length: u64) -> Option<StreamKey> {
        let transport = self.transport.as_mut().filter(|_| self.connected)?;
        let stream = match self.stream {
            Some(stream) => stream,
            None => transport.open(now, 0)?,
        };
        self.stream = Some(stream);
        self.requests.ask(stream, length);
        self.unsent = REQUEST;
        self.write(now);
        Some(stream)
    }

    fn write(&mut self, now: Instant) {
        let (Some(transport), Some(stream)) = (self.transport.as_mut(), self.stream) else { return };
        if self.unsent == 0 {
            return;
        }
        self.unsent -= transport.write(now, stream, self.unsent);
        if self.unsent == 0 && self.per_request {
            transport.finish(now, stream);
        }
    }

    /// The answer is complete.
    pub(super) fn answered(&mut self) {
        if self.per_request {
            self.stream = None;
        }
    }

    /// Ends the current answer. Returns `false` if the connection must end with it.
    pub(super) fn stop(&mut self, now: Instant) -> bool {
        let Some(stream) = self.stream.take() else { return true };
        self.unsent = 0;
        let Some(transport) = self.transport.as_mut() else { return false };
        let stopped = transport.stop(now, stream);
        if stopped {
            transport.finish(now, stream);
        }
        stopped
    }

    /// Ends the connection silently. Further packets are answered with resets, as the kernel does for a closed
    /// socket.
    pub(super) fn close(&mut self) {
        self.transport = None;
    }

    pub(super) fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        if let Some(transport) = &mut self.transport {
            transport.handle_packet(now, packet, out);
            return;
        }
        let way = self.ways.iter().find(|way| way.down == packet.route);
        if let (Body::Segment(segment), Some(way)) = (&packet.body, way)
            && let Some(reset) = multipath::refusal(segment)
        {
            out.send(Packet::segment(way.up, reset));
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(transport) = &mut self.transport
            && transport.poll_timeout().is_some_and(|at| at <= now)
        {
            transport.handle_timeout(now, out);
        }
    }

    pub(super) fn handle_path(&mut self, now: Instant, (path, up): (u8, bool), out: &mut Outbox) {
        if let Some(transport) = &mut self.transport {
            transport.handle_path(now, path, up, out);
        }
    }

    /// Starts without these paths.
    pub(super) fn without(&mut self, now: Instant, paths: &[u8], out: &mut Outbox) {
        for path in paths {
            self.handle_path(now, (*path, false), out);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.transport.as_ref()?.poll_timeout()
    }

    /// The next notice for the client. Notices about sending are handled here.
    pub(super) fn poll_notice(&mut self, now: Instant) -> Option<Notice> {
        let notice = self.transport.as_mut()?.poll_notice()?;
        match notice {
            Notice::Connected => self.connected = true,
            Notice::Writable(_) => self.write(now),
            _ => {}
        }
        Some(notice)
    }

    /// Reads everything that waits on a stream.
    pub(super) fn read(&mut self, now: Instant, stream: StreamKey) -> u64 {
        let Some(transport) = &mut self.transport else { return 0 };
        let mut sum = 0;
        loop {
            let bytes = transport.read(now, stream, u64::MAX);
            if bytes == 0 {
                return sum;
            }
            sum += bytes;
        }
    }

    /// Bytes of the current answer that have arrived after a gap.
    pub(super) fn out_of_order(&self, stream: StreamKey) -> u64 {
        self.transport.as_ref().map_or(0, |transport| transport.out_of_order(stream))
    }

    pub(super) fn flush(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(transport) = &mut self.transport {
            transport.flush(now, out);
        }
    }
}
