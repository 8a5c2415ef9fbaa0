//! Priorities of the proxy's connections: rules by port, target and code point (DSCP).
//!
//! Source of the names: RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622. A rule orders the data that this end sends;
//! it is not transmitted to the peer.

use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;

use tributary_proto::ContentClass;

use super::target::TargetName;
use crate::stream::Stream;

/// The property by which a rule recognises connections.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sign {
    /// Forwarder: the local port that the application connected to. Server: the target's port.
    Port(u16),
    /// The target's name.
    Target(TargetName),
    /// The code point of the application's first packet, which the forwarder reads and tells the server.
    Dscp(u8),
}

/// The priority of a connection, and what its data needs of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// Higher goes first; 0 is bulk.
    pub level: u8,
    /// What decides between the paths.
    pub content: ContentClass,
}

impl Priority {
    /// Applies to everything that is written to the stream from now on.
    pub(super) fn apply(self, stream: &Stream) {
        stream.set_priority(self.level);
        stream.set_content(self.content);
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (level, content) = text.split_once(':').map_or((text, None), |(l, c)| (l, Some(c)));
        let level = level.parse().map_err(|_| format!("priority `{level}` is not from 0 to 255"))?;
        let content = match content {
            None => ContentClass::Mixed,
            Some("latency") => ContentClass::Latency,
            Some("throughput") => ContentClass::Throughput,
            Some(other) => return Err(format!("`:{other}` is neither `:latency` nor `:throughput`")),
        };
        Ok(Self { level, content })
    }
}

/// One rule: `PORT=N`, `TARGET=N` with a target's name, or `dscp:NAME=N` with a name (`EF`, `AF41`, `CS5`, …)
/// or a number from 0 to 63. `N` is the priority from 0, bulk, to 255; `N:latency` and `N:throughput` also choose what decides
/// between the paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityRule {
    sign: Sign,
    priority: Priority,
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "priority rule `{rule}`: {problem}; expected PORT=N, TARGET=N or dscp:NAME=N, for example 5004=7, video=3:throughput or \
     dscp:EF=7:latency"
)]
pub struct PriorityRuleError {
    rule: String,
    problem: String,
}

impl FromStr for PriorityRule {
    type Err = PriorityRuleError;

    fn from_str(rule: &str) -> Result<Self, Self::Err> {
        let refuse = |problem: String| PriorityRuleError { rule: rule.to_owned(), problem };
        let (sign, priority) = rule.split_once('=').ok_or_else(|| refuse("it has no `=`".to_owned()))?;
        let priority = priority.parse().map_err(refuse)?;
        let sign = match sign.split_once(':') {
            Some((kind, name)) if kind.eq_ignore_ascii_case("dscp") => {
                Sign::Dscp(code_point(name).ok_or_else(|| {
                    let names = "EF, VA, LE, CS0 to CS7, AF11 to AF43";
                    refuse(format!("unknown code point `{name}`: a number from 0 to 63, or {names}"))
                })?)
            }
            Some((kind, _)) => return Err(refuse(format!("`{kind}:` is unknown"))),
            // More likely `dscp` without a code point than a target of this name.
            None if sign.eq_ignore_ascii_case("dscp") => {
                return Err(refuse("`dscp` without a code point".to_owned()));
            }
            None => match (sign.parse(), sign.parse()) {
                (Ok(port), _) if port > 0 => Sign::Port(port),
                (_, Ok(name)) => Sign::Target(name),
                _ => {
                    return Err(refuse(format!(
                        "`{sign}` is neither a port from 1 to 65535 nor a target's name"
                    )));
                }
            },
        };
        Ok(Self { sign, priority })
    }
}

fn code_point(name: &str) -> Option<u8> {
    let upper = name.to_ascii_uppercase();
    let digits = |rest: &str| -> Option<Vec<u8>> {
        rest.chars().map(|c| c.to_digit(10).map(|digit| digit as u8)).collect()
    };
    match upper.as_str() {
        "EF" => return Some(46),
        "VA" => return Some(44),
        "LE" => return Some(1),
        _ => {}
    }
    if let Some(class) = upper.strip_prefix("CS").and_then(digits) {
        return matches!(class[..], [0..=7]).then(|| class[0] * 8);
    }
    if let Some(class) = upper.strip_prefix("AF").and_then(digits) {
        return matches!(class[..], [1..=4, 1..=3]).then(|| class[0] * 8 + class[1] * 2);
    }
    name.parse().ok().filter(|number| *number < 64)
}

/// The rules of one end. The first rule that matches a connection decides; without a match the connection is bulk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriorityRules(Vec<PriorityRule>);

impl FromIterator<PriorityRule> for PriorityRules {
    fn from_iter<T: IntoIterator<Item = PriorityRule>>(rules: T) -> Self {
        Self(rules.into_iter().collect())
    }
}

impl PriorityRules {
    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ports that rules name.
    pub fn ports(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().filter_map(|rule| match rule.sign {
            Sign::Port(port) => Some(port),
            Sign::Target(_) | Sign::Dscp(_) => None,
        })
    }

    /// The targets that rules name.
    pub fn targets(&self) -> impl Iterator<Item = &TargetName> + '_ {
        self.0.iter().filter_map(|rule| match &rule.sign {
            Sign::Target(name) => Some(name),
            Sign::Port(_) | Sign::Dscp(_) => None,
        })
    }

    /// The priority of a connection to this port and target whose first packet has this code point.
    #[must_use]
    pub fn of(&self, port: u16, target: Option<&TargetName>, dscp: Option<u8>) -> Priority {
        let fits = |rule: &&PriorityRule| match &rule.sign {
            Sign::Port(named) => *named == port,
            Sign::Target(named) => Some(named) == target,
            Sign::Dscp(named) => Some(*named) == dscp,
        };
        self.0.iter().find(fits).map_or(Priority::default(), |rule| rule.priority)
    }
}

/// Rules that can be replaced while they are used, by connections that come later.
#[derive(Clone, Debug, Default)]
pub(super) struct LivePriorities(Arc<RwLock<PriorityRules>>);

impl LivePriorities {
    pub(super) fn new(rules: PriorityRules) -> Self {
        Self(Arc::new(RwLock::new(rules)))
    }

    pub(super) fn replace(&self, rules: PriorityRules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// As [`PriorityRules::of`].
    pub(super) fn of(&self, port: u16, target: Option<&TargetName>, dscp: Option<u8>) -> Priority {
        self.0.read().unwrap_or_else(PoisonError::into_inner).of(port, target, dscp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(of: &[&str]) -> PriorityRules {
        of.iter().map(|rule| rule.parse::<PriorityRule>().expect("a rule")).collect()
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = rules(&["5004=7", "dscp:EF=6", "video=5", "dscp:af41=3", "dscp:0=1"]);
        let video: TargetName = "video".parse().unwrap();
        let level = |port, target, dscp| rules.of(port, target, dscp).level;
        assert_eq!(level(5004, None, Some(46)), 7);
        assert_eq!(level(80, Some(&video), Some(46)), 6);
        assert_eq!(level(80, Some(&video), None), 5);
        assert_eq!(level(80, None, Some(34)), 3);
        assert_eq!(level(80, None, Some(0)), 1);
        assert_eq!((level(80, None, None), level(80, None, Some(10))), (0, 0));
        assert!(rules.targets().eq([&video]));
        assert!(rules.ports().eq([5004]) && PriorityRules::default().is_empty());
    }

    #[test]
    fn a_rule_may_say_what_decides_between_the_paths() {
        let rules = rules(&["8554=3:throughput", "8555=5:latency", "dscp:EF=7"]);
        let of = |port, dscp| {
            let Priority { level, content } = rules.of(port, None, dscp);
            (level, content)
        };
        assert_eq!(of(8554, None), (3, ContentClass::Throughput));
        assert_eq!(of(8555, None), (5, ContentClass::Latency));
        assert_eq!(of(80, Some(46)), (7, ContentClass::Mixed));
        assert_eq!(of(80, None), (0, ContentClass::Mixed));
    }

    #[test]
    fn names_of_code_points_are_the_registered_ones() {
        let names = [("CS0", 0), ("CS7", 56), ("AF11", 10), ("AF43", 38), ("EF", 46), ("VA", 44), ("63", 63)];
        for (name, value) in names {
            assert_eq!(code_point(name), Some(value), "{name}");
        }
        for name in ["CS8", "CS", "CS77", "AF14", "AF51", "AF4", "64", "-1", "", "E F", "ÄF11"] {
            assert_eq!(code_point(name), None, "{name}");
        }
    }

    #[test]
    fn invalid_rules_are_refused_with_the_expected_form() {
        for rule in [
            "",
            "80",
            "=7",
            "0=7",
            "65536=7",
            "80=256",
            "80=-1",
            "dscp:XX=7",
            "dscp=7",
            "mark:3=7",
            "80=7:",
            "80=7:fast",
        ] {
            let error = rule.parse::<PriorityRule>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{rule}`")) && error.contains("dscp:EF=7:latency"), "{error}");
        }
    }
}
