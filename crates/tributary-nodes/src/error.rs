//! Why a node cannot run.

use std::io;
use std::net::SocketAddr;
use thiserror::Error;
use tributary_net::KeyError;
use tributary_tun::TunError;

/// Why a node cannot run.
#[derive(Debug, Error)]
pub enum NodeError {
    /// The settings cannot be read.
    #[error("settings in {place}: {reason}")]
    Settings {
        /// The file, or the flags.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// A setting is invalid.
    #[error("`{key}` is {value}; it must be {expected}")]
    Setting {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Valid values.
        expected: String,
    },
    /// A key file cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The TUN device cannot be created.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// An interface cannot be configured.
    #[error("configuring {what}: {source}; that needs root or CAP_NET_ADMIN")]
    Interface {
        /// Interface and address.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A socket cannot be used.
    #[error("cannot use {address}: {source}; choose an address of this host and a free port")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// Another system error.
    #[error("{doing}: {source}")]
    System {
        /// The failed action.
        doing: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The node's thread has ended.
    #[error("the node has ended")]
    Stopped,
}
