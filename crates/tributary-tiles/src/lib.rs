//! Tiled 360° video on disk: any equirectangular file becomes independently coded tiles × qualities ×
//! one-second GoPs with a table of their real sizes and errors, and is read back tile by tile.
//!
//! [`TiledVideo`] reads and checks a directory, [`decode`] makes pictures of what arrived of it, and
//! [`program`] runs ffmpeg. Nothing here sends anything or chooses what to send. The layout is described
//! in `docs/models/tiled-video.md`; sources: ISO/IEC 14496-12 and -15 (files), ISO/IEC 23009-1 (MPD and
//! its annex H, spatial relationships), the OWS paper §4 (tiles, QPs, GoPs).

#![forbid(unsafe_code)]

pub mod decode;
pub mod encode;
pub mod gop;
pub mod ingest;
pub mod layout;
pub mod mp4;
pub mod patch;
pub mod program;
mod rate;
pub mod record;
mod video;

pub use decode::{DecodeError, Pictures, TileData};
pub use rate::{FrameRate, FrameRateError};
pub use record::{Overhead, Record, SourceInfo};
pub use video::{TiledError, TiledVideo};
