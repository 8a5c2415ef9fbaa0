//! Limits on concurrent handshakes: one for connections without a ticket (strangers), one for peers with the key, and
//! one for each session.
//!
//! A connection starts as a stranger. Its first message is its ticket, which moves it to another class. So any number
//! of strangers displaces only other strangers. When all places of a class are taken, the source with the most places
//! loses its oldest one. Servers of kernel TCP and MPTCP use [`Places`], too, for connections that have sent nothing
//! yet. Not here: the ticket itself ([`crate::ticket`]).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use tokio::task::AbortHandle;

use crate::hello::SessionTag;

/// Limit on concurrent handshakes of one session; equals its limit of subflows.
const OF_A_SESSION: usize = 16;

/// Where a handshake comes from. The places of a class are shared fairly between sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// An IPv4 address, or the first 64 bits of an IPv6 address, which a provider assigns to one customer.
    Address(IpAddr),
    /// An open session.
    Session(SessionTag),
}

impl Source {
    pub(crate) fn of(address: SocketAddr) -> Self {
        Self::Address(match address.ip().to_canonical() {
            IpAddr::V6(long) => {
                let prefix = u128::from(long) >> 64 << 64;
                IpAddr::V6(prefix.into())
            }
            short => short,
        })
    }
}

/// What a connection has proved so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Stranger,
    /// It has shown a fresh ticket.
    Known,
    /// It has shown a fresh ticket for an open session.
    Rejoin,
}

/// Places of one standing, shared by source.
#[derive(Debug)]
pub(crate) struct Places<T> {
    most: usize,
    taken: usize,
    /// Oldest first. No entry is empty.
    sources: HashMap<Source, VecDeque<(u64, T)>>,
}

impl<T> Places<T> {
    /// Places for at most `most` entries, at least one.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: 0, sources: HashMap::new() }
    }

    /// Takes a place. Returns the entry that was displaced, if all places were taken.
    pub(crate) fn enter(&mut self, source: Source, id: u64, who: T) -> Option<T> {
        let own = self.sources.get(&source).map_or(0, VecDeque::len);
        let of_a_session = matches!(source, Source::Session(_));
        let out = if of_a_session && own >= OF_A_SESSION {
            Some(source)
        } else if self.taken >= self.most && !of_a_session {
            // If several sources have the most places, the one with the oldest entry loses a place.
            let count = |held: &VecDeque<(u64, T)>| (held.len(), u64::MAX - held.front().map_or(0, |f| f.0));
            self.sources.iter().max_by_key(|(_, held)| count(held)).map(|(source, _)| *source)
        } else {
            None
        };
        let loser = out.and_then(|source| self.remove(source, None));
        self.sources.entry(source).or_default().push_back((id, who));
        self.taken += 1;
        loser
    }

    /// Frees the places of entries for which `keep` is false.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.sources.values_mut().for_each(|held| held.retain(|(_, who)| keep(who)));
        self.sources.retain(|_, held| !held.is_empty());
        self.taken = self.sources.values().map(VecDeque::len).sum();
    }

    /// Frees a place, or the oldest place of a source.
    fn remove(&mut self, source: Source, id: Option<u64>) -> Option<T> {
        let held = self.sources.get_mut(&source)?;
        let at = id.map_or(Some(0), |id| held.iter().position(|(other, _)| *other == id))?;
        let (_, who) = held.remove(at)?;
        if held.is_empty() {
            self.sources.remove(&source);
        }
        self.taken -= 1;
        Some(who)
    }
}

/// All handshakes in progress.
#[derive(Debug)]
pub(super) struct Admission<T = AbortHandle> {
    places: BTreeMap<Standing, Places<T>>,
    next: u64,
}

impl<T> Admission<T> {
    /// `most` places for strangers, `most` for peers that know the key, and [`OF_A_SESSION`] for each session.
    pub(super) fn new(most: usize) -> Self {
        let standings = [Standing::Stranger, Standing::Known, Standing::Rejoin];
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
    use super::*;

    fn source(address: &str) -> Source {
        Source::of(SocketAddr::new(address.parse().unwrap(), 1))
    }

    #[test]
    fn the_source_with_the_most_places_loses_its_oldest() {
        let mut admission = Admission::new(6);
        let mut lost = Vec::new();
        let mut enter = |address: &str, id| {
            lost.extend(admission.enter(Standing::Stranger, source(address), id, id));
        };
        enter("10.0.0.1", 1);
        enter("10.0.0.2", 2);
        for id in 3..20 {
            enter("10.0.0.3", id);
        }
        enter("10.0.0.1", 20);
        // The other two kept their places; the flood lost its own, oldest first.
        assert_eq!(lost, (3..17).collect::<Vec<_>>());
        assert_eq!(admission.leave(Standing::Stranger, source("10.0.0.1"), 1), Some(1));
        assert_eq!(admission.leave(Standing::Stranger, source("10.0.0.3"), 3), None);
    }

    #[test]
    fn strangers_do_not_displace_peers_with_the_key_or_sessions() {
        let mut admission = Admission::new(4);
        for id in 0..1000 {
            let address = format!("10.0.{}.{}", id / 250, id % 250);
            let lost = admission.enter(Standing::Stranger, source(&address), id, id);
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
        assert_eq!(admission.places[&Standing::Rejoin].taken, 32);
    }

    #[test]
    fn places_of_finished_handshakes_are_free_again() {
        let mut places = Places::new(2);
        for id in 0..2 {
            assert_eq!(places.enter(source("10.0.0.1"), id, id), None);
        }
        places.retain(|who| *who != 0);
        assert_eq!(places.enter(source("10.0.0.2"), 2, 2), None);
        // With one place each, the oldest connection loses its place.
        assert_eq!(places.enter(source("10.0.0.2"), 3, 3), Some(1));
    }

    #[test]
    fn addresses_of_one_customer_share_their_places() {
        assert_eq!(source("2001:db8:1:2::1"), source("2001:db8:1:2:ffff::9"));
        assert_ne!(source("2001:db8:1:2::1"), source("2001:db8:1:3::1"));
        assert_eq!(source("::ffff:10.1.2.3"), source("10.1.2.3"));
        assert_ne!(source("10.1.2.3"), source("10.1.2.4"));
    }
}
