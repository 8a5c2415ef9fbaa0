//! A source that writes streams of given sizes, and a sink that reads everything.

use std::collections::BTreeMap;

use tributary_types::Instant;

use crate::transport::{Application, Notice, StreamKey, Transport};

/// A stream to be written.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub priority: u8,
    pub bytes: u64,
}

/// Opens its streams when connected and writes as fast as allowed.
#[derive(Debug)]
pub struct Source {
    writes: Vec<Write>,
    /// Remaining bytes per stream, in the order of opening.
    pub left: Vec<(StreamKey, u64)>,
    pub closed: bool,
}

impl Source {
    pub fn new(writes: &[Write]) -> Self {
        Self { writes: writes.to_vec(), left: Vec::new(), closed: false }
    }
}

impl Application for Source {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Connected => {
                for write in self.writes.drain(..) {
                    let stream = transport.open(now, write.priority).expect("few streams");
                    self.left.push((stream, write.bytes));
                }
            }
            Notice::Closed => self.closed = true,
            _ => {}
        }
        for (stream, left) in self.left.iter_mut().filter(|(_, left)| *left > 0) {
            *left -= transport.write(now, *stream, *left);
            if *left == 0 {
                transport.finish(now, *stream);
            }
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

/// What has arrived on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    pub bytes: u64,
    pub ended: Option<Instant>,
}

/// Reads.
#[derive(Debug, Default)]
pub struct Sink {
    pub streams: BTreeMap<StreamKey, Received>,
    pub total: u64,
    /// Time of the last arrival, and the longest time between two arrivals.
    pub last: Option<Instant>,
    pub longest_wait: core::time::Duration,
}

impl Application for Sink {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        let Notice::Readable(stream) = notice else { return };
        let received = self.streams.entry(stream).or_default();
        loop {
            // Odd sizes, so that reads end within chunks.
            let read = transport.read(now, stream, 3001);
            if read == 0 {
                break;
            }
            received.bytes += read;
            self.total += read;
            let wait = now.saturating_since(self.last.unwrap_or(now));
            self.longest_wait = self.longest_wait.max(wait);
            self.last = Some(now);
        }
        if transport.is_finished(stream) && received.ended.is_none() {
            received.ended = Some(now);
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
