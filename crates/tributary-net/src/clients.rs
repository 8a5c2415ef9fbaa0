//! The clients that a server admits, each by its public key. The list can be replaced while the server runs: sessions of
//! clients that are no longer in it end at once.

mod file;
mod follow;
mod throttle;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::allow::AllowRules;
use crate::identity::PublicKey;

pub(crate) use file::parse;
pub use file::{ClientsError, read};
pub use follow::FileChanges;
use throttle::Throttles;
pub(crate) use throttle::{Throttle, Way};

/// One client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its name in logs, different from all others of the list.
    pub name: String,
    /// Its public key.
    pub key: PublicKey,
    /// Destinations that it may choose; `None`: those of the server.
    pub allow: Option<AllowRules>,
    /// Names of the server's targets that it may select; `None`: all, and the one without a name.
    pub forward: Option<Vec<String>>,
    /// Limit on what the server carries for it, in bit/s in each direction.
    pub rate: Option<u64>,
    /// Limit on its open sessions.
    pub sessions: Option<usize>,
}

impl Client {
    /// A client without limits of its own.
    #[must_use]
    pub fn new(name: &str, key: PublicKey) -> Self {
        Self { name: name.to_owned(), key, allow: None, forward: None, rate: None, sessions: None }
    }
}

type List = BTreeMap<PublicKey, Arc<Client>>;

/// The list of clients. Clones are handles to the same list.
#[derive(Clone, Debug)]
pub struct Clients {
    list: Arc<watch::Sender<List>>,
    throttles: Arc<Throttles>,
}

/// How a list differs from the one before: names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Clients that were not in it.
    pub added: Vec<String>,
    /// Clients with other limits or another name.
    pub changed: Vec<String>,
    /// Clients that are no longer in it, or have another key.
    pub revoked: Vec<String>,
}

impl Clients {
    /// A list of these clients. Of clients with the same key, the last one counts; [`read`] refuses such a list.
    #[must_use]
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Self {
        Self { list: Arc::new(watch::Sender::new(list(clients))), throttles: Arc::default() }
    }

    /// The client with this key.
    #[must_use]
    pub fn find(&self, key: &PublicKey) -> Option<Arc<Client>> {
        self.list.borrow().get(key).cloned()
    }

    /// Number of clients.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.borrow().len()
    }

    /// Whether a limit on the rate is in the list.
    #[must_use]
    pub fn limit_rates(&self) -> bool {
        self.list.borrow().values().any(|client| client.rate.is_some())
    }

    /// Replaces the list. Sessions of clients that are not in the new one end.
    pub fn replace(&self, clients: impl IntoIterator<Item = Client>) -> Changes {
        let new = list(clients);
        let mut changes = Changes::default();
        self.list.send_modify(|old| {
            for (key, client) in &new {
                match old.get(key) {
                    None => changes.added.push(client.name.clone()),
                    Some(before) if before != client => changes.changed.push(client.name.clone()),
                    Some(_) => {}
                }
            }
            let gone = old.iter().filter(|(key, _)| !new.contains_key(key));
            changes.revoked = gone.map(|(_, client)| client.name.clone()).collect();
            *old = new;
        });
        changes
    }

    /// The limits of this client, shared by all that the program's servers carry for it.
    pub(crate) fn throttle(&self, client: PublicKey) -> Arc<Throttle> {
        self.throttles.of(self, client)
    }

    /// Told of every new list.
    pub(crate) fn changes(&self) -> Changed {
        Changed(self.list.subscribe())
    }
}

/// Waits for new lists.
#[derive(Clone, Debug)]
pub(crate) struct Changed(watch::Receiver<List>);

impl Changed {
    /// Waits for the next list; `false` when there will be none.
    pub(crate) async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }

    /// Waits until this client is not in the list; for ever when the list does not change any more.
    pub(crate) async fn revoked(&mut self, key: &PublicKey) {
        if self.0.wait_for(|list| !list.contains_key(key)).await.is_err() {
            std::future::pending().await
        }
    }
}

fn list(clients: impl IntoIterator<Item = Client>) -> List {
    clients.into_iter().map(|client| (client.key, Arc::new(client))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::PrivateKey;

    #[test]
    fn a_new_list_says_what_has_changed() {
        let key = |seed| PrivateKey::from_seed([seed; 32]).public();
        let client = |name: &str, seed| Client::new(name, key(seed));
        let clients =
            Clients::new([client("kept", 1), client("limited", 2), client("gone", 3), client("renewed", 4)]);
        let limited = Client { sessions: Some(1), ..client("limited", 2) };
        let changes = clients.replace([client("kept", 1), limited, client("new", 5), client("renewed", 6)]);
        let sorted = |mut names: Vec<String>| {
            names.sort();
            names
        };
        assert_eq!(sorted(changes.added), ["new", "renewed"]);
        assert_eq!(changes.changed, ["limited"]);
        assert_eq!(sorted(changes.revoked), ["gone", "renewed"]);
        assert_eq!(clients.find(&key(2)).unwrap().sessions, Some(1));
        assert!(clients.find(&key(3)).is_none() && clients.find(&key(4)).is_none());
        assert_eq!(clients.count(), 4);
    }
}
