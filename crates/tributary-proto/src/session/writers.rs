//! Writers that wait for free bytes of the send buffer, and when they are woken.
//!
//! A writer waits for its own stream or for the session. The first is woken by what happens to its stream,
//! the second when the session has free bytes; so neither an acknowledgement nor a segment looks at every writer. Not here: how
//! much is free.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use tributary_types::{Instant, StreamId};

use super::Session;
use crate::event::Event;
use crate::work::step;

/// A blocked writer is woken when this much is free.
const WAKE_ROOM: usize = 64 * 1024;
/// Time in which a woken writer, or one that has just written, is expected to write again.
pub(super) const WRITES_AGAIN: Duration = Duration::from_millis(5);

/// The writers that wait, in the order in which they began to.
#[derive(Debug, Default)]
pub(super) struct Writers {
    all: BTreeMap<u64, StreamId>,
    /// Those that wait for the session: of bulk, and of streams with a priority.
    for_session: [BTreeMap<u64, StreamId>; 2],
    /// Those that may write only by credit of the peer, while nothing is under way for which credit would come.
    stalled: BTreeSet<u64>,
    next: u64,
}

impl Writers {
    /// Whether some writer has more to write that the peer is about to take.
    pub fn are_some_active(&self) -> bool {
        self.all.len() > self.stalled.len()
    }

    /// A stream has ended, or its writer is woken.
    pub fn remove(&mut self, number: u64) {
        self.all.remove(&number);
        self.stalled.remove(&number);
        for class in &mut self.for_session {
            class.remove(&number);
        }
    }
}

impl Session {
    /// A writer that could not write `bytes` waits.
    pub(super) fn block(&mut self, id: StreamId, bytes: usize) {
        let Some(stream) = self.send.streams.get(&id) else { return };
        let refused = self.send.part(stream) < bytes;
        // A stream that holds nothing may write only when others free bytes.
        let for_session = refused || stream.unnumbered() == 0;
        self.send.refused |= refused;
        let Some(stream) = self.send.streams.get_mut(&id) else { return };
        let writers = &mut self.writers;
        let number = *stream.blocked.get_or_insert_with(|| {
            writers.next += 1;
            writers.next
        });
        writers.all.insert(number, id);
        if for_session {
            writers.for_session[usize::from(stream.priority > 0)].insert(number, id);
        }
        self.judge_writer(id);
    }

    /// Notes whether a writer that waits is stalled: whether its stream lacks credit and nothing of it is under way.
    pub(super) fn judge_writer(&mut self, id: StreamId) {
        let Some(stream) = self.send.streams.get(&id) else { return };
        let Some(number) = stream.blocked else { return };
        if stream.unacknowledged == 0 && !stream.is_queued() && stream.credit_left() == 0 {
            self.writers.stalled.insert(number);
        } else {
            self.writers.stalled.remove(&number);
        }
    }

    /// Wakes the writers that wait for the session, if it has free bytes.
    pub(super) fn wake_writers(&mut self, now: Instant) {
        for priority in [0, 1] {
            while self.send.free_for_priority(priority) >= self.enough_free()
                && let Some((_, id)) = self.writers.for_session[usize::from(priority)].pop_first()
            {
                // One whose stream has none free now waits for that.
                self.wake_writer(now, id);
            }
        }
    }

    /// Wakes every writer that may write.
    pub(super) fn wake_all_writers(&mut self, now: Instant) {
        let all: Vec<_> = self.writers.all.values().copied().collect();
        all.into_iter().for_each(|id| self.wake_writer(now, id));
    }

    /// Wakes the writer of a stream if it waits and enough is free. Called when the stream may have got more.
    pub(super) fn wake_writer(&mut self, now: Instant, id: StreamId) {
        step();
        let enough = self.enough_free();
        let Some(stream) = self.send.streams.get(&id) else { return };
        let Some(number) = stream.blocked else { return };
        if self.send.free_in_session(stream) < enough {
            self.writers.for_session[usize::from(stream.priority > 0)].insert(number, id);
        } else if self.send.wakes_writer(stream, enough) && (self.starved || self.send.wants_writer(stream)) {
            self.writers.remove(number);
            self.expecting_until = Some(now + WRITES_AGAIN);
            self.events.push_back(Event::StreamWritable(id));
            if let Some(stream) = self.send.streams.get_mut(&id) {
                stream.blocked = None;
            }
        }
    }

    fn enough_free(&self) -> usize {
        WAKE_ROOM.min(self.config.send_buffer / 4)
    }
}
