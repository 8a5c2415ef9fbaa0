//! Contestants: what carries the bytes in an experiment. Names only; the work is in [`crate::endpoint`].

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tributary_link::Scenario;

/// The transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contestant {
    /// Kernel TCP on one path.
    SinglePath(String),
    /// The kernel's multipath TCP over all paths.
    Mptcp,
    /// A Tributary session over all paths.
    Tributary(SessionSettings),
}

/// How a Tributary session of an experiment is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSettings {
    /// Name of the scheduler.
    pub scheduler: String,
    /// TCP subflows without TLS.
    pub plaintext: bool,
    /// Largest transmission window in bytes; `None` is the default.
    pub window: Option<usize>,
    /// Cap on the kernel's retransmission timeout in milliseconds; `None` leaves it alone.
    pub rto_max_ms: Option<u64>,
}

/// No contestant has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown transport `{name}`; known: {}; priorities first: avira+SCHEDULER", known.join(", "))]
pub struct UnknownContestant {
    name: String,
    known: Vec<String>,
}

impl Contestant {
    /// A session with this scheduler and the default settings.
    #[must_use]
    pub fn session(scheduler: &str) -> Self {
        Self::Tributary(SessionSettings { scheduler: scheduler.to_owned(), ..SessionSettings::default() })
    }

    /// The contestant called `name`: a path of the scenario, `mptcp`, or a scheduler, with `avira+` in
    /// front for priorities first.
    ///
    /// # Errors
    /// [`UnknownContestant`] lists the names there are.
    pub fn find(name: &str, scenario: &Scenario) -> Result<Self, UnknownContestant> {
        if scenario.path(name).is_some() {
            return Ok(Self::SinglePath(name.to_owned()));
        }
        if name == "mptcp" {
            return Ok(Self::Mptcp);
        }
        if tributary_proto::scheduler::is_known(name) {
            return Ok(Self::session(name));
        }
        let schedulers = tributary_proto::scheduler::names();
        let paths = scenario.paths.iter().map(|path| path.name.as_str());
        let known = paths.chain(["mptcp"]).chain(schedulers.iter().copied()).map(str::to_owned).collect();
        Err(UnknownContestant { name: name.to_owned(), known })
    }

    /// Short name, as in [`Contestant::find`].
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::SinglePath(path) => path,
            Self::Mptcp => "mptcp",
            Self::Tributary(settings) => &settings.scheduler,
        }
    }

    /// Name for tables and figures.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::SinglePath(path) => format!("{} alone", radio(path)),
            Self::Mptcp => "kernel MPTCP".to_owned(),
            Self::Tributary(settings) => settings.scheduler.clone(),
        }
    }

    /// The indices of the scenario's paths that it uses; all of them unless it is a single path.
    #[must_use]
    pub fn paths(&self, scenario: &Scenario) -> Vec<usize> {
        match self {
            Self::SinglePath(name) => scenario.path(name).map(|(index, _)| index).into_iter().collect(),
            Self::Mptcp | Self::Tributary(_) => (0..scenario.paths.len()).collect(),
        }
    }
}

/// A path's name as people write the radio's.
#[must_use]
pub fn radio(path: &str) -> String {
    match path {
        "wifi" => "WiFi".to_owned(),
        "wigig" => "WiGig".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_unknown_ones_list_the_known() {
        let scenario = Scenario::builtin("los").unwrap();
        assert_eq!(Contestant::find("wigig", &scenario).unwrap().label(), "WiGig alone");
        assert_eq!(Contestant::find("wigig", &scenario).unwrap().paths(&scenario), vec![1]);
        assert_eq!(Contestant::find("mptcp", &scenario), Ok(Contestant::Mptcp));
        assert_eq!(Contestant::find("fbdt", &scenario).unwrap().paths(&scenario), vec![0, 1]);
        assert_eq!(Contestant::find("avira+fbdt", &scenario).unwrap().name(), "avira+fbdt");
        for refused in ["avira+", "avira+avira", "avira+fdbt", "AVIRA"] {
            let error = Contestant::find(refused, &scenario).unwrap_err().to_string();
            assert!(error.contains(refused) && error.contains("avira+SCHEDULER"), "{error}");
        }
        let error = Contestant::find("fdbt", &scenario).unwrap_err().to_string();
        assert!(
            error.contains("`fdbt`") && error.contains("wifi") && error.contains("fbdt-paper"),
            "{error}"
        );
    }
}
