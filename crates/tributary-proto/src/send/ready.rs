//! The queue of streams with bytes to number: the most urgent first, streams of the same priority one after the other.
//!
//! Sums are kept while streams change, so that no decision about a segment walks over the streams. Not here: credit, and
//! how much of a stream is numbered.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use tributary_types::StreamId;

use super::stream::{Queued, SendStream};

/// Streams with unnumbered bytes and credit for them, and streams of which only the end is left.
#[derive(Debug, Default)]
pub(super) struct ReadyStreams {
    ready: BTreeMap<(Reverse<u8>, u64), StreamId>,
    /// An end needs no credit, so these streams do not wait for their turn.
    ends: BTreeMap<u64, StreamId>,
    /// Number of the next place.
    next: u64,
    /// Bytes of the ready streams: of those with a priority, and of bulk.
    prioritised: u64,
    bulk: u64,
}

impl ReadyStreams {
    /// Enters a stream, removes it or updates its bytes after a change. A stream that has a place keeps it.
    /// `open`: how far a stream may use its initial credit.
    pub fn settle(&mut self, id: StreamId, stream: &mut SendStream, open: u64) {
        let bytes = stream.sendable(open);
        match stream.queued {
            Some(queued) if bytes == 0 => {
                self.ready.remove(&queued.key);
                *self.sum(queued.key.0.0) -= queued.bytes;
                stream.queued = None;
            }
            Some(queued) => {
                let sum = self.sum(queued.key.0.0);
                *sum = *sum - queued.bytes + bytes;
                stream.queued = Some(Queued { bytes, ..queued });
            }
            None if bytes > 0 => {
                let key = (Reverse(stream.priority), self.number());
                self.ready.insert(key, id);
                *self.sum(stream.priority) += bytes;
                stream.queued = Some(Queued { key, bytes });
            }
            None => {}
        }
        match stream.end_queued {
            Some(at) if !stream.only_fin() => {
                self.ends.remove(&at);
                stream.end_queued = None;
            }
            None if stream.only_fin() => {
                let at = self.number();
                self.ends.insert(at, id);
                stream.end_queued = Some(at);
            }
            _ => {}
        }
    }

    /// Moves a stream behind those of its priority.
    pub fn requeue(&mut self, id: StreamId, stream: &mut SendStream, open: u64) {
        if let Some(queued) = stream.queued.take() {
            self.ready.remove(&queued.key);
            *self.sum(queued.key.0.0) -= queued.bytes;
        }
        self.settle(id, stream, open);
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn sum(&mut self, priority: u8) -> &mut u64 {
        if priority > 0 { &mut self.prioritised } else { &mut self.bulk }
    }

    /// Bytes of the ready streams: of those with a priority, and of bulk.
    pub fn bytes(&self) -> (u64, u64) {
        (self.prioritised, self.bulk)
    }

    /// Number of ready streams.
    pub fn waiting(&self) -> u64 {
        self.ready.len() as u64
    }

    /// The oldest stream of which only the end is left.
    pub fn first_end(&self) -> Option<StreamId> {
        self.ends.first_key_value().map(|(_, id)| *id)
    }

    /// The first stream of the highest priority.
    pub fn first(&self) -> Option<StreamId> {
        self.ready.first_key_value().map(|(_, id)| *id)
    }

    /// The first stream of the lowest priority.
    pub fn first_of_lowest(&self) -> Option<StreamId> {
        let lowest = self.lowest()?;
        self.ready.range((Reverse(lowest), 0)..).next().map(|(_, id)| *id)
    }

    /// The lowest priority of a ready stream.
    pub fn lowest(&self) -> Option<u8> {
        self.ready.last_key_value().map(|((priority, _), _)| priority.0)
    }

    /// The highest priority of a ready stream.
    pub fn highest(&self) -> Option<u8> {
        self.ready.first_key_value().map(|((priority, _), _)| priority.0)
    }
}
