//! What pages that show a viewing receive: news as JSON and tiles as they arrived. In the other direction, the head's
//! orientation.
//!
//! A message is its length (four bytes, big-endian, without themselves), one byte for its kind, and its content. [`News`] in
//! JSON has kind 1. A tile has kind 2: slot (four bytes), tile (two; 65535 for the slot's sound), quality, 1 if it was in time,
//! length of the initialisation segment (four), that segment, the media segment. `web/src/play/feed.ts` reads them.
//!
//! A page that comes later first gets the tiles of the slot that is shown and of those after it, so that it need not wait for the next
//! slot. A page that reads too slowly loses messages, and is told how many. Not here: the page's connection, and decoding.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use tokio::time::Instant as Clock;
use tributary_net::proxy::PathSnapshot;
use tributary_video::projection::Projection;
use tributary_video::sphere::Orientation;

use crate::tiled::{SlotRecord, SoundFormat, TileArrived, Video};

/// Messages that wait for a slow page: more than two slots of the usual 6 × 4 tiles.
const WAITING: usize = 256;

const NEWS: u8 = 1;
const TILE: u8 = 2;

/// A tile that was requested and not in time.
const NOT_IN_TIME: i16 = -1;
/// A tile that was not requested.
const LEFT_OUT: i16 = -2;

/// What happens.
#[derive(Debug, Serialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub(super) enum News<'a> {
    /// The viewing's state, one of `waiting` (nobody watches), `connecting`, `playing`, `lost`, `ended`.
    State { state: &'static str, cause: Option<&'a str> },
    /// A viewing begins.
    Video(VideoNews<'a>),
    /// A slot begins to be shown.
    Slot(SlotNews),
    /// The radios, each second.
    Radios { radios: &'a [PathSnapshot] },
    /// The quality of a picture that was measured.
    Quality(QualityNews),
    /// Messages that this page did not take in time.
    Skipped { messages: u64 },
}

/// A video, as far as a page needs it.
#[derive(Debug, Serialize)]
pub(super) struct VideoNews<'a> {
    /// Number of the viewing; a new one begins after a loss of the connection.
    pub viewing: u32,
    pub columns: usize,
    pub rows: usize,
    pub width: usize,
    pub height: usize,
    pub projection: Projection,
    pub gop_s: f64,
    pub gops: u32,
    pub qps: &'a [u8],
    /// `None`: there is no sound.
    pub sound: Option<SoundFormat>,
    /// Degrees, horizontal and vertical.
    pub field: (f64, f64),
    /// It is the low-resolution stream, in the place of the tiles.
    pub low: bool,
    /// There is a low-resolution stream.
    pub has_low: bool,
}

impl<'a> VideoNews<'a> {
    /// `low`: it is the low-resolution stream.
    pub(super) fn new((viewing, low): (u32, bool), video: &'a Video, field: (f64, f64)) -> Self {
        let layout = &video.layout;
        Self {
            viewing,
            columns: layout.grid.columns(),
            rows: layout.grid.rows(),
            width: layout.width,
            height: layout.height,
            projection: layout.grid.projection(),
            gop_s: layout.gop_duration_s,
            gops: video.gops,
            qps: &layout.qps,
            sound: video.sound,
            field,
            low,
            has_low: low || video.low_resolution,
        }
    }
}

/// What is known of a slot when it begins.
#[derive(Debug, Default, Serialize)]
pub(super) struct SlotNews {
    pub slot: u32,
    /// The playing time of this message, seconds.
    pub position_s: f64,
    /// By how many seconds slots are shown later than was planned at first, because a live source was late.
    pub waited_s: f64,
    /// For each tile the index of the finest quality in time, -1 (requested, not in time) or -2 (left out).
    pub tiles: Vec<i16>,
    /// Bytes of media that arrived in time, without the sound.
    pub bytes: u64,
    /// Whether the sound was in time; `None` if there is none.
    pub sound: Option<bool>,
    /// The guard interval, milliseconds.
    pub guard_ms: f64,
    /// Tiles of the slot before this one that arrived late.
    pub late_before: usize,
}

impl SlotNews {
    pub(super) fn new(
        record: &SlotRecord,
        before: Option<&SlotRecord>,
        position_s: f64,
        tiles: usize,
    ) -> Self {
        let shown = |tile: u16| match record.in_time(tile) {
            Some(quality) => i16::from(quality),
            None if record.asked(tile) => NOT_IN_TIME,
            None => LEFT_OUT,
        };
        let late = |record: &SlotRecord| record.arrived.iter().filter(|tile| !tile.in_time).count();
        Self {
            slot: record.slot,
            position_s,
            waited_s: 0.0,
            tiles: (0..tiles as u16).map(shown).collect(),
            bytes: record.bytes_in_time(),
            sound: record.sound.map(|sound| sound.in_time),
            guard_ms: record.guard_ms,
            late_before: before.map_or(0, late),
        }
    }
}

/// The quality of one picture in the viewport.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct QualityNews {
    /// The slot whose middle picture it is.
    pub(super) slot: u32,
    /// PSNR of luma in the viewport, dB; `null` when there is no difference.
    pub(super) viewport_psnr_db: Option<f64>,
    /// Slots between two measured ones.
    pub(super) every: u32,
}

/// Sums over the slots of a viewing that have begun.
#[derive(Debug, Default, Serialize)]
struct SoFar {
    slots: u64,
    /// Slots with a tile that was requested and not in time.
    slots_incomplete: u64,
    tiles_in_time: u64,
    tiles_not_in_time: u64,
    tiles_left_out: u64,
    /// Slots whose sound was requested and not in time.
    sound_not_in_time: u64,
    /// Bytes of media that arrived in time.
    bytes: u64,
}

impl SoFar {
    fn add(&mut self, slot: &SlotNews) {
        let count = |of: fn(i16) -> bool| slot.tiles.iter().filter(|&&tile| of(tile)).count() as u64;
        let not_in_time = count(|tile| tile == NOT_IN_TIME);
        self.slots += 1;
        self.slots_incomplete += u64::from(not_in_time > 0);
        self.tiles_in_time += count(|tile| tile >= 0);
        self.tiles_not_in_time += not_in_time;
        self.tiles_left_out += count(|tile| tile == LEFT_OUT);
        self.sound_not_in_time += u64::from(slot.sound == Some(false));
        self.bytes += slot.bytes;
    }
}

/// A viewing's messages to any number of pages, and their head's orientation.
#[derive(Clone, Debug)]
pub struct Feed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    messages: broadcast::Sender<Bytes>,
    /// What a page that comes later needs first. Locked while a message is sent, so that such a page misses none.
    present: Mutex<Present>,
    head: watch::Sender<Option<Orientation>>,
    /// The pages' browsers cannot decode the tiles.
    low: AtomicBool,
    /// Changes whenever a page comes, or is loaded: when the last one was, until it comes.
    pages: watch::Sender<Option<Clock>>,
}

#[derive(Debug, Default)]
struct Present {
    state: Value,
    video: Value,
    slot: Value,
    /// When `slot` was said.
    slot_at: Option<Clock>,
    /// Messages of the tiles in time of the slot that is shown and of those after it, with their slots.
    tiles: VecDeque<(u32, Bytes)>,
    so_far: SoFar,
    quality: Value,
    radios: Value,
    inits: BTreeMap<(u16, u8), Bytes>,
}

/// The messages to one page.
#[derive(Debug)]
pub struct Subscription {
    feed: Feed,
    messages: broadcast::Receiver<Bytes>,
    first: Vec<Bytes>,
}

impl Default for Feed {
    fn default() -> Self {
        let feed = Self(Arc::new(Inner {
            messages: broadcast::Sender::new(WAITING),
            present: Mutex::default(),
            head: watch::Sender::new(None),
            low: AtomicBool::new(false),
            pages: watch::Sender::new(None),
        }));
        feed.say(&News::State { state: "waiting", cause: None });
        feed
    }
}

impl Feed {
    /// All messages from now on, after those that a page needs first.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        let present = self.present();
        let messages = self.0.messages.subscribe();
        let first = present.greeting(true);
        drop(present);
        self.0.pages.send_replace(None);
        Subscription { feed: self.clone(), messages, first }
    }

    /// A page is being loaded and will soon subscribe. What it shows first can be fetched meanwhile.
    pub fn expect(&self) {
        self.0.pages.send_replace(Some(Clock::now()));
    }

    /// A page's viewer looks there. Of several pages, the one that moved last counts.
    pub fn look(&self, orientation: Orientation) {
        self.0.head.send_replace(Some(orientation));
    }

    /// A page cannot decode the tiles. Returns whether there is a low-resolution stream, which all pages then get.
    #[must_use]
    pub fn fall_back(&self) -> bool {
        let has_low = self.present().video["has_low"] == true;
        if has_low {
            self.low_resolution(true);
        }
        has_low
    }

    /// Whether viewings from now on are of the low-resolution stream.
    pub(super) fn low_resolution(&self, low: bool) {
        self.0.low.store(low, Ordering::Relaxed);
    }

    /// See [`Self::low_resolution`].
    pub(super) fn is_low_resolution(&self) -> bool {
        self.0.low.load(Ordering::Relaxed)
    }

    /// The viewing as `docs/guide/status.md` describes it.
    #[must_use]
    pub fn status(&self) -> Value {
        let present = self.present();
        let mut status = serde_json::json!({
            "state": present.state["state"], "cause": present.state["cause"], "pages": self.pages(),
            "video": present.video, "shown": present.slot, "so_far": present.so_far, "quality": present.quality,
            "look": self.looking(),
            "low_resolution": present.video["low"] == true,
        });
        if let Some(radios) = present.radios.get("radios") {
            status["radios"] = radios.clone();
        }
        status
    }

    /// Where the viewer looks, degrees; null before a page has said it.
    fn looking(&self) -> Value {
        // Hundredths, as pages say it.
        let degrees = |angle: f64| (angle.to_degrees() * 100.0).round() / 100.0;
        self.0.head.borrow().map_or(Value::Null, |Orientation { yaw, pitch, roll }| {
            serde_json::json!({ "yaw": degrees(yaw), "pitch": degrees(pitch), "roll": degrees(roll) })
        })
    }

    /// Number of pages.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.0.messages.receiver_count()
    }

    /// Waits until there is a page, or one was loaded at most so long ago.
    pub(super) async fn watched(&self, within: Duration) {
        let mut pages = self.0.pages.subscribe();
        let loaded = |at: &Option<Clock>| at.is_some_and(|at| at.elapsed() < within);
        while self.pages() == 0 && !loaded(&pages.borrow_and_update()) {
            // The sender is in `self`, so it is not gone.
            let _ = pages.changed().await;
        }
    }

    /// The head's orientation from now on.
    pub(super) fn head(&self) -> watch::Receiver<Option<Orientation>> {
        self.0.head.subscribe()
    }

    /// Tells all pages.
    pub(super) fn say(&self, news: &News<'_>) {
        let value = serde_json::to_value(news).expect("news have text as keys");
        let message = message(&value);
        let mut present = self.present();
        match news {
            News::State { state, .. } => {
                present.state = value;
                if *state != "playing" {
                    present.tiles.clear();
                }
            }
            News::Video(_) => {
                let state = std::mem::take(&mut present.state);
                *present = Present { state, video: value, ..Present::default() };
            }
            News::Slot(slot) => {
                present.so_far.add(slot);
                (present.slot, present.slot_at) = (value, Some(Clock::now()));
                let shown = slot.slot;
                present.tiles.retain(|(slot, _)| *slot >= shown);
            }
            News::Radios { .. } => present.radios = value,
            News::Quality(_) => present.quality = value,
            News::Skipped { .. } => {}
        }
        // Without a page nobody receives it.
        let _ = self.0.messages.send(message);
    }

    /// Passes a tile on, always with its initialisation segment, which comes from the server only once.
    pub(super) fn tile(&self, tile: &TileArrived) {
        let mut present = self.present();
        let key = (tile.tile, tile.quality);
        if let Some(init) = &tile.init {
            present.inits.insert(key, init.clone());
        }
        let init = present.inits.get(&key).cloned().unwrap_or_default();
        let mut message = begin(TILE, 12 + init.len() + tile.segment.len());
        message.put_u32(tile.slot);
        message.put_u16(tile.tile);
        message.put_u8(tile.quality);
        message.put_u8(tile.in_time.into());
        message.put_u32(init.len() as u32);
        message.put_slice(&init);
        message.put_slice(&tile.segment);
        let message = message.freeze();
        if tile.in_time {
            present.tiles.push_back((tile.slot, message.clone()));
        }
        let _ = self.0.messages.send(message);
    }

    fn present(&self) -> MutexGuard<'_, Present> {
        self.0.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Present {
    /// What a page needs first, to be taken from the end: with tiles, or only what is known of them.
    fn greeting(&self, with_tiles: bool) -> Vec<Bytes> {
        let mut slot = self.slot.clone();
        if let (Some(position_s), Some(at)) = (slot["position_s"].as_f64(), self.slot_at) {
            // It is for the moment at which it is said.
            slot["position_s"] = (position_s + at.elapsed().as_secs_f64()).into();
        }
        let news = |values: [&Value; 2]| {
            values.into_iter().filter(|value| !value.is_null()).map(message).collect::<Vec<_>>()
        };
        let mut greeting = news([&self.radios, &slot]);
        if with_tiles {
            greeting.extend(self.tiles.iter().rev().map(|(_, tile)| tile.clone()));
        }
        greeting.extend(news([&self.video, &self.state]));
        greeting
    }
}

impl Subscription {
    /// The next messages.
    ///
    /// Cancellation: dropping the future loses no message.
    pub async fn next(&mut self) -> Bytes {
        if let Some(message) = self.first.pop() {
            return message;
        }
        loop {
            match self.messages.recv().await {
                Ok(message) => return message,
                Err(RecvError::Lagged(messages)) => {
                    // What it missed may have been the beginning of a viewing.
                    self.first = self.feed.present().greeting(false);
                    let skipped = serde_json::to_value(News::Skipped { messages });
                    return message(&skipped.expect("news have text as keys"));
                }
                // The sender is in `self.feed`.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// The head of a message with `length` bytes of content.
fn begin(kind: u8, length: usize) -> BytesMut {
    let mut message = BytesMut::with_capacity(5 + length);
    message.put_u32(1 + length as u32);
    message.put_u8(kind);
    message
}

fn message(news: &Value) -> Bytes {
    let text = news.to_string();
    let mut message = begin(NEWS, text.len());
    message.put_slice(text.as_bytes());
    message.freeze()
}

#[cfg(test)]
mod tests;
