//! The simulator compared with Linux and with ns-3 3.37: the same network and the same transfer.
//!
//! [`linux`] compares with the kernel in the emulator; [`ns3`] compares results, [`speed`] costs. ns-3 needs
//! Debian's libns3-dev; the driver is in `validation/ns3` and is built on first use. Results of ns-3 are
//! never stored: both run each time.

mod bottleneck;
mod driver;
pub mod linux;
pub mod ns3;
mod own;
pub mod speed;

pub use bottleneck::{Bottleneck, Measured, Traffic};
pub use driver::Driver;
pub use own::run as run_here;

use std::path::PathBuf;

/// Folder of the driver's source, relative to the root of the source tree.
pub const DRIVER: &str = "validation/ns3";

/// The driver's default folder.
#[must_use]
pub fn default_driver() -> PathBuf {
    PathBuf::from(DRIVER)
}
