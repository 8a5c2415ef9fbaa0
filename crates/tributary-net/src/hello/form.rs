//! How the ends know each other, and how a server tells a client of the other form, before anything is authenticated.
//!
//! Source: `docs/wire-versions.md`.

use super::{Peer, START};

/// How the ends know each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By one key that all have.
    Shared,
    /// By a key pair of each end.
    Own,
}

impl Form {
    fn code(self) -> u8 {
        match self {
            Self::Shared => 1,
            Self::Own => 2,
        }
    }

    /// The form in the first bytes of a server's answer without TLS.
    pub(crate) fn named(start: &[u8; START.len()]) -> Option<Self> {
        [Self::Shared, Self::Own].into_iter().find(|form| form.code() == start[5])
    }

    /// A server's answer to a client of the other form.
    pub(crate) fn start(self) -> [u8; START.len()] {
        let mut start = START;
        start[5] = self.code();
        start
    }

    /// Why an end of the other form cannot connect to this peer.
    pub(super) fn explained(self, peer: Peer) -> &'static str {
        match (peer, self) {
            (Peer::Server, Form::Own) => {
                "the server knows each client by a key of its own: give --server-key and --key, not --shared-key"
            }
            (Peer::Server, Form::Shared) => {
                "the server has a shared key (serve --shared-key): give that key as --shared-key, or start the server with \
             --key and --clients"
            }
            (Peer::Client, Form::Shared) => {
                "the client has a shared key, but this server knows each client by a key of its own (--clients)"
            }
            (Peer::Client, Form::Own) => "the client has a key of its own, but this server has a shared key",
        }
    }
}
