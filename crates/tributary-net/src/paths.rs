//! Status of each path of a session for status displays: its state, the reason for it, and its traffic.
//!
//! `tributary-proto` has the session's own view (silence, rates); this module adds the path's name and the reason of
//! its last failure. Each change is logged once.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tributary_proto::SubflowStats;
use tributary_proto::handshakes::SMALL_SEGMENT;
use tributary_types::{Bitrate, Instant, PathId, SubflowId};

/// State of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PathState {
    /// Its first connection is being opened.
    Connecting,
    /// It carries data.
    Up,
    /// It is connected, but nothing sent on it arrives.
    Silent,
    /// It has no connection; a new one is tried from time to time.
    Down,
    /// It is no longer part of the session. If it comes back under its name, its counters go on.
    Removed,
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Down => "down",
            Self::Removed => "removed",
        })
    }
}

/// Why a path is silent.
pub(crate) const UNACKNOWLEDGED: &str = "what is sent on it is not acknowledged";

/// One path, as of now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// The path.
    pub path: PathId,
    /// Client: `LOCAL=SERVER:PORT` as it was given. Server: the client's address.
    pub name: String,
    /// Its state.
    pub state: PathState,
    /// Why it is down, silent or removed.
    pub cause: Option<String>,
    /// When it entered this state, as time since the session began.
    pub since: Duration,
    /// Payload bytes sent on it, copies included.
    pub sent: u64,
    /// Payload bytes received on it, copies included.
    pub received: u64,
    /// What this end sends on it at most.
    pub cap: Option<Bitrate>,
}

#[derive(Debug)]
struct Path {
    status: PathStatus,
    /// Bytes sent and received on each open subflow.
    subflows: BTreeMap<SubflowId, (u64, u64)>,
    /// Bytes sent and received on subflows that have ended.
    gone: (u64, u64),
    /// Why it is being removed.
    leaves: Option<String>,
}

/// Paths whose bytes are counted by their number; those of further numbers are counted together. A client uses new numbers when its
/// interfaces come and go.
pub(crate) const COUNTED: u8 = 8;
/// Removed paths that are still listed. When there are more, the oldest is forgotten.
const REMOVED: usize = 8;
/// Why a path is down if nothing else is known.
const CLOSED_HERE: &str = "this end closed its connection";

/// All paths of a session, and those that were removed last.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    present: BTreeMap<PathId, Path>,
    removed: VecDeque<Path>,
    by_number: BTreeMap<u8, (u64, u64)>,
}

impl Paths {
    /// A path that was configured, or that the peer opened a subflow on. It goes on with the counters of a removed path
    /// of its name.
    pub(crate) fn add(&mut self, now: Instant, path: PathId, name: impl FnOnce() -> String) {
        let removed = &mut self.removed;
        self.present.entry(path).or_insert_with(|| {
            let name = name();
            let before = removed.iter().position(|old| old.status.name == name);
            let (sent, received) = before
                .and_then(|at| removed.remove(at))
                .map_or((0, 0), |old| (old.status.sent, old.status.received));
            let since = now.saturating_since(Instant::ZERO);
            let state = PathState::Connecting;
            let status = PathStatus { path, name, state, cause: None, since, sent, received, cap: None };
            Path { status, subflows: BTreeMap::new(), gone: (sent, received), leaves: None }
        });
    }

    /// What a path may carry has changed.
    pub(crate) fn set_cap(&mut self, path: PathId, cap: Option<Bitrate>) {
        if let Some(path) = self.present.get_mut(&path) {
            path.status.cap = cap;
        }
    }

    /// A path will be removed for this reason. What happens to its connections until then is not its state any more.
    pub(crate) fn leave(&mut self, path: PathId, why: String) {
        if let Some(path) = self.present.get_mut(&path) {
            path.leaves = Some(why);
        }
    }

    /// A path was removed. It stays listed, with the reason given to [`Self::leave`] or else `why`.
    pub(crate) fn remove(&mut self, now: Instant, path: PathId, why: &str) {
        let Some(mut path) = self.present.remove(&path) else { return };
        let cause = path.leaves.take().unwrap_or_else(|| why.to_owned());
        tracing::info!("path {} is removed: {cause}", path.status.name);
        path.status.state = PathState::Removed;
        path.status.cause = Some(cause);
        path.status.since = now.saturating_since(Instant::ZERO);
        self.removed.retain(|old| old.status.name != path.status.name);
        if self.removed.len() == REMOVED {
            self.removed.pop_front();
        }
        self.removed.push_back(path);
    }

    /// Number of paths that the session has.
    pub(crate) fn len(&self) -> usize {
        self.present.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    /// Sets the state of a path, and logs it; returns the new status if it changed.
    pub(crate) fn change(
        &mut self,
        now: Instant,
        path: PathId,
        state: PathState,
        cause: Option<String>,
    ) -> Option<PathStatus> {
        let changed = self.set(now, path, state, cause);
        changed.inspect(|status| match (status.state, &status.cause) {
            (PathState::Down, Some(cause)) => {
                tracing::warn!("path {} is down: {cause}; it is tried again", status.name);
            }
            (PathState::Up, _) => tracing::info!("path {} is up", status.name),
            // Short silences are normal for a radio; `proxy::watch` logs long ones.
            (PathState::Silent | PathState::Connecting | PathState::Removed | PathState::Down, _) => {}
        })
    }

    /// A path is down for a reason that ends the session before it has begun: whoever waits for the session reports it.
    pub(crate) fn give_up(&mut self, now: Instant, path: PathId, cause: String) -> Option<PathStatus> {
        self.set(now, path, PathState::Down, Some(cause))
    }

    fn set(
        &mut self,
        now: Instant,
        path: PathId,
        state: PathState,
        cause: Option<String>,
    ) -> Option<PathStatus> {
        let path = self.present.get_mut(&path).filter(|path| path.leaves.is_none())?;
        let status = &mut path.status;
        // Errors of `connect` begin with the path's name, which is redundant here.
        let prefix = format!("{}: ", status.name);
        let cause = cause.map(|cause| match cause.strip_prefix(&prefix) {
            Some(rest) => rest.to_owned(),
            None => cause,
        });
        if status.state == state && (cause.is_none() || status.cause == cause) {
            return None;
        }
        status.state = state;
        status.cause = cause.or_else(|| (state == PathState::Down).then(|| CLOSED_HERE.to_owned()));
        status.since = now.saturating_since(Instant::ZERO);
        Some(status.clone())
    }

    /// A silent path carries data again.
    pub(crate) fn back(&mut self, now: Instant, path: PathId) -> Option<PathStatus> {
        let status = &mut self.present.get_mut(&path)?.status;
        if status.state != PathState::Silent {
            return None;
        }
        status.state = PathState::Up;
        status.cause = None;
        status.since = now.saturating_since(Instant::ZERO);
        Some(status.clone())
    }

    /// A new connection on a silent path failed: its error becomes the reason that is shown.
    pub(crate) fn fresh_failed(&mut self, path: PathId, error: &str) -> Option<PathStatus> {
        let status = &mut self.present.get_mut(&path)?.status;
        let error = error.strip_prefix(&format!("{}: ", status.name)).unwrap_or(error);
        let cause = format!("{UNACKNOWLEDGED}; a fresh connection failed: {error}");
        if status.state != PathState::Silent || status.cause.as_ref() == Some(&cause) {
            return None;
        }
        status.cause = Some(cause);
        Some(status.clone())
    }

    /// Takes over the counters of the session's subflows.
    pub(crate) fn count(&mut self, subflows: impl Iterator<Item = SubflowStats>) {
        let subflows: Vec<SubflowStats> = subflows.collect();
        for (id, path) in &mut self.present {
            let gone = |known: &SubflowId| !subflows.iter().any(|stats| stats.subflow == *known);
            path.subflows.retain(|known, bytes| {
                let gone = gone(known);
                if gone {
                    path.gone = (path.gone.0 + bytes.0, path.gone.1 + bytes.1);
                }
                !gone
            });
            for stats in subflows.iter().filter(|stats| stats.path == *id) {
                let now = (stats.sent, stats.received);
                path.status.cap = stats.cap;
                let before = path.subflows.insert(stats.subflow, now).unwrap_or_default();
                let number = self.by_number.entry(id.0.min(COUNTED)).or_default();
                *number = (number.0 + now.0 - before.0, number.1 + now.1 - before.1);
            }
            path.status.sent = path.gone.0 + path.subflows.values().map(|bytes| bytes.0).sum::<u64>();
            path.status.received = path.gone.1 + path.subflows.values().map(|bytes| bytes.1).sum::<u64>();
        }
    }

    /// Bytes sent and received since the session began, by the path's number up to [`COUNTED`]. They never decrease.
    pub(crate) fn by_number(&self) -> &BTreeMap<u8, (u64, u64)> {
        &self.by_number
    }

    /// Whether the path is still being connected for the first time.
    pub(crate) fn is_connecting(&self, path: PathId) -> bool {
        self.present.get(&path).is_some_and(|path| path.status.state == PathState::Connecting)
    }

    pub(crate) fn name(&self, path: PathId) -> Option<&str> {
        Some(&self.present.get(&path)?.status.name)
    }

    /// Logs with which segments the path is connected from now on, and why.
    pub(crate) fn warn_of_segments(&self, path: PathId, small: bool) {
        let name = self.name(path).unwrap_or_default();
        if small {
            tracing::warn!(
                "path {name}: connections are established and long packets do not pass (a path MTU black hole?); it \
                 is connected with segments of {SMALL_SEGMENT} bytes"
            );
        } else {
            tracing::info!(
                "path {name}: small segments do not pass either; it is connected with full-size ones again"
            );
        }
    }

    /// The session's paths, then the removed ones.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PathStatus> {
        self.present.values().chain(&self.removed).map(|path| &path.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathId = PathId(1);

    fn paths() -> Paths {
        let mut paths = Paths::default();
        paths.add(Instant::ZERO, PATH, || "wlan0".to_owned());
        paths
    }

    #[test]
    fn a_change_is_reported_once_with_its_cause() {
        let mut paths = paths();
        let mut down = |cause: &str| {
            let changed = paths.change(Instant::ZERO, PATH, PathState::Down, Some(cause.to_owned()));
            changed.and_then(|status| status.cause)
        };
        assert_eq!(down("refused").as_deref(), Some("refused"));
        assert_eq!(down("refused"), None);
        assert_eq!(down("no route").as_deref(), Some("no route"));
        assert_eq!(down("wlan0: refused").as_deref(), Some("refused"));
        assert!(paths.change(Instant::ZERO, PATH, PathState::Down, None).is_none());
        assert_eq!(paths.change(Instant::ZERO, PATH, PathState::Up, None).unwrap().cause, None);
        assert!(paths.change(Instant::ZERO, PATH, PathState::Up, None).is_none());
        assert!(paths.back(Instant::ZERO, PATH).is_none());
        assert!(paths.fresh_failed(PATH, "timed out").is_none(), "it is up");
        let cause = Some(UNACKNOWLEDGED.to_owned());
        assert!(paths.change(Instant::ZERO, PATH, PathState::Silent, cause).is_some());
        let cause = paths.fresh_failed(PATH, "wlan0: timed out").unwrap().cause.unwrap();
        assert_eq!(cause, format!("{UNACKNOWLEDGED}; a fresh connection failed: timed out"));
        assert!(paths.fresh_failed(PATH, "timed out").is_none(), "reported once");
        assert_eq!(paths.back(Instant::ZERO, PATH).unwrap().cause, None);
        assert!(paths.change(Instant::ZERO, PathId(7), PathState::Up, None).is_none());
    }

    #[test]
    fn a_removed_path_stays_listed_with_its_reason_and_its_counters_go_on() {
        let (mut paths, at) = (paths(), Instant::from_millis);
        let stats = |path, subflow, sent| SubflowStats {
            subflow: SubflowId(subflow),
            path,
            sent,
            ..SubflowStats::default()
        };
        paths.count([stats(PATH, 1, 10)].into_iter());
        paths.leave(PATH, "interface wlan0 is down".to_owned());
        assert!(paths.change(at(5), PATH, PathState::Down, None).is_none(), "it is leaving");
        paths.remove(at(7), PATH, "the client removed it");
        assert!(paths.is_empty());
        let status = paths.iter().next().unwrap();
        assert_eq!((status.state, status.since.as_millis(), status.sent), (PathState::Removed, 7, 10));
        assert_eq!(status.cause.as_deref(), Some("interface wlan0 is down"));
        // It comes back under another number.
        paths.add(at(9), PathId(2), || "wlan0".to_owned());
        paths.count([stats(PathId(2), 2, 5)].into_iter());
        let all: Vec<_> = paths.iter().map(|status| (status.state, status.sent)).collect();
        assert_eq!(all, [(PathState::Connecting, 15)]);
        assert_eq!(*paths.by_number(), [(1, (10, 0)), (2, (5, 0))].into());
        // Other names do not pile up.
        for n in 3..30 {
            paths.add(at(9), PathId(n), || format!("10.0.0.{n}"));
            paths.remove(at(9), PathId(n), "the client removed it");
        }
        assert_eq!(paths.iter().count(), 1 + REMOVED);
    }

    #[test]
    fn a_path_without_a_connection_always_has_a_reason() {
        let mut paths = paths();
        let status = paths.change(Instant::ZERO, PATH, PathState::Down, None).unwrap();
        assert_eq!(status.cause.as_deref(), Some(CLOSED_HERE));
    }

    #[test]
    fn bytes_of_ended_subflows_still_count() {
        let mut paths = paths();
        let stats = |subflow, sent, received| SubflowStats {
            subflow: SubflowId(subflow),
            path: PATH,
            sent,
            received,
            ..SubflowStats::default()
        };
        paths.count([stats(1, 10, 1)].into_iter());
        paths.count([stats(1, 20, 2), stats(2, 5, 0)].into_iter());
        paths.count([stats(2, 6, 1)].into_iter());
        let status = paths.iter().next().unwrap();
        assert_eq!((status.sent, status.received), (26, 3));
    }
}
