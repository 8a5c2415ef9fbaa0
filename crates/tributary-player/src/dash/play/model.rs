//! Input and output of a player: settings, the title, requests and events.

use core::time::Duration;

use serde::Serialize;
use thiserror::Error;

use crate::abr::Ladder;

/// Which bytes of a running download count when the rule judges whether to abandon it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// All that have arrived. A transport that fills a window from both ends has delivered more than can be read.
    #[default]
    Received,
    /// Those that can be read: all that dash.js knows of.
    InOrder,
}

/// Settings of a playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Maximum media in the play buffer; at least two segments.
    pub capacity: Duration,
    /// Media buffered before the first picture.
    pub start_with: Duration,
    /// Media buffered before playback continues after a stall.
    pub resume_with: Duration,
    /// A download fails when no byte arrives for this long.
    pub silence: Duration,
    /// Number of consecutive failures of one segment after which playback is given up.
    pub tries: u32,
    /// Pause after a failure; doubled after each further failure.
    pub rest: Duration,
    /// Which bytes of a running download the rule is told.
    pub counting: Counting,
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
            counting: Counting::default(),
        }
    }
}

/// The title.
#[derive(Clone, Debug)]
pub struct Title {
    /// The qualities of the first segment, and of all up to the first of `later`.
    pub ladder: Ladder,
    /// Other ladders, each from this segment on, ascending: an inserted period may have other qualities.
    pub later: Vec<(usize, Ladder)>,
    /// The duration of each media segment.
    pub segments: Vec<Duration>,
}

impl Title {
    /// The qualities of a segment.
    #[must_use]
    pub fn ladder_at(&self, segment: usize) -> &Ladder {
        let begun = self.later.partition_point(|(from, _)| *from <= segment);
        begun.checked_sub(1).map_or(&self.ladder, |at| &self.later[at].1)
    }
}

/// A request for a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Identifies the download in later calls.
    pub id: u64,
    /// Media segment, from zero.
    pub segment: usize,
    /// Index into the ladder.
    pub quality: usize,
    /// Bytes of this segment and quality that the driver already has; the request is for the rest.
    pub from: u64,
}

/// Instruction to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start a download.
    Request(Request),
    /// Abort a download; ignore its remaining bytes.
    Abort(u64),
}

/// An event for the log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The first picture is shown.
    Started,
    /// The buffer ran dry.
    Stalled,
    /// Playback continues.
    Resumed,
    /// The last picture has been shown.
    Ended,
    /// A segment is requested in another quality than the one before it.
    Switched {
        /// Segment.
        segment: usize,
        /// Quality before.
        from: usize,
        /// New quality.
        to: usize,
    },
    /// From this segment on, the title has other qualities.
    NewLadder {
        /// Segment.
        segment: usize,
        /// Number of its qualities.
        qualities: usize,
    },
    /// The server does not have a segment that the manifest only counts because a duration in it is rounded up. Playback
    /// goes on without it.
    Missing {
        /// Segment.
        segment: usize,
        /// Its duration in seconds.
        duration_s: f64,
        /// The server's answer.
        why: String,
    },
    /// A download was abandoned for a lower quality.
    Abandoned {
        /// Segment.
        segment: usize,
        /// Quality of the abandoned download.
        from: usize,
        /// Quality requested instead.
        to: usize,
        /// Bytes that arrived and are discarded.
        wasted: u64,
    },
    /// A download failed and is repeated.
    Failed {
        /// Segment.
        segment: usize,
        /// Number of consecutive failures.
        times: u32,
        /// The reason.
        why: String,
    },
    /// The transport was replaced; the download continues after the bytes that arrived.
    Moved {
        /// Segment in flight.
        segment: usize,
        /// Bytes that arrived.
        from: u64,
    },
}

/// Playback was given up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("segment {segment} could not be downloaded after {times} tries: {why}")]
pub struct GivenUp {
    /// Segment.
    pub segment: usize,
    /// Number of tries.
    pub times: u32,
    /// The reason of the last failure.
    pub why: String,
}
