//! The multipath session as a sans-IO state machine.
//!
//! A [`Session`] carries ordered streams over one to eight paths. The driver feeds it what arrives
//! (`handle_*`), lets the application write and read, and drains it (`poll_transmit`, `poll_event`,
//! `poll_timeout`) after every mutation. No sockets, threads, clocks or randomness inside: time
//! comes in as an argument and randomness as a seed, so the same code runs on sockets and in
//! virtual time.
//!
//! The parts: [`scheduler::Scheduler`] decides which segment goes on which subflow; the session does
//! numbering, reassembly and acknowledgement; [`handshakes::Handshakes`] turns a client's connections into
//! subflows; [`room::Room`] limits how much a subflow may take; [`turn::Turn`] is the order in which a driver drains them.
//! The driver owns the connections and moves bytes.

mod bound;
mod cap;
mod config;
mod content;
pub mod coupling;
mod event;
pub mod flow;
pub mod handshakes;
pub mod liveness;
mod numbers;
mod path;
mod receive;
pub mod room;
pub mod scheduler;
mod send;
mod session;
mod subflow;
pub mod transport;
pub mod turn;
pub mod wire;
mod work;

pub use cap::LEAST_CAP;
pub use config::{Config, ConfigError};
pub use content::ContentClass;
pub use event::{Event, Transmit};
pub use receive::blocks_for;
pub use session::{
    AMPLE, CODE_IDLE, Demand, GATHER_BELOW, LEAST_SEND, LEAST_WINDOW, Memory, OpenError, OpenStreamError,
    PART, ProtocolError, ReadError, Session, SessionStats, Side, StreamCounts, UNPROVEN_PART, UnknownPath,
    WriteError,
};
pub use subflow::{SubflowInfo, SubflowStats};
