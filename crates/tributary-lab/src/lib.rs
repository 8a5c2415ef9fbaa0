//! Experiments: a scenario, several transports, one workload, all measured in the same way.
//!
//! A [`Run`] has all settings of one run on real sockets: it starts the emulated network, a server process and a client process in it, and returns a
//! [`RunResult`]. [`demo`] and [`reproduce`] consist of such runs. Everything here requires a call of
//! [`tributary_emu::isolate`] at the start of `main`, and the hidden command `endpoint` in the program.

pub mod audits;
pub mod cell;
pub mod compare;
pub mod demo;
mod emulate;
pub mod endpoint;
pub mod ends;
pub mod error;
pub mod export;
pub mod figures;
pub mod kernel;
pub mod messages;
pub mod nginx;
pub mod pairs;
pub mod players;
pub mod process;
pub mod record;
pub mod relay;
pub mod reproduce;
pub mod request;
pub mod result;
pub mod run;
pub mod sdn;
pub mod show;
pub mod simulate;
pub mod soak;
pub mod store;
pub mod summary;
pub mod sweep;
pub mod transport;
pub mod trial;
pub mod tunnel;
pub mod workload;

pub use cell::{Queue, Run};
pub use error::LabError;
pub use messages::{MessageFlow, MessageRecord};
pub use request::{Request, RequestError};
pub use result::{RunResult, World};
pub use run::run;
pub use simulate::{SimResult, Simulation};
pub use transport::SessionSettings;
pub use workload::{Content, Record, Video, Workload};
