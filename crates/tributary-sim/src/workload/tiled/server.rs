//! The server's half: pushes what was asked for, in order, and drops what is past its deadline.
//!
//! It keeps little in the transport (`ahead`), so that what goes next is decided late and a plan that comes
//! replaces the one before. It looks every millisecond, as one that is woken when little is unsent.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tributary_types::Instant;

use super::TiledSpec;
use super::ledger::{Ledger, Part, Plan};
use crate::transport::{Application, Notice, StreamKey, Transport};

/// How often the server looks what the transport has sent.
const LOOK: Duration = Duration::from_millis(1);
/// Streams of one GoP at most; messages beyond share the last one.
const MOST_LANES: usize = 255;

/// The server of a viewing.
#[derive(Debug)]
pub struct TiledServer {
    spec: TiledSpec,
    ledger: Ledger,
    /// What was asked for and is not written, first to last, with the place of its message in the order.
    queue: VecDeque<(usize, Part)>,
    /// Of two GoPs in turn: what is left of the one before then delays nothing.
    lanes: BTreeMap<(usize, usize), StreamKey>,
    /// Messages of the GoP so far.
    ranks: usize,
    gop: usize,
    /// Bytes of requests that were read.
    read: u64,
    /// Bytes given to the transport, less those that it dropped.
    written: u64,
    next: Option<Instant>,
    /// GoP and message of the part that was written last.
    begun: Option<(usize, usize)>,
    /// Tiles and qualities of the GoP of which a part was written.
    copies: BTreeSet<(usize, usize)>,
}

impl TiledServer {
    pub(super) fn new(spec: TiledSpec, ledger: Ledger) -> Self {
        let spec = TiledSpec { part: spec.part.clamp(1, 256 << 10), ..spec };
        let (queue, lanes, copies) = Default::default();
        let (ranks, gop, read, written) = (0, 0, 0, 0);
        Self { spec, ledger, queue, lanes, ranks, gop, read, written, next: None, begun: None, copies }
    }

    fn requests(&mut self, now: Instant, stream: StreamKey, transport: &mut dyn Transport) {
        loop {
            let bytes = transport.read(now, stream, u64::MAX);
            if bytes == 0 {
                break;
            }
            self.read += bytes;
        }
        while let Some(plan) = self.ledger.asked(&mut self.read) {
            self.take(plan);
        }
    }

    /// A plan replaces what of its GoP has not begun to be written.
    fn take(&mut self, plan: Plan) {
        if plan.gop != self.gop {
            (self.gop, self.ranks) = (plan.gop, 0);
            self.copies.clear();
        }
        let begun = self.queue.front().filter(|(_, part)| self.is_begun(part)).map(|(_, part)| part.message);
        let (kept, replaced): (VecDeque<_>, VecDeque<_>) =
            self.queue.drain(..).partition(|(_, part)| part.gop != plan.gop || Some(part.message) == begun);
        self.queue = kept;
        let mut last = None;
        for (_, part) in replaced {
            if last.replace(part.message) != Some(part.message) {
                self.ledger.withdraw(part.gop, part.message);
            }
        }
        for (at, message) in plan.messages.iter().enumerate() {
            let (rank, copy) = ((self.ranks + at).min(MOST_LANES - 1), (message.tile, message.choice));
            if self.copies.contains(&copy) {
                self.ledger.withdraw(plan.gop, plan.first + at); // under way already
                continue;
            }
            let mut left = message.bytes;
            while left > 0 {
                let bytes = left.min(self.spec.part);
                left -= bytes;
                let (message, deadline) = (plan.first + at, plan.deadline);
                let part = Part { gop: plan.gop, message, copy, bytes, deadline };
                self.queue.push_back((rank, part));
            }
        }
        self.ranks += plan.messages.len();
    }

    /// Whether an earlier part of the same message is written: only the front of the queue can be.
    fn is_begun(&self, part: &Part) -> bool {
        self.begun == Some((part.gop, part.message))
    }

    fn push(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.queue.retain(|(_, part)| part.deadline > now);
        while let Some((rank, part)) = self.queue.front().copied() {
            if self.written.saturating_sub(transport.counters().sent) >= self.spec.ahead {
                break;
            }
            let key = (part.gop % 2, rank);
            // Rank 0 has the highest priority below that of requests.
            let priority = (MOST_LANES - 1 - rank) as u8;
            let lane = self.lanes.get(&key).copied().or_else(|| transport.open(now, priority));
            let Some(stream) = lane else { break };
            self.lanes.insert(key, stream);
            let within = part.deadline.saturating_since(now);
            let written = match transport.write_message(now, stream, part.bytes, within) {
                Some(whole) => u64::from(whole) * part.bytes,
                None => transport.write(now, stream, part.bytes),
            };
            if written == 0 {
                break;
            }
            self.written += written;
            self.begun = Some((part.gop, part.message));
            if part.gop == self.gop {
                self.copies.insert(part.copy);
            }
            self.ledger.push(stream, Part { bytes: written, ..part });
            self.queue.pop_front();
            if written < part.bytes {
                self.queue.push_front((rank, Part { bytes: part.bytes - written, ..part }));
            }
        }
        self.next = (!self.queue.is_empty()).then(|| now + LOOK);
    }
}

impl Application for TiledServer {
    fn handle_notice(&mut self, now: Instant, notice: Notice, transport: &mut dyn Transport) {
        match notice {
            Notice::Readable(stream) => self.requests(now, stream, transport),
            Notice::Expired { stream, messages } => {
                self.written -= self.ledger.expire(now, stream, messages);
            }
            _ => {}
        }
        self.push(now, transport);
    }

    fn handle_timeout(&mut self, now: Instant, transport: &mut dyn Transport) {
        self.push(now, transport);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}
