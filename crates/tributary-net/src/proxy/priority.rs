//! Priorities and modes of the proxy's connections and flows of datagrams: rules by port, target and code point (DSCP).
//!
//! Source of the names: RFC 2474, RFC 2597, RFC 3246, RFC 5865, RFC 8622. A rule orders the data that this end sends;
//! it is not transmitted to the peer.

use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;

use tributary_proto::ContentClass;
use tributary_proto::flow::RtpFormat;

use super::target::TargetName;
use crate::flow::FlowConfig;
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
    /// What decides between the paths of a connection.
    pub content: ContentClass,
    /// Everything is sent over every path.
    pub redundant: bool,
    /// Payload format of RTP datagrams, whose key frames go first.
    pub rtp: Option<RtpFormat>,
}

impl Priority {
    /// Applies to everything that is written to the stream from now on.
    pub(super) fn apply(self, stream: &Stream) {
        stream.set_priority(self.level);
        self.apply_mode(stream);
    }

    /// The same for a stream that was opened with the priority.
    pub(super) fn apply_mode(self, stream: &Stream) {
        stream.set_content(self.content);
        if self.redundant {
            stream.set_redundant(true);
        }
    }

    /// How a flow of datagrams with this priority is sent.
    fn of_flow(self) -> FlowConfig {
        let Self { level, redundant, rtp, .. } = self;
        FlowConfig { priority: Some(level), redundant, rtp, ..FlowConfig::default() }
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (level, mode) = text.split_once(':').map_or((text, None), |(level, mode)| (level, Some(mode)));
        let level = level.parse().map_err(|_| format!("priority `{level}` is not from 0 to 255"))?;
        let plain = Self { level, ..Self::default() };
        Ok(match mode {
            None => plain,
            Some("latency") => Self { content: ContentClass::Latency, ..plain },
            Some("throughput") => Self { content: ContentClass::Throughput, ..plain },
            Some("redundant") => Self { redundant: true, ..plain },
            Some(other) => match other.parse() {
                Ok(format) => Self { rtp: Some(format), ..plain },
                Err(_) => {
                    let formats = RtpFormat::ALL.map(|format| format!(", :{format}")).concat();
                    return Err(format!("`:{other}` is none of :latency, :throughput, :redundant{formats}"));
                }
            },
        })
    }
}

/// One rule: `PORT=N`, `TARGET=N` with a target's name, or `dscp:NAME=N` with a name (`EF`, `AF41`, `CS5`, …)
/// or a number from 0 to 63. `N` is the priority from 0, bulk, to 255; `N:latency` and `N:throughput` also choose what decides
/// between the paths, `N:redundant` sends everything over every path, and `N:rtp-h264`, `N:rtp-h265`, `N:rtp-vp8` and `N:rtp-av1`
/// send the key frames of RTP datagrams first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityRule {
    sign: Sign,
    priority: Priority,
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "priority rule `{rule}`: {problem}; expected PORT=N, TARGET=N or dscp:NAME=N, for example 5004=7, video=3:throughput, \
     game=7:redundant, 5004=5:rtp-h264 or dscp:EF=7:latency"
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

    fn find(&self, port: u16, target: Option<&TargetName>, dscp: Option<u8>) -> Option<Priority> {
        let fits = |rule: &&PriorityRule| match &rule.sign {
            Sign::Port(named) => *named == port,
            Sign::Target(named) => Some(named) == target,
            Sign::Dscp(named) => Some(*named) == dscp,
        };
        self.0.iter().find(fits).map(|rule| rule.priority)
    }

    /// The priority of a connection to this port and target whose first packet has this code point.
    #[must_use]
    pub fn of(&self, port: u16, target: Option<&TargetName>, dscp: Option<u8>) -> Priority {
        self.find(port, target, dscp).unwrap_or_default()
    }

    /// How a flow of datagrams to this port and target is sent. Without a rule its traffic decides. Rules by code point are for
    /// connections only.
    #[must_use]
    pub fn of_flow(&self, port: u16, target: Option<&TargetName>) -> FlowConfig {
        self.find(port, target, None).map_or_else(FlowConfig::default, Priority::of_flow)
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

    /// As [`PriorityRules::of_flow`].
    pub(super) fn of_flow(&self, port: u16, target: Option<&TargetName>) -> FlowConfig {
        self.0.read().unwrap_or_else(PoisonError::into_inner).of_flow(port, target)
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
            let Priority { level, content, .. } = rules.of(port, None, dscp);
            (level, content)
        };
        assert_eq!(of(8554, None), (3, ContentClass::Throughput));
        assert_eq!(of(8555, None), (5, ContentClass::Latency));
        assert_eq!(of(80, Some(46)), (7, ContentClass::Mixed));
        assert_eq!(of(80, None), (0, ContentClass::Mixed));
    }

    #[test]
    fn a_rule_may_send_over_every_path_or_key_frames_first() {
        let rules = rules(&["5000=7:redundant", "video=5:rtp-h265", "5004=0:rtp-av1", "dscp:EF=9", "5006=3"]);
        let video: TargetName = "video".parse().unwrap();
        let flow = |port, target| {
            let FlowConfig { priority, redundant, rtp, form, lifetime } = rules.of_flow(port, target);
            assert!(form.is_none() && lifetime.is_none());
            (priority, redundant, rtp)
        };
        assert_eq!(flow(5000, Some(&video)), (Some(7), true, None));
        assert_eq!(flow(5001, Some(&video)), (Some(5), false, Some(RtpFormat::H265)));
        assert_eq!(flow(5004, None), (Some(0), false, Some(RtpFormat::Av1)));
        assert_eq!(flow(5006, None), (Some(3), false, None));
        assert_eq!(rules.of_flow(5005, None), FlowConfig::default());
        assert!(rules.of(5000, None, None).redundant && !rules.of(80, None, Some(46)).redundant);
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
            "80=7:rtp",
            "80=7:rtp-h264:redundant",
        ] {
            let error = rule.parse::<PriorityRule>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{rule}`")) && error.contains("dscp:EF=7:latency"), "{error}");
            let lists_modes = error.contains(":redundant, :rtp-h264, :rtp-h265, :rtp-vp8, :rtp-av1;");
            assert_eq!(lists_modes, rule.starts_with("80=7:"), "{error}");
        }
    }
}
