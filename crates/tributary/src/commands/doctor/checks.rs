//! What this machine can and cannot do for Tributary, and how to mend it.
//!
//! Each check looks at one thing and changes nothing: files below `/proc` and `/sys`, a socket that is closed again, a
//! program's list of encoders, a namespace that ends with its only process. Not here: eBPF (`tributary_bpf::doctor`).

mod system;

use serde::Serialize;
use std::path::PathBuf;

/// How good it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Nothing is missing.
    Good,
    /// It works, with the restriction that the finding names.
    Limited,
    /// What needs it does not work.
    Absent,
}

impl State {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Limited => "limited",
            Self::Absent => "ABSENT",
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Name of the check, as `--require` takes it.
    pub(crate) check: &'static str,
    pub(crate) state: State,
    /// What was found.
    pub(crate) found: String,
    /// Which commands or options need it.
    pub(crate) needed_by: &'static str,
    /// What to do about it; none when it is good.
    pub(crate) mend: Option<String>,
}

/// The machine, and where its `/proc`, `/sys` and `/dev` are.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
}

impl Machine {
    /// This machine.
    pub(crate) fn this() -> Self {
        Self { root: PathBuf::from("/") }
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok().map(|text| text.trim().to_owned())
    }
}

type Verdict = (State, String, Option<String>);

fn good(found: impl Into<String>) -> Verdict {
    (State::Good, found.into(), None)
}

fn limited(found: impl Into<String>, mend: impl Into<String>) -> Verdict {
    (State::Limited, found.into(), Some(mend.into()))
}

fn absent(found: impl Into<String>, mend: impl Into<String>) -> Verdict {
    (State::Absent, found.into(), Some(mend.into()))
}

/// One check.
struct Check {
    name: &'static str,
    needed_by: &'static str,
    look: fn(&Machine) -> Verdict,
}

/// All checks: what every program needs first.
const CHECKS: &[Check] = &[
    Check { name: "kernel", needed_by: "everything", look: system::kernel },
    Check { name: "clock", needed_by: "COTAG's nodes, logs, certificates", look: system::clock },
    Check {
        name: "interfaces",
        needed_by: "connect, exec, tunnel, stream play, dash play",
        look: system::interfaces,
    },
    Check { name: "mtu", needed_by: "every path", look: system::mtu },
    Check { name: "rp_filter", needed_by: "several paths of one machine", look: system::rp_filter },
    Check { name: "ipv6", needed_by: "paths over IPv6", look: system::ipv6 },
    Check { name: "descriptors", needed_by: "serve with many connections", look: system::descriptors },
    Check { name: "congestion", needed_by: "--congestion", look: system::congestion },
    Check { name: "mptcp", needed_by: "--transport mptcp", look: system::mptcp },
    Check { name: "ebpf", needed_by: "cc", look: system::ebpf },
    Check { name: "tun", needed_by: "tunnel, UDP in exec, gateway, device", look: system::tun },
    Check { name: "namespaces", needed_by: "exec", look: system::namespaces },
    Check { name: "ffmpeg", needed_by: "ingest, film, dash package", look: system::ffmpeg },
];

/// Names of the checks.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.name)
}

/// Runs every check.
pub(crate) fn examine(machine: &Machine) -> Vec<Finding> {
    let run = |check: &Check| {
        let (state, found, mend) = (check.look)(machine);
        Finding { check: check.name, state, found, needed_by: check.needed_by, mend }
    };
    CHECKS.iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of files.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = directory.path().join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let root = directory.path().to_owned();
        (directory, Machine { root })
    }

    #[test]
    fn a_finding_that_is_not_good_says_what_to_do() {
        for finding in examine(&Machine::this()) {
            assert_eq!(finding.mend.is_some(), finding.state != State::Good, "{finding:?}");
            assert!(!finding.found.is_empty(), "{finding:?}");
        }
    }

    #[test]
    fn an_old_kernel_is_limited_and_a_kernel_without_a_number_is_not_judged() {
        let state = |release| system::kernel(&machine(&[("proc/sys/kernel/osrelease", release)]).1).0;
        assert_eq!(state("6.18.44-generic"), State::Good);
        assert_eq!(state("5.17"), State::Good);
        assert_eq!(state("5.10.0-21-amd64"), State::Limited);
        assert_eq!(state("5.6.1"), State::Limited);
        assert_eq!(state("unknown"), State::Limited);
    }

    #[test]
    fn interfaces_that_are_up_are_counted() {
        let card = |name: &str, state: &str| {
            [
                (format!("sys/class/net/{name}/operstate"), state.to_owned()),
                (format!("sys/class/net/{name}/mtu"), "1500".into()),
            ]
        };
        let with = |cards: &[(&str, &str)]| {
            let files: Vec<_> = cards.iter().flat_map(|(name, state)| card(name, state)).collect();
            machine(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
        };
        let (_a, none) = with(&[("lo", "unknown"), ("wlan0", "down")]);
        assert_eq!(system::interfaces(&none).0, State::Absent);
        let (_b, one) = with(&[("lo", "unknown"), ("wlan0", "up"), ("wwan0", "down")]);
        let (state, found, _) = system::interfaces(&one);
        assert!(state == State::Limited && found.contains("wlan0") && !found.contains("wwan0"), "{found}");
        let (_c, two) = with(&[("lo", "unknown"), ("wlan0", "up"), ("wg0", "unknown")]);
        assert_eq!(system::interfaces(&two), good("up: wg0, wlan0"));
    }

    #[test]
    fn a_strict_reverse_path_filter_matters_with_two_interfaces() {
        let files = [
            ("sys/class/net/wlan0/operstate", "up"),
            ("sys/class/net/wwan0/operstate", "up"),
            ("proc/sys/net/ipv4/conf/all/rp_filter", "0"),
            ("proc/sys/net/ipv4/conf/wlan0/rp_filter", "2"),
            ("proc/sys/net/ipv4/conf/wwan0/rp_filter", "1"),
        ];
        let (_a, strict) = machine(&files);
        let (state, found, _) = system::rp_filter(&strict);
        assert!(state == State::Limited && found.contains("wwan0") && !found.contains("wlan0"), "{found}");
        // The larger of `all` and the interface's own value counts.
        let loose: Vec<_> =
            files.iter().map(|(p, t)| (*p, if p.contains("/all/") { "2" } else { t })).collect();
        assert_eq!(system::rp_filter(&machine(&loose).1).0, State::Good);
        assert_eq!(system::rp_filter(&machine(&files[1..]).1).0, State::Good, "one interface");
    }

    #[test]
    fn a_small_mtu_is_named() {
        let (_d, small) =
            machine(&[("sys/class/net/wwan0/operstate", "up"), ("sys/class/net/wwan0/mtu", "1200")]);
        let (state, found, _) = system::mtu(&small);
        assert!(state == State::Limited && found.contains("wwan0 1200"), "{found}");
    }
}
