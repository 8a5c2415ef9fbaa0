//! Why a run on real sockets gave no result. Bad performance of a transport is a result, not an error.

use crate::process::ProcessError;
use thiserror::Error;
use tributary_emu::NetworkError;

/// Why a run gave no result.
#[derive(Debug, Error)]
pub enum LabError {
    /// The emulated network failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A socket runs another congestion controller than the requested one.
    #[error("on the {side} a subflow runs congestion control `{actual}`, not `{wanted}`")]
    Congestion {
        /// Which end.
        side: &'static str,
        /// The requested controller.
        wanted: String,
        /// The controller in use.
        actual: String,
    },
    /// The kernel lists no connection although the transport uses TCP connections.
    #[error("the kernel of the {side} shows no TCP connection of the playback")]
    NoConnection {
        /// Which end.
        side: &'static str,
    },
    /// A child process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No random bytes for a key.
    #[error(transparent)]
    Key(#[from] tributary_net::KeyError),
}
