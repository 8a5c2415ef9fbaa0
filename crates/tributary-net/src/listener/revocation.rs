//! Ends the sessions of clients that are no longer in the server's list.

use std::sync::Weak;

use super::Registry;
use crate::clients::Changed;
use crate::places::Source;
use crate::shared::CODE_REVOKED;

/// What a client is told whose session ends.
const REASON: &str = "the server's operator has revoked this client's key";

/// Ends sessions after every change of the list, until the listener and its sessions are gone.
pub(super) async fn watch(registry: Weak<Registry>, mut changes: Changed) {
    while changes.next().await {
        let Some(registry) = registry.upgrade() else { return };
        registry.end_revoked();
    }
}

impl Registry {
    fn end_revoked(&self) {
        let Some(clients) = self.common.keys.clients() else { return };
        let entries = self.entries();
        let is_revoked = |owner| matches!(owner, Source::Client(key) if clients.find(&key).is_none());
        let revoked: Vec<_> = entries
            .values()
            .filter(|entry| is_revoked(entry.owner))
            .map(|entry| entry.shared.clone())
            .collect();
        // Ending a session takes its lock; its end takes that of the entries.
        drop(entries);
        for shared in revoked {
            let (name, client) = shared.change(|state, _| {
                state.give_up(CODE_REVOKED, REASON);
                (state.name().unwrap_or_default(), state.client.clone())
            });
            let client = client.map(|client| client.name.clone()).unwrap_or_default();
            tracing::warn!("session {name} of client {client} is ended: its key is no longer in the list");
        }
    }
}
