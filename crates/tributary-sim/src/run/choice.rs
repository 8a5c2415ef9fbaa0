//! Transports by name: one registry for the command line, scenario files and plans.

use thiserror::Error;
use tributary_cc as congestion;
use tributary_link::Scenario;
use tributary_proto::scheduler;

use crate::quic::quic_controllers;

/// What carries the bytes of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// TCP on the path with this index.
    Tcp {
        /// Index of the path.
        path: usize,
        /// Its name.
        name: String,
    },
    /// Multipath TCP over all paths.
    Mptcp {
        /// Scheduler.
        scheduler: String,
    },
    /// A Tributary session over TCP subflows on all paths.
    Session {
        /// Scheduler.
        scheduler: String,
    },
    /// QUIC on one path.
    Quic {
        /// Index of the path.
        path: usize,
        /// Its name.
        name: String,
    },
    /// Multipath QUIC over all paths, with the implementation's own scheduler.
    Mpquic,
}

/// A name that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown {what} `{name}`; known: {}{}", known.join(", "), hint(what))]
pub struct UnknownName {
    /// What should have had the name.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The names there are.
    pub known: Vec<String>,
}

/// Names that are made of others are not listed.
fn hint(what: &str) -> &'static str {
    if matches!(what, "transport" | "scheduler") { "; priorities first: avira+SCHEDULER" } else { "" }
}

impl UnknownName {
    fn new<'a>(what: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self { what, name: name.to_owned(), known: known.into_iter().map(str::to_owned).collect() }
    }
}

/// Scheduler of MPTCP where none is named: the kernel's.
const MPTCP_DEFAULT: &str = "linux-default";
/// Scheduler of a session where none is named.
const SESSION_DEFAULT: &str = "fbdt";
/// Separates `quic` from the path it runs on.
const ON: char = ':';

impl Choice {
    /// The transport called `name`: a path of the scenario (TCP on it), `tcp` (on the first path),
    /// `quic` or `quic:PATH`, `mptcp`, `mpquic`, `session`, or a scheduler's name, which is a session
    /// with it. `scheduler` is for `mptcp` and `session`; the others have none or their own: see
    /// [`Choice::is_scheduled_by`].
    ///
    /// # Errors
    /// [`UnknownName`] lists the names there are.
    pub fn find(name: &str, scheduler: Option<&str>, scenario: &Scenario) -> Result<Self, UnknownName> {
        if let Some((path, spec)) = scenario.path(name) {
            return Ok(Self::Tcp { path, name: spec.name.clone() });
        }
        if let Some(scheduler) = scheduler {
            check_scheduler(scheduler)?;
        }
        let first = || scenario.paths.first().map_or_else(String::new, |path| path.name.clone());
        let (kind, on) = name.split_once(ON).map_or((name, None), |(kind, on)| (kind, Some(on)));
        let path = |on: Option<&str>| match on.map(|on| (on, scenario.path(on))) {
            None => Ok((0, first())),
            Some((_, Some((index, spec)))) => Ok((index, spec.name.clone())),
            Some((on, None)) => Err(unknown_path(on, scenario)),
        };
        match (kind, on) {
            ("tcp", on) => path(on).map(|(path, name)| Self::Tcp { path, name }),
            ("quic", on) => path(on).map(|(path, name)| Self::Quic { path, name }),
            ("mptcp", None) => Ok(Self::Mptcp { scheduler: scheduler.unwrap_or(MPTCP_DEFAULT).to_owned() }),
            ("mpquic", None) => Ok(Self::Mpquic),
            ("session", None) => {
                Ok(Self::Session { scheduler: scheduler.unwrap_or(SESSION_DEFAULT).to_owned() })
            }
            _ if scheduler::is_known(name) => Ok(Self::Session { scheduler: name.to_owned() }),
            _ => Err(unknown(name, scenario)),
        }
    }

    /// Short name, as in [`Choice::find`]; sessions have their scheduler's.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Tcp { name, .. } => name.clone(),
            Self::Mptcp { scheduler } if scheduler == MPTCP_DEFAULT => "mptcp".to_owned(),
            Self::Mptcp { scheduler } => format!("mptcp/{scheduler}"),
            Self::Session { scheduler } => scheduler.clone(),
            Self::Quic { path: 0, .. } => "quic".to_owned(),
            Self::Quic { name, .. } => format!("quic{ON}{name}"),
            Self::Mpquic => "mpquic".to_owned(),
        }
    }

    /// Its scheduler, if it has one.
    #[must_use]
    pub fn scheduler(&self) -> Option<&str> {
        match self {
            Self::Tcp { .. } | Self::Quic { .. } | Self::Mpquic => None,
            Self::Mptcp { scheduler } | Self::Session { scheduler } => Some(scheduler),
        }
    }

    /// Whether its scheduler is this one.
    #[must_use]
    pub fn is_scheduled_by(&self, scheduler: &str) -> bool {
        self.scheduler() == Some(scheduler)
    }

    /// Whether it may have several subflows on a path.
    #[must_use]
    pub fn is_multipath(&self) -> bool {
        !matches!(self, Self::Tcp { .. } | Self::Quic { .. })
    }

    /// The indices of the scenario's paths that it uses.
    #[must_use]
    pub fn paths(&self, scenario: &Scenario) -> Vec<usize> {
        match self {
            Self::Tcp { path, .. } | Self::Quic { path, .. } => vec![*path],
            _ => (0..scenario.paths.len()).collect(),
        }
    }

    /// Whether one connection carries several streams.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        !matches!(self, Self::Tcp { .. } | Self::Mptcp { .. })
    }

    /// Refuses a path, a scheduler or a congestion control that does not exist, for choices built in
    /// code.
    pub(super) fn check(&self, scenario: &Scenario, congestion: &str) -> Result<(), UnknownName> {
        match self {
            Self::Quic { .. } | Self::Mpquic if quic_controllers().contains(&congestion) => {}
            Self::Quic { .. } | Self::Mpquic => {
                return Err(UnknownName::new("congestion control of QUIC", congestion, quic_controllers()));
            }
            _ => check_tcp_congestion(congestion)?,
        }
        if let Self::Tcp { path, name } | Self::Quic { path, name } = self
            && scenario.paths.get(*path).is_none_or(|spec| spec.name != *name)
        {
            return Err(unknown_path(name, scenario));
        }
        self.scheduler().map_or(Ok(()), check_scheduler)
    }
}

/// The names of transports that every scenario has, without its paths and the schedulers.
#[must_use]
pub fn transports() -> [&'static str; 5] {
    ["tcp", "mptcp", "session", "quic", "mpquic"]
}

fn unknown(name: &str, scenario: &Scenario) -> UnknownName {
    let paths = scenario.paths.iter().map(|path| path.name.as_str());
    UnknownName::new("transport", name, paths.chain(transports()).chain(scheduler::names()))
}

fn unknown_path(name: &str, scenario: &Scenario) -> UnknownName {
    UnknownName::new("path", name, scenario.paths.iter().map(|path| path.name.as_str()))
}

/// Refuses a scheduler that does not exist.
///
/// # Errors
/// [`UnknownName`] lists the names there are.
pub fn check_scheduler(name: &str) -> Result<(), UnknownName> {
    if scheduler::is_known(name) {
        return Ok(());
    }
    Err(UnknownName::new("scheduler", name, scheduler::names()))
}

/// Refuses a congestion control that no transport has.
///
/// # Errors
/// [`UnknownName`] lists the names there are.
pub fn check_congestion(name: &str) -> Result<(), UnknownName> {
    if quic_controllers().contains(&name) { Ok(()) } else { check_tcp_congestion(name) }
}

/// Refuses a congestion control that TCP does not have.
pub(super) fn check_tcp_congestion(name: &str) -> Result<(), UnknownName> {
    let known = congestion::names();
    if known.contains(&name) { Ok(()) } else { Err(UnknownName::new("congestion control", name, known)) }
}
