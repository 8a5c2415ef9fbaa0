//! Places for QUIC handshakes, and the log of refused ones. Shared by both libraries.
//!
//! A client whose address is not validated may have any address, so these share a few places. When they are taken, the
//! server answers with Retry packets and keeps nothing (RFC 9000 §8.1.2). Clients with a validated address have places
//! of their own, of which the address with the most loses its oldest.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::config::Limits;
use crate::places::{Full, Places, Source};
use crate::rate_limited::RateLimited;
use crate::transport::TransportError;

/// Handshakes in progress.
#[derive(Debug)]
pub(super) struct HandshakePlaces {
    /// Limit on handshakes with addresses that are not validated.
    unvalidated: usize,
    places: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    unvalidated: usize,
    validated: Places<Arc<Notify>>,
    next: u64,
}

/// A handshake's place, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    handshakes: Arc<HandshakePlaces>,
    /// Its address, if validated, and its number.
    who: Option<(Source, u64)>,
    displaced: Arc<Notify>,
}

impl HandshakePlaces {
    pub(super) fn new(limits: &Limits) -> Self {
        // An early request is served before its address is validated; so those that are not never get most of the connections.
        let unvalidated = limits.half_open.min(limits.sessions / 4).max(1);
        let taken = Taken { unvalidated: 0, validated: Places::new(limits.half_open), next: 0 };
        Self { unvalidated, places: Mutex::new(taken) }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a place for a client whose address is not validated.
    pub(super) fn has_place_for_unvalidated(&self) -> bool {
        self.taken().unvalidated < self.unvalidated
    }

    /// Takes a place for a client with this validated address, or for a stranger.
    pub(super) fn enter(self: &Arc<Self>, validated: Option<Source>) -> Place {
        let displaced = Arc::new(Notify::new());
        let mut taken = self.taken();
        let who = validated.map(|source| {
            taken.next += 1;
            (source, taken.next)
        });
        match who {
            Some((source, id)) => {
                if let Some(loser) = taken.validated.enter(source, id, displaced.clone()) {
                    loser.notify_one();
                }
            }
            None => taken.unvalidated += 1,
        }
        drop(taken);
        Place { handshakes: self.clone(), who, displaced }
    }
}

impl Place {
    /// Returns when the place is given to another handshake.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.handshakes.taken();
        match self.who {
            Some((source, id)) => drop(taken.validated.remove(source, Some(id))),
            None => taken.unvalidated -= 1,
        }
    }
}

/// Log of refused connections, one line of each kind in ten seconds.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    wrong_keys: RateLimited,
    failed: RateLimited,
    late: RateLimited,
    displaced: RateLimited,
    full: RateLimited,
}

impl Refusals {
    pub(super) fn failed(&self, from: SocketAddr, error: &TransportError) {
        let limited = match error {
            TransportError::WrongKey | TransportError::Refused(_) => &self.wrong_keys,
            _ => &self.failed,
        };
        limited.tell(|more| tracing::info!(%from, "connection refused: {error}{more}"));
    }

    pub(super) fn late(&self, from: SocketAddr, within: Duration) {
        self.late
            .tell(|more| tracing::info!(%from, "connection refused: no handshake within {within:?}{more}"));
    }

    pub(super) fn displaced(&self, from: SocketAddr) {
        let why = "its address has the most handshakes in progress";
        self.displaced.tell(|more| tracing::info!(%from, "connection refused: {why}{more}"));
    }

    pub(super) fn full(&self, from: SocketAddr, full: Full) {
        self.full.tell(|more| tracing::warn!(%from, "connection refused: {full}{more}"));
    }
}

#[cfg(test)]
mod tests;
