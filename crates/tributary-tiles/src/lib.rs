//! Tiled 360° video on disk: turns any equirectangular file into independently coded tiles × qualities ×
//! one-second GoPs with a table of their measured sizes and errors, and its sound into pieces of the same GoPs, and reads
//! it back piece by piece.
//!
//! [`TiledVideo`] reads and checks a directory, [`decode`] decodes tiles that arrived, [`source`] reads how the pictures
//! of any video file are stored, and [`program`] runs ffmpeg. Sending and choosing tiles is not part of this crate. The layout is described in
//! `docs/models/tiled-video.md`; sources: ISO/IEC 14496-12 and -15 (files), ISO/IEC 23009-1 (MPD and its
//! annex H, spatial relationships), the OWS paper §4 (tiles, QPs, GoPs).

#![forbid(unsafe_code)]

pub mod decode;
pub mod encode;
pub mod gop;
pub mod ingest;
pub mod layout;
pub mod live;
pub mod mp4;
mod ogg;
pub mod patch;
pub mod program;
mod rate;
pub mod record;
pub mod source;
mod video;

pub use decode::{DecodeError, Pictures, TileData};
pub use rate::{FrameRate, FrameRateError};
pub use record::{Overhead, Record, SoundInfo, SourceInfo};
pub use video::{TiledError, TiledVideo};
