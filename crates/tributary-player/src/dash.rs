//! MPEG-DASH without I/O: the manifest ([`mpd`]), segment indexes ([`sidx`]) and Common Media Client Data
//! ([`cmcd`]). Source: ISO/IEC 23009-1:2022, ISO/IEC 14496-12 and CTA-5004.
//!
//! The input comes from a server, so limits bound the memory that a file can use, and no input causes a panic.

pub mod cmcd;
pub mod mpd;
pub mod play;
pub mod sidx;

/// Bitrates of a ladder in kbit/s: twenty steps from 45 kbit/s to 3.8 Mbit/s, spaced as those of the dataset of Lederer,
/// Müller and Timmerer, "Dynamic Adaptive Streaming over HTTP Dataset" (MMSys 2012).
pub const LADDER: [u32; 20] = [
    45, 88, 128, 177, 217, 255, 323, 369, 504, 577, 779, 1010, 1200, 1470, 1700, 2090, 2410, 2940, 3340, 3800,
];
