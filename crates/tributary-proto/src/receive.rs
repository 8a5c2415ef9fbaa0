//! The receiving half: which segments have arrived, and the streams put together from them.
//!
//! Memory is bounded by the credit given out. Payload is kept as slices of the driver's blocks;
//! a slice much smaller than its block is copied so that it cannot pin the rest.

mod ranges;
mod stream;

pub(crate) use ranges::Arrivals;
pub(crate) use stream::{Pieces, RecvStream};

#[cfg(test)]
mod tests;
