//! Fragmented MP4 of one track, H.264 or Opus: initialisation segments and media segments of one GoP.
//!
//! Written here instead of by ffmpeg's multiplexer, so that each segment is one `moof` and one `mdat` without
//! index, user data or parameters; otherwise a tile of a few hundred bytes would be mostly container. Reading
//! supports only what is needed to turn such segments back into a byte stream, and accepts any input without
//! panic.
//! Sources: ISO/IEC 14496-12 §8 (boxes), ISO/IEC 14496-15 §5 (AVC in them), "Encapsulation of Opus in ISO Base Media File
//! Format" 0.8.1 (Opus in them).

mod boxes;
mod read;
pub(crate) mod sound;
mod write;

pub use read::{Mp4Error, picture_size, to_annex_b};
pub use write::{InitError, Parameters, Timing, init_segment, media_segment};

#[cfg(test)]
mod tests;
