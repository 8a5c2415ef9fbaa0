//! The viewer's end as a state machine: requests the start, plans every slot at its time, and records arrivals.
//!
//! Slot *i* is first planned at *T* + *i·D* and again later in its GoP; it plays from *T* + (*i* + 1)·*D* + RTT. *T* is
//! when the start was answered, *D* the GoP duration: the first picture is shown one GoP and two round trips after the
//! start was requested. It decodes nothing; complete tiles come out of [`Player::poll_tile`].

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

mod live;
pub(super) mod plans;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tributary_types::{Bitrate, Instant};
use tributary_video::allocation::{Allocation, ProblemError};
use tributary_video::head::{HeadTrace, TraceError};
use tributary_video::rd::RdTable;
use tributary_video::sphere::Orientation;

use super::frames::Frames;
use super::guard::Guard;
use super::planner::{Planner, Planning};
use super::record::{Account, Arrived, End, SlotRecord, TiledRecord};
use super::screen::Screen;
use super::slots::Slots;
use super::wire::{self, MOST_LIVE, Reader, SOUND, TilePart, TiledMessage, Video, WireError};
use crate::buffer::{PlayBuffer, Underflow};
use crate::capacity::CapacityMeter;
use live::Live;

/// Time limit for the server to describe the video.
const START_LIMIT: Duration = Duration::from_secs(10);
/// GoPs ahead of the planned one whose menus are requested.
const MENUS_AHEAD: u32 = 2;
/// Number of menus kept: those ahead, and older ones that can replace a late menu.
const MENUS_KEPT: usize = 8;
/// Maximum number of GoPs to play.
const MOST_SLOTS: u32 = 100_000;
/// Width of the bins in which arrived bytes are counted.
const TENTH: Duration = Duration::from_millis(100);

/// Length of the playback and initial rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlayerSettings {
    /// Seconds to play, rounded up to whole GoPs; a shorter video is repeated. `None`: the video once.
    pub seconds: Option<u32>,
    /// Rate of the paths that is assumed before it has been measured.
    pub assumed: Bitrate,
    /// Plans per slot, evenly spaced; 1 is one plan at its beginning. Later plans use the head's new position
    /// and what has arrived, and replace tiles that have not begun to be sent.
    pub plans: u16,
    /// Slots whose records are kept, the last ones (at least four), for a viewing that may not end: its memory does not grow. `None`: the
    /// record of the whole viewing.
    pub kept: Option<u32>,
    /// Whether to ask for the low-resolution stream instead of the tiles.
    pub low_resolution: bool,
}

impl PlayerSettings {
    /// Settings of a player of the tiles that keeps the record of the whole viewing. The parameters are those of the fields.
    #[must_use]
    pub fn new(seconds: Option<u32>, assumed: Bitrate, plans: u16) -> Self {
        Self { seconds, assumed, plans, kept: None, low_resolution: false }
    }
}

/// A tile, or the sound of a slot, that arrived completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileArrived {
    /// The slot for which it was requested.
    pub slot: u32,
    /// The GoP of the video.
    pub gop: u32,
    /// The tile, or [`SOUND`].
    pub tile: u16,
    /// Index of the quality.
    pub quality: u8,
    /// Whether it arrived before its slot began.
    pub in_time: bool,
    /// The initialisation segment, if it was sent with the tile.
    pub init: Option<Bytes>,
    /// The media segment.
    pub segment: Bytes,
}

/// Why a viewing cannot continue.
#[derive(Debug, Error)]
pub enum PlayError {
    /// Bytes that are not a valid message.
    #[error("invalid message from the server: {0}")]
    Wire(#[from] WireError),
    /// The server refused to continue.
    #[error("the server refused: {0}")]
    Refused(String),
    /// A tile or menu before the video's description, or a second description.
    #[error("the server sent a message out of turn")]
    Order,
    /// A tile that was not requested.
    #[error("the server sent tile {tile} in quality {quality} for slot {slot}, which was not asked for")]
    Unasked {
        /// The slot.
        slot: u32,
        /// The tile.
        tile: u16,
        /// The quality.
        quality: u8,
    },
    /// A tile whose size differs from the menu.
    #[error("the server announced {announced} bytes of tile {tile} in quality {quality} and sends {sends}")]
    Size {
        /// The tile.
        tile: u16,
        /// The quality.
        quality: u8,
        /// Bytes of the media segment in the menu.
        announced: u64,
        /// Bytes of the media segment that the server sends.
        sends: u64,
    },
    /// The server's counters contradict the player's.
    #[error("the server says that {asked} tiles were asked for and {sent} sent; {arrived} arrived")]
    Account {
        /// Number of requested tiles according to the server.
        asked: u64,
        /// Number of sent tiles according to the server.
        sent: u64,
        /// Number of tiles that arrived completely.
        arrived: u64,
    },
    /// The trace of another viewer does not cover the video.
    #[error("another viewer of the video: {0}")]
    Crowd(#[source] TraceError),
    /// The input is not a valid allocation problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
}

struct Partial {
    head: TilePart,
    bytes: BytesMut,
}

/// The viewer's end.
pub struct Player {
    settings: PlayerSettings,
    /// Number of GoPs to play; before the video is known, one per second.
    to_play: u32,
    planner: Option<Planner>,
    planning: Option<Planning>,
    frames: Frames,
    began: Instant,
    video: Option<Video>,
    menus: BTreeMap<u32, RdTable>,
    /// Bytes of the sound of the GoPs in `menus`.
    sounds: BTreeMap<u32, u32>,
    /// Time of the first slot's first plan.
    origin: Option<Instant>,
    rtt: Duration,
    playback: PlayBuffer,
    meter: Option<CapacityMeter>,
    guard: Guard,
    screen: Option<Screen>,
    /// A slot whose first plan was decided together with other viewers', and the decision.
    given: Option<(u32, Allocation)>,
    /// Number of the last plan of the present slot, from 0.
    revision: u16,
    /// Tiles of the present slot that are outstanding.
    outstanding: BTreeSet<(u16, u8)>,
    /// Tiles of all slots in `slots` that are outstanding.
    asked: BTreeSet<(u32, u16, u8)>,
    /// Initialisation segments that have arrived.
    inits: BTreeSet<(u16, u8)>,
    partial: Option<Partial>,
    out: VecDeque<Bytes>,
    tiles: VecDeque<TileArrived>,
    /// The slots that have been planned.
    slots: Slots,
    /// Tiles that arrived completely: in time, and late.
    arrived: (u64, u64),
    /// Everything of the viewing's record but its slots.
    record: TiledRecord,
    /// Where a live video is.
    live: Live,
    /// Whether the player has ended the viewing.
    finished: bool,
}

impl Player {
    /// A player that requests the start at once.
    #[must_use]
    pub fn new(settings: PlayerSettings, planner: Planner, now: Instant) -> Self {
        let start = TiledMessage::Start { low_resolution: settings.low_resolution };
        let start = [start, TiledMessage::Menus { first: 0, count: 1 + MENUS_AHEAD as u16 }];
        Self {
            settings,
            to_play: settings.seconds.unwrap_or(0),
            planner: Some(planner),
            planning: None,
            frames: Frames::new(Reader::Client),
            began: now,
            video: None,
            menus: BTreeMap::new(),
            sounds: BTreeMap::new(),
            origin: None,
            rtt: Duration::ZERO,
            playback: PlayBuffer::new(Underflow::Conceal, now),
            meter: None,
            guard: Guard::new(Duration::from_secs(1)),
            screen: None,
            given: None,
            revision: 0,
            outstanding: BTreeSet::new(),
            asked: BTreeSet::new(),
            inits: BTreeSet::new(),
            partial: None,
            out: start.iter().map(TiledMessage::encode).collect(),
            tiles: VecDeque::new(),
            slots: Slots::new(settings.kept),
            arrived: (0, 0),
            record: TiledRecord::default(),
            live: Live::default(),
            finished: false,
        }
    }

    /// The video, after the server has described it.
    #[must_use]
    pub fn video(&self) -> Option<&Video> {
        self.video.as_ref()
    }

    /// A slot that has been planned and is not forgotten ([`PlayerSettings::kept`]).
    #[must_use]
    pub fn slot(&self, slot: u32) -> Option<&SlotRecord> {
        self.slots.get(slot)
    }

    /// The playing time at `now`, seconds: negative before the first picture, `None` before the server has answered.
    #[must_use]
    pub fn playback_s(&self, now: Instant) -> Option<f64> {
        self.origin.map(|_| self.playback.position_s(now))
    }

    /// When to call [`Self::handle_timeout`]: the next plan, or the end.
    #[must_use]
    pub fn poll_timeout(&self) -> Instant {
        let waits = || self.waits_until().unwrap_or_else(|| self.ends_at());
        self.next_plan().map_or_else(waits, |next| next.at)
    }

    /// Whether the viewing is over at `now`.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        match self.origin {
            Some(_) => now >= self.ends_at() && self.slots.next() >= self.to_play,
            None => now >= self.began + START_LIMIT,
        }
    }

    /// When the viewing is over. Before the video is known, this is the time limit of the start.
    #[must_use]
    pub fn ends_at(&self) -> Instant {
        if self.origin.is_none() {
            return self.began + START_LIMIT;
        }
        self.deadline(self.to_play.saturating_sub(1))
    }

    /// Bytes to send.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        self.out.pop_front()
    }

    /// The next complete tile.
    pub fn poll_tile(&mut self) -> Option<TileArrived> {
        self.tiles.pop_front()
    }

    /// Bytes arrived.
    ///
    /// # Errors
    /// [`PlayError`]: the server breaks the protocol or refuses to continue.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> Result<(), PlayError> {
        self.count(now, bytes.len());
        self.frames.push(bytes);
        while let Some(message) = self.frames.next()? {
            match message {
                // Answers to requests sent before the end.
                TiledMessage::Video(_)
                | TiledMessage::Menu { .. }
                | TiledMessage::Last { .. }
                | TiledMessage::Gone { .. }
                    if self.finished => {}
                TiledMessage::Last { gop } if self.is_live() => self.last(gop),
                TiledMessage::Gone { gop, .. } if self.is_live() => self.gone(now, gop),
                TiledMessage::Video(video) if self.video.is_none() => self.begin(video)?,
                TiledMessage::Menu { gop, sound, cells } => self.menu(now, (gop, sound), cells)?,
                TiledMessage::Tile(part) if self.record.account.is_none() => self.part(now, part)?,
                TiledMessage::Served { asked, sent } if self.finished && self.record.account.is_none() => {
                    self.settle(asked, sent)?;
                }
                TiledMessage::Refused { reason } => return Err(PlayError::Refused(reason)),
                _ => return Err(PlayError::Order),
            }
        }
        Ok(())
    }

    /// Whether a slot's first plan is due that has not been decided.
    pub(super) fn is_undecided(&self, now: Instant) -> bool {
        let due = self.next_plan().filter(|next| next.at <= now && next.revision == 0);
        due.is_some_and(|due| self.given.as_ref().is_none_or(|(slot, _)| *slot != due.slot))
    }

    /// The decision for the first plan of a slot, made together with other viewers'.
    pub(super) fn give(&mut self, slot: u32, allocation: Allocation) {
        self.given = Some((slot, allocation));
    }

    /// The measurements of its capacity, after the server has answered.
    pub(super) fn meter(&self) -> Option<&CapacityMeter> {
        self.meter.as_ref()
    }

    /// Where the head looks at `now`, for a head that is observed while the video plays. Replaces the planner's trace.
    pub fn handle_head(&mut self, now: Instant, orientation: Orientation) {
        match (&mut self.planning, &mut self.planner) {
            (Some(planning), _) => planning.look(self.playback.position_s(now), orientation),
            (None, Some(planner)) => planner.trace = HeadTrace::still(orientation),
            (None, None) => {}
        }
    }

    /// Makes the plans that are due.
    ///
    /// # Errors
    /// [`PlayError::Problem`].
    pub fn handle_timeout(&mut self, now: Instant) -> Result<(), PlayError> {
        while let Some(due) = self.next_plan().filter(|next| next.at <= now) {
            self.plan(now, due)?;
        }
        self.wait(now);
        Ok(())
    }

    /// The viewer leaves: the slots that have been planned are the last ones.
    pub fn leave(&mut self) {
        self.to_play = self.slots.next();
    }

    /// Ends the viewing. [`Self::poll_transmit`] then returns the message for the server. Until
    /// [`Self::is_settled`], tiles already sent and the server's counters may still arrive.
    pub fn finish(&mut self) {
        self.finished = true;
        self.out.push_back(TiledMessage::End.encode());
    }

    /// Whether the server's counters have arrived; they follow the last tile.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.record.account.is_some()
    }

    /// Handles the server's counters and sends the player's counters.
    fn settle(&mut self, asked: u64, sent: u64) -> Result<(), PlayError> {
        let (in_time, late) = self.arrived;
        let account = Account { asked, in_time, late };
        if sent > asked || account.in_time + account.late > sent {
            return Err(PlayError::Account { asked, sent, arrived: account.in_time + account.late });
        }
        self.record.account = Some(account);
        self.out.push_back(TiledMessage::Report { in_time: account.in_time, late: account.late }.encode());
        Ok(())
    }

    /// The record of the viewing so far. Slots without a plan are empty in it; those that are forgotten are not in it.
    #[must_use]
    pub fn record(&self, end: End) -> TiledRecord {
        let mut record = self.record.clone();
        let gops = self.video.as_ref().map_or(1, |video| video.gops);
        record.slots = self.slots.to_vec();
        // Nobody knows how long a live video would have been.
        let open_ended = self.settings.kept.is_some() || self.is_live() && self.settings.seconds.is_none();
        let unplanned = if open_ended { 0 } else { self.to_play };
        for slot in self.slots.next()..unplanned {
            let deadline_ms = self.origin.map_or(0.0, |_| self.millis(self.deadline(slot)));
            record.slots.push(SlotRecord { slot, gop: slot % gops, deadline_ms, ..SlotRecord::default() });
        }
        record.gop_ms = self.video.as_ref().map_or(0.0, |v| v.layout.gop_duration_s * 1e3);
        record.rtt_ms = self.rtt.as_secs_f64() * 1e3;
        record.start_up_ms = self.origin.map(|_| self.millis(self.deadline(0)));
        record.end = end;
        record
    }

    fn gop(&self) -> Duration {
        Duration::from_secs_f64(self.video.as_ref().map_or(1.0, |video| video.layout.gop_duration_s))
    }

    /// Deadline of a slot's tiles: the slot's first picture.
    fn deadline(&self, slot: u32) -> Instant {
        self.playback.shown_at(self.gop() * slot).unwrap_or(self.began)
    }

    fn millis(&self, at: Instant) -> f64 {
        at.saturating_since(self.began).as_secs_f64() * 1e3
    }

    fn count(&mut self, now: Instant, bytes: usize) {
        self.record.bytes += bytes as u64;
        let live = self.is_live();
        if let Some(meter) = self.meter.as_mut().filter(|meter| !live || meter.is_expecting()) {
            meter.bytes(now, bytes);
        }
        if self.settings.kept.is_some() {
            return;
        }
        let tenth = (now.saturating_since(self.began).as_nanos() / TENTH.as_nanos()) as usize;
        let counts = &mut self.record.bytes_per_tenth;
        // A limit for drivers that continue after the end.
        if tenth >= counts.len() && tenth < 1 << 20 {
            counts.resize(tenth + 1, 0);
        }
        if let Some(count) = counts.get_mut(tenth) {
            *count += bytes as u64;
        }
    }

    fn begin(&mut self, video: Video) -> Result<(), PlayError> {
        let planner = self.planner.take().ok_or(PlayError::Order)?;
        let gop_s = video.layout.gop_duration_s;
        let asked = self.settings.seconds.map(|seconds| (f64::from(seconds) / gop_s - 1e-9).ceil() as u32);
        self.to_play = asked.unwrap_or(video.gops).clamp(1, MOST_SLOTS);
        self.screen = Some(Screen::new(video.layout.grid.tiles(), planner.concealment));
        self.planning = Some(planner.begin(&video, self.to_play).map_err(PlayError::Crowd)?);
        self.video = Some(video);
        Ok(())
    }

    fn menu(&mut self, now: Instant, (gop, sound): (u32, u32), cells: Bytes) -> Result<(), PlayError> {
        let Some(video) = &self.video else { return Err(PlayError::Order) };
        let live = video.is_live();
        if gop >= if live { MOST_LIVE } else { video.gops } {
            return Err(WireError::Field { field: "a menu's GoP", value: u64::from(gop) }.into());
        }
        let menu = wire::menu(&video.layout, cells)?;
        self.menus.insert(gop, menu);
        self.sounds.insert(gop, sound);
        if live {
            return self.live_menu(now, gop);
        }
        // Counted from the slot before the present one, because older menus are not needed. The menu furthest ahead is
        // needed last, so it is dropped.
        let from = self.slots.get(self.slots.next().saturating_sub(2)).map_or(0, |slot| slot.gop);
        while self.menus.len() > MENUS_KEPT {
            let ahead = |known: u32| (known + video.gops - from) % video.gops;
            let Some(furthest) = self.menus.keys().copied().max_by_key(|known| ahead(*known)) else { break };
            self.menus.remove(&furthest);
            self.sounds.remove(&furthest);
        }
        if self.origin.is_none() && gop == 0 {
            self.set_out(now, now);
            self.handle_timeout(now)?;
        }
        Ok(())
    }

    /// The server has answered at `now`; the first plan is due at `origin`.
    fn set_out(&mut self, now: Instant, origin: Instant) {
        self.rtt = now.saturating_since(self.began);
        self.meter = Some(CapacityMeter::new(self.gop(), now));
        self.guard = Guard::new(self.gop());
        self.origin = Some(origin);
        self.playback.start_at(origin + self.gop() + self.rtt);
    }

    fn part(&mut self, now: Instant, part: TilePart) -> Result<(), PlayError> {
        let (slot, tile, quality) = (part.slot, part.tile, part.quality);
        if slot < self.slots.first() {
            // Whether it was requested is forgotten. It comes minutes late, and nothing more is known of its slot.
            self.partial = None;
            return Ok(());
        }
        let planned = self.slots.get(slot).is_some_and(|record| record.gop == part.gop);
        if !planned || !self.asked.contains(&(slot, tile, quality)) {
            return Err(PlayError::Unasked { slot, tile, quality });
        }
        let sends = u64::from(part.total - part.init);
        // Without the menu of this GoP only the protocol's limit applies.
        let announced = match tile {
            SOUND => self.sounds.get(&part.gop).map(|bytes| u64::from(*bytes)),
            _ => self.menus.get(&part.gop).map(|menu| plans::size(menu, (tile, quality))),
        };
        let announced = announced.unwrap_or(sends);
        if sends != announced {
            return Err(PlayError::Size { tile, quality, announced, sends });
        }
        let same = |head: &TilePart| {
            (head.slot, head.gop, head.tile, head.quality, head.init, head.total)
                == (part.slot, part.gop, part.tile, part.quality, part.init, part.total)
        };
        if part.offset == 0 {
            // The rest of the previous tile may have been dropped at its deadline.
            let head = TilePart { payload: Bytes::new(), ..part.clone() };
            self.partial = Some(Partial { head, bytes: BytesMut::new() });
        }
        let fits =
            |partial: &&mut Partial| same(&partial.head) && partial.bytes.len() == part.offset as usize;
        let Some(partial) = self.partial.as_mut().filter(fits) else {
            // A part before this one was dropped, so the tile cannot be completed.
            self.partial = None;
            return Ok(());
        };
        partial.bytes.extend_from_slice(&part.payload);
        if partial.bytes.len() < part.total as usize {
            return Ok(());
        }
        let bytes = self.partial.take().map(|partial| partial.bytes.freeze()).unwrap_or_default();
        self.complete(now, &part, bytes);
        Ok(())
    }

    fn complete(&mut self, now: Instant, part: &TilePart, mut bytes: Bytes) {
        let (slot, tile, quality) = (part.slot, part.tile, part.quality);
        let in_time = now <= self.deadline(slot);
        let complete_ms = self.millis(now);
        self.asked.remove(&(slot, tile, quality));
        if self.slots.next() == slot + 1 {
            self.outstanding.remove(&(tile, quality));
        }
        if self.outstanding.is_empty()
            && let Some(meter) = &mut self.meter
        {
            meter.rest(now);
        }
        let init = (part.init > 0).then(|| bytes.split_to(part.init as usize));
        if init.is_some() {
            self.inits.insert((tile, quality));
        }
        if let Some(record) = self.slots.get_mut(slot) {
            if let (SOUND, Some(sound)) = (tile, &mut record.sound) {
                (sound.complete_ms, sound.in_time) = (Some(complete_ms), in_time);
            } else {
                if !record.planned.contains(&(tile, quality)) {
                    // A later plan left it out, but it had begun to be sent.
                    record.planned.push((tile, quality));
                    record.planned_bytes += u64::from(part.total - part.init);
                }
                let (timely, late) = &mut self.arrived;
                *(if in_time { timely } else { late }) += 1;
                record.arrived.push(Arrived {
                    tile,
                    quality,
                    complete_ms,
                    in_time,
                    init_bytes: part.init,
                    bytes: part.total - part.init,
                });
            }
        }
        self.tiles.push_back(TileArrived {
            slot,
            gop: part.gop,
            tile,
            quality,
            in_time,
            init,
            segment: bytes,
        });
    }
}
