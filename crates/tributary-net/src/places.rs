//! Places that clients take: connections, handshakes, sessions. Every table of places is bounded, and none is given to
//! whoever comes first.
//!
//! The rule: **a source that fills a table harms itself before it harms another source.** [`Places`] is for work that
//! can be ended at any time, such as a handshake: a newcomer always gets a place, and the source with the most places
//! loses its oldest one. [`Shares`] is for work that must not be ended because of a stranger: a source may take another
//! place only while it holds fewer than `SHARE` times as many as are free (dynamic thresholds, Choudhury and Hahne,
//! 1998), so one source alone leaves an eighth of the places to others. `docs/guide/limits.md` lists every table.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::identity::PublicKey;

/// Bytes of a session's tag.
const TAG: usize = 16;
/// Limit on concurrent handshakes of one session; equals its limit of subflows.
const OF_A_SESSION: usize = 16;
/// A source may take another place while it holds fewer than this many times the free ones.
const SHARE: usize = 7;

/// Who takes a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// An IPv4 address, or the first 64 bits of an IPv6 address, which a provider assigns to one customer.
    Address(IpAddr),
    /// A client with a key of its own, under whatever address.
    Client(PublicKey),
    /// An open session, by its tag.
    Session([u8; TAG]),
}

impl Source {
    /// The source of a connection from this address by this client, if it has a key of its own.
    #[must_use]
    pub fn of_client(client: Option<PublicKey>, address: SocketAddr) -> Self {
        client.map_or_else(|| Self::of(address), Self::Client)
    }

    /// The source of a connection from this address.
    #[must_use]
    pub fn of(address: SocketAddr) -> Self {
        Self::Address(match address.ip().to_canonical() {
            IpAddr::V6(long) => {
                let prefix = u128::from(long) >> 64 << 64;
                IpAddr::V6(prefix.into())
            }
            short => short,
        })
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(IpAddr::V6(prefix)) => write!(f, "{prefix}/64"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Client(key) => write!(f, "client {key}"),
            Self::Session(tag) => {
                write!(f, "session ")?;
                tag[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// Whether a source that holds `held` places may take one of the `free` ones.
#[must_use]
pub fn has_share(held: usize, free: usize) -> bool {
    held < SHARE * free
}

/// Places of which the oldest of the source with the most is given to a newcomer.
#[derive(Debug)]
pub struct Places<T> {
    most: usize,
    taken: usize,
    /// Oldest first. No entry is empty.
    sources: HashMap<Source, VecDeque<(u64, T)>>,
}

impl<T> Places<T> {
    /// Places for at most `most` entries, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: 0, sources: HashMap::new() }
    }

    /// Takes a place. Returns the entry that was displaced, if all places were taken.
    pub fn enter(&mut self, source: Source, id: u64, who: T) -> Option<T> {
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

    /// Number of places that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Frees the places of entries for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.sources.values_mut().for_each(|held| held.retain(|(_, who)| keep(who)));
        self.sources.retain(|_, held| !held.is_empty());
        self.taken = self.sources.values().map(VecDeque::len).sum();
    }

    /// Frees the place of entry `id`, or the oldest place of the source.
    pub fn remove(&mut self, source: Source, id: Option<u64>) -> Option<T> {
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

/// Why no place is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Full {
    /// All places are taken.
    #[error("all {0} places are taken")]
    All(usize),
    /// The source has its share.
    #[error("{who} has {held} of {most} places; the others are kept for other clients")]
    Source {
        /// The source.
        who: Source,
        /// Places that it holds.
        held: usize,
        /// All places.
        most: usize,
    },
    /// The client has as many places as the list of clients allows.
    #[error("{who} has as many connections as the list of clients allows: {quota}")]
    Quota {
        /// The client.
        who: Source,
        /// Places that it may hold.
        quota: usize,
    },
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: HashMap<Source, usize>,
}

/// Places that are kept until their holders give them back. Clones share them.
#[derive(Clone, Debug)]
pub struct Shares {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

/// A place of [`Shares`], given back when it is dropped.
#[derive(Debug)]
#[must_use = "the place is given back at once"]
pub struct Held {
    shares: Shares,
    sources: Vec<Source>,
}

impl Shares {
    /// `most` places, at least one.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), taken: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place that counts for each of these sources, for example for a session and for its address.
    ///
    /// # Errors
    /// [`Full`] when no place is free, or a source has its share.
    pub fn enter(&self, sources: &[Source]) -> Result<Held, Full> {
        self.enter_within(sources, usize::MAX)
    }

    /// The same; each of these sources may hold `quota` places at most.
    pub(crate) fn enter_within(&self, sources: &[Source], quota: usize) -> Result<Held, Full> {
        let mut taken = self.lock();
        let free = self.most - taken.all;
        if free == 0 {
            return Err(Full::All(self.most));
        }
        for source in sources {
            let held = taken.of.get(source).copied().unwrap_or(0);
            if held >= quota {
                return Err(Full::Quota { who: *source, quota });
            }
            if !has_share(held, free) {
                return Err(Full::Source { who: *source, held, most: self.most });
            }
        }
        taken.all += 1;
        sources.iter().for_each(|source| *taken.of.entry(*source).or_default() += 1);
        Ok(Held { shares: self.clone(), sources: sources.to_vec() })
    }

    /// All places.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Number of places that are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.lock().all
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut taken = self.shares.lock();
        taken.all -= 1;
        for source in &self.sources {
            if let Some(held) = taken.of.get_mut(source) {
                *held -= 1;
                if *held == 0 {
                    taken.of.remove(source);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(address: &str) -> Source {
        Source::of(SocketAddr::new(address.parse().unwrap(), 1))
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

    #[test]
    fn one_source_leaves_places_to_others_and_equal_sources_share() {
        for (most, alone) in [(1, 1), (3, 3), (8, 7), (50, 44), (1024, 896)] {
            let shares = Shares::new(most);
            let held: Vec<Held> = std::iter::from_fn(|| shares.enter(&[source("10.0.0.1")]).ok()).collect();
            assert_eq!(held.len(), alone, "of {most}");
            assert_eq!(shares.enter(&[source("10.0.0.2")]).is_ok(), most > alone);
            drop(held);
            assert_eq!(shares.taken(), 0);
        }
        let shares = Shares::new(64);
        let mut held: [Vec<Held>; 2] = Default::default();
        for _ in 0..64 {
            for (address, held) in ["10.0.0.1", "10.0.0.2"].into_iter().zip(&mut held) {
                held.extend(shares.enter(&[source(address)]).ok());
            }
        }
        assert_eq!(held.map(|held| held.len()), [30, 30]);
    }

    #[test]
    fn a_place_counts_for_the_session_and_for_its_address() {
        let shares = Shares::new(16);
        let (address, session) = (source("10.0.0.1"), |tag| Source::Session([tag; TAG]));
        let held: Vec<Held> = (0..16).filter_map(|tag| shares.enter(&[session(tag), address]).ok()).collect();
        assert_eq!(held.len(), 14, "no session has its share, but the address has");
        let error = shares.enter(&[session(99), address]).unwrap_err();
        assert_eq!(error.to_string(), "10.0.0.1 has 14 of 16 places; the others are kept for other clients");
        assert!(shares.enter(&[session(99), source("10.0.0.2")]).is_ok());
    }
}
