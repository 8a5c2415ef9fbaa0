//! Metered paths: their bytes cost money, so they carry data only when the other paths cannot carry what is asked.
//!
//! That is so in two cases. No other path delivers: each is silent or has no connection. Or data has waited for the
//! others for two seconds without a break; then metered paths help until nothing has waited for two seconds. Example: a
//! 5 Mbit/s video over 6 Mbit/s of WiFi leaves the metered radio alone, one of 8 Mbit/s uses it after two seconds.
//! A metered path is connected meanwhile, so that it can take over at once. Not here: which paths are metered.

use core::time::Duration;
use std::collections::BTreeSet;

use tributary_types::{Instant, PathId};

use super::Session;
use crate::subflow::Subflow;

/// Data has waited so long without a break before metered paths help, and not at all for so long before they stop.
const PERSISTENT: Duration = Duration::from_secs(2);

/// Which paths are metered, and whether they help.
#[derive(Debug, Default)]
pub(super) struct Metered {
    paths: BTreeSet<PathId>,
    /// Data waits for the other paths, without a break since then.
    waits_since: Option<Instant>,
    /// Data waited last.
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
    }

    pub fn contains(&self, path: PathId) -> bool {
        self.paths.contains(&path)
    }

    /// Every subflow with room was offered data. Returns whether the answer of [`Self::spared`] may have changed.
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
    /// the client's handshake says, before [`Self::handle_subflow_open`].
    pub fn set_metered(&mut self, path: PathId, metered: bool) {
        self.metered.set(path, metered);
        self.views_stale = true;
    }

    /// Whether metered subflows get no data now.
    pub(super) fn spares_metered(&self) -> bool {
        !self.metered.helps
            && !self.metered.paths.is_empty()
            && self.subflows.values().any(|s| self.is_free(s) && !s.silent)
    }

    /// Whether an acknowledgement on this subflow can be saved: it is metered, nothing has arrived on it since the last
    /// one, and another subflow carries it.
    pub(super) fn saves_ack(&self, subflow: &Subflow) -> bool {
        !self.is_free(subflow)
            && subflow.acknowledged_arrivals == subflow.arrived
            && self.subflows.values().any(|other| self.is_free(other))
    }

    fn is_free(&self, subflow: &Subflow) -> bool {
        !self.metered.contains(subflow.path)
    }

    /// Nothing more can be sent now; returns whether metered subflows may be offered data after all.
    pub(super) fn watch_waiting(&mut self, now: Instant) -> bool {
        if self.metered.paths.is_empty() {
            return false;
        }
        let waits = self.send.available() > 0 || self.send.has_untaken();
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
        // It helps, so that data waits only now and then.
        for ms in (13_000..20_000).step_by(100) {
            metered.observe(at(ms), ms % 1000 == 0);
            assert!(metered.helps, "{ms} ms");
        }
        assert_eq!(metered.poll_timeout(), Some(at(21_000)));
        assert!(metered.observe(at(21_000), false) && !metered.helps);
        assert_eq!(metered.poll_timeout(), None);
    }
}
