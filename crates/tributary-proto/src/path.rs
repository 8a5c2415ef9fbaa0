//! The path manager: which paths there are, how reliable they are, and when to connect them. [`crate::handshakes`]
//! carries out the attempts.
//!
//! The client connects. A path whose subflow ended is connected again with back-off. A silent path is probed
//! with new connections, because a sender that lost a whole window may wait for seconds of retransmission
//! back-off although the radio has recovered. Probing ends when the old subflow delivers data again.

mod blockages;

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_types::{Instant, PathId, SubflowId};

use blockages::Blockages;

/// Shortest and longest wait between attempts to connect a path that is down.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_millis(800));
/// Shortest and longest wait between two probes of a silent path. The wait grows by a quarter each time.
const PROBE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(200));
/// Most attempts running on one path.
const MOST_ATTEMPTS: usize = 8;
/// A peer's request for a new connection expires after this time unless it is repeated.
const PEER_REQUEST_TIME: Duration = Duration::from_millis(500);
/// After this many connections in a row without a full-size segment getting through, small segments are used.
const SMALL_SEGMENTS_AFTER: u8 = 2;
/// Time over which a path's reliability is averaged.
const MEMORY: Duration = Duration::from_secs(10);

/// Actions of the session on paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathAction {
    Open(PathId, SubflowId),
    Abandon(SubflowId),
}

/// Why a path with a subflow gets a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probing {
    /// Nothing this side sent has arrived.
    Own,
    /// Nothing arrives: data stopped, and a PING was not answered.
    Unheard,
    /// The peer reports silence; valid until this time.
    Peer(Instant),
    /// The connection delivers, but far more slowly than the path can; valid until this time.
    Replacing(Instant),
}

#[derive(Debug)]
struct Path {
    subflow: Option<SubflowId>,
    /// Running attempts, and whether their transport is connected.
    attempts: Vec<(SubflowId, bool)>,
    next_attempt: Instant,
    /// When the last attempt began.
    attempted: Option<Instant>,
    /// No attempt before this time, because it would fail for the same reason as the last one.
    not_before: Instant,
    wait: Duration,
    probing: Option<Probing>,
    /// Mean lateness over a long time, blockages included: the reliability of the path.
    lateness: Option<Duration>,
    lateness_since: Instant,
    lateness_at: Instant,
    blockages: Blockages,
    /// This side opens connections on it.
    ours: bool,
    /// Connections in a row on which no segment of full size passed.
    stuck: u8,
    /// Connections are opened with small segments.
    small: bool,
}

/// All paths of a session.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    paths: BTreeMap<PathId, Path>,
    next_subflow: u32,
}

impl Paths {
    /// Adds a path that the client wants connected.
    pub fn add(&mut self, now: Instant, id: PathId) {
        self.entry(now, id).ours = true;
    }

    fn entry(&mut self, now: Instant, id: PathId) -> &mut Path {
        self.paths.entry(id).or_insert_with(|| Path {
            subflow: None,
            attempts: Vec::new(),
            next_attempt: now,
            attempted: None,
            not_before: now,
            wait: BACKOFF.0,
            probing: None,
            lateness: None,
            lateness_since: now,
            lateness_at: now,
            blockages: Blockages::default(),
            ours: false,
            stuck: 0,
            small: false,
        })
    }

    /// Whether there is such a path.
    pub fn contains(&self, id: PathId) -> bool {
        self.paths.contains_key(&id)
    }

    /// Whether the path has a subflow.
    pub fn is_connected(&self, id: PathId) -> bool {
        self.paths.get(&id).is_some_and(|path| path.subflow.is_some())
    }

    /// Removes the path. Returns its subflow and its attempts, which must be closed.
    pub fn remove(&mut self, id: PathId) -> (Option<SubflowId>, Vec<PathAction>) {
        let Some(path) = self.paths.remove(&id) else { return (None, Vec::new()) };
        (path.subflow, path.attempts.into_iter().map(|(id, _)| PathAction::Abandon(id)).collect())
    }

    /// A subflow opened. Returns the one it replaces and the attempts to abandon.
    pub fn opened(
        &mut self,
        now: Instant,
        id: PathId,
        subflow: SubflowId,
    ) -> (Option<SubflowId>, Vec<PathAction>) {
        let path = self.entry(now, id);
        let old = path.subflow.replace(subflow);
        if old.is_some() {
            path.blockages.replaced(now);
        }
        path.probing = None;
        path.wait = BACKOFF.0;
        let others = path.attempts.drain(..).map(|(id, _)| id).filter(|id| *id != subflow);
        (old, others.map(PathAction::Abandon).collect())
    }

    /// Whether the peer reports that nothing it sends on the path arrives.
    pub fn is_silent_for_peer(&self, id: PathId) -> bool {
        self.paths.get(&id).is_some_and(|path| matches!(path.probing, Some(Probing::Peer(_))))
    }

    /// An established connection is silent, or has ended. `passed`: full-size segments got through on it.
    /// Returns whether to use small segments from then on, if that changes.
    pub fn given_up(&mut self, id: PathId, passed: bool) -> Option<bool> {
        let path = self.paths.get_mut(&id).filter(|path| path.ours)?;
        path.stuck = if passed { 0 } else { path.stuck + 1 };
        if path.stuck < SMALL_SEGMENTS_AFTER {
            return None;
        }
        // If small segments do not get through either, the size is not the reason.
        path.stuck = 0;
        path.small = !path.small;
        Some(path.small)
    }

    /// A subflow ended, or an attempt failed.
    pub fn ended(&mut self, now: Instant, subflow: SubflowId) {
        for path in self.paths.values_mut() {
            if path.subflow == Some(subflow) {
                path.subflow = None;
                path.probing = None;
                path.next_attempt = now.max(path.not_before);
                path.wait = BACKOFF.0;
            }
            path.attempts.retain(|(id, _)| *id != subflow);
        }
    }

    /// The transport of an attempt is connected.
    pub fn progressed(&mut self, subflow: SubflowId) {
        for (id, connected) in self.paths.values_mut().flat_map(|path| &mut path.attempts) {
            *connected |= *id == subflow;
        }
    }

    /// A path without a subflow is tried next at `at`.
    pub fn retry(&mut self, at: Instant, id: PathId) {
        if let Some(path) = self.paths.get_mut(&id) {
            path.not_before = at;
            if path.subflow.is_none() {
                path.next_attempt = at;
            }
        }
    }

    /// The path's subflow fell silent, as this side or the peer sees it.
    pub fn silent(&mut self, now: Instant, id: PathId, seen_by_peer: bool) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        if path.probing.is_none() {
            path.attempt_soon(now);
            path.wait = PROBE.0;
        }
        path.probing = match path.probing {
            Some(other @ (Probing::Own | Probing::Unheard | Probing::Replacing(_))) => Some(other),
            _ if seen_by_peer => Some(Probing::Peer(now + PEER_REQUEST_TIME)),
            _ => Some(Probing::Own),
        };
    }

    /// Nothing arrives on the path's subflow any more.
    pub fn unheard(&mut self, now: Instant, id: PathId) {
        let Some(path) = self.paths.get_mut(&id) else { return };
        if path.probing.is_none() {
            path.attempt_soon(now);
            path.wait = PROBE.0;
        }
        // A peer's request would expire.
        if matches!(path.probing, None | Some(Probing::Peer(_))) {
            path.probing = Some(Probing::Unheard);
        }
    }

    /// Something arrives on the path's subflow again.
    pub fn heard(&mut self, id: PathId) -> Vec<PathAction> {
        let Some(path) = self.paths.get_mut(&id) else { return Vec::new() };
        if path.probing != Some(Probing::Unheard) {
            return Vec::new();
        }
        path.probing = None;
        path.attempts.drain(..).map(|(id, _)| PathAction::Abandon(id)).collect()
    }

    /// The path's subflow delivers, but a new connection shall replace it.
    pub fn replace(&mut self, now: Instant, id: PathId) {
        if let Some(path) = self.paths.get_mut(&id) {
            path.attempt_soon(now);
            path.wait = PROBE.1;
            path.probing = Some(Probing::Replacing(now + PEER_REQUEST_TIME));
        }
    }

    /// The path's subflow delivers: data arrived on it, or (`own`) this side's data was acknowledged.
    pub fn moving(&mut self, id: PathId, own: bool) -> Vec<PathAction> {
        let Some(path) = self.paths.get_mut(&id) else { return Vec::new() };
        match path.probing {
            Some(Probing::Own) if own => {}
            Some(Probing::Peer(_)) if !own => {}
            _ => return Vec::new(),
        }
        path.probing = None;
        path.attempts.drain(..).map(|(id, _)| PathAction::Abandon(id)).collect()
    }

    /// Attempts that are due.
    pub fn poll(&mut self, now: Instant) -> Option<PathAction> {
        for (&id, path) in &mut self.paths {
            if path.probing.is_some_and(
                |p| matches!(p, Probing::Peer(until) | Probing::Replacing(until) if now >= until),
            ) {
                path.probing = None;
            }
            if !path.due(now) {
                continue;
            }
            if path.attempts.len() >= MOST_ATTEMPTS {
                // The oldest attempt is replaced by a new one, because its next SYN retransmission is furthest away.
                // An attempt that the server has answered stays: on a path with a long round trip it only needs time.
                if let Some(at) = path.attempts.iter().position(|(_, connected)| !connected) {
                    return Some(PathAction::Abandon(path.attempts.remove(at).0));
                }
                path.next_attempt = now + path.wait;
                continue;
            }
            path.next_attempt = now + path.wait;
            path.attempted = Some(now);
            path.wait = if path.subflow.is_some() {
                (path.wait * 5 / 4).min(PROBE.1)
            } else {
                (path.wait * 2).min(BACKOFF.1)
            };
            let subflow = SubflowId(self.next_subflow);
            self.next_subflow += 1;
            path.attempts.push((subflow, false));
            return Some(PathAction::Open(id, subflow));
        }
        None
    }

    /// When [`Self::poll`] must be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.paths.values().filter(|path| path.wants_attempts()).map(|path| path.next_attempt).min()
    }

    /// A segment arrived on the path, this much later than expected when it was handed over.
    pub fn delivered(&mut self, now: Instant, id: PathId, lateness: Duration) {
        if let Some(path) = self.paths.get_mut(&id) {
            path.delivered(now, lateness);
        }
    }

    /// Mean lateness of a path over about ten seconds: the lower, the more reliable. Zero while unknown.
    pub fn lateness(&self, id: PathId) -> Duration {
        self.paths.get(&id).and_then(|path| path.lateness).unwrap_or_default()
    }

    /// How much later than expected its segments arrive after a blockage that it usually has; zero if it has none, or if they
    /// are too long to wait for.
    pub fn usual_blockage(&self, now: Instant, id: PathId) -> Duration {
        self.paths.get(&id).map(|path| path.blockages.usual(now)).unwrap_or_default()
    }

    /// Every path there is.
    pub fn ids(&self) -> impl Iterator<Item = PathId> + '_ {
        self.paths.keys().copied()
    }
}

impl Path {
    fn wants_attempts(&self) -> bool {
        self.ours && (self.subflow.is_none() || self.probing.is_some())
    }

    /// The next attempt is due now. A peer that asks for one again and again gets one in [`PROBE`]'s least time.
    fn attempt_soon(&mut self, now: Instant) {
        self.next_attempt = self.attempted.map_or(now, |at| now.max(at + PROBE.0));
    }

    fn due(&self, now: Instant) -> bool {
        self.wants_attempts() && now >= self.next_attempt
    }

    fn delivered(&mut self, now: Instant, sample: Duration) {
        self.blockages.delivered(now, sample);
        // A segment's lateness is weighted by the time since the previous segment.
        let passed = now.saturating_since(self.lateness_at).as_secs_f64();
        let memory = (now.saturating_since(self.lateness_since) / 4).min(MEMORY).as_secs_f64();
        let weight = passed / (passed + memory).max(1e-9);
        self.lateness_at = now;
        let mean = self.lateness.unwrap_or(sample);
        self.lateness = Some(mean.mul_f64(1.0 - weight) + sample.mul_f64(weight));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blockage_counts_for_seconds_however_many_segments_arrive_after_it() {
        let (id, ms) = (PathId(0), Duration::from_millis);
        let mut paths = Paths::default();
        paths.add(Instant::ZERO, id);
        let mut segments = |from: u64, until: u64, late| {
            (from..until).for_each(|at| paths.delivered(Instant::from_millis(at), id, ms(late)));
            paths.lateness(id)
        };
        assert_eq!(segments(0, 20_000, 5), ms(5));
        let blocked = segments(21_000, 21_001, 1005);
        assert!((ms(130)..ms(230)).contains(&blocked), "{blocked:?}");
        let later = segments(21_001, 24_000, 5);
        assert!(later > ms(50), "{later:?}");
        let much_later = segments(24_000, 60_000, 5);
        assert!(much_later < ms(15), "{much_later:?}");
    }
}
