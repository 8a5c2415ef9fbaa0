//! What a trial consists of, its text, and what follows from it: links, streams and the times of trouble.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tributary_link::{DelaySpec, LinkConfig, LinkSpec, LossSpec, QueueSpec, RateSpec};
use tributary_proto::Config;
use tributary_proto::wire::FIRST_FLOW;
use tributary_types::{Bitrate, DataSize, Instant, Rng, StreamId};

use crate::session::SessionConfig;

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Connects.
    Client,
    /// Accepts.
    Server,
}

impl End {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other one.
    #[must_use]
    pub fn peer(self) -> Self {
        Self::BOTH[1 - self as usize]
    }
}

/// Directions of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
    /// Both.
    Both,
}

impl Way {
    /// Whether it leads to this end.
    #[must_use]
    pub fn reaches(self, end: End) -> bool {
        self == Self::Both || (self == Self::Up) == (end == End::Server)
    }
}

/// A path: a link in each direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TrialPath {
    /// Rate to the server, kbit/s.
    pub up_kbps: u64,
    /// Rate to the client, kbit/s.
    pub down_kbps: u64,
    /// Round trip of an empty path, milliseconds.
    pub rtt_ms: u64,
    /// Queue of each link, bytes.
    pub queue: u64,
    /// Random loss on each link, packets per million.
    #[serde(default)]
    pub loss_ppm: u32,
}

/// Something that happens at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Operation {
    /// Milliseconds after the beginning.
    pub at_ms: u64,
    /// What happens.
    #[serde(flatten)]
    pub act: Act,
}

/// What happens to a path, an end or a stream. Faults end after `for_ms` milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[allow(missing_docs, reason = "the fields have the names of the text")]
pub enum Act {
    /// The radio leaves with a link event, which only the client sees if not `both-told`, and returns with one.
    Absent { path: u8, both_told: bool, for_ms: u64 },
    /// Everything is dropped without a word.
    Dead { path: u8, way: Way, for_ms: u64 },
    /// The link has another rate, which may be zero.
    Rate { path: u8, way: Way, kbps: u64, for_ms: u64 },
    /// The link has this much more delay.
    Delay { path: u8, way: Way, ms: u64, for_ms: u64 },
    /// So many of a thousand packets that arrive are lost, or damaged so that TCP drops them.
    Loss { path: u8, per_mille: u32, for_ms: u64 },
    /// So many of a thousand packets arrive later and are overtaken.
    Reorder { path: u8, per_mille: u32, late_ms: u64, for_ms: u64 },
    /// So many of a thousand packets arrive twice.
    Duplicate { path: u8, per_mille: u32, for_ms: u64 },
    /// Packets of more than so many bytes, with their IP and TCP headers, are dropped without a word.
    Mtu { path: u8, way: Way, bytes: u64, for_ms: u64 },
    /// New connections are refused by a reset.
    Refuse { path: u8, for_ms: u64 },
    /// Somebody on the path resets its connections at one end; one who only guesses the numbers has no effect.
    Reset { path: u8, end: End, guesses: bool },
    /// The path's connections are forgotten by an address translator: what they send is dropped or answered by resets.
    Rebind { path: u8, answers: bool },
    /// The path's traffic begins or ceases to cost money, for both ends.
    Metered { path: u8, metered: bool },
    /// The program is started again. A client begins a new session, also when the server has forgotten its old one, and both
    /// applications write everything again.
    Restart { end: End },
    /// An end sleeps: what arrives is lost, and all its timers fire when it wakes.
    Suspend { end: End, for_ms: u64 },
    /// An end writes so many more bytes on a stream, which it opens if nobody has. `finish`: they are the last ones.
    Write { end: End, stream: u8, bytes: u64, priority: u8, finish: bool },
    /// An end writes without a pause and then finishes.
    Bulk { end: End, stream: u8, for_ms: u64 },
    /// An end sends a datagram of `size` bytes every `every-ms` milliseconds.
    Datagrams { end: End, stream: u8, size: u64, count: u32, every_ms: u64 },
    /// An end ends its direction of a stream.
    Finish { end: End, stream: u8 },
    /// An end does not read a stream.
    Stall { end: End, stream: u8, for_ms: u64 },
    /// An end reads a stream slowly: so many bytes every 20 ms.
    Pace { end: End, stream: u8, bytes: u64, for_ms: u64 },
    /// An end abandons its direction of a stream.
    Abort { end: End, stream: u8 },
    /// An end stops reading a stream for good.
    Stop { end: End, stream: u8 },
    /// An end changes the priority of what it writes on a stream.
    Priority { end: End, stream: u8, priority: u8 },
    /// An end ends the session at once with this code, whatever is in flight, unless the ends do not have the same one yet. The trial is
    /// over when both know it, or at once if they are not connected over a path that lives.
    Abandon { end: End, code: u32 },
}

/// A network, two ends and what happens to them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Trial {
    /// Seed of losses and of the schedulers' random numbers.
    pub seed: u64,
    /// Scheduler of both ends.
    pub scheduler: String,
    /// Congestion control of both ends.
    pub congestion: String,
    /// Records and round trip of TLS.
    pub tls: bool,
    /// The client's data follows its hello at once.
    pub early: bool,
    /// Received bytes that each end holds at most.
    pub receive_credit: u64,
    /// Written bytes that each end holds at most.
    pub send_buffer: u64,
    /// The paths.
    pub paths: Vec<TrialPath>,
    /// What happens.
    #[serde(default)]
    pub operations: Vec<Operation>,
}

/// Why a text is not a trial.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TrialError {
    /// It has another form.
    #[error("{0}")]
    Text(String),
    /// A value is out of range.
    #[error("`{field}` is {value}; it must be from {least} to {most}")]
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Smallest allowed.
        least: u64,
        /// Largest allowed.
        most: u64,
    },
    /// An operation names a path that is not there.
    #[error("operation {operation} names path {path}, and there are {paths}, counted from 0")]
    NoPath {
        /// Its number, from 1.
        operation: usize,
        /// The path.
        path: u8,
        /// Number of paths.
        paths: usize,
    },
    /// A setting of the sessions.
    #[error("{0}")]
    Session(String),
}

/// A time without which a rule would ask too much: from and to.
pub(super) type Span = (Instant, Instant);

/// A stream or flow as both ends know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// Its number in the operations.
    pub stream: u8,
    /// Who opens it.
    pub opener: End,
    /// Of the session.
    pub id: StreamId,
    /// Carries datagrams.
    pub is_flow: bool,
}

impl Act {
    /// The path that it troubles or changes.
    #[must_use]
    pub fn path(&self) -> Option<u8> {
        self.clone().path_mut().copied()
    }

    /// The same for the place of the path.
    pub(super) fn path_mut(&mut self) -> Option<&mut u8> {
        match self {
            Self::Absent { path, .. }
            | Self::Dead { path, .. }
            | Self::Rate { path, .. }
            | Self::Delay { path, .. }
            | Self::Loss { path, .. }
            | Self::Reorder { path, .. }
            | Self::Duplicate { path, .. }
            | Self::Mtu { path, .. }
            | Self::Refuse { path, .. }
            | Self::Reset { path, .. }
            | Self::Rebind { path, .. }
            | Self::Metered { path, .. } => Some(path),
            _ => None,
        }
    }

    /// How long it lasts; nothing for what happens at once.
    pub(super) fn lasts(&self) -> Duration {
        match *self {
            Self::Absent { for_ms, .. }
            | Self::Dead { for_ms, .. }
            | Self::Rate { for_ms, .. }
            | Self::Delay { for_ms, .. }
            | Self::Loss { for_ms, .. }
            | Self::Reorder { for_ms, .. }
            | Self::Duplicate { for_ms, .. }
            | Self::Mtu { for_ms, .. }
            | Self::Refuse { for_ms, .. }
            | Self::Suspend { for_ms, .. }
            | Self::Bulk { for_ms, .. }
            | Self::Stall { for_ms, .. }
            | Self::Pace { for_ms, .. } => Duration::from_millis(for_ms),
            Self::Datagrams { count, every_ms, .. } => {
                Duration::from_millis(u64::from(count).saturating_mul(every_ms))
            }
            _ => Duration::ZERO,
        }
    }

    /// Whether the path does not carry everything in time meanwhile.
    fn troubles(&self) -> bool {
        match self {
            Self::Reset { guesses, .. } => !guesses,
            Self::Metered { .. } => false,
            _ => self.path().is_some(),
        }
    }
}

impl Operation {
    /// When it begins.
    #[must_use]
    pub fn begins(&self) -> Instant {
        Instant::from_millis(self.at_ms)
    }

    /// When it is over.
    #[must_use]
    pub fn ends(&self) -> Instant {
        self.begins() + self.act.lasts()
    }
}

/// Limits of a trial's values.
const MOST_PATHS: u64 = 8;
const MOST_OPERATIONS: u64 = 1000;
const LONGEST: u64 = 600_000;
const FASTEST: u64 = 1_000_000;
const MOST_BYTES: u64 = 1 << 30;
const MOST_DATAGRAM: u64 = 60_000;

impl Trial {
    /// Reads a trial's text.
    ///
    /// # Errors
    /// [`TrialError`] names the field.
    pub fn parse(text: &str) -> Result<Self, TrialError> {
        let trial: Self = toml::from_str(text).map_err(|error| TrialError::Text(error.to_string()))?;
        trial.check()?;
        Ok(trial)
    }

    /// Its text, TOML.
    ///
    /// # Panics
    /// Never: every trial has a text.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).expect("a trial consists of numbers, names and tables")
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`TrialError`] names the first one that is out of range.
    pub fn check(&self) -> Result<(), TrialError> {
        let within = |field, value, least, most| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(TrialError::OutOfRange { field, value, least, most }),
        };
        within("number of paths", self.paths.len() as u64, 1, MOST_PATHS)?;
        within("number of operations", self.operations.len() as u64, 0, MOST_OPERATIONS)?;
        for path in &self.paths {
            within("up-kbps", path.up_kbps, 1, FASTEST)?;
            within("down-kbps", path.down_kbps, 1, FASTEST)?;
            within("rtt-ms", path.rtt_ms, 0, 10_000)?;
            within("queue", path.queue, 3000, 1 << 30)?;
            within("loss-ppm", u64::from(path.loss_ppm), 0, 500_000)?;
        }
        for (number, operation) in self.operations.iter().enumerate() {
            within("at-ms", operation.at_ms, 0, LONGEST)?;
            within("for-ms", operation.act.lasts().as_millis() as u64, 0, LONGEST)?;
            match operation.act {
                Act::Rate { kbps, .. } => within("kbps", kbps, 0, FASTEST)?,
                Act::Delay { ms, .. } => within("ms", ms, 0, LONGEST)?,
                Act::Reorder { late_ms, .. } => within("late-ms", late_ms, 0, LONGEST)?,
                Act::Write { bytes, .. } | Act::Mtu { bytes, .. } => within("bytes", bytes, 0, MOST_BYTES)?,
                Act::Pace { bytes, .. } => within("bytes", bytes, 1, MOST_BYTES)?,
                Act::Datagrams { size, .. } => within("size", size, 0, MOST_DATAGRAM)?,
                _ => {}
            }
            if let Some(path) = operation.act.path().filter(|path| usize::from(*path) >= self.paths.len()) {
                let operation = number + 1;
                return Err(TrialError::NoPath { operation, path, paths: self.paths.len() });
            }
        }
        self.session().session.check().map_err(|error| TrialError::Session(error.to_string()))
    }

    /// Settings of the session itself.
    #[must_use]
    pub fn config(&self) -> Config {
        Config {
            scheduler: self.scheduler.clone(),
            receive_credit: self.receive_credit,
            send_buffer: usize::try_from(self.send_buffer).unwrap_or(usize::MAX),
            ..Config::default()
        }
    }

    /// Settings of both ends.
    pub(super) fn session(&self) -> SessionConfig {
        SessionConfig {
            session: self.config(),
            congestion: self.congestion.clone(),
            tls: self.tls,
            early: self.early,
            seed: self.seed,
            ..SessionConfig::default()
        }
    }

    /// When the last operation is over.
    #[must_use]
    pub fn ends(&self) -> Instant {
        self.operations.iter().map(Operation::ends).max().unwrap_or(Instant::ZERO)
    }

    /// Whether its scheduler promises to be no slower than the best path. Others wait for what a slower path has, by design.
    pub(super) fn is_of_best_path(&self) -> bool {
        self.scheduler.ends_with("fbdt")
    }

    /// When something is wrong with a path, its connections or an end, or with another path for which the scheduler waits.
    pub(super) fn troubles(&self, path: usize) -> Vec<Span> {
        let concerns = |operation: &&Operation| match operation.act {
            Act::Restart { .. } | Act::Suspend { .. } => true,
            Act::Rate { .. } | Act::Delay { .. } if !self.is_of_best_path() => true,
            _ => operation.act.troubles() && operation.act.path().map(usize::from) == Some(path),
        };
        self.operations.iter().filter(concerns).map(|o| (o.begins(), o.ends())).collect()
    }

    /// When a path's traffic costs money although that of another path does not.
    pub(super) fn spared(&self, path: usize) -> Vec<Span> {
        let mut changes: Vec<_> = self
            .operations
            .iter()
            .filter_map(|operation| match operation.act {
                Act::Metered { path, metered } => Some((operation.begins(), usize::from(path), metered)),
                _ => None,
            })
            .collect();
        changes.sort_by_key(|(at, ..)| *at);
        let (mut costs, mut spared) = (vec![false; self.paths.len()], Vec::new());
        let ends = changes.iter().skip(1).map(|(at, ..)| *at).chain([Instant::MAX]).collect::<Vec<_>>();
        for ((from, of, metered), to) in changes.into_iter().zip(ends) {
            costs[of] = metered;
            if costs[path] && costs.contains(&false) {
                spared.push((from, to));
            }
        }
        spared
    }

    /// The streams and flows, in the order in which they are opened. The first operation that sends on one opens it.
    pub(super) fn names(&self) -> Vec<Name> {
        let mut sorted: Vec<&Operation> = self.operations.iter().collect();
        sorted.sort_by_key(|operation| operation.at_ms);
        let (mut names, mut opened): (Vec<Name>, [u32; 4]) = (Vec::new(), [0; 4]);
        for operation in sorted {
            let (end, stream, is_flow) = match operation.act {
                Act::Write { end, stream, .. } | Act::Bulk { end, stream, .. } => (end, stream, false),
                Act::Datagrams { end, stream, .. } => (end, stream, true),
                _ => continue,
            };
            if names.iter().any(|name| name.stream == stream) {
                continue;
            }
            let count = &mut opened[end as usize + 2 * usize::from(is_flow)];
            let first = if is_flow { FIRST_FLOW } else { 0 };
            let id = StreamId(first + 2 * *count + end as u32);
            *count += 1;
            names.push(Name { stream, opener: end, id, is_flow });
        }
        names
    }

    /// A path's link to one end. Operations that lose packets are not in it.
    #[must_use]
    pub fn link(&self, path: usize, to: End) -> LinkConfig {
        let (spec, label) = (&self.paths[path], format!("{path} {to:?}"));
        let kbps = if to == End::Server { spec.up_kbps } else { spec.down_kbps };
        let one_way = Duration::from_micros(spec.rtt_ms * 500);
        let rate = |kbps: u64| Bitrate::from_bps(kbps * 1000);
        let here = |way: Way| way.reaches(to);
        let of_path = || self.operations.iter().filter(|o| o.act.path().map(usize::from) == Some(path));
        let dead = of_path().filter(|operation| match operation.act {
            Act::Absent { .. } => true,
            Act::Dead { way, .. } => here(way),
            _ => false,
        });
        let rates = changes(of_path(), |act| match *act {
            Act::Rate { way, kbps, .. } if here(way) => Some(kbps),
            _ => None,
        });
        let delays = changes(of_path(), |act| match *act {
            Act::Delay { way, ms, .. } if here(way) => Some(Duration::from_millis(ms)),
            _ => None,
        });
        let mut steps = vec![(Duration::ZERO, rate(kbps))];
        for (at, other) in rates {
            let step = (at, rate(other.unwrap_or(kbps)));
            if at.is_zero() { steps[0] = step } else { steps.push(step) }
        }
        let delayed = delays.into_iter().map(|(at, more)| (at, one_way + more.unwrap_or_default()));
        let loss = match spec.loss_ppm {
            0 => LossSpec::None,
            ppm => LossSpec::Bernoulli(f64::from(ppm) / 1e6),
        };
        let link = LinkSpec {
            rate: if steps.len() == 1 { RateSpec::Constant(rate(kbps)) } else { RateSpec::Steps(steps) },
            delay: DelaySpec { base: one_way, changes: delayed.collect(), ..DelaySpec::default() },
            loss,
            queue: QueueSpec::Bytes(DataSize::from_bytes(spec.queue)),
        };
        let rng = Rng::new(self.seed).child(&label);
        LinkConfig {
            spec: link,
            extra_delay: Duration::ZERO,
            dead: merged(dead.map(|o| (o.begins(), o.ends())).collect()),
            changes: Vec::new(),
            rate_rng: rng.child("rate"),
            rng,
        }
    }
}

/// When a value changes, and to what; `None`: to its usual one. The operation that began last decides.
fn changes<'a, T: Copy>(
    operations: impl Iterator<Item = &'a Operation>,
    value: impl Fn(&Act) -> Option<T>,
) -> Vec<(Duration, Option<T>)> {
    let all: Vec<_> = operations.filter_map(|o| Some((o.begins(), o.ends(), value(&o.act)?))).collect();
    let mut times: Vec<Instant> = all.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
    times.sort_unstable();
    times.dedup();
    let at = |time: Instant| {
        let present = all.iter().filter(|(from, to, _)| *from <= time && time < *to);
        (
            time.saturating_since(Instant::ZERO),
            present.max_by_key(|(from, ..)| *from).map(|(.., value)| *value),
        )
    };
    times.into_iter().map(at).collect()
}

/// The spans in order, those that touch joined.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut joined: Vec<Span> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => joined.push((from, to)),
        }
    }
    joined
}
