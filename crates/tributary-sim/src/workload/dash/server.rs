//! The server's end of one connection: answers each request with the requested number of bytes.

use std::collections::BTreeMap;

use tributary_types::Instant;

use super::requests::{HEADERS, REQUEST, Requests};
use crate::transport::{Application, Notice, StreamKey, Transport};

/// A stream with requests.
#[derive(Debug, Default)]
struct Answer {
    /// Bytes of requests that are not complete.
    received: u64,
    /// Bytes of answers that the transport has not taken.
    left: u64,
    /// A request was answered.
    begun: bool,
}

/// The server of one connection.
#[derive(Debug)]
pub(crate) struct DashServer {
    requests: Requests,
    /// A stream ends with its answer.
    per_request: bool,
    answers: BTreeMap<StreamKey, Answer>,
}

impl DashServer {
    pub(crate) fn new(requests: Requests, per_request: bool) -> Self {
        Self { requests, per_request, answers: BTreeMap::new() }
    }

    fn read(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        let answer = self.answers.entry(stream).or_default();
        loop {
            let bytes = transport.read(now, stream, u64::MAX);
            if bytes == 0 {
                break;
            }
            answer.received += bytes;
        }
        while answer.received >= REQUEST {
            answer.received -= REQUEST;
            if let Some(length) = self.requests.take(stream) {
                answer.left += HEADERS + length;
                answer.begun = true;
            }
        }
    }

    fn write(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        let Some(answer) = self.answers.get_mut(&stream) else { return };
        if answer.left > 0 {
            answer.left -= transport.write(now, stream, answer.left);
        }
        if self.per_request && answer.begun && answer.left == 0 {
            transport.finish(now, stream);
            self.answers.remove(&stream);
        }
    }
}

impl Application for DashServer {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Readable(stream) => {
                self.read(now, stream, transport);
                self.write(now, stream, transport);
            }
            Notice::Writable(stream) => self.write(now, stream, transport),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut dyn Transport) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
