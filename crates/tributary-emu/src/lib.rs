//! Link emulator between real kernel stacks: namespaces and TUN devices driven by the link model.
//!
//! ```no_run
//! use tributary_emu::{Network, Side, isolate};
//! use tributary_link::Scenario;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! isolate()?; // before any thread
//! let network = Network::start(&Scenario::builtin("mobility")?)?;
//! let mut server = network.command(Side::Server, "iperf3").args(["-s", "-1"]).spawn()?;
//! network.command(Side::Client, "iperf3").args(["-c", "10.77.2.1", "-R"]).status()?;
//! server.wait()?;
//! println!("{}", network.audit()?);
//! # Ok(())
//! # }
//! ```
//!
//! Linux only. Design and accuracy: `docs/models/emulator.md`.

mod audit;
pub mod bench;
mod capture;
mod clock;
pub mod control;
mod effort;
mod forward;
mod histogram;
mod isolate;
mod log;
mod namespace;
mod network;
mod relay;
mod run;
mod state;
mod sys;
pub mod traffic;
mod veth;

pub use audit::{Audit, LinkAudit, Verdict};
pub use capture::{Capture, Captured};
pub use forward::ForwardOptions;
pub use histogram::Percentiles;
pub use isolate::{IsolateError, is_isolated, isolate};
pub use log::{LinkSample, SAMPLE_EVERY};
pub use network::{Network, NetworkError, Side};
pub use relay::{Host, RelayNetwork};
pub use run::{CommandOptions, CommandRun, RunError, environment, run_command};
pub use veth::VethNetwork;
