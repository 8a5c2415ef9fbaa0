//! Why a connection has ended, whatever its transport.

use thiserror::Error;
use tributary_proto::CODE_IDLE;

use crate::error::SessionClosed;
use crate::hello::Refusal;

/// Why a connection has ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectionClosed {
    /// One end closed it.
    #[error("the connection was closed {} with code {code}: {reason}", if *by_peer { "by the peer" } else { "here" })]
    Closed {
        /// Zero: it was closed normally.
        code: u64,
        /// Reason as text.
        reason: String,
        /// The peer closed it.
        by_peer: bool,
    },
    /// Nothing was heard from the peer for longer than the idle timeout.
    #[error("nothing was heard from the peer for too long")]
    TimedOut,
    /// The peer does not have the key.
    #[error("the peer does not know the key")]
    WrongKey,
    /// The server refused it, or has ended it because its client is no longer in the list.
    #[error("{0}")]
    Revoked(Refusal),
    /// The peer broke the protocol, or its stack ended the connection; the library's words.
    #[error("the connection failed: {0}")]
    Failed(String),
    /// Kernel TCP and MPTCP: a connection carries one stream, and it was taken already.
    #[error("a connection of kernel sockets carries one stream, which was taken already")]
    NoMoreStreams,
}

impl ConnectionClosed {
    /// Whether it was closed normally: everything that was finished has been delivered.
    #[must_use]
    pub fn is_orderly(&self) -> bool {
        matches!(self, Self::Closed { code: 0, .. })
    }

    /// Closed by this end in order.
    pub(super) fn here() -> Self {
        Self::Closed { code: 0, reason: "done".to_owned(), by_peer: false }
    }
}

impl From<SessionClosed> for ConnectionClosed {
    fn from(SessionClosed { code, reason, by_peer }: SessionClosed) -> Self {
        match code {
            CODE_IDLE if !by_peer => Self::TimedOut,
            _ => Self::Closed { code: code.into(), reason, by_peer },
        }
    }
}
