//! The simulator beside Linux and beside ns-3 3.37: the same network, the same transfer, laid side by side.
//!
//! [`linux`] compares with the kernel in the emulator; [`ns3`] compares results, [`speed`] costs. ns-3 is a
//! yardstick here and needs Debian's libns3-dev; the driver is in `validation/ns3` and is built on first
//! use. No result of ns-3 is typed in anywhere: both run each time.

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

/// Where the driver's source is, seen from the root of the source tree.
pub const DRIVER: &str = "validation/ns3";

/// The driver's folder unless another is named.
#[must_use]
pub fn default_driver() -> PathBuf {
    PathBuf::from(DRIVER)
}
