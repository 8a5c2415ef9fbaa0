//! How much a session may hold: bounds that grow while they are used and shrink when they are not.
//!
//! A session without others has the bounds of its configuration. A session that shares memory with others begins
//! with ample bounds, or with the least ones when memory is scarce ([`Session::share_memory`]). When its traffic
//! needs more, it asks for it ([`Session::poll_demand`]) and gets it from the owner of the memory
//! ([`Session::allot`]). Not here: how much memory there is, and which session gets it.

use core::time::Duration;

use tributary_types::Instant;

use super::{INITIAL, Session, credit};
use crate::bound::Bound;
use crate::receive::{RecvStream, blocks_for};
use crate::send::{Segment, SendStream};

/// Least receive window: what a peer may use before it has heard this side's settings.
pub const LEAST_WINDOW: u64 = INITIAL.max_data;
/// Least send limit: one message of the greatest length, and what is reserved for streams with a priority.
pub const LEAST_SEND: usize = 1280 << 10;
/// Window and send limit at the start while memory is plentiful: the bytes in flight on a gigabit path with an RTT
/// of 60 ms.
pub const AMPLE: u64 = 8 << 20;
/// A bound doubles when a quarter of it passes within a round trip and this time. The time covers pauses in which
/// a path is blocked. At a steady rate a bound holds what passes in one to two seconds.
const PACE: Duration = Duration::from_millis(250);
/// Bytes of a map's entry beside its key and value.
const ENTRY: usize = 32;

/// A request of a session for more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A receive window of this many bytes.
    Window(u64),
    /// A send limit of this many bytes.
    Send(usize),
}

/// Memory that a session may use. The driver's receive blocks are given as their number, not in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Payload that the peer may send before more of it is read, and payload that waits to be read. Credit that
    /// was given cannot be taken back, so after a shrink this falls only as payload is read.
    pub receive: u64,
    /// Receive blocks that waiting payload may pin.
    pub blocks: usize,
    /// Payload written and not acknowledged.
    pub send: u64,
    /// Records of streams, segments and pieces at this moment.
    pub records: u64,
}

/// Both bounds of a session that shares memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    window: Bound,
    send: Bound,
}

impl Session {
    /// Begins with bounds of `start` bytes: [`AMPLE`], or 0 for the least bounds. Must be called before the first
    /// subflow opens. The bounds of the configuration are the largest that the session will ask for.
    pub fn share_memory(&mut self, start: u64) {
        debug_assert!(self.used_subflows.is_empty(), "the peer has been told of other bounds");
        let window = Bound::new(LEAST_WINDOW, start, self.config.receive_credit);
        let send = Bound::new(LEAST_SEND as u64, start, self.config.send_buffer as u64);
        self.granted.settings.max_data = window.limit;
        self.granted.settings.stream_credit = credit::initial(window.limit);
        self.granted.max_data = window.limit;
        self.shared = Some(Shared { window, send });
        self.set_bounds();
    }

    /// The next request for more memory. Call it until it returns `None`, after something has arrived or was read,
    /// and before `poll_transmit`. Always `None` for a session that shares no memory.
    pub fn poll_demand(&mut self, now: Instant) -> Option<Demand> {
        let shared = self.shared.as_mut()?;
        let pace = PACE + self.subflows.values().map(|subflow| subflow.info.srtt).max().unwrap_or_default();
        let before = *shared;
        let mut window = shared.window.observe(now, self.granted.consumed, pace, true);
        self.served = self.wants_share.take();
        if window.is_none() && self.served.is_some() {
            window = shared.window.wanted();
        }
        let send = match window {
            Some(_) => None,
            None => shared.send.observe(now, self.send.acknowledged(), pace, self.send.refused),
        };
        if shared.send.count() != before.send.count() {
            // Begins another count.
            self.send.refused = false;
        }
        if (shared.window.limit, shared.send.limit) != (before.window.limit, before.send.limit) {
            self.set_bounds();
        }
        window.map(Demand::Window).or(send.map(|limit| Demand::Send(limit as usize)))
    }

    /// Whether traffic of at least twice a bound has passed in one direction without a pause, and still does. Example:
    /// with the least window, 2 MiB in not more than two seconds and eight round trips. Known since the last
    /// [`Self::poll_demand`].
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.shared.is_some_and(|shared| shared.window.is_steady() || shared.send.is_steady())
    }

    /// Grants the memory that [`Self::poll_demand`] requested.
    pub fn allot(&mut self, now: Instant, demand: Demand) {
        let Some(shared) = &mut self.shared else { return };
        match demand {
            Demand::Window(window) => shared.window.limit = window.min(shared.window.most),
            Demand::Send(limit) => shared.send.limit = (limit as u64).min(shared.send.most),
        }
        self.set_bounds();
        // A larger window may give credit for payload that was read before.
        self.consumed(0);
        if let Some(id) = self.served.take()
            && self.grant(id)
        {
            self.wants_share = Some(id);
        }
        self.wake_all_writers(now);
    }

    /// Halves the bounds, down to the least, so that other sessions get memory. A bound that the session still exceeds
    /// is not halved again. Returns whether a bound fell.
    pub fn give_way(&mut self) -> bool {
        let memory = self.memory();
        let Some(shared) = &mut self.shared else { return false };
        let before = (shared.window.limit, shared.send.limit);
        if memory.receive <= shared.window.limit {
            shared.window.halve();
        }
        if memory.send <= shared.send.limit {
            shared.send.halve();
        }
        let fell = (shared.window.limit, shared.send.limit) != before;
        self.set_bounds();
        fell
    }

    fn set_bounds(&mut self) {
        let Some(Shared { window, send }) = self.shared else { return };
        self.granted.window = window.limit;
        self.pins.set_limit(blocks_for(window.limit));
        self.send.limit = send.limit as usize;
    }

    /// Memory that the session may use.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let streams = self.receive.len() * (size_of::<RecvStream>() + ENTRY)
            + self.send.streams.len() * (size_of::<SendStream>() + ENTRY);
        // Pieces are in the nodes of maps, which are at least five elevenths full, and each is allocated separately.
        let pieces = self.ahead * (11 * RecvStream::PIECE / 5 + ENTRY);
        let segments = 2 * self.send.segments() * size_of::<Segment>();
        Memory {
            receive: self.granted.window.max(self.granted.max_data.saturating_sub(self.granted.consumed)),
            blocks: self.pins.most(),
            send: self.send.limit.max(self.send.held()) as u64,
            records: (streams + pieces + segments) as u64,
        }
    }

    /// What [`Self::memory`] would be with a demand granted.
    #[must_use]
    pub fn memory_with(&self, demand: Demand) -> Memory {
        let memory = self.memory();
        match demand {
            Demand::Window(window) => Memory {
                receive: memory.receive.max(window),
                blocks: memory.blocks.max(blocks_for(window)),
                ..memory
            },
            Demand::Send(limit) => Memory { send: memory.send.max(limit as u64), ..memory },
        }
    }
}
