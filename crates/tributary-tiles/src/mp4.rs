//! Fragmented MP4 of one H.264 track: initialisation segments and media segments of one GoP.
//!
//! Written here and not by a multiplexer of ffmpeg's: each segment then is one `moof` and one `mdat`
//! without index, user data or parameters, so that a tile of a few hundred bytes is not mostly
//! container. Reading knows just what turns such segments back into a byte stream, and survives anything.
//! Sources: ISO/IEC 14496-12 §8 (boxes), ISO/IEC 14496-15 §5 (AVC in them).

mod boxes;
mod read;
mod write;

pub use read::{Mp4Error, picture_size, to_annex_b};
pub use write::{InitError, Parameters, Timing, init_segment, media_segment};

#[cfg(test)]
mod tests;
