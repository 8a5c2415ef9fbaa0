//! One-way link model: rate, delay, loss, queue and faults, and the scenario files that describe them.
//!
//! Sans-IO: a [`Link`] never sleeps, reads a clock or opens a socket. The emulator drives it in wall time,
//! the simulator in virtual time, and both build it from the same [`Scenario`]. Only [`Scenario::load`] reads
//! files.
//!
//! The model and its limits are described in `docs/models/link.md`.

mod background;
mod codel;
mod cotag;
mod delay;
mod error;
mod link;
mod loss;
mod measured;
mod name;
mod packet;
mod queue;
mod rate;
mod scenario;
mod spec;
mod stats;
mod trace;

pub use background::{Background, BackgroundKind, BackgroundSpec};
pub use cotag::CotagChannel;
pub use delay::DelaySpec;
pub use error::ScenarioError;
pub use link::{CHUNK_SPAN, Change, Link, LinkConfig};
pub use loss::LossSpec;
pub use measured::{MeasuredLink, MeasuredNetwork, MeasuredPath};
pub use name::{Name, WrittenAt};
pub use packet::{Chunk, Packet};
pub use queue::QueueSpec;
pub use rate::{RateProcess, RateSpec, Span};
pub use scenario::{
    HopSpec, Lines, LinkEvent, LinkOwner, MAX_BACKGROUND, MAX_CONNECTIONS, MAX_HOPS, MAX_PATHS, MAX_SUBFLOWS,
    PathSpec, RunSpec, Scenario, WorkloadSpec,
};
pub use spec::{Direction, LinkSpec, Moment};
pub use stats::{Count, LinkStats};
pub use trace::{
    Column, KnownForm, KnownTrace, MAX_RATE, TableLayout, TimeUnit, Trace, TraceError, TraceTable, TraceTime,
    TraceValue,
};
