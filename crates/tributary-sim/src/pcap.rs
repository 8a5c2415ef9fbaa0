//! Packet captures of a run: libpcap files that tcpdump and Wireshark read, as seen by the server.
//!
//! Headers are built from what the simulator knows: raw IPv4, TCP with timestamps and selective
//! acknowledgements, or UDP. Of TCP payload only the length is recorded; QUIC datagrams are recorded
//! completely. Addresses are the emulator's: 10.77.*i*.2 is the client and 10.77.*i*.1 the server of path
//! *i*, counted from one. Background traffic is left out. Two lengths differ from the simulated packet: a
//! capture contains a segment's SACK blocks, for which the simulator (like [`crate::HEADER`]) counts no
//! bytes, and lacks MPTCP's options, for which it counts some.
//! Format: libpcap's savefile with nanoseconds (magic 0xa1b23c4d), link type 101 (raw IP).

mod header;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use tributary_link::Direction;

use crate::event_log::{LogRecord, LogSink, What};
use crate::packet::Body;
use crate::run::RouteMap;

/// Savefile with nanosecond timestamps.
const MAGIC: u32 = 0xa1b2_3c4d;
/// LINKTYPE_RAW.
const RAW_IP: u32 = 101;
/// Longest record.
const SNAP: u32 = 65_535;

/// A capture being written. Clones share it.
pub struct Capture<W> {
    inner: Rc<RefCell<Inner<W>>>,
}

struct Inner<W> {
    to: W,
    routes: RouteMap,
    ports: header::Ports,
    packets: u64,
    failure: Option<io::Error>,
    buffer: Vec<u8>,
}

impl<W: Write + 'static> Capture<W> {
    /// Begins a capture of the connections with these routes.
    ///
    /// # Errors
    /// When the file header cannot be written.
    pub fn begin(mut to: W, routes: &RouteMap) -> io::Result<Self> {
        let mut head = Vec::with_capacity(24);
        for word in [MAGIC, 2 | 4 << 16, 0, 0, SNAP, RAW_IP] {
            head.extend(word.to_le_bytes());
        }
        to.write_all(&head)?;
        let (routes, buffer) = (routes.clone(), Vec::with_capacity(2048));
        let ports = header::Ports::default();
        let inner = Inner { to, routes, ports, packets: 0, failure: None, buffer };
        Ok(Self { inner: Rc::new(RefCell::new(inner)) })
    }

    /// The sink to attach to the event log.
    #[must_use]
    pub fn sink(&self) -> Box<dyn LogSink> {
        Box::new(Self { inner: Rc::clone(&self.inner) })
    }

    /// Ends the capture; returns its number of packets.
    ///
    /// # Errors
    /// The first write that failed.
    pub fn end(&self) -> io::Result<u64> {
        let mut inner = self.inner.borrow_mut();
        match inner.failure.take() {
            Some(failure) => Err(failure),
            None => inner.to.flush().map(|()| inner.packets),
        }
    }
}

impl<W: Write> LogSink for Capture<W> {
    fn record(&mut self, record: &LogRecord<'_>) {
        let inner = &mut *self.inner.borrow_mut();
        let Some((packet, used)) = record.packet.and_then(|p| Some((p, inner.routes.of(p.route)?))) else {
            return;
        };
        // The capture is taken at the server: packets it sends and packets that arrive.
        let seen = match used.direction {
            Direction::Down => record.what == What::Sent,
            Direction::Up => record.what == What::Arrived,
        };
        if !seen || inner.failure.is_some() {
            return;
        }
        inner.buffer.clear();
        let length = match &packet.body {
            Body::Segment(segment) => header::tcp(&mut inner.buffer, &mut inner.ports, used, segment),
            Body::Datagram(bytes) => header::udp(&mut inner.buffer, &mut inner.ports, used, bytes),
            Body::Filler => return,
        };
        let nanos = record.now.as_nanos();
        let captured = inner.buffer.len() as u32;
        let words = [(nanos / 1_000_000_000) as u32, (nanos % 1_000_000_000) as u32, captured, length];
        let head: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let written = inner.to.write_all(&head).and_then(|()| inner.to.write_all(&inner.buffer));
        match written {
            Ok(()) => inner.packets += 1,
            Err(failure) => inner.failure = Some(failure),
        }
    }
}

#[cfg(test)]
mod tests;
