//! Tiled 360° video without any input or output of its own: the sphere and its projections, what a
//! viewer sees and will see, which tile to send at which quality and in which order, the viewport
//! picture, and how far it is from the original.
//!
//! It opens no file, reads no clock, starts no thread and asks for no randomness: readers, times and
//! rows come in as arguments, and equal arguments give equal results on every machine (transcendental
//! functions are `libm`'s). Encoding, transport and playing belong to higher layers.
//!
//! Sources: the FBDT and OWS paper §4 and §6.3 (tile ordering and rate selection); OMAF,
//! ISO/IEC 23090-2 §5 (sphere and projections).

#![forbid(unsafe_code)]

pub mod allocation;
pub mod head;
pub mod metrics;
pub mod picture;
pub mod prediction;
pub mod projection;
pub mod rd;
pub mod render;
pub mod sphere;
pub mod tiles;
pub mod viewport;
