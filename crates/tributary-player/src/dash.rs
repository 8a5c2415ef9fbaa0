//! MPEG-DASH without input and output: the manifest ([`mpd`]), segment indexes ([`sidx`]) and what a client tells
//! the server ([`cmcd`]). Source: ISO/IEC 23009-1:2022, ISO/IEC 14496-12 and CTA-5004.
//!
//! What is parsed comes from a server: limits bound what a file can make a client hold, and nothing panics.

pub mod cmcd;
pub mod mpd;
pub mod play;
pub mod sidx;
