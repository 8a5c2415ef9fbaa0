//! The receiving half: which segments have arrived, and the streams put together from them.
//!
//! Memory is bounded by the credit given out. Payload is kept as slices of the driver's blocks, of a
//! bounded number of them; crumbs, and what would pin more blocks, are copied.

mod pins;
mod ranges;
mod stream;

#[cfg(test)]
pub(crate) use pins::MOST_BLOCKS;
pub(crate) use pins::Pins;
pub(crate) use ranges::Arrivals;
pub(crate) use stream::RecvStream;

#[cfg(test)]
mod tests;
