//! Workloads of experiments and their records: bulk, objects and live video of `tributary-stream`.

use core::time::Duration;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tributary_stream::{
    Arrivals, BulkRecord, End, Ladder, LadderError, LadderSettings, LiveRecord, ObjectRecord, Source,
};
use tributary_types::Bitrate;

/// A workload that the client requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Bytes are sent as fast as possible.
    Bulk {
        /// For how long, in seconds.
        seconds: f64,
    },
    /// One object after the other.
    Object {
        /// Bytes of each.
        size: u64,
        /// How many.
        count: u32,
        /// Pause between two, in milliseconds.
        pause_ms: u64,
        /// Time limit of the run, in seconds.
        limit: f64,
    },
    /// Live video with a simple rate choice.
    Live {
        /// GoPs of one second.
        gops: u32,
        /// Distance to the live edge in milliseconds.
        start_up_ms: u64,
    },
}

impl Workload {
    /// Name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bulk { .. } => "bulk",
            Self::Object { .. } => "object",
            Self::Live { .. } => "live",
        }
    }

    /// Time limit, from the request on.
    #[must_use]
    pub fn duration(&self) -> Duration {
        match self {
            Self::Bulk { seconds } => Duration::from_secs_f64(seconds.clamp(0.0, 1e6)),
            Self::Object { limit, .. } => Duration::from_secs_f64(limit.clamp(0.0, 1e6)),
            Self::Live { gops, start_up_ms } => {
                Duration::from_secs(u64::from(*gops)) + Duration::from_millis(*start_up_ms)
            }
        }
    }
}

/// What the client measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// Record of [`Workload::Bulk`].
    Bulk(BulkRecord),
    /// Record of [`Workload::Object`].
    Object(ObjectRecord),
    /// Record of [`Workload::Live`].
    Live(LiveRecord),
}

impl Record {
    /// Arrivals over time; objects have no such record.
    #[must_use]
    pub fn arrivals(&self) -> Option<&Arrivals> {
        match self {
            Self::Bulk(record) => Some(&record.arrivals),
            Self::Live(record) => Some(&record.arrivals),
            Self::Object(_) => None,
        }
    }

    /// Bytes that arrived.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bulk(record) => record.bytes,
            Self::Live(record) => record.arrivals.total(),
            Self::Object(record) => record.size * record.completion_ms.len() as u64,
        }
    }

    /// How it ended.
    #[must_use]
    pub fn end(&self) -> &End {
        match self {
            Self::Bulk(record) => &record.end,
            Self::Object(record) => &record.end,
            Self::Live(record) => &record.end,
        }
    }
}

/// Source of a server's video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Video {
    /// Bitrates in bit/s, ascending.
    pub rates: Vec<u64>,
    /// Content of the GoPs.
    pub content: Content,
}

/// Content of a video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Bytes of the right number, without pictures. Needs no ffmpeg.
    Synthetic,
    /// Pictures, encoded once and kept.
    Encoded {
        /// The file; `None` is the rendered scene.
        file: Option<PathBuf>,
        /// Seconds of distinct content.
        seconds: u32,
        /// Width of the pictures.
        width: Option<u32>,
        /// Whether a picture that is not equirectangular is accepted.
        any_aspect: bool,
        /// Directory for encoded ladders.
        cache: PathBuf,
    },
}

impl Video {
    /// The ladder of the FBDT experiments, in Mbit/s: from below WiFi alone to all that both radios carry.
    pub const LADDER: [u64; 8] = [10, 20, 32, 45, 64, 85, 110, 140];

    /// The default ladder without pictures.
    #[must_use]
    pub fn synthetic() -> Self {
        Self { rates: Self::LADDER.map(|mbps| mbps * 1_000_000).to_vec(), content: Content::Synthetic }
    }

    /// Encodes the video or takes it from the cache; calls `progress` with 0 to 1. Blocks.
    ///
    /// # Errors
    /// When the file is not a video or ffmpeg is missing.
    pub fn build(&self, progress: &mut dyn FnMut(f64)) -> Result<Ladder, LadderError> {
        let rates: Vec<Bitrate> = self.rates.iter().map(|rate| Bitrate::from_bps(*rate)).collect();
        match &self.content {
            Content::Synthetic => Ok(Ladder::synthetic(&rates, 4, Duration::from_secs(1))),
            Content::Encoded { file, seconds, width, any_aspect, cache } => {
                let source = file.clone().map_or(Source::Scene, Source::File);
                let settings = LadderSettings {
                    rates,
                    seconds: *seconds,
                    width: *width,
                    any_aspect: *any_aspect,
                    cache: cache.clone(),
                };
                Ladder::build(&source, &settings, progress)
            }
        }
    }
}
