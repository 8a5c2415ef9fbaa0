//! Tiled video, live and in a closed loop: plan, push, measure, plan again.
//!
//! A GoP can be asked for when it begins and is worth nothing one GoP later. The client decides what it wants
//! of each GoP ([`TilePlanner`]; nothing is decided here), the server pushes it tile by tile. Where the
//! transport has messages, each tile is some of them, with the GoP's deadline and a priority that falls along
//! the order; elsewhere one ordered stream carries them. What the server has not handed to the transport by
//! the deadline it drops. Source: the OWS paper §4, §6.3; the closed loop is ours.

mod client;
mod ledger;
mod server;

pub use client::TiledClient;
pub use server::TiledServer;

use core::fmt::Debug;
use core::time::Duration;
use tributary_types::Instant;

use ledger::Ledger;

/// Parts of a GoP's time in which arriving bytes are counted.
pub const PARTS: usize = 8;

/// How a tiled video is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TiledSpec {
    /// GoPs in all.
    pub gops: usize,
    /// Length of a GoP: from when it can be asked for to its deadline.
    pub gop: Duration,
    /// The first GoP is asked for then, or when the connection is up if that is later.
    pub from: Instant,
    /// Plans for each GoP, evenly spread over it; one is made when it begins.
    pub plans: usize,
    /// Most bytes of one message: a tile is cut into such parts, so that little is under way when a deadline
    /// passes.
    pub part: u64,
    /// Most bytes handed to the transport that it has not begun to send.
    pub ahead: u64,
}

impl Default for TiledSpec {
    fn default() -> Self {
        Self {
            gops: 20,
            gop: Duration::from_secs(1),
            from: Instant::ZERO,
            plans: 1,
            part: 64 << 10,
            ahead: 256 << 10,
        }
    }
}

/// One tile in one quality. The numbers are the planner's own; only bytes count here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileMessage {
    /// The tile.
    pub tile: usize,
    /// The quality.
    pub choice: usize,
    /// Its size.
    pub bytes: u64,
}

/// One planned message and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What was wanted.
    pub message: TileMessage,
    /// When the last of its bytes had arrived in order; may be past the deadline.
    pub arrived: Option<Instant>,
    /// A later plan for the same GoP replaced it before any of it was sent, or it names again what was under way.
    pub withdrawn: bool,
    missing: u64,
}

/// What a client knows of one GoP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GopRecord {
    /// When it was asked for.
    pub asked: Instant,
    /// When it was worth nothing any more.
    pub deadline: Instant,
    /// All that was planned, in order, later plans behind earlier ones.
    pub planned: Vec<Planned>,
    /// Bytes of it that arrived by the deadline, incomplete messages included.
    pub bytes_in_time: u64,
    /// The same by the part of its time in which they arrived.
    pub arrivals: [u64; PARTS],
    /// When the last of these arrived.
    pub last: Option<Instant>,
}

impl Planned {
    /// Bytes of it that have not arrived.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.missing
    }
}

impl GopRecord {
    /// Messages that arrived whole by the deadline, in the order of the plan.
    pub fn in_time(&self) -> impl Iterator<Item = TileMessage> + '_ {
        let by = self.deadline;
        self.planned.iter().filter(move |p| p.arrived.is_some_and(|at| at <= by)).map(|p| p.message)
    }

    /// The part of its time that `now` is in.
    fn part(&self, now: Instant) -> usize {
        let (since, whole) = (now.saturating_since(self.asked), self.deadline.saturating_since(self.asked));
        let part = since.as_nanos() * PARTS as u128 / whole.as_nanos().max(1);
        (part as usize).min(PARTS - 1)
    }

    /// When everything that was not withdrawn had arrived; `None` when it did not by the deadline.
    #[must_use]
    pub fn complete(&self) -> Option<Instant> {
        let wanted = || self.planned.iter().filter(|p| !p.withdrawn);
        let whole = wanted().all(|p| p.arrived.is_some_and(|at| at <= self.deadline));
        whole.then(|| wanted().filter_map(|p| p.arrived).max()).flatten()
    }
}

/// Decides what is wanted of each GoP.
pub trait TilePlanner: Debug {
    /// Called `plans` times for GoP `gop`, with `part` counted from 0. `records` has everything up to now,
    /// the last being the GoP's own from its second plan on. A plan replaces what of the GoP has not begun
    /// to be sent, and nothing that has begun is sent twice, so a plan names all that is still wanted; `None`
    /// leaves things as they are.
    fn plan(&mut self, gop: usize, part: usize, records: &[GopRecord]) -> Option<Vec<TileMessage>>;
}

/// What came of a viewing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TiledRecord {
    /// When the first GoP was asked for; `None` when the connection never came up.
    pub started: Option<Instant>,
    /// One for each GoP asked for, the last one's deadline passed or not.
    pub gops: Vec<GopRecord>,
}

/// Both halves of a tiled viewing.
#[must_use]
pub fn tiled(spec: &TiledSpec, planner: Box<dyn TilePlanner>) -> (TiledClient, TiledServer) {
    let ledger = Ledger::default();
    (TiledClient::new(*spec, planner, ledger.clone()), TiledServer::new(*spec, ledger))
}

#[cfg(test)]
mod tests;
