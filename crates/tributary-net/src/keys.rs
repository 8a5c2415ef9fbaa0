//! How the ends of a connection know each other: by a key pair of each end, or by one shared key.

use crate::clients::Clients;
use crate::identity::{PrivateKey, PublicKey};
use crate::key::Key;

/// The keys of one end.
#[derive(Clone, Debug)]
pub enum Keys {
    /// A client, which knows the server's public key.
    Client {
        /// Its own key.
        own: PrivateKey,
        /// The only server that it accepts.
        server: PublicKey,
    },
    /// A server, which admits the clients of a list.
    Server {
        /// Its own key.
        own: PrivateKey,
        /// The clients that it admits.
        clients: Clients,
    },
    /// Either end: one key that both have. All that have it can pose as each other, the server included, and none can be
    /// revoked: for the devices of one person.
    Shared(Key),
}

impl From<Key> for Keys {
    fn from(key: Key) -> Self {
        Self::Shared(key)
    }
}

impl Keys {
    /// The shared key, if that is the form.
    #[must_use]
    pub fn shared(&self) -> Option<&Key> {
        match self {
            Self::Shared(key) => Some(key),
            Self::Client { .. } | Self::Server { .. } => None,
        }
    }

    /// The clients that a server admits, if each has a key of its own.
    #[must_use]
    pub fn clients(&self) -> Option<&Clients> {
        match self {
            Self::Server { clients, .. } => Some(clients),
            Self::Client { .. } | Self::Shared(_) => None,
        }
    }
}
