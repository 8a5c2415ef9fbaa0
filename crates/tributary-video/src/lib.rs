//! Tiled 360° video without input or output: the sphere and its projections, what a viewer sees and will see,
//! which tiles to send in which quality and order, the viewport picture, and its quality.
//!
//! The crate opens no file, reads no clock, starts no thread and uses no randomness. Readers, times and
//! pictures are arguments, and equal arguments give equal results on every machine (transcendental functions
//! come from `libm`). Encoding, transport and playing belong to higher layers.
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
