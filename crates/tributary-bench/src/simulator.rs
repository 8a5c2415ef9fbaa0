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

/// Folder of the driver's source, relative to the root of the source tree.
const DRIVER: &str = "validation/ns3";

/// Runs a cell, given as JSON, and prints what was measured as one line of JSON; started by [`speed`]. Returns whether it
/// did.
#[must_use]
pub fn answer(cell: &str) -> bool {
    let cell = serde_json::from_str(cell).map_err(|error| error.to_string());
    let measured = cell.and_then(|cell| own::run(&cell).map_err(|error| error.to_string()));
    match measured.and_then(|measured| serde_json::to_string(&measured).map_err(|e| e.to_string())) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("{error}");
            return false;
        }
    }
    true
}
