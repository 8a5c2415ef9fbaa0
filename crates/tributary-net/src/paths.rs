//! Status of each path of a session for status displays: its state, the reason for it, and its traffic.
//!
//! `tributary-proto` has the session's own view (silence, rates); this module adds the path's name and the reason of
//! its last failure. Each change is logged once.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use tributary_proto::SubflowStats;
use tributary_proto::establish::SMALL_SEGMENT;
use tributary_types::{Instant, PathId, SubflowId};

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
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Silent => "silent",
            Self::Down => "down",
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
    /// Why it is down or silent.
    pub cause: Option<String>,
    /// When it entered this state, as time since the session began.
    pub since: Duration,
    /// Payload bytes sent on it, copies included.
    pub sent: u64,
    /// Payload bytes received on it, copies included.
    pub received: u64,
}

#[derive(Debug)]
struct Path {
    status: PathStatus,
    /// Bytes sent and received on each open subflow.
    subflows: BTreeMap<SubflowId, (u64, u64)>,
    /// Bytes sent and received on subflows that have ended.
    gone: (u64, u64),
}

/// All paths of a session.
#[derive(Debug, Default)]
pub(crate) struct Paths(BTreeMap<PathId, Path>);

impl Paths {
    /// A path that was configured, or that the peer opened a subflow on.
    pub(crate) fn add(&mut self, now: Instant, path: PathId, name: impl FnOnce() -> String) {
        self.0.entry(path).or_insert_with(|| Path {
            status: PathStatus {
                path,
                name: name(),
                state: PathState::Connecting,
                cause: None,
                since: now.saturating_since(Instant::ZERO),
                sent: 0,
                received: 0,
            },
            subflows: BTreeMap::new(),
            gone: (0, 0),
        });
    }

    /// Removes a path.
    pub(crate) fn remove(&mut self, path: PathId) {
        if let Some(path) = self.0.remove(&path) {
            tracing::info!("path {} is removed", path.status.name);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the state of a path; returns the new status if it changed.
    pub(crate) fn change(
        &mut self,
        now: Instant,
        path: PathId,
        state: PathState,
        cause: Option<String>,
    ) -> Option<PathStatus> {
        let status = &mut self.0.get_mut(&path)?.status;
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
        status.cause = cause;
        status.since = now.saturating_since(Instant::ZERO);
        match (state, &status.cause) {
            (PathState::Down, Some(cause)) => {
                tracing::warn!("path {} is down: {cause}; it is tried again", status.name);
            }
            (PathState::Down, None) => tracing::warn!("path {} is down", status.name),
            (PathState::Up, _) => tracing::info!("path {} is up", status.name),
            // Short silences are normal for a radio; `proxy::watch` logs long ones.
            (PathState::Silent | PathState::Connecting, _) => {}
        }
        Some(status.clone())
    }

    /// A silent path carries data again.
    pub(crate) fn back(&mut self, now: Instant, path: PathId) -> Option<PathStatus> {
        let status = &mut self.0.get_mut(&path)?.status;
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
        let status = &mut self.0.get_mut(&path)?.status;
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
        for (id, path) in &mut self.0 {
            let gone = |known: &SubflowId| !subflows.iter().any(|stats| stats.subflow == *known);
            path.subflows.retain(|known, bytes| {
                let gone = gone(known);
                if gone {
                    path.gone = (path.gone.0 + bytes.0, path.gone.1 + bytes.1);
                }
                !gone
            });
            for stats in subflows.iter().filter(|stats| stats.path == *id) {
                path.subflows.insert(stats.subflow, (stats.sent, stats.received));
            }
            path.status.sent = path.gone.0 + path.subflows.values().map(|bytes| bytes.0).sum::<u64>();
            path.status.received = path.gone.1 + path.subflows.values().map(|bytes| bytes.1).sum::<u64>();
        }
    }

    /// Whether the path is still being connected for the first time.
    pub(crate) fn is_connecting(&self, path: PathId) -> bool {
        self.0.get(&path).is_some_and(|path| path.status.state == PathState::Connecting)
    }

    pub(crate) fn name(&self, path: PathId) -> Option<&str> {
        Some(&self.0.get(&path)?.status.name)
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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PathStatus> {
        self.0.values().map(|path| &path.status)
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
