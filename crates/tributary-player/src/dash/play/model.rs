//! What a player is told and what it asks for: settings, the title, requests and events. Not what it does with them.

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
    /// Rest after a failure; twice as long after the next one.
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

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begin a download.
    Request(Request),
    /// End one; nothing that still arrives of it counts.
    Abort(u64),
}

/// Something a log should say.
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
        /// Bytes that had arrived, of no use.
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
    /// The transport was replaced; the download goes on behind these bytes.
    Moved {
        /// Segment on its way.
        segment: usize,
        /// Bytes it had.
        from: u64,
    },
}

/// Playback was given up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("segment {segment} could not be had after {times} tries: {why}")]
pub struct GivenUp {
    /// Segment.
    pub segment: usize,
    /// How often it was tried.
    pub times: u32,
    /// The last reason.
    pub why: String,
}
