//! A video player as sans-IO state machines: arrivals with their times go in; requests, plans and deadlines come out.
//!
//! [`PlayBuffer`] is the playhead and the media buffered ahead of it; [`CapacityMeter`] and [`TransferRates`]
//! estimate the paths' capacity from arrivals. Neither depends on tiles or DASH. [`tiled`] is the player and the
//! pusher of live tiled video; [`abr`] chooses the quality of DASH segments; [`progressive`] plays one file while it
//! is downloaded. Nothing here opens a socket, reads a clock or decodes a picture: `tributary-stream` drives it on
//! sockets and `tributary-sim` in virtual time.

pub mod abr;
pub mod buffer;
pub mod capacity;
pub mod dash;
pub mod engine;
pub mod progressive;
pub mod tiled;

pub use buffer::{PlayBuffer, PlayState, Stall, Underflow};
pub use capacity::{CapacityMeter, TransferRates};
