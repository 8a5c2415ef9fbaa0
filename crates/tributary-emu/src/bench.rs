//! Measurements of the emulator: accuracy, highest rate, loss equivalence, and a comparison with a peer in the same
//! run.
//!
//! All numbers come from the kernel's own sockets and timestamps on both sides of the network, not from the
//! emulator's audit. Call [`crate::isolate`] first.

mod accuracy;
mod loss;
mod peer;
mod probe;

pub use accuracy::{Accuracy, AccuracyPlan, Load, accuracy, ceiling};
pub use loss::{LossEquivalence, loss_equivalence};
pub use peer::{PeerComparison, compare_with_rattan, install_rattan};

use crate::network::NetworkError;
use crate::traffic::TrafficError;
use core::time::Duration;
use std::io;
use thiserror::Error;
use tributary_link::{LinkSpec, PathSpec, Scenario};
use tributary_types::Bitrate;

/// Why a measurement failed.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The network could not be started, or did not answer.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A transfer failed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A socket of the measurement failed.
    #[error("a socket of the measurement failed: {0}")]
    Socket(#[from] io::Error),
    /// The peer could not be installed.
    #[error(
        "rattan 0.1.1 could not be installed, so it is not compared with: `{command}` failed: {reason}. \
         It needs the crate registry; an installed copy can be given as a path instead"
    )]
    PeerInstall {
        /// The command.
        command: String,
        /// The end of its output.
        reason: String,
    },
    /// A program of the comparison failed.
    #[error("`{program}` failed: {reason}")]
    Program {
        /// The program.
        program: String,
        /// The end of its output.
        reason: String,
    },
}

/// One symmetric path with a constant rate: 10 ms base RTT, 40 ms of queue.
fn steady(rate: Bitrate) -> Scenario {
    Scenario::new("steady")
        .with_path(PathSpec::symmetric("path", LinkSpec::constant(rate)))
        .with_rtt(Duration::from_millis(10))
        .with_queue_time(Duration::from_millis(40))
        .with_duration(Duration::from_secs(3600))
}

/// Goodput of TCP with timestamps on a link of this rate: 1448 bytes of each 1500.
fn goodput_of(rate: Bitrate) -> f64 {
    rate.as_mbps_f64() * 1448.0 / 1500.0
}
