//! The simulator compared with Linux and with ns-3 3.37: the same network and the same transfer.
//!
//! [`Stacks`] is the experiment of the papers `simulator-linux` and `simulator-ns3`, which compare results; [`speed`]
//! compares costs. ns-3 needs Debian's libns3-dev; the driver is in `validation/ns3` and is built on first use.

mod bottleneck;
mod driver;
mod own;
pub mod speed;
mod stacks;

pub use bottleneck::{Bottleneck, Measured, Traffic};
pub use driver::Driver;
pub use stacks::Stacks;

use tributary_lab::process;

/// Folder of the driver's source, relative to the root of the source tree.
const DRIVER: &str = "validation/ns3";

/// Runs a cell in an endpoint process of its own; started by [`speed`]. Returns whether it succeeded; a failure was reported.
pub(crate) fn run_alone() -> bool {
    process::carry_out(|cell: Bottleneck| own::run(&cell).map(|measured| process::reply(&measured)))
}
