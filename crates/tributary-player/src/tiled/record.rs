//! The record of one viewing: planned and arrived tiles, slot by slot.

use serde::{Deserialize, Serialize};

/// How a viewing or a measurement ended. A transport that fails is a result, not an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// As planned.
    #[default]
    Complete,
    /// Time ran out before everything had arrived.
    TimedOut,
    /// The stream broke; data that arrived earlier counts.
    Failed(String),
}

/// A tile that arrived completely.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Arrived {
    /// The tile.
    pub tile: u16,
    /// Index of the quality, 0 the finest.
    pub quality: u8,
    /// Arrival time of its last byte, milliseconds from the request for the start.
    pub complete_ms: f64,
    /// Whether it arrived in time.
    pub in_time: bool,
    /// Bytes of the initialisation segment in front of it.
    pub init_bytes: u32,
    /// Bytes of the media segment.
    pub bytes: u32,
}

/// The sound of a slot that was requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SoundRecord {
    /// Bytes of its segment.
    pub bytes: u32,
    /// Arrival time of its last byte, milliseconds from the request for the start; `None` if it did not arrive.
    pub complete_ms: Option<f64>,
    /// Whether it arrived before the slot began.
    pub in_time: bool,
}

/// One slot of the playing time. Times are milliseconds from the request for the start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// Number of the slot, from 0.
    pub slot: u32,
    /// The GoP of the video.
    pub gop: u32,
    /// Requested tiles that were not withdrawn, first to last: tile and quality.
    pub planned: Vec<(u16, u8)>,
    /// Bytes of these tiles.
    pub planned_bytes: u64,
    /// Tiles that the allocator left out, to be concealed.
    pub left_out: u32,
    /// Number of plans.
    pub plans: u32,
    /// Time of the first plan.
    pub planned_ms: f64,
    /// Deadline of the tiles: the slot's first picture.
    pub deadline_ms: f64,
    /// Mean of the capacity samples used, in bytes until the last time at which a tile may begin.
    pub capacity_mean: f64,
    /// The smallest of them.
    pub capacity_least: f64,
    /// Number of samples; 0 if the assumed rate was used.
    pub capacity_samples: u32,
    /// Guard interval: how long before the deadline the last tile had to begin, milliseconds.
    pub guard_ms: f64,
    /// The allocator's expected `E[D]` in the viewport.
    pub expected_mse: f64,
    /// Whether the menu of another GoP was used.
    pub old_menu: bool,
    /// Tiles that arrived, including late ones.
    pub arrived: Vec<Arrived>,
    /// The sound, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<SoundRecord>,
}

impl SlotRecord {
    /// The finest quality in which a tile arrived in time.
    #[must_use]
    pub fn in_time(&self, tile: u16) -> Option<u8> {
        let of = self.arrived.iter().filter(|arrival| arrival.tile == tile && arrival.in_time);
        of.map(|arrival| arrival.quality).min()
    }

    /// Whether a tile was requested.
    #[must_use]
    pub fn asked(&self, tile: u16) -> bool {
        self.planned.iter().any(|(planned, _)| *planned == tile)
    }

    /// Bytes of media that arrived in time.
    #[must_use]
    pub fn bytes_in_time(&self) -> u64 {
        self.arrived.iter().filter(|arrival| arrival.in_time).map(|arrival| u64::from(arrival.bytes)).sum()
    }
}

/// One viewing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TiledRecord {
    /// GoP duration, milliseconds.
    pub gop_ms: f64,
    /// Time from the request for the start to the video's description and the first menu: one round trip.
    pub rtt_ms: f64,
    /// Time from the request for the start to the first picture; `None` when there was no start.
    pub start_up_ms: Option<f64>,
    /// All planned slots of the playback.
    pub slots: Vec<SlotRecord>,
    /// All bytes received, including message heads.
    pub bytes: u64,
    /// Bytes received in each tenth of a second from the start.
    pub bytes_per_tenth: Vec<u64>,
    /// How it ended.
    pub end: End,
    /// Counters on which both ends agree; `None` when the server sent none.
    #[serde(default)]
    pub account: Option<Account>,
}

/// Counters of a viewing's tiles, exchanged by both ends at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Requested and not withdrawn in time; counted by the server.
    pub asked: u64,
    /// Requested tiles that were complete before their slot began; counted by the player.
    pub in_time: u64,
    /// Requested tiles that were complete later; counted by the player.
    pub late: u64,
}

impl Account {
    /// Dropped at their deadlines, or never complete.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.asked.saturating_sub(self.in_time.saturating_add(self.late))
    }
}
