//! The server's end as a state machine: plans come in; messages go out one at a time, when there is room and before
//! their deadline.
//!
//! It reads no files and writes to no socket; its driver does both. A newer revision of a slot's plan replaces the
//! slot's tiles that have not begun; a tile that has begun is not sent twice. A tile is sent in parts, so a more
//! urgent tile waits for one part at most.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tributary_types::Instant;
use tributary_video::rd::RdTable;

mod live;

use super::frames::Frames;
use super::record::Account;
use super::wire::{
    MOST_INIT, MOST_SEGMENT, Plan, PlanEntry, Reader, SOUND, TilePart, TiledMessage, Video, WireError,
};

/// Maximum number of waiting plans; a newer one replaces the oldest. After an outage all plans that the client has made meanwhile arrive
/// at once, and the newest are worth most.
const MOST_PLANS: usize = 8;
/// Maximum number of answers waiting to be sent; a newer one replaces the oldest.
const MOST_WAITING: usize = 64;
/// Bytes of a tile in one message.
const PART: usize = 16 << 10;
/// Setting for a session that carries tiles: limit on bytes queued but not yet given to a subflow, as time at the
/// paths' total rate. A newer plan cannot take these bytes back; with a lower limit a path could run out of data.
pub const SESSION_UNSENT: Duration = Duration::from_millis(10);
/// Setting for a kernel socket that carries tiles (`TCP_NOTSENT_LOWAT`): limit on unsent bytes.
pub const SOCKET_UNSENT: u32 = 64 << 10;

/// Next action of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transmit {
    /// Send these bytes: one message. If it cannot begin before the deadline, call [`Pusher::handle_expired`] instead.
    Message {
        /// The message.
        bytes: Bytes,
        /// Deadline, for parts of tiles.
        deadline: Option<Instant>,
    },
    /// Read this tile and give it to [`Pusher::handle_tile`].
    Read(TileOrder),
}

/// Bytes of the longest message about a video: a menu, or a part of a tile.
#[must_use]
pub fn longest_message(table: &RdTable) -> usize {
    TiledMessage::menu_of(table, 0, 0).encode().len().max(PART + 64)
}

/// A message that is sent before any tile.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// The description of the video.
    Video,
    /// The menu of this GoP.
    Menu(u32),
    /// About a live video.
    Live(Bytes),
}

/// A tile to read and send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileOrder {
    /// The slot of the playing time.
    pub slot: u32,
    /// The GoP of the video.
    pub gop: u32,
    /// The tile and its quality.
    pub entry: PlanEntry,
    /// Deadline for its start.
    pub deadline: Instant,
}

/// Counters of the requested tiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushCounters {
    /// Tiles in all plans.
    pub planned: u64,
    /// Tiles given to the driver for sending.
    pub pushed: u64,
    /// Tiles dropped at their deadline or at the end of the viewing.
    pub expired: u64,
    /// Tiles replaced by a newer plan.
    pub replaced: u64,
}

/// Why a client is disconnected.
#[derive(Debug, Error)]
pub enum PushError {
    /// Bytes that are not a valid message.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A message before the start, or a second start.
    #[error("the client did not begin with a start message, or sent two")]
    Order,
    /// The low-resolution stream of a video that has none.
    #[error(
        "this video has no low-resolution stream; ask for its tiles, or make it again with `tributary ingest`"
    )]
    NoLowResolution,
    /// The video does not have this GoP, tile or quality.
    #[error("the client asked for {what} {asked}; there are {there}")]
    Unknown {
        /// Kind of the requested item.
        what: &'static str,
        /// Its number.
        asked: u64,
        /// Number of such items in the video.
        there: u64,
    },
    /// A plan that is not newer than the last one.
    #[error("the client planned slot {slot}, revision {revision}, after slot {last}, revision {before}")]
    Old {
        /// The slot.
        slot: u32,
        /// Its revision.
        revision: u16,
        /// The slot of the last plan.
        last: u32,
        /// The revision of the last plan.
        before: u16,
    },
    /// The client reports more tiles than were sent.
    #[error("the client reports {arrived} tiles; {sent} were sent")]
    Report {
        /// Number of arrived tiles according to the client.
        arrived: u64,
        /// Number of tiles sent completely.
        sent: u64,
    },
    /// The stream ended within a message.
    #[error("the client's stream ended within a message")]
    Cut,
    /// A tile that is too long or empty; an error of the video, not of the client.
    #[error(
        "GoP {gop}, tile {tile}, quality {quality} has {bytes} bytes of {what}; at most {most} can be sent"
    )]
    Size {
        /// The GoP.
        gop: u32,
        /// The tile.
        tile: u16,
        /// Index of the quality.
        quality: u8,
        /// Name of the segment: media or initialisation segment.
        what: &'static str,
        /// Its size in bytes.
        bytes: usize,
        /// The limit.
        most: usize,
    },
}

/// A tile that is being sent.
struct Sending {
    order: TileOrder,
    init: u32,
    whole: Bytes,
    offset: usize,
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
    /// Bytes of each GoP's sound; those behind the last one have none.
    sound: Vec<u32>,
    /// The low-resolution stream and its sound.
    low: Option<(Video, Vec<u32>)>,
    /// Whether the client has asked for it.
    is_low: bool,
    frames: Frames,
    started: bool,
    /// Whether the client has ended the viewing.
    ended: bool,
    /// Whether the counters have been sent.
    served: bool,
    /// Whether the client has sent its counters or ended its stream.
    over: bool,
    account: Option<Account>,
    answers: VecDeque<Answer>,
    /// The GoPs that can be requested now.
    there: Range<u32>,
    plans: VecDeque<Waiting>,
    /// Slot, tile and quality of tiles given to the driver since the first plan of the latest plan's slot.
    pushed: BTreeSet<(u32, u16, u8)>,
    /// The tile that the driver is reading.
    reading: Option<TileOrder>,
    sending: Option<Sending>,
    last: Option<(u32, u16)>,
    heard: Option<Instant>,
    counters: PushCounters,
}

impl Pusher {
    /// A pusher for one client of this video.
    #[must_use]
    pub fn new(video: Video) -> Self {
        Self {
            there: 0..if video.is_live() { 0 } else { video.gops },
            video,
            sound: Vec::new(),
            low: None,
            is_low: false,
            frames: Frames::new(Reader::Server),
            started: false,
            ended: false,
            served: false,
            over: false,
            account: None,
            answers: VecDeque::new(),
            plans: VecDeque::new(),
            pushed: BTreeSet::new(),
            reading: None,
            sending: None,
            last: None,
            heard: None,
            counters: PushCounters::default(),
        }
    }

    /// The same with the bytes of each GoP's sound, 0 for a GoP without any.
    #[must_use]
    pub fn with_sound(mut self, bytes: Vec<u32>) -> Self {
        self.sound = bytes;
        self
    }

    /// The same for a video that has a low-resolution stream, given with its sound's bytes.
    #[must_use]
    pub fn with_low_resolution(mut self, low: Option<(Video, Vec<u32>)>) -> Self {
        self.video.low_resolution = low.is_some();
        self.low = low;
        self
    }

    /// Whether the client has asked for the low-resolution stream. All tiles, and the table of [`Self::poll_transmit`], are then that
    /// stream's.
    #[must_use]
    pub fn is_low_resolution(&self) -> bool {
        self.is_low
    }

    /// The description of the video.
    #[must_use]
    pub fn video(&self) -> &Video {
        &self.video
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> PushCounters {
        self.counters
    }

    /// Whether the client has requested the start.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Whether the client has ended the viewing. Its counters may still arrive.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether nothing is left to send or to receive.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Counters of both ends; `None` when the client did not send its counters.
    #[must_use]
    pub fn account(&self) -> Option<Account> {
        self.account
    }

    /// When the client's last complete message arrived. Bytes of an incomplete message do not count, so a client cannot
    /// stay connected by sending a byte now and then.
    #[must_use]
    pub fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// Handles bytes from the client.
    ///
    /// # Errors
    /// [`PushError`]; disconnect the client.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> Result<(), PushError> {
        self.frames.push(bytes);
        while let Some(message) = self.frames.next()? {
            self.heard = Some(now);
            match message {
                TiledMessage::Start { low_resolution } if !self.started => {
                    if low_resolution {
                        (self.video, self.sound) = self.low.take().ok_or(PushError::NoLowResolution)?;
                        self.is_low = true;
                    }
                    self.started = true;
                    self.answers.push_back(Answer::Video);
                }
                TiledMessage::Report { in_time, late } if self.served && !self.over => {
                    self.report(in_time, late)?;
                }
                _ if self.ended => return Err(PushError::Order),
                TiledMessage::End => self.ended = true,
                _ if !self.started => return Err(PushError::Order),
                TiledMessage::Menus { first, count } => self.menus(first, count)?,
                TiledMessage::Plan(plan) => self.plan(now, plan)?,
                _ => return Err(PushError::Order),
            }
        }
        Ok(())
    }

    /// Handles the end of the client's stream.
    ///
    /// # Errors
    /// [`PushError::Cut`] within a message.
    pub fn handle_end(&mut self) -> Result<(), PushError> {
        (self.ended, self.over) = (true, true);
        if self.frames.is_between_messages() { Ok(()) } else { Err(PushError::Cut) }
    }

    /// The next action; `table` is the video's. `None` while there is nothing to send, or while the driver
    /// reads a tile.
    pub fn poll_transmit(&mut self, now: Instant, table: &RdTable) -> Option<Transmit> {
        if self.ended {
            return self.farewell();
        }
        if let Some(answer) = self.answers.pop_front() {
            let message = match answer {
                Answer::Video => TiledMessage::Video(self.video.clone()).encode(),
                Answer::Menu(gop) => {
                    TiledMessage::menu_of(table, gop as usize, self.sound_bytes(gop)).encode()
                }
                Answer::Live(bytes) => bytes,
            };
            return Some(Transmit::Message { bytes: message, deadline: None });
        }
        if self.reading.is_some() {
            return None;
        }
        self.sending = self.sending.take().filter(|sending| sending.offset < sending.whole.len());
        if self.sending.as_ref().is_some_and(|sending| sending.order.deadline <= now) {
            self.handle_expired();
        }
        if self.sending.is_some() {
            return self.part();
        }
        self.reading = self.next_tile(now);
        self.reading.map(Transmit::Read)
    }

    /// Takes the bytes of the tile in [`Transmit::Read`]; `init` if its entry requires the initialisation segment.
    ///
    /// # Errors
    /// [`PushError::Size`]: the tile cannot be sent.
    pub fn handle_tile(&mut self, init: Option<Bytes>, segment: Bytes) -> Result<(), PushError> {
        let Some(order) = self.reading.take() else { return Ok(()) };
        let (gop, PlanEntry { tile, quality, .. }) = (order.gop, order.entry);
        let size = |what, bytes, most| PushError::Size { gop, tile, quality, what, bytes, most };
        if !(1..=MOST_SEGMENT).contains(&segment.len()) {
            return Err(size("media", segment.len(), MOST_SEGMENT));
        }
        let (init, whole) = match init {
            None => (0, segment),
            Some(init) if init.len() > MOST_INIT => {
                return Err(size("initialisation segment", init.len(), MOST_INIT));
            }
            Some(init) => {
                let mut whole = BytesMut::with_capacity(init.len() + segment.len());
                whole.put_slice(&init);
                whole.put_slice(&segment);
                (init.len() as u32, whole.freeze())
            }
        };
        self.sending = Some(Sending { order, init, whole, offset: 0 });
        Ok(())
    }

    /// The last part given to the driver passed its deadline before it could begin: drops the rest of the tile.
    pub fn handle_expired(&mut self) {
        if let Some(Sending { order, .. }) = self.sending.take() {
            self.unsent(order);
        }
    }

    /// A tile that was given to the driver is not sent after all.
    fn unsent(&mut self, order: TileOrder) {
        let tiles = tiles([&order.entry]);
        self.counters.pushed = self.counters.pushed.saturating_sub(tiles);
        self.counters.expired += tiles;
    }

    /// Bytes of a GoP's sound.
    fn sound_bytes(&self, gop: u32) -> u32 {
        self.sound.get(gop as usize).copied().unwrap_or(0)
    }

    /// The message that tells the client why it is disconnected.
    #[must_use]
    pub fn refusal(reason: &str) -> Bytes {
        TiledMessage::Refused { reason: reason.to_owned() }.encode()
    }

    /// Drops everything not yet sent and sends the counters, once.
    fn farewell(&mut self) -> Option<Transmit> {
        if std::mem::replace(&mut self.served, true) || self.over {
            return None;
        }
        self.answers.clear();
        let unsent = self.sending.take().filter(|sending| sending.offset < sending.whole.len());
        if let Some(order) = self.reading.take().or(unsent.map(|sending| sending.order)) {
            self.unsent(order);
        }
        self.counters.expired += self.plans.drain(..).map(|plan| tiles(&plan.entries)).sum::<u64>();
        let served = TiledMessage::Served { asked: self.asked(), sent: self.counters.pushed };
        Some(Transmit::Message { bytes: served.encode(), deadline: None })
    }

    /// Number of tiles in plans that were not replaced by a newer plan.
    fn asked(&self) -> u64 {
        self.counters.planned - self.counters.replaced
    }

    fn report(&mut self, in_time: u64, late: u64) -> Result<(), PushError> {
        let (arrived, sent) = (in_time.saturating_add(late), self.counters.pushed);
        if arrived > sent {
            return Err(PushError::Report { arrived, sent });
        }
        self.account = Some(Account { asked: self.asked(), in_time, late });
        self.over = true;
        Ok(())
    }

    /// The next part of the tile that is being sent.
    fn part(&mut self) -> Option<Transmit> {
        let sending = self.sending.as_mut()?;
        let TileOrder { slot, gop, entry, deadline } = sending.order;
        let (offset, total) = (sending.offset, sending.whole.len());
        sending.offset = total.min(offset + PART);
        let part = TilePart {
            slot,
            gop,
            tile: entry.tile,
            quality: entry.quality,
            init: sending.init,
            total: total as u32,
            offset: offset as u32,
            payload: sending.whole.slice(offset..sending.offset),
        };
        Some(Transmit::Message { bytes: TiledMessage::Tile(part).encode(), deadline: Some(deadline) })
    }

    /// The next tile to send; drops tiles that can no longer begin in time.
    fn next_tile(&mut self, now: Instant) -> Option<TileOrder> {
        while let Some(plan) = self.plans.front_mut() {
            let (slot, gop, deadline) = (plan.slot, plan.gop, plan.deadline);
            if deadline <= now {
                self.counters.expired += tiles(&plan.entries);
                self.plans.pop_front();
            } else if let Some(entry) = plan.entries.pop_front() {
                self.counters.pushed += tiles([&entry]);
                self.pushed.insert((slot, entry.tile, entry.quality));
                return Some(TileOrder { slot, gop, entry, deadline });
            } else {
                self.plans.pop_front();
            }
        }
        None
    }

    /// Queues an answer. Of too many the oldest makes room, but not the description of the video.
    fn answer(&mut self, answer: Answer) {
        if self.answers.len() >= MOST_WAITING {
            let oldest = self.answers.iter().position(|answer| !matches!(answer, Answer::Video));
            oldest.map(|at| self.answers.remove(at));
        }
        self.answers.push_back(answer);
    }

    fn menus(&mut self, first: u32, count: u16) -> Result<(), PushError> {
        if self.video.is_live() {
            self.menus_of_live(first);
            return Ok(());
        }
        let there = self.video.gops;
        known("GoP", u64::from(first), u64::from(there))?;
        for ahead in 0..u32::from(count) {
            let gop = (u64::from(first) + u64::from(ahead)) % u64::from(there);
            self.answer(Answer::Menu(gop as u32));
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
        known("GoP", u64::from(gop), u64::from(self.there.end))?;
        let sound = u64::from(self.sound_bytes(gop) > 0);
        for entry in &entries {
            if entry.tile == SOUND {
                known("sound", u64::from(entry.quality), sound)?;
                continue;
            }
            known("tile", u64::from(entry.tile), self.video.layout.grid.tiles() as u64)?;
            known("quality", u64::from(entry.quality), self.video.layout.qps.len() as u64)?;
        }
        self.last = Some((slot, revision));
        // No later plan can contain slots before this one.
        self.pushed.retain(|pushed| pushed.0 == slot);
        // A client cannot know what has begun when it plans again.
        entries.retain(|entry| !self.pushed.contains(&(slot, entry.tile, entry.quality)));
        self.counters.planned += tiles(&entries);
        let replaced = self.plans.iter().filter(|waiting| waiting.slot == slot);
        self.counters.replaced += replaced.map(|waiting| tiles(&waiting.entries)).sum::<u64>();
        self.plans.retain(|waiting| waiting.slot != slot);
        if self.plans.len() >= MOST_PLANS {
            let oldest = self.plans.pop_front();
            self.counters.expired += oldest.map_or(0, |oldest| tiles(&oldest.entries));
        }
        if gop < self.there.start {
            self.counters.expired += tiles(&entries);
            self.gone(gop);
            return Ok(());
        }
        let deadline = now + Duration::from_micros(u64::from(within_us));
        self.plans.push_back(Waiting { slot, gop, deadline, entries: entries.into() });
        Ok(())
    }
}

/// Number of tiles among entries; the sound is none.
fn tiles<'a>(entries: impl IntoIterator<Item = &'a PlanEntry>) -> u64 {
    entries.into_iter().filter(|entry| entry.tile != SOUND).count() as u64
}

fn known(what: &'static str, asked: u64, there: u64) -> Result<(), PushError> {
    if asked < there { Ok(()) } else { Err(PushError::Unknown { what, asked, there }) }
}
