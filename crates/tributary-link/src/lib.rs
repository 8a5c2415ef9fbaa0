//! One-way link model: rate, delay, loss, queue and faults, and the scenario files that describe them.
//!
//! Sans-IO: a [`Link`] never sleeps, asks the time or opens a socket. The emulator drives it in wall
//! time, a simulator in virtual time, and both obtain it from the same [`Scenario`]. Only
//! [`Scenario::load`] touches the file system.
//!
//! The model and its limits are described in `docs/models/link.md`.

mod background;
mod codel;
mod cotag;
mod delay;
mod link;
mod loss;
mod packet;
mod queue;
mod rate;
mod scenario;
mod stats;
mod trace;

pub use background::{Background, BackgroundKind, BackgroundSpec};
pub use cotag::CotagChannel;
pub use delay::DelaySpec;
pub use link::{CHUNK_SPAN, Link, LinkConfig};
pub use loss::LossSpec;
pub use packet::{Chunk, Packet};
pub use queue::QueueSpec;
pub use rate::{MAX_RATE, RateProcess, RateSpec, Span};
pub use scenario::{
    Direction, HopSpec, LinkEvent, LinkPlace, LinkSpec, MAX_BACKGROUND, MAX_CONNECTIONS, MAX_HOPS, MAX_PATHS,
    MAX_SUBFLOWS, Moment, Name, PathSpec, Places, RunSpec, Scenario, ScenarioError, WorkloadSpec, WrittenAt,
};
pub use stats::{Count, LinkStats};
pub use trace::{Column, TableLayout, TimeUnit, Trace, TraceError, TraceTable, TraceTime, TraceValue};
