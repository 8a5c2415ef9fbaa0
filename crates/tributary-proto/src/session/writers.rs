//! Writers that wait for room, and when they are woken.
//!
//! A writer waits for room in its own stream or for room in the session. The first is woken by what happens to its stream,
//! the second when the session has room; so neither an acknowledgement nor a segment looks at every writer. Not here: how
//! much room there is.

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_types::{Instant, StreamId};

use super::Session;
use crate::event::Event;
use crate::work::step;

/// A blocked writer is woken when there is this much room.
const WAKE_ROOM: usize = 64 * 1024;
/// Time in which a woken writer, or one that has just written, is expected to write again.
pub(super) const WRITES_AGAIN: Duration = Duration::from_millis(5);

/// The writers that wait, in the order in which they began to.
#[derive(Debug, Default)]
pub(super) struct Writers {
    all: BTreeMap<u64, StreamId>,
    /// Those that wait for room in the session: of bulk, and of streams with a priority.
    for_session: [BTreeMap<u64, StreamId>; 2],
    next: u64,
}

impl Writers {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A stream has ended, or its writer is woken.
    pub fn remove(&mut self, number: u64) {
        self.all.remove(&number);
        for class in &mut self.for_session {
            class.remove(&number);
        }
    }
}

impl Session {
    /// A writer that could not write `bytes` waits for room.
    pub(super) fn block(&mut self, id: StreamId, bytes: usize) {
        let Some(stream) = self.send.streams.get(&id) else { return };
        let refused = self.send.session_room(stream) < bytes;
        self.send.refused |= refused;
        let Some(stream) = self.send.streams.get_mut(&id) else { return };
        let writers = &mut self.writers;
        let number = *stream.blocked.get_or_insert_with(|| {
            writers.next += 1;
            writers.next
        });
        writers.all.insert(number, id);
        if refused {
            writers.for_session[usize::from(stream.priority > 0)].insert(number, id);
        }
    }

    /// Wakes the writers that wait for room in the session, if it has some.
    pub(super) fn wake_writers(&mut self, now: Instant) {
        for priority in [0, 1] {
            while self.send.room_of_priority(priority) >= self.enough_room()
                && let Some((_, id)) = self.writers.for_session[usize::from(priority)].pop_first()
            {
                // One that finds no room in its stream now waits for that.
                self.wake_writer(now, id);
            }
        }
    }

    /// Wakes every writer that has room.
    pub(super) fn wake_all_writers(&mut self, now: Instant) {
        let all: Vec<_> = self.writers.all.values().copied().collect();
        all.into_iter().for_each(|id| self.wake_writer(now, id));
    }

    /// Wakes the writer of a stream if it waits and has enough room. Called when the stream's room may have grown.
    pub(super) fn wake_writer(&mut self, now: Instant, id: StreamId) {
        step();
        let enough = self.enough_room();
        let Some(stream) = self.send.streams.get(&id) else { return };
        let Some(number) = stream.blocked else { return };
        if self.send.session_room(stream) < enough {
            self.writers.for_session[usize::from(stream.priority > 0)].insert(number, id);
        } else if self.send.write_room(stream) >= enough && (self.starved || self.send.wants_writer(stream)) {
            self.writers.remove(number);
            self.expecting_until = Some(now + WRITES_AGAIN);
            self.events.push_back(Event::StreamWritable(id));
            if let Some(stream) = self.send.streams.get_mut(&id) {
                stream.blocked = None;
            }
        }
    }

    fn enough_room(&self) -> usize {
        WAKE_ROOM.min(self.config.send_buffer / 4)
    }
}
