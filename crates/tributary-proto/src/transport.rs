//! Transports by name: the one registry that scenario files, the command line, the simulator and the
//! sockets share. Names only: the simulator and the runtime build what is named.
//!
//! | name | transport |
//! |---|---|
//! | a path's name, `tcp`, `tcp:PATH` | one TCP connection on that path; `tcp` alone: on the first |
//! | `quic`, `quic:PATH` | QUIC on one path |
//! | `mptcp`, `mptcp/SCHEDULER` | multipath TCP over all paths |
//! | `mpquic` | multipath QUIC over all paths |
//! | `session`, `session/SCHEDULER`, a scheduler's name | a Tributary session over all paths |

use core::fmt;
use core::str::FromStr;

use thiserror::Error;

use crate::scheduler;

/// A transport. Not `non_exhaustive`, so that the runtime and the simulator must handle each of them. [`FromStr`]
/// parses its [`Display`](fmt::Display) form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransportName {
    /// TCP on one path: its name, or the first.
    Tcp(Option<String>),
    /// QUIC on one path: its name, or the first.
    Quic(Option<String>),
    /// Multipath TCP over all paths.
    Mptcp {
        /// Scheduler.
        scheduler: String,
    },
    /// Multipath QUIC over all paths, with the implementation's own scheduler.
    Mpquic,
    /// A Tributary session over subflows on all paths.
    Session {
        /// Scheduler.
        scheduler: String,
    },
}

/// A name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown {what} `{name}`; known: {}{}", known.join(", "), hint(what))]
pub struct UnknownName {
    /// The kind of thing that was looked for, for example "scheduler".
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The names that exist.
    pub known: Vec<String>,
}

/// Hint about names composed of others, which are not listed.
fn hint(what: &str) -> &'static str {
    if matches!(what, "transport" | "scheduler") { "; priorities first: avira+SCHEDULER" } else { "" }
}

impl UnknownName {
    /// The error that no `what` is called `name`. `known` lists the existing names.
    pub fn new<'a>(what: &'static str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self { what, name: name.to_owned(), known: known.into_iter().map(str::to_owned).collect() }
    }
}

/// Default scheduler of MPTCP: the kernel's.
pub const MPTCP_DEFAULT: &str = "linux-default";
/// Default scheduler of a session.
pub const SESSION_DEFAULT: &str = "fbdt";
/// Separates `tcp` and `quic` from the path they run on.
const ON: char = ':';
/// Separates `mptcp` and `session` from their scheduler.
const WITH: char = '/';

impl TransportName {
    /// The transport called `name` in a network with these paths. `scheduler` is for `mptcp` and `session`. The
    /// others have no scheduler or their own: see [`Self::is_scheduled_by`].
    ///
    /// # Errors
    /// [`UnknownName`] lists the names there are.
    pub fn find(name: &str, scheduler: Option<&str>, paths: &[&str]) -> Result<Self, UnknownName> {
        if paths.contains(&name) {
            return Ok(Self::Tcp(Some(name.to_owned())));
        }
        if let Some(scheduler) = scheduler {
            check_scheduler(scheduler)?;
        }
        let first = paths.first().map(|first| (*first).to_owned());
        let (kind, path) = name.split_once(ON).map_or((name, None), |(kind, path)| (kind, Some(path)));
        if let (Some(path), "tcp" | "quic") = (path, kind) {
            check_path(path, paths)?;
        }
        let path = path.map(str::to_owned);
        match (kind, path) {
            ("tcp", path) => return Ok(Self::Tcp(path.or(first))),
            ("quic", path) => return Ok(Self::Quic(path.filter(|path| first.as_ref() != Some(path)))),
            _ => {}
        }
        let (kind, named) = name.split_once(WITH).map_or((name, None), |(kind, of)| (kind, Some(of)));
        if let (Some(named), "mptcp" | "session") = (named, kind) {
            check_scheduler(named)?;
        }
        let or = |default: &str| named.or(scheduler).unwrap_or(default).to_owned();
        match (kind, named) {
            ("mptcp", _) => Ok(Self::Mptcp { scheduler: or(MPTCP_DEFAULT) }),
            ("session", _) => Ok(Self::Session { scheduler: or(SESSION_DEFAULT) }),
            ("mpquic", None) => Ok(Self::Mpquic),
            _ if scheduler::is_known(name) => Ok(Self::Session { scheduler: name.to_owned() }),
            _ => Err(UnknownName::new(
                "transport",
                name,
                paths.iter().copied().chain(names()).chain(scheduler::names()),
            )),
        }
    }

    /// A session with this scheduler.
    #[must_use]
    pub fn session(scheduler: &str) -> Self {
        Self::Session { scheduler: scheduler.to_owned() }
    }

    /// The same transport without the name of a path, to be used on any path.
    #[must_use]
    pub fn without_path(&self) -> Self {
        match self {
            Self::Tcp(_) => Self::Tcp(None),
            Self::Quic(_) => Self::Quic(None),
            other => other.clone(),
        }
    }

    /// Short name, as in [`Self::find`]; sessions have their scheduler's, TCP its path's.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Tcp(Some(path)) => path.clone(),
            Self::Mptcp { scheduler } if scheduler == MPTCP_DEFAULT => "mptcp".to_owned(),
            Self::Session { scheduler } => scheduler.clone(),
            _ => self.to_string(),
        }
    }

    /// Its kind: one of [`names`].
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tcp(_) => "tcp",
            Self::Quic(_) => "quic",
            Self::Mptcp { .. } => "mptcp",
            Self::Mpquic => "mpquic",
            Self::Session { .. } => "session",
        }
    }

    /// Its scheduler, if it has one.
    #[must_use]
    pub fn scheduler(&self) -> Option<&str> {
        match self {
            Self::Tcp(_) | Self::Quic(_) | Self::Mpquic => None,
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
        !matches!(self, Self::Tcp(_) | Self::Quic(_))
    }

    /// Whether it is QUIC on one path or several.
    #[must_use]
    pub fn is_quic(&self) -> bool {
        matches!(self, Self::Quic(_) | Self::Mpquic)
    }

    /// Whether one connection carries several streams.
    #[must_use]
    pub fn has_streams(&self) -> bool {
        !matches!(self, Self::Tcp(_) | Self::Mptcp { .. })
    }

    /// Which of these paths it uses, as indices; empty if its path is not among them.
    #[must_use]
    pub fn paths(&self, paths: &[&str]) -> Vec<usize> {
        match self {
            Self::Tcp(None) | Self::Quic(None) => (0..paths.len().min(1)).collect(),
            Self::Tcp(Some(name)) | Self::Quic(Some(name)) => {
                paths.iter().position(|path| path == name).into_iter().collect()
            }
            _ => (0..paths.len()).collect(),
        }
    }

    /// Checks that the path and the scheduler exist, for names built in code.
    ///
    /// # Errors
    /// [`UnknownName`] lists the names there are.
    pub fn check(&self, paths: &[&str]) -> Result<(), UnknownName> {
        if let Self::Tcp(Some(name)) | Self::Quic(Some(name)) = self {
            check_path(name, paths)?;
        }
        self.scheduler().map_or(Ok(()), check_scheduler)
    }
}

impl fmt::Display for TransportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Tcp(Some(path)) | Self::Quic(Some(path)) => write!(f, "{ON}{path}"),
            Self::Mptcp { scheduler } | Self::Session { scheduler } => write!(f, "{WITH}{scheduler}"),
            Self::Tcp(None) | Self::Quic(None) | Self::Mpquic => Ok(()),
        }
    }
}

impl FromStr for TransportName {
    type Err = UnknownName;

    /// As [`TransportName::find`] before the paths are known: accepts any name of a path.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text.split_once(ON) {
            Some(("tcp", path)) if !path.is_empty() => Ok(Self::Tcp(Some(path.to_owned()))),
            Some(("quic", path)) if !path.is_empty() => Ok(Self::Quic(Some(path.to_owned()))),
            _ => Self::find(text, None, &[]),
        }
    }
}

/// The kinds of transport, without the paths and the schedulers.
#[must_use]
pub fn names() -> [&'static str; 5] {
    ["tcp", "mptcp", "session", "quic", "mpquic"]
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

fn check_path(name: &str, paths: &[&str]) -> Result<(), UnknownName> {
    if paths.contains(&name) { Ok(()) } else { Err(UnknownName::new("path", name, paths.iter().copied())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 2] = ["wifi", "wigig"];

    fn find(name: &str) -> TransportName {
        TransportName::find(name, None, &PATHS).unwrap()
    }

    #[test]
    fn every_name_is_found_and_its_text_is_read_back() {
        for (name, text, short, paths) in [
            ("wigig", "tcp:wigig", "wigig", vec![1]),
            ("tcp", "tcp:wifi", "wifi", vec![0]),
            ("tcp:wigig", "tcp:wigig", "wigig", vec![1]),
            ("quic", "quic", "quic", vec![0]),
            ("quic:wifi", "quic", "quic", vec![0]),
            ("quic:wigig", "quic:wigig", "quic:wigig", vec![1]),
            ("mptcp", "mptcp/linux-default", "mptcp", vec![0, 1]),
            ("mptcp/min-rtt", "mptcp/min-rtt", "mptcp/min-rtt", vec![0, 1]),
            ("mpquic", "mpquic", "mpquic", vec![0, 1]),
            ("session", "session/fbdt", "fbdt", vec![0, 1]),
            ("session/avira+fbdt", "session/avira+fbdt", "avira+fbdt", vec![0, 1]),
            ("avira+fbdt", "session/avira+fbdt", "avira+fbdt", vec![0, 1]),
        ] {
            let found = find(name);
            assert_eq!((found.to_string().as_str(), found.name().as_str()), (text, short), "{name}");
            assert_eq!(found.paths(&PATHS), paths, "{name}");
            assert_eq!(text.parse(), Ok(found.clone()), "{name}");
            assert!(names().contains(&found.kind()), "{name}");
            assert_eq!(found.without_path().kind(), found.kind(), "{name}");
            found.check(&PATHS).unwrap();
        }
        let session = TransportName::find("session", Some("min-rtt"), &PATHS).unwrap();
        assert_eq!(session.scheduler(), Some("min-rtt"));
    }

    #[test]
    fn unknown_names_list_the_known() {
        let error = |name: &str| TransportName::find(name, None, &PATHS).unwrap_err().to_string();
        for (name, parts) in [
            ("fdbt", vec!["unknown transport `fdbt`", "wifi", "mpquic", "fbdt-paper"]),
            ("quic:wlan", vec!["unknown path `wlan`", "wifi, wigig"]),
            ("tcp:", vec!["unknown path ``"]),
            ("session/fdbt", vec!["unknown scheduler `fdbt`", "avira+SCHEDULER"]),
            ("mpquic/fbdt", vec!["unknown transport"]),
            ("avira+", vec!["unknown transport", "avira+SCHEDULER"]),
            ("AVIRA", vec!["unknown transport"]),
        ] {
            for part in parts {
                assert!(error(name).contains(part), "{name}: {}", error(name));
            }
        }
        assert!("tcp:".parse::<TransportName>().is_err());
        assert!(TransportName::Quic(Some("lte".into())).check(&PATHS).is_err());
        assert!(TransportName::session("warp").check(&PATHS).is_err());
    }
}
