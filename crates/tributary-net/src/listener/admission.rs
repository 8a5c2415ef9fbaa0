//! Limits on concurrent handshakes: one for connections without a ticket (strangers), one for peers with the key, and
//! one for each session.
//!
//! A connection starts as a stranger. Its first message is its ticket, which moves it to another class. So any number
//! of strangers displaces only other strangers. When all places of a class are taken, the source with the most places
//! loses its oldest one ([`Places`]). Not here: the ticket itself ([`crate::ticket`]).

use std::collections::BTreeMap;

use tokio::task::AbortHandle;

use crate::places::{Places, Source};

/// What a connection has proved so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Unauthenticated,
    /// It has shown a fresh ticket.
    Known,
    /// It has shown a fresh ticket for an open session.
    Rejoin,
}

/// All handshakes in progress.
#[derive(Debug)]
pub(super) struct Admission<T = AbortHandle> {
    places: BTreeMap<Standing, Places<T>>,
    next: u64,
}

impl<T> Admission<T> {
    /// `most` places for strangers, `most` for peers that know the key, and a few for each session.
    pub(super) fn new(most: usize) -> Self {
        let standings = [Standing::Unauthenticated, Standing::Known, Standing::Rejoin];
        Self { places: standings.map(|standing| (standing, Places::new(most))).into(), next: 0 }
    }

    /// The number of the next handshake.
    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Takes a place. Returns the entry that was displaced, if all places were taken.
    pub(super) fn enter(&mut self, standing: Standing, source: Source, id: u64, who: T) -> Option<T> {
        self.places.get_mut(&standing)?.enter(source, id, who)
    }

    /// Frees a place.
    pub(super) fn leave(&mut self, standing: Standing, source: Source, id: u64) -> Option<T> {
        self.places.get_mut(&standing)?.remove(source, Some(id))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn source(address: &str) -> Source {
        Source::of(SocketAddr::new(address.parse().unwrap(), 1))
    }

    #[test]
    fn the_source_with_the_most_places_loses_its_oldest() {
        let mut admission = Admission::new(6);
        let mut lost = Vec::new();
        let mut enter = |address: &str, id| {
            lost.extend(admission.enter(Standing::Unauthenticated, source(address), id, id));
        };
        enter("10.0.0.1", 1);
        enter("10.0.0.2", 2);
        for id in 3..20 {
            enter("10.0.0.3", id);
        }
        enter("10.0.0.1", 20);
        // The other two kept their places; the flood lost its own, oldest first.
        assert_eq!(lost, (3..17).collect::<Vec<_>>());
        assert_eq!(admission.leave(Standing::Unauthenticated, source("10.0.0.1"), 1), Some(1));
        assert_eq!(admission.leave(Standing::Unauthenticated, source("10.0.0.3"), 3), None);
    }

    #[test]
    fn strangers_do_not_displace_peers_with_the_key_or_sessions() {
        let mut admission = Admission::new(4);
        for id in 0..1000 {
            let address = format!("10.0.{}.{}", id / 250, id % 250);
            let lost = admission.enter(Standing::Unauthenticated, source(&address), id, id);
            assert_eq!(
                lost,
                id.checked_sub(4),
                "of sources with equally many places, the one with the oldest loses it"
            );
        }
        assert_eq!(admission.enter(Standing::Known, source("10.0.0.1"), 1000, 1000), None);
        let session = |tag| Source::Session([tag; 16]);
        for id in 0..32 {
            assert_eq!(admission.enter(Standing::Rejoin, session(id as u8 % 2), id, id), None);
        }
        // A session displaces only its own handshakes, even with very few places.
        assert_eq!(admission.enter(Standing::Rejoin, session(1), 99, 99), Some(1));
        assert_eq!(admission.places[&Standing::Rejoin].taken(), 32);
    }
}
