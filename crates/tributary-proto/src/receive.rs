//! The receiving half: reassembly of the streams.
//!
//! Memory is bounded by the credit given to the peer. Payload is kept as slices of a limited number of the driver's
//! receive blocks; small pieces, and pieces that would pin more blocks, are copied.

mod datagrams;
mod pins;
mod stream;

pub(crate) use datagrams::Segment;
#[cfg(test)]
pub(crate) use pins::MOST_BLOCKS;
pub(crate) use pins::Pins;
pub use pins::blocks_for;
pub(crate) use stream::RecvStream;

#[cfg(test)]
mod tests;
