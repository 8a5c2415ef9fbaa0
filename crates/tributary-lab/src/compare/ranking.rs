//! The ranking: transports by the mean of the workload's measure over the seeds, and each one's verdict against the best
//! single path and against MPTCP, from the interval of the differences seed by seed.

use crate::reproduce::comparison::Workload;
use crate::reproduce::own::OWN;
use crate::reproduce::{Outcome, Sample};
use crate::transport::label;
use serde::Serialize;
use std::collections::BTreeMap;
use tributary_proto::transport::{MPTCP_DEFAULT, SESSION_DEFAULT, TransportName};
use tributary_report::{Interval, Tone, stats};

/// The measure by which transports are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// The metric.
    pub metric: &'static str,
    /// What it is, for headings.
    pub title: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Whether larger values are better.
    pub more_is_better: bool,
    /// Whether differences are told in per cent; otherwise in the unit.
    pub relative: bool,
    /// Digits after the point.
    #[serde(skip)]
    pub digits: usize,
    /// Further metrics of the table: metric, heading, unit.
    #[serde(skip)]
    pub more: &'static [(&'static str, &'static str, &'static str)],
}

impl Measure {
    /// The measure of a workload.
    #[must_use]
    pub fn of(workload: Workload) -> Self {
        let more_is_better = !matches!(workload, Workload::Messages | Workload::Objects);
        let relative = !matches!(workload, Workload::Tiles | Workload::Dash);
        let measure = |metric, title, unit, digits, more| Self {
            metric,
            title,
            unit,
            more_is_better,
            relative,
            digits,
            more,
        };
        match workload {
            Workload::Bulk => measure(
                "goodput",
                "goodput",
                "Mbit/s",
                1,
                &[("worst_second", "worst second", "Mbit/s"), ("silence", "longest silence", "ms")],
            ),
            Workload::Objects => measure(
                "object_mean",
                "mean time of an object",
                "ms",
                0,
                &[("object_p95", "95th percentile", "ms"), ("silence", "longest silence", "ms")],
            ),
            Workload::Messages => measure(
                "message_p99",
                "99th percentile of the latency",
                "ms",
                0,
                &[("message_p50", "median", "ms"), ("messages_late", "late", "%")],
            ),
            Workload::Tiles => measure(
                "quality",
                "quality of the viewport",
                "dB",
                1,
                &[("late", "late", "%"), ("left_out", "left out", "%")],
            ),
            Workload::Dash => measure(
                "qoe",
                "quality of experience",
                "Mbit/s",
                2,
                &[
                    ("media_rate", "bitrate", "Mbit/s"),
                    ("stalled", "stalled", "s"),
                    ("start_up", "start-up", "s"),
                ],
            ),
        }
    }

    /// A value with its unit.
    #[must_use]
    pub fn told(&self, value: f64) -> String {
        format!("{value:.*} {}", self.digits, self.unit)
    }
}

/// A transport's verdict against another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval of the differences is in its favour.
    Better,
    /// The whole interval is against it.
    Worse,
    /// The interval contains zero, or there is none.
    Undecided,
}

/// A transport compared with another, seed by seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// The other transport.
    pub other: String,
    /// Mean difference: per cent of the other's mean, or in the measure's unit; positive means a larger value.
    pub difference: f64,
    /// 95 % interval of the mean difference (Student's t over the seeds); `None` with one seed.
    pub interval: Option<Interval>,
    /// The verdict.
    pub verdict: Verdict,
}

/// One transport.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    /// Its name, as in `tributary-lab run --transport`.
    pub transport: String,
    /// Its name for readers.
    pub label: String,
    /// Whether it uses one path only.
    pub single: bool,
    /// Mean of the measure over the seeds; `None` if no run gave it.
    pub mean: Option<f64>,
    /// 95 % interval of this mean.
    pub interval: Option<Interval>,
    /// Number of seeds with a value.
    pub seeds: usize,
    /// Further means by metric.
    pub more: BTreeMap<&'static str, f64>,
    /// Against the best single path; `None` for itself.
    pub against_single: Option<Against>,
    /// Against MPTCP with the kernel's scheduler; `None` for itself.
    pub against_mptcp: Option<Against>,
    /// Colour.
    #[serde(skip)]
    pub tone: Tone,
    /// The measure by seed.
    #[serde(skip)]
    values: BTreeMap<u64, f64>,
}

/// All transports, the best first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranking {
    /// What was sent.
    #[serde(serialize_with = "as_text")]
    pub workload: Workload,
    /// The measure.
    pub measure: Measure,
    /// The transports.
    pub standings: Vec<Ranked>,
}

fn as_text<S: serde::Serializer>(workload: &Workload, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(workload)
}

impl Ranking {
    /// The ranking of finished runs.
    #[must_use]
    pub fn new(outcome: &Outcome, workload: Workload) -> Self {
        let measure = Measure::of(workload);
        let mut groups: Vec<(&str, Vec<&Sample>)> = Vec::new();
        for sample in outcome.samples.iter().filter(|sample| sample.failure.is_none()) {
            let name = sample.labels.get("transport").map_or("", String::as_str);
            match groups.iter_mut().find(|group| group.0 == name) {
                Some(group) => group.1.push(sample),
                None => groups.push((name, vec![sample])),
            }
        }
        let mut singles = 0;
        let mut standings: Vec<Ranked> = groups
            .iter()
            .map(|(name, samples)| {
                let ranked = ranked(name, samples, measure, singles);
                singles += usize::from(ranked.tone == radio(singles));
                ranked
            })
            .collect();
        let key = |ranked: &Ranked| {
            ranked.mean.map_or(f64::INFINITY, |mean| if measure.more_is_better { -mean } else { mean })
        };
        standings.sort_by(|a, b| key(a).total_cmp(&key(b)));
        let single = standings.iter().find(|ranked| ranked.single && ranked.mean.is_some()).cloned();
        let mptcp = standings.iter().find(|ranked| is_mptcp(&ranked.transport)).cloned();
        for ranked in &mut standings {
            let against = |other: &Option<Ranked>| {
                other
                    .as_ref()
                    .filter(|other| other.transport != ranked.transport)
                    .map(|other| against(measure, ranked, other))
            };
            let (single, mptcp) = (against(&single), against(&mptcp));
            (ranked.against_single, ranked.against_mptcp) = (single, mptcp);
        }
        Self { workload, measure, standings }
    }

    /// The best transport.
    #[must_use]
    pub fn best(&self) -> Option<&Ranked> {
        self.standings.first().filter(|ranked| ranked.mean.is_some())
    }

    /// The best transport that uses one path.
    #[must_use]
    pub fn single(&self) -> Option<&Ranked> {
        self.standings.iter().find(|ranked| ranked.single && ranked.mean.is_some())
    }

    /// The best transport over several paths.
    #[must_use]
    pub fn several(&self) -> Option<&Ranked> {
        self.standings.iter().find(|ranked| !ranked.single && ranked.mean.is_some())
    }

    /// MPTCP with the kernel's scheduler.
    #[must_use]
    pub fn mptcp(&self) -> Option<&Ranked> {
        self.standings.iter().find(|ranked| is_mptcp(&ranked.transport) && ranked.mean.is_some())
    }

    /// One sentence for somebody who must choose.
    #[must_use]
    pub fn advice(&self) -> String {
        let Some(best) = self.best() else {
            return "No transport gave a result; see the failures below.".to_owned();
        };
        let value = |ranked: &Ranked| self.measure.told(ranked.mean.unwrap_or(f64::NAN));
        let (Some(several), Some(single)) = (self.several(), self.single()) else {
            return format!("Take {}: {} of {}.", one(best), self.measure.title, value(best));
        };
        let against = several.against_single.as_ref();
        match against.map(|against| against.verdict) {
            Some(Verdict::Better) => {
                let gain = against.map_or(String::new(), |against| self.gain(against));
                let mut text = format!(
                    "Take {}: {} of {}, {gain} than {} alone",
                    one(several),
                    self.measure.title,
                    value(several),
                    alone(single)
                );
                match &several.against_mptcp {
                    Some(against) if against.verdict == Verdict::Better => {
                        text.push_str(&format!(" and {} than kernel MPTCP", self.gain(against)));
                    }
                    Some(_) => text.push_str(
                        "; these runs do not show that kernel MPTCP, which needs no program of ours, does worse",
                    ),
                    None => {}
                }
                text + "."
            }
            Some(Verdict::Worse) => format!(
                "Take {} alone: {} of {}; every transport over several paths does worse, the best of them, {}, by {}.",
                alone(single),
                self.measure.title,
                value(single),
                several.label,
                against.map_or(String::new(), |against| self.amount(against)),
            ),
            _ => format!(
                "Take {} alone, or repeat with more seeds: {} of {}, and these runs do not show that {}, the best over \
                 several paths, does better.",
                alone(single),
                self.measure.title,
                value(single),
                several.label
            ),
        }
    }

    /// How much better, in words: `41 % more`.
    fn gain(&self, against: &Against) -> String {
        let word = match (self.measure.more_is_better, self.measure.relative) {
            (true, _) => "more",
            (false, _) => "less",
        };
        format!("{} {word}", self.amount(against))
    }

    fn amount(&self, against: &Against) -> String {
        let size = against.difference.abs();
        match self.measure.relative {
            true if size < 10.0 => format!("{size:.1} %"),
            true => format!("{size:.0} %"),
            false => self.measure.told(size),
        }
    }
}

/// A transport in a sentence.
fn one(ranked: &Ranked) -> String {
    let article = if ranked.label.starts_with("session") { "a " } else { "" };
    format!("{article}{}", ranked.label)
}

/// The path of a transport over one path, in words.
fn alone(ranked: &Ranked) -> String {
    ranked.label.strip_suffix(" alone").unwrap_or(&ranked.label).to_owned()
}

fn is_mptcp(name: &str) -> bool {
    matches!(name.parse(), Ok(TransportName::Mptcp { scheduler }) if scheduler == MPTCP_DEFAULT)
}

/// The colour of the radio with this number.
fn radio(number: usize) -> Tone {
    [Tone::RadioA, Tone::RadioB, Tone::RadioC].get(number).copied().unwrap_or(Tone::Neutral)
}

fn ranked(name: &str, samples: &[&Sample], measure: Measure, singles: usize) -> Ranked {
    let value = |sample: &Sample, metric: &str| match sample.metrics.get(metric)?[..] {
        [value] => Some(value),
        _ => None,
    };
    let values: BTreeMap<u64, f64> =
        samples.iter().filter_map(|sample| Some((sample.seed, value(sample, measure.metric)?))).collect();
    let all: Vec<f64> = values.values().copied().collect();
    let further = |(metric, ..): &(&'static str, &str, &str)| {
        let all: Vec<f64> = samples.iter().filter_map(|sample| value(sample, metric)).collect();
        Some((*metric, stats::mean(&all)?))
    };
    let parsed: Result<TransportName, _> = name.parse();
    let (label, tone) = match &parsed {
        Ok(transport @ TransportName::Tcp(_)) => (label(transport), radio(singles)),
        Ok(TransportName::Session { scheduler }) => {
            let tone = if scheduler == SESSION_DEFAULT { Tone::Hero } else { Tone::Cousin };
            (format!("session with {scheduler}"), tone)
        }
        Ok(TransportName::Mptcp { scheduler }) if scheduler != MPTCP_DEFAULT => {
            (format!("MPTCP with {scheduler}"), Tone::Rival)
        }
        Ok(transport @ TransportName::Mptcp { .. }) => (label(transport), Tone::Rival),
        Ok(transport) => (label(transport), Tone::Peer),
        Err(_) if OWN.contains(&name) => {
            let kind = if name.starts_with("session") { "session" } else { "MPTCP" };
            (format!("{kind} with a scheduler of your own"), Tone::Peer)
        }
        Err(_) => (name.to_owned(), Tone::Peer),
    };
    Ranked {
        transport: name.to_owned(),
        label,
        single: matches!(parsed, Ok(TransportName::Tcp(_) | TransportName::Quic(_))),
        mean: stats::mean(&all),
        interval: stats::mean_interval(&all),
        seeds: all.len(),
        more: measure.more.iter().filter_map(further).collect(),
        against_single: None,
        against_mptcp: None,
        tone,
        values,
    }
}

fn against(measure: Measure, own: &Ranked, other: &Ranked) -> Against {
    let scale = match (measure.relative, other.mean) {
        (true, Some(mean)) if mean.abs() > 0.0 => 100.0 / mean.abs(),
        _ => 1.0,
    };
    let pairs = own.values.iter().filter_map(|(seed, own)| Some((own - other.values.get(seed)?) * scale));
    let differences: Vec<f64> = pairs.collect();
    let interval = stats::mean_interval(&differences);
    let sign = if measure.more_is_better { 1.0 } else { -1.0 };
    let verdict = match interval.map(|interval| (interval.low * sign, interval.high * sign)) {
        Some((one, two)) if one > 0.0 && two > 0.0 => Verdict::Better,
        Some((one, two)) if one < 0.0 && two < 0.0 => Verdict::Worse,
        _ => Verdict::Undecided,
    };
    let difference = stats::mean(&differences).unwrap_or(f64::NAN);
    Against { other: other.transport.clone(), difference, interval, verdict }
}
