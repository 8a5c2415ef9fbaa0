//! Input and output of a player: settings, the title, requests and events.

use core::time::Duration;

use serde::Serialize;
use thiserror::Error;

use crate::abr::Ladder;

/// How a title is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Media the play buffer holds; at least two segments are held.
    pub capacity: Duration,
    /// Media buffered before the first picture.
    pub start_with: Duration,
    /// Media buffered before playback goes on after a stall.
    pub resume_with: Duration,
    /// A download on which no byte arrives for this long has failed.
    pub silence: Duration,
    /// Failures of one segment in a row after which playback is given up.
    pub tries: u32,
    /// Pause after a failure; doubled after each further one.
    pub rest: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            capacity: Duration::from_secs(30),
            start_with: Duration::from_secs(4),
            resume_with: Duration::from_secs(4),
            silence: Duration::from_secs(10),
            tries: 6,
            rest: Duration::from_millis(250),
        }
    }
}

/// What is played.
#[derive(Clone, Debug)]
pub struct Title {
    /// The qualities.
    pub ladder: Ladder,
    /// The duration of each media segment.
    pub segments: Vec<Duration>,
}

/// A download to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names the download in the calls about it.
    pub id: u64,
    /// Media segment, from zero.
    pub segment: usize,
    /// Index into the ladder.
    pub quality: usize,
    /// Bytes of this segment in this quality that the driver has: the request is for the rest.
    pub from: u64,
}

/// Instruction to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begin a download.
    Request(Request),
    /// Abort one; ignore what still arrives of it.
    Abort(u64),
}

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The first picture is shown.
    Started,
    /// The buffer ran dry.
    Stalled,
    /// Playback goes on.
    Resumed,
    /// The last picture has been shown.
    Ended,
    /// A segment is requested in another quality than the one before.
    Switched {
        /// Segment.
        segment: usize,
        /// Quality before.
        from: usize,
        /// Quality from here on.
        to: usize,
    },
    /// A download was given up for a lower quality.
    Abandoned {
        /// Segment.
        segment: usize,
        /// Quality given up.
        from: usize,
        /// Quality requested instead.
        to: usize,
        /// Bytes that had arrived and are discarded.
        wasted: u64,
    },
    /// A download failed and is tried again.
    Failed {
        /// Segment.
        segment: usize,
        /// How often in a row.
        times: u32,
        /// Why.
        why: String,
    },
    /// The transport was replaced; the download continues after these bytes.
    Moved {
        /// Segment on its way.
        segment: usize,
        /// Bytes it had.
        from: u64,
    },
}

/// Playback was given up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("segment {segment} could not be downloaded after {times} tries: {why}")]
pub struct GivenUp {
    /// Segment.
    pub segment: usize,
    /// How often it was tried.
    pub times: u32,
    /// The last reason.
    pub why: String,
}
