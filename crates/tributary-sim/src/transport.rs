//! The interface between a transport (TCP, MPTCP, QUIC, a Tributary session) and the workload above it.
//!
//! Streams are ordered and reliable and carry numbers of bytes, not contents: a workload decides how many
//! bytes are written and when, and measures when they arrive in order.

use core::any::Any;
use core::fmt::Debug;
use core::time::Duration;

use tributary_types::Instant;

use crate::host::{Host, Outbox};
use crate::packet::Packet;

/// A stream of one transport; the same number at both ends. A TCP or MPTCP connection is stream 0.
pub type StreamKey = u64;

/// Notices of a transport to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The first path is up: streams can be opened and written.
    Connected,
    /// The peer opened a stream; for TCP, together with `Connected`.
    Opened(StreamKey),
    /// In-order bytes can be read, or the end was reached.
    Readable(StreamKey),
    /// A write that was cut short may succeed.
    Writable(StreamKey),
    /// Messages of a stream were dropped completely, because their deadline passed before they began to be
    /// sent.
    Expired {
        /// The stream.
        stream: StreamKey,
        /// Number of messages.
        messages: u32,
    },
    /// The transport has closed.
    Closed,
}

/// Counters of one end; those that the transport does not count are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Payload bytes sent for the first time.
    pub sent: u64,
    /// Payload bytes retransmitted on the same path.
    pub retransmitted: u64,
    /// Payload bytes sent again on another path.
    pub reinjected: u64,
    /// Payload bytes that arrived more than once.
    pub duplicates: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Smoothed round-trip time, averaged over the acknowledgements of all paths.
    pub mean_srtt: Duration,
    /// Most bytes held for reassembly and reading.
    pub receive_held_most: u64,
}

/// One path of a transport at one time, for time series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathSample {
    /// Index of the path in the scenario.
    pub path: u8,
    /// Congestion window, bytes.
    pub window: u64,
    /// Slow-start threshold, bytes.
    pub threshold: u64,
    /// Bytes in flight, if the transport reports them.
    pub in_flight: Option<u64>,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Payload bytes that this subflow has retransmitted so far; zero for QUIC, which does not count them by path.
    pub retransmitted: u64,
}

/// One end of a transport. As with a [`Host`], every call puts all resulting packets into `out`.
pub trait Transport: Debug + Any {
    /// A packet arrived.
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox);

    /// Time has passed.
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox);

    /// When to call `handle_timeout`.
    fn poll_timeout(&self) -> Option<Instant>;

    /// A path goes down or comes back with a link event.
    fn handle_path(&mut self, now: Instant, path: u8, up: bool, out: &mut Outbox) {
        let _ = (now, path, up, out);
    }

    /// Opens a stream; higher `priority` is sent first if the transport supports priorities. Transports with
    /// a single stream always return 0. `None` while not connected, or with too many streams.
    fn open(&mut self, now: Instant, priority: u8) -> Option<StreamKey>;

    /// Accepts up to `bytes` more and returns how many; if fewer, `Notice::Writable` follows.
    fn write(&mut self, now: Instant, stream: StreamKey, bytes: u64) -> u64;

    /// Writes a message of `bytes` completely or not at all; returns which. If it has not begun to be sent
    /// `within` this time, it is dropped completely and `Notice::Expired` follows. `None` if the transport
    /// has no messages.
    fn write_message(
        &mut self,
        now: Instant,
        stream: StreamKey,
        bytes: u64,
        within: Duration,
    ) -> Option<bool> {
        let _ = (now, stream, bytes, within);
        None
    }

    /// Ends a stream after the data written so far.
    fn finish(&mut self, now: Instant, stream: StreamKey);

    /// Stops reading a stream and asks the peer to stop sending on it; what still arrives of it is discarded. `false` where
    /// there is only one stream: then the connection has to be given up.
    fn stop(&mut self, now: Instant, stream: StreamKey) -> bool {
        let _ = (now, stream);
        false
    }

    /// Reads up to `most` in-order bytes; zero when there are none.
    fn read(&mut self, now: Instant, stream: StreamKey, most: u64) -> u64;

    /// Bytes of a stream that have arrived and cannot be read yet, because earlier ones are missing; zero for
    /// transports that do not tell an application.
    fn out_of_order(&self, stream: StreamKey) -> u64 {
        let _ = stream;
        0
    }

    /// Whether a stream has ended and was read completely.
    fn is_finished(&self, stream: StreamKey) -> bool;

    /// Sends what writes and reads have made possible. Called after the application's turn.
    fn flush(&mut self, now: Instant, out: &mut Outbox);

    /// The next notice, until `None`.
    fn poll_notice(&mut self) -> Option<Notice>;

    /// The present counters.
    fn counters(&self) -> Counters;

    /// Adds the present state of each path.
    fn sample(&self, samples: &mut Vec<PathSample>);
}

/// The user of a transport: a workload's client or server.
pub trait Application: Debug + Any {
    /// Something has happened on the transport.
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport);

    /// The time of [`Application::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport);

    /// When to call `handle_timeout`. Read after each of the calls above; changes only in them.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// A transport with an application on top: a host.
#[derive(Debug)]
pub struct Endpoint {
    transport: Box<dyn Transport>,
    application: Box<dyn Application>,
    /// The application's timeout, cached so that a packet without news for it does not touch its memory.
    application_at: Option<Instant>,
}

impl Endpoint {
    /// Puts `application` on `transport`.
    #[must_use]
    pub fn new(transport: Box<dyn Transport>, application: Box<dyn Application>) -> Self {
        let application_at = application.poll_timeout();
        Self { transport, application, application_at }
    }

    /// The transport.
    #[must_use]
    pub fn transport(&self) -> &dyn Transport {
        self.transport.as_ref()
    }

    /// The application, if it is of this type.
    #[must_use]
    pub fn application<A: Application>(&self) -> Option<&A> {
        (self.application.as_ref() as &dyn Any).downcast_ref()
    }

    fn settle(&mut self, now: Instant, out: &mut Outbox) {
        self.tell(now);
        loop {
            self.transport.flush(now, out);
            // Notices caused by the flush are delivered at once, not with the next packet.
            if !self.tell(now) {
                return;
            }
        }
    }

    /// Delivers the pending notices; returns whether there were any.
    fn tell(&mut self, now: Instant) -> bool {
        let mut told = false;
        while let Some(notice) = self.transport.poll_notice() {
            self.application.handle_notice(now, notice, self.transport.as_mut());
            told = true;
        }
        if told {
            self.application_at = self.application.poll_timeout();
        }
        told
    }
}

impl Host for Endpoint {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        self.transport.handle_packet(now, packet, out);
        self.settle(now, out);
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.transport.poll_timeout().is_some_and(|at| at <= now) {
            self.transport.handle_timeout(now, out);
        }
        if self.application_at.is_some_and(|at| at <= now) {
            self.application.handle_timeout(now, self.transport.as_mut());
            self.application_at = self.application.poll_timeout();
        }
        self.settle(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.transport.poll_timeout().into_iter().chain(self.application_at).min()
    }

    fn handle_path(&mut self, now: Instant, path: u8, up: bool, out: &mut Outbox) {
        self.transport.handle_path(now, path, up, out);
        self.settle(now, out);
    }
}
