//! Time, rates, sizes, identifiers, seeded randomness and the text of files, shared by every Tributary crate.
//!
//! Nothing here reads a clock or the operating system's entropy. Drivers read both and pass the values in.

pub mod file_text;
mod id;
mod rng;
mod text;
mod time;
mod units;

pub use id::{DataSeq, PathId, StreamId, SubflowId};
pub use rng::Rng;
pub use text::printable;
pub use time::Instant;
pub use units::{Bitrate, DataSize};
