//! Sweeps: a plan's grid of simulated runs on all cores. Results are stored as runs finish, so an interrupted sweep
//! can be resumed.
//!
//! Each cell is one single-threaded run. Its key is computed from everything that decides the result. Finished cells
//! are lines of an append-only file, so that an interruption loses only the runs in progress. Shards of a plan may
//! run on different machines; put their files into one directory to combine them.

mod error;
pub mod execute;
pub mod frame;
pub mod groups;
pub mod key;
mod place;
pub mod plan;
pub mod row;
pub mod shootout;
pub mod store;
pub mod tables;

pub use error::PlanError;
pub use execute::{Report, execute};
pub use frame::Frame;
pub use groups::{Group, METRICS, Metric};
pub use plan::{Plan, Planned, Seeds};
pub use row::Row;
pub use store::{Finished, Shard, Store, StoreError};
