//! Errors of the public API.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::config::SettingsError;
use crate::handshake::HandshakeError;

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the session ended {} with code {code}: {reason}", if *by_peer { "by the peer" } else { "here" })]
pub struct SessionClosed {
    /// Zero: the session was closed normally.
    pub code: u32,
    /// Reason as text.
    pub reason: String,
    /// The peer ended it.
    pub by_peer: bool,
}

/// Why a client has no session.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// There is no path, or there are too many.
    #[error("a session needs one to eight paths, not {0}")]
    Paths(usize),
    /// Two paths have the same local end.
    #[error("path `{0}`: its local end is another path's too; give each radio one path")]
    SameRadio(String),
    /// The kernel does not list the network interfaces, so `auto` cannot be resolved.
    #[error("the network interfaces cannot be read: {0}")]
    Interfaces(io::Error),
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// No path came up; the error of the last attempt.
    #[error("no path came up: {0}")]
    Handshake(#[from] HandshakeError),
    /// The session ended while it was connecting.
    #[error(transparent)]
    Closed(#[from] SessionClosed),
}

impl ConnectError {
    /// Whether trying again is useless until the configuration changes. See [`HandshakeError::is_fatal`].
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Handshake(error) => error.is_fatal(),
            Self::Interfaces(_) | Self::Closed(_) => false,
            Self::Settings(_) | Self::Paths(_) | Self::SameRadio(_) | Self::Tls(_) => true,
        }
    }
}

/// Why a server cannot listen.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No address to listen on.
    #[error("no address to listen on")]
    NoAddress,
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// An address cannot be used for QUIC.
    #[error("cannot listen on {address} for QUIC (UDP): {error}")]
    BindUdp {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        error: io::Error,
    },
    /// The congestion controller is not available.
    #[error(transparent)]
    Socket(#[from] HandshakeError),
}

/// The system's error message about an address, with a hint where the message alone does not help.
pub(crate) fn explained(error: io::Error) -> io::Error {
    let advice = match error.raw_os_error() {
        Some(libc::EADDRNOTAVAIL) => "this machine does not have the local address; see ip address",
        Some(libc::EADDRINUSE) => {
            "another program uses this port; give another one, or end that program: ss -lntup lists who listens"
        }
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => "there is no route from the local end; see ip route",
        Some(libc::EINVAL) => "the local address cannot reach this server",
        Some(libc::ENODEV) => "this machine has no such network interface",
        Some(libc::ECONNREFUSED) => "nothing listens there: is the server running?",
        _ => return error,
    };
    io::Error::new(error.kind(), format!("{error}: {advice}"))
}
