//! An ideal wire: bytes leave at a fixed rate, in the order in which streams were opened, and arrive after a
//! delay. No loss.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::host::Outbox;
use crate::packet::Packet;
use crate::transport::{Application, Counters, Notice, PathSample, StreamKey, Transport};
use tributary_types::Instant;

/// Bytes that leave at once.
const BLOCK: u64 = 100;
/// Bytes that a wire accepts before they have left.
const ROOM: u64 = 20_000;

#[derive(Debug, Default)]
struct Direction {
    /// When the last byte leaves.
    busy: Instant,
    /// `(arrives, stream, bytes)`.
    under_way: VecDeque<(Instant, StreamKey, u64)>,
    /// Streams whose last write was cut short, and which must be told when there is room.
    cut: Vec<StreamKey>,
}

#[derive(Debug)]
struct Shared {
    ways: [Direction; 2],
    opened: u64,
    delay: Duration,
    per_ms: u64,
    streams: bool,
}

#[derive(Debug)]
struct End {
    side: usize,
    shared: Rc<RefCell<Shared>>,
    readable: Vec<u64>,
    notices: VecDeque<Notice>,
}

/// Both ends of a wire.
pub(super) struct Wire {
    ends: [End; 2],
}

impl Wire {
    pub(super) fn new(delay: Duration, per_ms: u64) -> Self {
        let ways = [Direction::default(), Direction::default()];
        let shared = Rc::new(RefCell::new(Shared { ways, opened: 0, delay, per_ms, streams: true }));
        let end = |side| End {
            side,
            shared: Rc::clone(&shared),
            readable: vec![0; 16],
            notices: VecDeque::from([Notice::Connected]),
        };
        Self { ends: [end(0), end(1)] }
    }

    pub(super) fn without_streams(self) -> Self {
        self.ends[0].shared.borrow_mut().streams = false;
        self
    }

    pub(super) fn run(&mut self, client: &mut dyn Application, server: &mut dyn Application, end: Instant) {
        let mut now = Instant::ZERO;
        while now <= end {
            for (wire, application) in self.ends.iter_mut().zip([&mut *client, &mut *server]) {
                wire.turn(now, application);
            }
            let wires = self.ends.iter().filter_map(|wire| wire.next());
            let timers = client.poll_timeout().into_iter().chain(server.poll_timeout());
            let Some(next) = wires.chain(timers).min() else { return };
            now = next.max(now);
        }
    }
}

impl End {
    fn next(&self) -> Option<Instant> {
        self.shared.borrow().ways[1 - self.side].under_way.front().map(|block| block.0)
    }

    fn turn(&mut self, now: Instant, application: &mut dyn Application) {
        loop {
            self.take(now);
            if application.poll_timeout().is_some_and(|at| at <= now) {
                application.handle_timeout(now, self);
            }
            let Some(notice) = self.notices.pop_front() else { return };
            application.handle_notice(now, notice, self);
        }
    }

    fn take(&mut self, now: Instant) {
        let shared = &mut *self.shared.borrow_mut();
        let way = &mut shared.ways[1 - self.side];
        while let Some((_, stream, bytes)) = way.under_way.pop_front_if(|block| block.0 <= now) {
            self.readable[stream as usize] += bytes;
            self.notices.push_back(Notice::Readable(stream));
        }
        let room = shared.per_ms * 5;
        let own = &mut shared.ways[self.side];
        let waiting = own.busy.saturating_since(now).as_micros() as u64 * shared.per_ms / 1000;
        if waiting + room <= ROOM {
            self.notices.extend(own.cut.drain(..).map(Notice::Writable));
        }
    }
}

impl Transport for End {
    fn handle_packet(&mut self, _: Instant, _: Packet, _: &mut Outbox) {}

    fn handle_timeout(&mut self, _: Instant, _: &mut Outbox) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn open(&mut self, _: Instant, _: u8) -> Option<StreamKey> {
        let mut shared = self.shared.borrow_mut();
        shared.opened += 1;
        shared.streams.then_some(shared.opened - 1)
    }

    fn write(&mut self, now: Instant, stream: StreamKey, bytes: u64) -> u64 {
        let shared = &mut *self.shared.borrow_mut();
        let (delay, per_ms) = (shared.delay, shared.per_ms);
        let way = &mut shared.ways[self.side];
        let waiting = way.busy.saturating_since(now).as_micros() as u64 * per_ms / 1000;
        let taken = bytes.min(ROOM.saturating_sub(waiting));
        let mut left = taken;
        while left > 0 {
            let block = left.min(BLOCK);
            left -= block;
            way.busy = way.busy.max(now) + Duration::from_nanos(block * 1_000_000 / per_ms);
            way.under_way.push_back((way.busy + delay, stream, block));
        }
        if taken < bytes {
            way.cut.push(stream);
        }
        taken
    }

    fn finish(&mut self, _: Instant, _: StreamKey) {}

    fn read(&mut self, _: Instant, stream: StreamKey, most: u64) -> u64 {
        let readable = &mut self.readable[stream as usize];
        let taken = most.min(*readable);
        *readable -= taken;
        taken
    }

    fn is_finished(&self, _: StreamKey) -> bool {
        false
    }

    fn flush(&mut self, _: Instant, _: &mut Outbox) {}

    fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn sample(&self, _: &mut Vec<PathSample>) {}
}
