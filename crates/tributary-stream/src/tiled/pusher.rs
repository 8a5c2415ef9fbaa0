//! The server's end as a machine: plans go in, and come out again tile by tile as room appears, as long as
//! they may begin.
//!
//! It reads no files and writes to no socket; `server` does. A newer revision of a slot's plan takes the
//! place of what of the slot has not begun; what has is not pushed twice.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tributary_types::Instant;

use super::frames::Frames;
use super::wire::{Message, Plan, PlanEntry, Reader, Video, WireError};

/// Plans that may wait at once: a client plans one slot after the other.
const MOST_PLANS: usize = 8;
/// Menus that may wait to be sent.
const MOST_WAITING: usize = 64;

/// What the server has to say before it pushes tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// What the video is.
    Video,
    /// The menu of this GoP.
    Menu(u32),
}

/// One tile to push now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileOrder {
    /// The slot of the playing time.
    pub slot: u32,
    /// The GoP of the video.
    pub gop: u32,
    /// Which tile, in which quality.
    pub entry: PlanEntry,
    /// It must begin before this.
    pub deadline: Instant,
}

/// What became of everything that was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushCounters {
    /// Tiles in all plans.
    pub planned: u64,
    /// Tiles handed out to be sent.
    pub pushed: u64,
    /// Tiles whose deadline came first.
    pub expired: u64,
    /// Tiles a newer plan took the place of.
    pub replaced: u64,
}

/// What a client did wrong.
#[derive(Debug, Error)]
pub enum PushError {
    /// Bytes that are no message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Something before the start, or a second one.
    #[error("the client began with something else than a start, or started twice")]
    Order,
    /// More than may wait.
    #[error("the client has more than {0} requests waiting")]
    Excess(usize),
    /// A GoP, tile or quality the video has not.
    #[error("the client asked for {what} {asked}; there are {there}")]
    Unknown {
        /// What it asked for.
        what: &'static str,
        /// Which.
        asked: u64,
        /// How many there are.
        there: u64,
    },
    /// A slot that has been planned already.
    #[error("the client planned slot {slot}, revision {revision}, after slot {last}, revision {before}")]
    Old {
        /// The slot.
        slot: u32,
        /// Its revision.
        revision: u16,
        /// The slot of the plan before.
        last: u32,
        /// That plan's revision.
        before: u16,
    },
    /// The stream ended within a message.
    #[error("the client's stream ended within a message")]
    Cut,
}

struct Waiting {
    slot: u32,
    gop: u32,
    deadline: Instant,
    entries: VecDeque<PlanEntry>,
}

/// The server's end.
pub struct Pusher {
    video: Video,
    frames: Frames,
    started: bool,
    ended: bool,
    answers: VecDeque<Answer>,
    plans: VecDeque<Waiting>,
    /// Slot, tile and quality of what was handed out since the latest plan's slot was first planned.
    pushed: BTreeSet<(u32, u16, u8)>,
    last: Option<(u32, u16)>,
    counters: PushCounters,
}

impl Pusher {
    /// For one client of this video.
    #[must_use]
    pub fn new(video: Video) -> Self {
        Self {
            video,
            frames: Frames::new(Reader::Server),
            started: false,
            ended: false,
            answers: VecDeque::new(),
            plans: VecDeque::new(),
            pushed: BTreeSet::new(),
            last: None,
            counters: PushCounters::default(),
        }
    }

    /// What the video is.
    #[must_use]
    pub fn video(&self) -> &Video {
        &self.video
    }

    /// What became of everything so far.
    #[must_use]
    pub fn counters(&self) -> PushCounters {
        self.counters
    }

    /// Whether the client wants nothing more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended
    }

    /// Bytes came from the client.
    ///
    /// # Errors
    /// [`PushError`]; the client is to be let go.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> Result<(), PushError> {
        self.frames.push(bytes);
        while let Some(message) = self.frames.next()? {
            match message {
                Message::Start if !self.started => {
                    self.started = true;
                    self.answer(Answer::Video)?;
                }
                Message::End => self.ended = true,
                _ if !self.started => return Err(PushError::Order),
                Message::Menus { first, count } => self.menus(first, count)?,
                Message::Plan(plan) => self.plan(now, plan)?,
                _ => return Err(PushError::Order),
            }
        }
        Ok(())
    }

    /// The client's stream has ended.
    ///
    /// # Errors
    /// [`PushError::Cut`] within a message.
    pub fn handle_end(&mut self) -> Result<(), PushError> {
        self.ended = true;
        if self.frames.is_between_messages() { Ok(()) } else { Err(PushError::Cut) }
    }

    /// What is to be said before any tile.
    pub(super) fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// The next tile to push; what can no longer begin is dropped on the way.
    pub fn poll_tile(&mut self, now: Instant) -> Option<TileOrder> {
        while let Some(plan) = self.plans.front_mut() {
            let (slot, gop, deadline) = (plan.slot, plan.gop, plan.deadline);
            if deadline <= now {
                self.counters.expired += plan.entries.len() as u64;
                self.plans.pop_front();
            } else if let Some(entry) = plan.entries.pop_front() {
                self.counters.pushed += 1;
                self.pushed.insert((slot, entry.tile, entry.quality));
                return Some(TileOrder { slot, gop, entry, deadline });
            } else {
                self.plans.pop_front();
            }
        }
        None
    }

    /// A tile that was handed out met its deadline before it could begin.
    pub fn handle_expired(&mut self) {
        self.counters.pushed = self.counters.pushed.saturating_sub(1);
        self.counters.expired += 1;
    }

    fn answer(&mut self, answer: Answer) -> Result<(), PushError> {
        if self.answers.len() >= MOST_WAITING {
            return Err(PushError::Excess(MOST_WAITING));
        }
        self.answers.push_back(answer);
        Ok(())
    }

    fn menus(&mut self, first: u32, count: u16) -> Result<(), PushError> {
        let there = self.video.gops;
        known("GoP", u64::from(first), u64::from(there))?;
        for ahead in 0..u32::from(count) {
            self.answer(Answer::Menu(((u64::from(first) + u64::from(ahead)) % u64::from(there)) as u32))?;
        }
        Ok(())
    }

    fn plan(&mut self, now: Instant, plan: Plan) -> Result<(), PushError> {
        let Plan { slot, gop, revision, within_us, mut entries } = plan;
        if let Some((last, before)) = self.last
            && (slot, revision) <= (last, before)
        {
            return Err(PushError::Old { slot, revision, last, before });
        }
        known("GoP", u64::from(gop), u64::from(self.video.gops))?;
        for entry in &entries {
            known("tile", u64::from(entry.tile), self.video.layout.grid.tiles() as u64)?;
            known("quality", u64::from(entry.quality), self.video.layout.qps.len() as u64)?;
        }
        self.last = Some((slot, revision));
        // Of slots before this one no later plan can come.
        self.pushed.retain(|pushed| pushed.0 == slot);
        // A client cannot know what has begun when it plans again.
        entries.retain(|entry| !self.pushed.contains(&(slot, entry.tile, entry.quality)));
        self.counters.planned += entries.len() as u64;
        let replaced = self.plans.iter().filter(|waiting| waiting.slot == slot);
        self.counters.replaced += replaced.map(|waiting| waiting.entries.len() as u64).sum::<u64>();
        self.plans.retain(|waiting| waiting.slot != slot);
        if self.plans.len() >= MOST_PLANS {
            return Err(PushError::Excess(MOST_PLANS));
        }
        let deadline = now + Duration::from_micros(u64::from(within_us));
        self.plans.push_back(Waiting { slot, gop, deadline, entries: entries.into() });
        Ok(())
    }
}

fn known(what: &'static str, asked: u64, there: u64) -> Result<(), PushError> {
    if asked < there { Ok(()) } else { Err(PushError::Unknown { what, asked, there }) }
}
