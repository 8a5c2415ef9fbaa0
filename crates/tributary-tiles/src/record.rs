//! The record of an ingest: source, settings, tiling overhead.
//!
//! Contains no path of the machine, so that a directory can be moved or served.

use serde::{Deserialize, Serialize};

use crate::rate::FrameRate;

/// The first field of every record.
pub const FORMAT: &str = "tributary-tiles-1";

/// `ingest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`FORMAT`].
    pub format: String,
    /// The video it was made from.
    pub source: SourceInfo,
    /// Pictures a second, constant.
    pub frame_rate: FrameRate,
    /// Pictures in every GoP.
    pub pictures_per_gop: usize,
    /// The encoder: program, preset, options.
    pub encoder: String,
    /// The sound, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<SoundInfo>,
    /// The cost of tiling, one entry per QP.
    pub overhead: Vec<Overhead>,
    /// Notes about changes to the source: resampled, scaled, cut.
    pub notes: Vec<String>,
    /// SHA-256 of `SHA256SUMS`, which contains those of all other files.
    pub sums_sha256: String,
}

/// The sound of a tiled video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoundInfo {
    /// The codec's name in an MPD: `opus`.
    pub codec: String,
    /// Ticks per second of its segments, and samples per second when it is decoded.
    pub rate_hz: u32,
    /// Channels, 1 or 2.
    pub channels: u8,
    /// Mean bitrate that the encoder was given, kbit/s.
    pub kbps: u32,
}

/// The source video of a tiled video.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceInfo {
    /// The file's name, without directories.
    pub name: String,
    /// Its size, bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// Its pictures' width, pixels.
    pub width: usize,
    /// Their height, pixels.
    pub height: usize,
}

/// GoPs that are also encoded untiled, for comparison: every tenth, the first included.
pub fn compared(gops: usize) -> impl Iterator<Item = usize> {
    (0..gops).step_by(10)
}

/// The same pictures at the same QP, tiled and untiled, over the [`compared`] GoPs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// The quantisation parameter.
    pub qp: u8,
    /// Bytes of all tiles' media segments.
    pub tiled_bytes: u64,
    /// Bytes of the media segments of the untiled video.
    pub untiled_bytes: u64,
    /// Mean squared error of luma, tiled.
    pub tiled_mse: f64,
    /// Mean squared error of luma, untiled.
    pub untiled_mse: f64,
}

impl Overhead {
    /// How many more bytes the tiles need, as a share of the untiled video's.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.tiled_bytes as f64 / self.untiled_bytes.max(1) as f64 - 1.0
    }
}
