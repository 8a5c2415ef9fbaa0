//! GF(2^8) kernels, block erasure codes and network coding; sends nothing.
//!
#![doc = include_str!("../README.md")]

pub mod erasure;
mod field;
mod kernel;
mod prf;
pub mod rlnc;
mod solve;

pub use field::{inverse, mul};
pub use kernel::{Kernel, Tier};
pub use prf::{CoefficientKey, Coefficients};
