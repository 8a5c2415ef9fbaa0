//! The session: wires numbering, reassembly, paths and a scheduler together.
//!
//! Mutate, then drain: every `handle_*` and application call only changes state; its results
//! come out of `poll_transmit`, `poll_event` and `poll_timeout`. The sub-machines own their
//! state; nothing here decides which segment goes where ([`crate::scheduler`]) or when to connect
//! ([`crate::path`]).

mod application;
mod caps;
mod copies;
mod credit;
mod datagrams;
mod error;
mod input;
mod memory;
mod metered;
mod output;
mod removal;
mod silence;
mod writers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::BytesMut;
use tributary_types::{Instant, PathId, Rng, StreamId, SubflowId};

use crate::config::{Config, ConfigError};
use crate::event::Event;
use crate::numbers::NumberSet;
use crate::path::{PathAction, Paths};
use crate::receive::{Pins, RecvStream};
use crate::scheduler::{self, Scheduler, SchedulerEvent, SubflowView};
use crate::send::{SendBuffer, SendStream};
use crate::subflow::{Subflow, SubflowInfo, SubflowStats};
use crate::wire::{DeclaredLimits, FIRST_FLOW, MAX_ACK_SUBFLOWS};
pub use application::{GATHER_BELOW, OpenStreamError, ReadError, WriteError};
pub use credit::UNPROVEN_PART;
pub use error::{OpenError, ProtocolError};
pub use input::PART;
pub use memory::{AMPLE, Demand, LEAST_SEND, LEAST_WINDOW, Memory};
pub use metered::UnknownPath;

/// Credit that either side may use before it has received the other's settings.
pub(crate) const INITIAL: DeclaredLimits =
    DeclaredLimits { max_data: 1 << 20, stream_credit: 64 << 10, max_streams: 64 };
/// Close code of a session that timed out.
pub const CODE_IDLE: u32 = 1;
/// Close code of a session whose peer broke the protocol.
pub const CODE_PROTOCOL: u32 = 2;

/// Which end of the session this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Connects paths and opens even streams.
    Client,
    /// Accepts and opens odd streams.
    Server,
}

impl Side {
    fn parity(self) -> u32 {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }
}

/// Counters of a session, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Payload bytes sent for the first time.
    pub sent: u64,
    /// Payload bytes sent again (reinjected, redundant or orphaned).
    pub sent_again: u64,
    /// Payload bytes received, copies not counted.
    pub received: u64,
    /// Payload bytes that were received before: copies.
    pub duplicates: u64,
    /// Payload bytes held for sending now.
    pub send_held: u64,
    /// Payload bytes received and not yet read.
    pub receive_held: u64,
    /// Highest value of `receive_held` so far.
    pub receive_held_most: u64,
    /// Number of times that a path fell silent.
    pub silences: u64,
}

/// How many streams a session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Opened by this side.
    pub own: u32,
    /// Opened by the peer.
    pub peers: u32,
    /// Of both: streams whose two directions the application has ended or reset. They wait for the peer's
    /// acknowledgement and end, and disappear a round trip later; the application still holds all others.
    pub ending: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    /// The application has closed the session; written data is still being delivered.
    Closing(u32),
    Closed,
}

/// Credit granted to the peer, and how much of it was used.
#[derive(Debug)]
struct Granted {
    /// Settings that are sent to the peer at the start of each subflow.
    settings: DeclaredLimits,
    /// Payload that the peer may send ahead of what the application has read.
    window: u64,
    max_data: u64,
    /// Payload of distinct segments that arrived.
    used: u64,
    /// Payload read by the application or discarded.
    consumed: u64,
    /// What all streams hold unread or may be sent within the credit that the peer was told for them.
    committed: u64,
}

/// A multipath session.
///
/// The liveness rule: every stream whose reader reads makes progress within T while a path lives
/// ([`crate::liveness`]). So nothing that streams share is left to those whose reader has stopped: the session's
/// credit (`credit.rs`), the send buffer (`send/free.rs`) and the receive blocks (`receive/pins.rs`) each keep a part
/// for the others.
#[derive(Debug)]
pub struct Session {
    side: Side,
    config: Config,
    life: Life,
    close_reason: String,
    paths: Paths,
    subflows: BTreeMap<SubflowId, Subflow>,
    /// The newest thousand subflow identifiers that were used. None is used twice.
    used_subflows: BTreeSet<SubflowId>,
    scheduler: Box<dyn Scheduler>,
    views: Vec<SubflowView>,
    views_stale: bool,
    send: SendBuffer,
    peer: DeclaredLimits,
    /// Times that the peer raised its settings.
    raised: u32,
    arrivals: NumberSet,
    receive: BTreeMap<StreamId, RecvStream>,
    /// The driver's receive blocks that are pinned, over all streams.
    pins: Pins,
    /// Pieces held ahead of order, over all streams.
    ahead: usize,
    granted: Granted,
    /// Bounds of a session that shares memory with others.
    shared: Option<memory::Shared>,
    /// A stream that is read and would have a larger window if the session's were larger, and the one for which a
    /// larger one was requested last.
    wants_share: Option<StreamId>,
    served: Option<StreamId>,
    /// The newest time that the session was told.
    clock: Instant,
    /// One past the highest identifier that was used, or more than there are when all are; the same for flows of
    /// datagrams.
    next_own_stream: u64,
    next_peer_stream: u64,
    next_own_flow: u64,
    next_peer_flow: u64,
    open_own: u32,
    open_peer: u32,
    control: BytesMut,
    events: VecDeque<Event>,
    writers: writers::Writers,
    /// Until this time a woken writer is expected to write.
    expecting_until: Option<Instant>,
    /// A subflow has room, and there is nothing to send on it.
    starved: bool,
    last_heard: Instant,
    ack_at: Option<Instant>,
    metered: metered::Metered,
    caps: caps::Caps,
    copies: copies::Copies,
    /// Client: subflows of removed paths, the newest last, for subflows that open later.
    gone: VecDeque<SubflowId>,
    stats: SessionStats,
}

impl Session {
    /// A session without subflows.
    ///
    /// # Errors
    /// [`ConfigError`] when `config` names an unknown scheduler or a value is out of range.
    pub fn new(side: Side, config: Config, seed: u64, now: Instant) -> Result<Self, ConfigError> {
        config.check()?;
        let rng = Rng::new(seed).child("scheduler");
        let scheduler = scheduler::create_weighted(&config.scheduler, rng, &config.weights)
            .expect("the name was just checked");
        Self::with_scheduler(side, config, scheduler, now)
    }

    /// As [`Session::new`], with a scheduler that is in no registry. The name in `config` must be known, but is not used.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with_scheduler(
        side: Side,
        config: Config,
        scheduler: Box<dyn Scheduler>,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let settings = DeclaredLimits {
            max_data: config.receive_credit,
            stream_credit: credit::initial(config.receive_credit),
            max_streams: config.max_streams,
        };
        Ok(Self {
            side,
            life: Life::Open,
            close_reason: String::new(),
            paths: Paths::default(),
            subflows: BTreeMap::new(),
            used_subflows: BTreeSet::new(),
            scheduler,
            views: Vec::new(),
            views_stale: true,
            send: SendBuffer::new(config.send_buffer, INITIAL.max_data.min(config.receive_credit))
                .with_window(config.window),
            peer: INITIAL,
            raised: 0,
            arrivals: NumberSet::default(),
            receive: BTreeMap::new(),
            pins: Pins::default(),
            ahead: 0,
            granted: Granted {
                settings,
                window: settings.max_data,
                max_data: settings.max_data,
                used: 0,
                consumed: 0,
                committed: 0,
            },
            shared: None,
            wants_share: None,
            served: None,
            clock: now,
            next_own_stream: u64::from(side.parity()),
            next_peer_stream: u64::from(1 - side.parity()),
            next_own_flow: u64::from(FIRST_FLOW + side.parity()),
            next_peer_flow: u64::from(FIRST_FLOW + 1 - side.parity()),
            open_own: 0,
            open_peer: 0,
            control: BytesMut::new(),
            events: VecDeque::new(),
            writers: writers::Writers::default(),
            expecting_until: None,
            starved: false,
            last_heard: now,
            ack_at: None,
            metered: metered::Metered::default(),
            caps: caps::Caps::default(),
            copies: copies::Copies::default(),
            gone: VecDeque::new(),
            stats: SessionStats::default(),
            config,
        })
    }

    // ---- getters

    /// Which end this is.
    #[must_use]
    pub fn side(&self) -> Side {
        self.side
    }

    /// The session is over; what was received can still be read.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.life == Life::Closed
    }

    /// Name of the scheduler.
    #[must_use]
    pub fn scheduler(&self) -> &'static str {
        self.scheduler.name()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> SessionStats {
        SessionStats {
            send_held: self.send.held() as u64,
            receive_held: self.granted.used.saturating_sub(self.granted.consumed),
            ..self.stats
        }
    }

    /// Number of streams, and how many of them the application has finished with.
    #[must_use]
    pub fn streams(&self) -> StreamCounts {
        let let_go = |(id, send): &(&StreamId, &SendStream)| {
            send.fin_wanted && self.receive.get(id).is_none_or(|s| s.done || s.stopped)
        };
        StreamCounts {
            own: self.open_own,
            peers: self.open_peer,
            ending: self.send.streams.iter().filter(let_go).count() as u32,
        }
    }

    /// Counters of every open subflow.
    pub fn subflow_stats(&self) -> impl Iterator<Item = SubflowStats> + '_ {
        self.subflows.values().map(Subflow::stats)
    }

    /// Checks the sums that are kept over all streams.
    #[cfg(test)]
    fn check_sums(&self) {
        let committed = self.receive.values().map(|stream| stream.committed).sum::<u64>();
        assert_eq!(self.granted.committed, committed);
        self.send.check_sums();
    }

    // ---- paths and subflows

    /// Client: connect this path, and again whenever it is lost.
    pub fn add_path(&mut self, now: Instant, path: PathId) {
        self.paths.add(now, path);
        self.drive_paths(now);
    }

    /// A subflow has finished its handshake. It replaces the path's old one, if there is one.
    ///
    /// # Errors
    /// [`OpenError`]; the driver closes the connection.
    pub fn handle_subflow_open(
        &mut self,
        now: Instant,
        id: SubflowId,
        path: PathId,
    ) -> Result<(), OpenError> {
        if self.life == Life::Closed {
            return Err(OpenError::Closed);
        }
        let most = self.config.max_subflows.min(MAX_ACK_SUBFLOWS);
        if self.subflows.len() >= most {
            return Err(OpenError::TooMany(most));
        }
        if !self.used_subflows.insert(id) {
            return Err(OpenError::Reused(id));
        }
        self.forget_old_identifiers();
        if let Some(old) = self.subflows.values().find(|s| s.path == path && s.moves(now)) {
            return Err(OpenError::Superfluous(old.id));
        }
        let (replaced, actions) = self.paths.opened(now, path, id);
        actions.into_iter().for_each(|action| self.act(action));
        if let Some(old) = replaced {
            self.events.push_back(Event::CloseSubflow { subflow: old, abort: true });
            self.drop_subflow(now, old);
        }
        let mut subflow = Subflow::new(id, path, now, self.config.coupled);
        subflow.usual_blockage = self.paths.usual_blockage(now, path);
        if self.config.short_queues {
            subflow.keep_short(now);
        }
        self.cap_subflow(now, &mut subflow);
        self.gone.iter().for_each(|gone| subflow.tell_gone(*gone));
        self.subflows.insert(id, subflow);
        self.last_heard = now;
        self.views_stale = true;
        self.scheduler.on_event(now, SchedulerEvent::SubflowUp(id));
        self.events.push_back(Event::SubflowUp { subflow: id, path });
        // Send the acknowledgements on the new subflow too.
        self.ack_at = Some(now);
        Ok(())
    }

    /// Says that the transport of this subflow may deliver frames out of order
    /// ([`Transmit::may_overtake`](crate::Transmit::may_overtake)). Call it at both ends, before any segment is sent or received on the
    /// subflow, because both count such segments apart.
    pub fn let_overtake(&mut self, id: SubflowId) {
        if let Some(subflow) = self.subflows.get_mut(&id) {
            subflow.overtakes = true;
        }
    }

    /// Identifiers count upwards, so it is enough to remember the newest thousand.
    fn forget_old_identifiers(&mut self) {
        while self.used_subflows.len() > 1024 {
            self.used_subflows.pop_first();
        }
    }

    /// An attempt to connect ended without a subflow.
    pub fn handle_connect_failed(&mut self, now: Instant, id: SubflowId) {
        self.paths.ended(now, id);
        self.drive_paths(now);
    }

    /// The transport of an attempt is connected: the server answers on this path.
    pub fn handle_connect_progress(&mut self, id: SubflowId) {
        self.paths.progressed(id);
    }

    /// A path without a subflow is connected next at `at`, and not earlier.
    pub fn retry_path(&mut self, at: Instant, path: PathId) {
        self.paths.retry(at, path);
    }

    /// Every path without a subflow is connected now.
    pub fn retry_paths(&mut self, now: Instant) {
        let paths: Vec<_> = self.paths.ids().collect();
        paths.into_iter().for_each(|path| self.paths.retry(now, path));
        self.drive_paths(now);
    }

    /// A subflow's connection ended.
    pub fn handle_subflow_closed(&mut self, now: Instant, id: SubflowId) {
        self.drop_subflow(now, id);
        self.paths.ended(now, id);
        self.drive_paths(now);
    }

    /// The transport's view of a subflow.
    pub fn handle_subflow_info(&mut self, id: SubflowId, info: SubflowInfo) {
        if let Some(subflow) = self.subflows.get_mut(&id) {
            subflow.update(info);
            self.views_stale = true;
        }
    }

    /// Bytes that a subflow can take now and send soon.
    pub fn handle_room(&mut self, id: SubflowId, room: usize) {
        if let Some(subflow) = self.subflows.get_mut(&id)
            && subflow.room != room
        {
            subflow.room = room;
            self.views_stale = true;
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.clock = now;
        if self.life == Life::Closed {
            return;
        }
        if now >= self.last_heard + self.config.idle_timeout {
            let idle = self.config.idle_timeout;
            self.end(CODE_IDLE, format!("nothing heard from the peer for {idle:?}"), false);
            return;
        }
        self.expecting_until = self.expecting_until.filter(|until| *until > now);
        self.expire_messages(now);
        self.watch_silence(now);
        self.watch_arrivals(now);
        self.keep_alive(now);
        self.drive_paths(now);
    }

    /// The connection of a path is silent, for this side or the peer, or (`lost`) has timed out: checks whether the size
    /// of its segments may be the reason. Each connection counts once.
    fn judge_segments(&mut self, path: PathId, lost: bool) {
        let silent_for_peer = self.paths.is_silent_for_peer(path);
        let Some(subflow) = self.subflows.values_mut().find(|subflow| subflow.path == path) else { return };
        let stuck = lost || silent_for_peer || subflow.has_full_size_under_way();
        let passed = subflow.has_passed();
        if (passed || stuck)
            && !std::mem::replace(&mut subflow.judged, true)
            && let Some(small) = self.paths.given_up(path, passed)
        {
            self.events.push_back(Event::SmallSegments { path, small });
        }
    }

    fn drop_subflow(&mut self, now: Instant, id: SubflowId) {
        let Some(subflow) = self.subflows.remove(&id) else { return };
        if subflow.has_passed() {
            self.paths.given_up(subflow.path, true);
        }
        if let Some(due) = subflow.oldest_due().filter(|due| *due < now) {
            // Data that never arrived is late by the time since it was due.
            self.paths.delivered(now, subflow.path, now.saturating_since(due));
        }
        let mut orphans: Vec<_> = subflow.outstanding().collect();
        if subflow.overtakes {
            // The peer's counts do not say which of those that may overtake have arrived.
            orphans.extend(self.send.unacknowledged_on(id));
        }
        orphans.sort_unstable();
        orphans.dedup();
        orphans.retain(|&seq| self.send.segment_mut(seq).is_some_and(|s| !s.acknowledged && s.forget(id)));
        for &seq in &orphans {
            self.send.orphan(seq);
        }
        self.views_stale = true;
        self.scheduler.on_event(now, SchedulerEvent::SubflowDown(id));
        self.events.push_back(Event::SubflowDown { subflow: id, path: subflow.path, orphans: orphans.len() });
    }

    fn drive_paths(&mut self, now: Instant) {
        if self.life == Life::Closed {
            return;
        }
        while let Some(action) = self.paths.poll(now) {
            self.act(action);
        }
    }

    fn act(&mut self, action: PathAction) {
        self.events.push_back(match action {
            PathAction::Open(path, subflow) => Event::OpenSubflow { path, subflow },
            PathAction::Abandon(subflow) => Event::AbandonConnect { subflow },
        });
    }

    fn tell(&mut self, event: Event) {
        if self.config.telemetry {
            self.events.push_back(event);
        }
    }

    /// The session is over, now.
    fn end(&mut self, code: u32, reason: String, by_peer: bool) {
        if self.life == Life::Closed {
            return;
        }
        self.life = Life::Closed;
        let ids: Vec<_> = self.subflows.keys().copied().collect();
        for subflow in ids {
            self.events.push_back(Event::CloseSubflow { subflow, abort: false });
        }
        let paths: Vec<_> = self.paths.ids().collect();
        for path in paths {
            let (_, actions) = self.paths.remove(path);
            actions.into_iter().for_each(|action| self.act(action));
        }
        self.events.push_back(Event::Closed { code, reason, by_peer });
    }
}

#[cfg(test)]
mod tests;
