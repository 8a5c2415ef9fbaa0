//! One end of a QUIC connection as a [`Transport`], over either QUIC crate.
//!
//! Datagrams leave only in [`Transport::flush`], after the application's turn, so that acknowledgements carry
//! what the application read and wrote, as with a driver that handles all input before it sends.

use core::fmt::Debug;
use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use tributary_types::Instant;

use super::clock::{opaque, virtual_time};
use super::config::{HEADERS, QuicConfig, QuicPath};
use super::crypto::Protection;
use super::stack::{Stack, StackEvent};
use crate::host::Outbox;
use crate::packet::{Body, Packet};
use crate::transport::{Counters, Notice, PathSample, StreamKey, Transport};

/// One end of a QUIC connection.
///
/// A stream's `priority` applies to the end that opened it; answers on a stream of the peer's have priority
/// 0, because QUIC does not transmit priorities. [`Counters`]: `sent` is what the application wrote,
/// `retransmitted` the bytes of packets declared lost. The QUIC crates do not report duplicates, timeouts and
/// bytes held; these stay zero.
#[derive(Debug)]
pub struct QuicEnd<S> {
    stack: S,
    paths: Vec<QuicPath>,
    protection: Protection,
    datagram: usize,
    /// When the stack wants to be woken; at once for a client that has not begun.
    wake: Option<Instant>,
    is_started: bool,
    notices: VecDeque<Notice>,
    ended: Ended,
    spare: Vec<u8>,
    written: u64,
    round_trips: RoundTrips,
}

/// Mean of the smoothed round-trip time over arriving datagrams.
#[derive(Debug, Default)]
struct RoundTrips {
    sum: Duration,
    count: u32,
}

impl<S: Stack> QuicEnd<S> {
    pub(super) fn new(stack: S, config: &QuicConfig, paths: &[QuicPath]) -> Self {
        Self {
            stack,
            paths: paths.to_vec(),
            protection: config.protection,
            datagram: usize::from(config.datagram),
            wake: Some(Instant::ZERO),
            is_started: false,
            notices: VecDeque::new(),
            ended: Ended::default(),
            spare: Vec::new(),
            written: 0,
            round_trips: RoundTrips::default(),
        }
    }

    /// Protection of its packets; results name it.
    #[must_use]
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Why the connection was lost, as reported by the QUIC crate; `None` if it was not.
    #[must_use]
    pub fn lost(&self) -> Option<&str> {
        self.stack.lost()
    }

    /// Fetches events and the next timeout.
    fn settle(&mut self, now: Instant) {
        while let Some(event) = self.stack.poll_event(opaque(now)) {
            let notice = match event {
                StackEvent::Connected => Notice::Connected,
                StackEvent::Opened(stream) => Notice::Opened(stream),
                StackEvent::Readable(stream) => Notice::Readable(stream),
                StackEvent::Writable(stream) => Notice::Writable(stream),
                StackEvent::Lost => Notice::Closed,
            };
            if self.notices.back() != Some(&notice) {
                self.notices.push_back(notice);
            }
        }
        self.wake = self.stack.poll_timeout().map(virtual_time);
    }

    fn start(&mut self, now: Instant) {
        if !self.is_started {
            self.is_started = true;
            self.stack.start(opaque(now));
        }
    }
}

impl<S: Stack> Transport for QuicEnd<S> {
    fn handle_packet(&mut self, now: Instant, packet: Packet, _: &mut Outbox) {
        self.start(now);
        let Body::Datagram(bytes) = packet.body else { return };
        let Some(path) = self.paths.iter().position(|path| path.back == packet.route) else { return };
        let bytes = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        self.stack.handle_datagram(opaque(now), path, bytes);
        if let Some(rtt) = self.stack.rtt(path) {
            self.round_trips.sum += rtt;
            self.round_trips.count = self.round_trips.count.saturating_add(1);
        }
        self.settle(now);
    }

    fn handle_timeout(&mut self, now: Instant, _: &mut Outbox) {
        self.start(now);
        if self.wake.is_some_and(|at| at <= now) {
            self.stack.handle_timeout(opaque(now));
        }
        self.settle(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wake
    }

    fn handle_path(&mut self, now: Instant, path: u8, up: bool, _: &mut Outbox) {
        if let Some(path) = self.paths.iter().position(|own| own.path == path) {
            self.stack.handle_path(opaque(now), path, up);
            self.settle(now);
        }
    }

    fn open(&mut self, _: Instant, priority: u8) -> Option<StreamKey> {
        self.stack.open(priority)
    }

    fn write(&mut self, _: Instant, stream: StreamKey, bytes: u64) -> u64 {
        let written = self.stack.write(stream, bytes);
        self.written += written;
        written
    }

    fn finish(&mut self, _: Instant, stream: StreamKey) {
        self.stack.finish(stream);
    }

    fn stop(&mut self, _: Instant, stream: StreamKey) -> bool {
        self.stack.stop(stream);
        true
    }

    fn read(&mut self, _: Instant, stream: StreamKey, most: u64) -> u64 {
        let (read, ended) = self.stack.read(stream, most);
        if ended {
            self.ended.insert(stream);
        }
        read
    }

    fn is_finished(&self, stream: StreamKey) -> bool {
        self.ended.contains(stream)
    }

    fn flush(&mut self, now: Instant, out: &mut Outbox) {
        self.start(now);
        loop {
            let mut buffer = core::mem::take(&mut self.spare);
            buffer.reserve_exact(self.datagram);
            let Some(path) = self.stack.poll_transmit(opaque(now), &mut buffer) else {
                self.spare = buffer;
                break;
            };
            let Some(path) = self.paths.get(path) else { continue };
            let size = buffer.len() as u32 + HEADERS;
            out.send(Packet::new(path.out, size, Body::Datagram(Bytes::from(buffer))));
        }
        self.settle(now);
    }

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn counters(&self) -> Counters {
        let RoundTrips { sum, count } = self.round_trips;
        Counters {
            sent: self.written,
            retransmitted: self.stack.lost_bytes(),
            mean_srtt: sum.checked_div(count).unwrap_or_default(),
            ..Counters::default()
        }
    }

    fn sample(&self, samples: &mut Vec<PathSample>) {
        for (index, path) in self.paths.iter().enumerate() {
            if let Some(sample) = self.stack.sample(index) {
                samples.push(PathSample { path: path.path, ..sample });
            }
        }
    }
}

/// Streams read to their end. Those of one kind are numbered in steps of four (RFC 9000 §2.1) and end roughly
/// in order, so a bound per kind and the few beyond it are enough.
#[derive(Debug, Default)]
struct Ended {
    /// All streams of a kind below this have ended.
    below: [u64; 4],
    beyond: BTreeSet<StreamKey>,
}

impl Ended {
    fn insert(&mut self, stream: StreamKey) {
        if self.contains(stream) {
            return;
        }
        self.beyond.insert(stream);
        let kind = stream % 4;
        let below = &mut self.below[kind as usize];
        while self.beyond.remove(&(*below * 4 + kind)) {
            *below += 1;
        }
    }

    fn contains(&self, stream: StreamKey) -> bool {
        stream / 4 < self.below[(stream % 4) as usize] || self.beyond.contains(&stream)
    }
}
