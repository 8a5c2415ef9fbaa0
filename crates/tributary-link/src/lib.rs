//! One-way link model: rate, delay, loss, queue and faults, and the scenario files that describe them.
//!
//! Sans-IO: a [`Link`] never sleeps, asks the time or opens a socket. The emulator drives it in wall
//! time, a simulator in virtual time, and both obtain it from the same [`Scenario`]. Only
//! [`Scenario::load`] touches the file system.
//!
//! The model and its limits are described in `docs/models/link.md`.

mod delay;
mod link;
mod loss;
mod packet;
mod queue;
mod rate;
mod scenario;
mod stats;
mod trace;

pub use delay::DelaySpec;
pub use link::{CHUNK_SPAN, Link, LinkConfig};
pub use loss::LossSpec;
pub use packet::{Chunk, Packet};
pub use queue::QueueSpec;
pub use rate::{MAX_RATE, RateProcess, RateSpec, Span};
pub use scenario::{Direction, LinkSpec, MAX_PATHS, Moment, PathSpec, Scenario, ScenarioError};
pub use stats::{Count, LinkStats};
pub use trace::{Trace, TraceError};
