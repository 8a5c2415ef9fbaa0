//! Records the radios of this machine as a scenario: rate, delay and loss of each path over time, for simulator and emulator.
//!
//! In every slot a path is probed: a small request, answered at once, measures the delay; a short train of numbered packets in
//! each direction measures the rate by the times at which its packets arrive (packet-train dispersion: Dovrolis et al.,
//! IEEE/ACM ToN 2004), and the loss by the numbers that are missing. What other programs carry over the interface at the same
//! time is a lower bound of its rate.
//!
//! [`serve`] is the other end, [`Recorder`] this one, [`Output`] keeps the files. Position and signal strength come from
//! [`Surroundings`]. [`emulated`] records a network that is known.

mod auth;
mod carried;
mod emulated;
mod estimate;
mod options;
mod output;
mod probe;
mod recorder;
mod recording;
mod server;
mod stamped;
mod surroundings;
mod wire;

pub use emulated::{EmulatedError, emulated, fading, fixed};
pub use options::{Options, Pace};
pub use output::{Output, OutputError, interrupted};
pub use probe::path_socket;
pub use recorder::{RecordError, Recorder, SILENT};
pub use recording::Recording;
pub use server::serve;
pub use surroundings::Surroundings;
