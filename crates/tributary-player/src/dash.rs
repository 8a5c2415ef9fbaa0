//! MPEG-DASH without I/O: the manifest ([`mpd`]), segment indexes ([`sidx`]) and Common Media Client Data
//! ([`cmcd`]). Source: ISO/IEC 23009-1:2022, ISO/IEC 14496-12 and CTA-5004.
//!
//! The input comes from a server, so limits bound the memory that a file can use, and no input causes a panic.

pub mod cmcd;
pub mod mpd;
pub mod play;
pub mod sidx;
