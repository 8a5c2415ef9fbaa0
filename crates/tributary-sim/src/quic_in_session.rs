//! QUIC inside a session: a connection of `quinn-proto` whose datagrams a flow of the product's session carries.
//!
//! Session and QUIC are the real state machines. A datagram passes between them without delay, as within one computer. The QUIC
//! connection sees one path. Model: `docs/models/session-in-simulator.md`.

use core::fmt::Debug;

use thiserror::Error;
use tributary_proto::flow::{Datagram, FlowConfig};
use tributary_proto::wire::{Ecn, is_flow};
use tributary_types::{Instant, StreamId};

use crate::host::Outbox;
use crate::multipath::{MultipathError, SubflowPath};
use crate::packet::{Body, Packet};
use crate::quic::{HEADERS, QuicConfig, QuicError, QuicPath, QuicTransport};
use crate::session::{SessionConfig, SessionTransport};
use crate::transport::{Counters, Notice, PathSample, StreamKey, Transport};

/// Why a connection cannot be created.
#[derive(Debug, Error)]
pub enum InnerError {
    /// The session's settings.
    #[error(transparent)]
    Session(#[from] MultipathError),
    /// The QUIC connection's settings.
    #[error(transparent)]
    Quic(#[from] QuicError),
}

/// One end.
#[derive(Debug)]
pub struct QuicInSession {
    outer: SessionTransport,
    inner: QuicTransport,
    path: QuicPath,
    is_client: bool,
    flow: Option<StreamId>,
    closed: bool,
    /// Reused: what the QUIC connection sends, and what arrives for it.
    sent: Outbox,
    arrived: Vec<Datagram>,
}

impl QuicInSession {
    /// A client and a server with these paths between them.
    ///
    /// # Errors
    /// [`InnerError`].
    pub fn pair(
        session: &SessionConfig,
        quic: &QuicConfig,
        paths: &[SubflowPath],
    ) -> Result<(Self, Self), InnerError> {
        let (client, server) = SessionTransport::pair(session, paths)?;
        // The routes only tell the inner connection's two directions apart.
        let first = paths.first().ok_or(MultipathError::Paths(0))?;
        let path = |out, back| QuicPath { path: first.path, out, back };
        let (up, down) = (path(first.up, first.down), path(first.down, first.up));
        let end = |outer, inner, path, is_client| Self {
            outer,
            inner,
            path,
            is_client,
            flow: None,
            closed: false,
            sent: Outbox::default(),
            arrived: Vec::new(),
        };
        Ok((
            end(client, QuicTransport::client(quic, up)?, up, true),
            end(server, QuicTransport::server(quic, down)?, down, false),
        ))
    }

    /// The session that carries the connection.
    #[must_use]
    pub fn session(&self) -> &SessionTransport {
        &self.outer
    }

    /// Gives the QUIC connection what has arrived for it.
    fn receive(&mut self, now: Instant) {
        while let Some(notice) = self.outer.poll_notice() {
            match notice {
                Notice::Connected if self.is_client => {
                    let open = |session: &mut tributary_proto::Session| {
                        session.open_flow(now, FlowConfig::default())
                    };
                    self.flow = self.outer.change(open).and_then(Result::ok);
                }
                Notice::Opened(key) if self.flow.is_none() => {
                    let id = u32::try_from(key).ok().map(StreamId);
                    self.flow = id.filter(|id| is_flow(*id));
                }
                Notice::Closed => self.closed = true,
                _ => {}
            }
        }
        let (Some(flow), arrived) = (self.flow, &mut self.arrived) else { return };
        self.outer.change(|session| session.recv_datagrams(flow, usize::MAX, arrived));
        for datagram in self.arrived.drain(..) {
            let size = datagram.bytes.len() as u32 + HEADERS;
            let packet = Packet::new(self.path.back, size, Body::Datagram(datagram.bytes));
            self.inner.handle_packet(now, packet, &mut self.sent);
        }
    }

    /// Gives the flow what the QUIC connection sends; returns whether there was anything.
    fn send(&mut self, now: Instant) -> bool {
        let Some(flow) = self.flow else { return false };
        self.inner.flush(now, &mut self.sent);
        let some = !self.sent.packets.is_empty();
        for packet in self.sent.packets.drain(..) {
            if let Body::Datagram(bytes) = packet.body {
                self.outer.change(|session| session.send_datagram(now, flow, &bytes, Ecn::NotCapable));
            }
        }
        some
    }
}

impl Transport for QuicInSession {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        self.outer.handle_packet(now, packet, out);
        self.outer.flush(now, out);
        self.receive(now);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        self.outer.handle_timeout(now, out);
        self.outer.flush(now, out);
        self.receive(now);
        if self.flow.is_some() {
            self.inner.handle_timeout(now, &mut self.sent);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let inner = self.flow.and_then(|_| self.inner.poll_timeout());
        self.outer.poll_timeout().into_iter().chain(inner).min()
    }

    fn handle_path(&mut self, now: Instant, path: u8, up: bool, out: &mut Outbox) {
        self.outer.handle_path(now, path, up, out);
    }

    fn open(&mut self, now: Instant, priority: u8) -> Option<StreamKey> {
        self.inner.open(now, priority)
    }

    fn write(&mut self, now: Instant, stream: StreamKey, bytes: u64) -> u64 {
        self.inner.write(now, stream, bytes)
    }

    fn finish(&mut self, now: Instant, stream: StreamKey) {
        self.inner.finish(now, stream);
    }

    fn stop(&mut self, now: Instant, stream: StreamKey) -> bool {
        self.inner.stop(now, stream)
    }

    fn read(&mut self, now: Instant, stream: StreamKey, most: u64) -> u64 {
        self.inner.read(now, stream, most)
    }

    fn is_finished(&self, stream: StreamKey) -> bool {
        self.inner.is_finished(stream)
    }

    fn flush(&mut self, now: Instant, out: &mut Outbox) {
        self.outer.flush(now, out);
        self.receive(now);
        while self.send(now) {
            self.outer.flush(now, out);
            self.receive(now);
        }
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.inner.poll_notice().or_else(|| core::mem::take(&mut self.closed).then_some(Notice::Closed))
    }

    fn counters(&self) -> Counters {
        Counters { reinjected: self.outer.counters().reinjected, ..self.inner.counters() }
    }

    fn sample(&self, samples: &mut Vec<PathSample>) {
        self.outer.sample(samples);
    }
}

#[cfg(test)]
mod tests;
