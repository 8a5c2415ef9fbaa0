//! When a client dials the address that the server's answer gave for the instance of its session, instead of the address of a path.
//!
//! Each path has its own back-off, because an address that one network reaches is perhaps closed to another. An address proves
//! nothing: whoever answers there must prove the server's key as anywhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tributary_types::{Instant, PathId, SubflowId};

use crate::config::{OwnAddress, ServerAddress};

/// First and longest time without another attempt after one that has failed.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Attempts at the instance's own address.
#[derive(Debug, Default)]
pub(super) struct Direct {
    address: Option<ServerAddress>,
    /// Failures of each path since the last success, and when it may try again.
    failed: BTreeMap<PathId, (u32, Instant)>,
    /// Attempts that are connected to the address and not yet subflows.
    open: BTreeSet<SubflowId>,
}

impl Direct {
    /// The server's answer gives this address.
    pub(super) fn set(&mut self, address: Option<&OwnAddress>) {
        self.address = address.map(|address| address.server().clone());
    }

    /// The address to try on this path now.
    pub(super) fn address(&self, now: Instant, path: PathId) -> Option<&ServerAddress> {
        let may_try = self.failed.get(&path).is_none_or(|(_, until)| now >= *until);
        self.address.as_ref().filter(|_| may_try)
    }

    /// An attempt is connected to the address.
    pub(super) fn connected(&mut self, id: SubflowId) {
        self.open.insert(id);
    }

    /// Nothing has answered there.
    pub(super) fn fail(&mut self, now: Instant, path: PathId) {
        let (failures, until) = self.failed.entry(path).or_insert((0, now));
        *until = now + (BACK_OFF.0 * (1 << (*failures).min(6))).min(BACK_OFF.1);
        *failures = failures.saturating_add(1);
    }

    /// An attempt has ended: as a subflow, or for a reason that says nothing about the address, or because of what is there.
    pub(super) fn ended(&mut self, now: Instant, (id, path): (SubflowId, PathId), works: bool) {
        if !self.open.remove(&id) {
            return;
        }
        match works {
            true => drop(self.failed.remove(&path)),
            false => self.fail(now, path),
        }
    }

    pub(super) fn forget(&mut self, path: PathId) {
        self.failed.remove(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn direct() -> Direct {
        let mut direct = Direct::default();
        direct.set("203.0.113.5:7000".parse().ok().as_ref());
        direct
    }

    #[test]
    fn an_address_where_nothing_answers_is_tried_less_and_less() {
        let (mut direct, path) = (direct(), PathId(1));
        let mut waits = Vec::new();
        let mut now = 0;
        for _ in 0..9 {
            direct.fail(at(now), path);
            let wait = (1..).find(|wait| direct.address(at(now + wait), path).is_some()).unwrap();
            waits.push(wait);
            now += wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(direct.address(at(0), PathId(0)).is_some(), "another path has its own");
        direct.forget(path);
        assert!(direct.address(at(now), path).is_some(), "a path that comes back begins anew");
    }

    #[test]
    fn only_what_answers_at_the_address_is_judged() {
        let (mut direct, path) = (direct(), PathId(1));
        direct.ended(at(0), (SubflowId(1), path), false);
        assert!(direct.address(at(0), path).is_some(), "that attempt was connected elsewhere");
        direct.connected(SubflowId(2));
        direct.ended(at(0), (SubflowId(2), path), false);
        assert!(direct.address(at(0), path).is_none());
        direct.connected(SubflowId(3));
        direct.ended(at(1), (SubflowId(3), path), true);
        direct.connected(SubflowId(4));
        direct.ended(at(1), (SubflowId(4), path), false);
        assert!(
            direct.address(at(2), path).is_some(),
            "after a success the first wait is the shortest again"
        );
    }

    #[test]
    fn without_an_address_there_is_nothing_to_try() {
        assert!(Direct::default().address(at(0), PathId(0)).is_none());
    }
}
