//! Sweeps: statistics of the runs of a file's matrices, without verdicts.
//!
//! Shards may run on different machines; their directories are merged by the command that needs all runs. The runs
//! themselves: [`crate::reproduce::measure`]; where they are kept: [`crate::store`].

pub mod cost;
pub mod frame;
pub mod groups;
pub mod shootout;
pub mod tables;

pub use frame::Frame;
pub use groups::Group;
