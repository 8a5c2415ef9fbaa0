//! Metered paths: their traffic costs money, so they carry data only when the other paths cannot carry it.
//!
//! There are two such cases. First, no other path delivers: each is silent or has no connection. Second, data has
//! waited for the other paths for two seconds without a break; then metered paths carry data until nothing has
//! waited for two seconds. Example: with 6 Mbit/s of WiFi, a 5 Mbit/s video never uses the metered radio, and an 8
//! Mbit/s video uses it after two seconds. A metered path stays connected, so that it can take over at once.
//! Not here: which paths are metered.

use core::time::Duration;
use std::collections::BTreeSet;

use thiserror::Error;
use tributary_types::{Instant, PathId};

use super::Session;
use crate::subflow::Subflow;

/// Metered paths carry data once data has waited for the other paths for this time without a break, and stop once
/// no data has waited for this time.
const PERSISTENT: Duration = Duration::from_secs(2);

/// A setting for a path that the session does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the session has no {0}; add the path or open a subflow on it first")]
pub struct UnknownPath(pub PathId);

/// Which paths are metered, and whether they carry data at present.
#[derive(Debug, Default)]
pub(super) struct Metered {
    paths: BTreeSet<PathId>,
    /// Since when data waits for the other paths without a break.
    waits_since: Option<Instant>,
    /// When data last waited.
    waited: Instant,
    helps: bool,
}

impl Metered {
    pub fn set(&mut self, path: PathId, metered: bool) {
        if metered {
            self.paths.insert(path);
        } else {
            self.paths.remove(&path);
        }
        if self.paths.is_empty() {
            // Nothing is observed any more, so nothing may be due.
            *self = Self::default();
        }
    }

    pub fn contains(&self, path: PathId) -> bool {
        self.paths.contains(&path)
    }

    /// Called when every subflow with room was offered data; `waits`: some data was left. Returns whether metered
    /// paths started or stopped carrying data.
    fn observe(&mut self, now: Instant, waits: bool) -> bool {
        let helped = self.helps;
        if waits {
            let since = *self.waits_since.get_or_insert(now);
            self.waited = now;
            self.helps |= now >= since + PERSISTENT;
        } else {
            self.waits_since = None;
            self.helps &= now < self.waited + PERSISTENT;
        }
        helped != self.helps
    }

    /// When to observe again although nothing happened.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.helps, self.waits_since) {
            (false, Some(since)) => Some(since + PERSISTENT),
            (true, None) => Some(self.waited + PERSISTENT),
            _ => None,
        }
    }
}

impl Session {
    /// Says whether a path's bytes cost money. Both sides must know: the driver of the server calls this with what
    /// the client's handshake says, after [`Self::handle_subflow_open`] has accepted the subflow, because a handshake that
    /// is refused must change nothing.
    ///
    /// # Errors
    /// [`UnknownPath`]; the call has no effect then.
    pub fn set_metered(&mut self, path: PathId, metered: bool) -> Result<(), UnknownPath> {
        if !self.paths.contains(path) {
            return Err(UnknownPath(path));
        }
        self.metered.set(path, metered);
        self.views_stale = true;
        Ok(())
    }

    /// Whether a path's bytes cost money.
    #[must_use]
    pub fn is_metered(&self, path: PathId) -> bool {
        self.metered.contains(path)
    }

    /// Whether metered subflows get no data now.
    pub(super) fn spares_metered(&self) -> bool {
        !self.metered.helps
            && !self.metered.paths.is_empty()
            && self.subflows.values().any(|s| self.is_free(s) && !s.silent)
    }

    /// Whether an acknowledgement on this subflow can be saved: it is metered or its cap leaves no room, nothing has arrived on it since
    /// the last one, and another subflow carries it.
    pub(super) fn saves_ack(&self, subflow: &Subflow) -> bool {
        let carries = |other: &Subflow| self.is_free(other) && !other.capped.is_held(self.clock);
        !carries(subflow)
            && subflow.acknowledged_arrivals == subflow.arrived + subflow.arrived_apart
            && self.subflows.values().any(carries)
    }

    fn is_free(&self, subflow: &Subflow) -> bool {
        !self.metered.contains(subflow.path)
    }

    /// Called when nothing more can be sent. Returns whether metered subflows may be offered data from now on.
    pub(super) fn watch_waiting(&mut self, now: Instant) -> bool {
        if self.metered.paths.is_empty() {
            return false;
        }
        let waits = self.send.available() > 0 || self.send.untaken() > 0;
        let changed = self.metered.observe(now, waits);
        self.views_stale |= changed;
        changed && self.metered.helps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn nothing_is_due_once_the_last_metered_path_is_gone() {
        for waited in [1000, 3000] {
            let mut metered = Metered::default();
            metered.set(PathId(1), true);
            metered.observe(at(0), true);
            metered.observe(at(waited), true);
            assert!(metered.poll_timeout().is_some() || metered.helps);
            metered.observe(at(waited), waited < 2000);
            metered.set(PathId(1), false);
            assert_eq!(metered.poll_timeout(), None, "{waited} ms");
        }
    }

    #[test]
    fn data_must_wait_without_a_break_and_then_none_must_wait() {
        let mut metered = Metered::default();
        metered.set(PathId(1), true);
        for ms in (0..10_000).step_by(100) {
            // Two-second segments of a video, each carried in 1.9 s.
            metered.observe(at(ms), ms % 2000 < 1900);
            assert!(!metered.helps, "{ms} ms");
        }
        for ms in (10_000..13_000).step_by(100) {
            metered.observe(at(ms), true);
            assert_eq!(metered.helps, ms >= 12_000, "{ms} ms");
        }
        // Metered paths carry data, so that data waits only now and then.
        for ms in (13_000..20_000).step_by(100) {
            metered.observe(at(ms), ms % 1000 == 0);
            assert!(metered.helps, "{ms} ms");
        }
        assert_eq!(metered.poll_timeout(), Some(at(21_000)));
        assert!(metered.observe(at(21_000), false) && !metered.helps);
        assert_eq!(metered.poll_timeout(), None);
    }
}
