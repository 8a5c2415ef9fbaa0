//! Scenarios: what a network is made of, by name, file or code. Describes; runs nothing.
//!
//! A scenario names its paths and each path's two links. The same one is run by the emulator and by a
//! simulator. The file format is described in `docs/models/link.md`.

use crate::{DelaySpec, Link, LinkConfig, LossSpec, QueueSpec, RateSpec};
use core::time::Duration;
use thiserror::Error;
use tributary_types::{Bitrate, DataSize, Instant, Rng};

mod builtin;
mod check;
mod quantity;
mod rate_fields;
mod read;
mod table;
#[cfg(test)]
mod tests;

/// A session has at most this many paths.
pub const MAX_PATHS: usize = 8;

/// One of a path's two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Server to client.
    Down,
    /// Client to server.
    Up,
}

/// Settings of one link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Rate process.
    pub rate: RateSpec,
    /// Delay, without the scenario's base RTT.
    pub delay: DelaySpec,
    /// Random loss.
    pub loss: LossSpec,
    /// Queue limit.
    pub queue: QueueSpec,
}

impl LinkSpec {
    /// A link of constant rate without delay or loss and with the default queue.
    #[must_use]
    pub fn constant(rate: Bitrate) -> Self {
        Self::with_rate(RateSpec::Constant(rate))
    }

    /// A link with this rate process, without delay or loss and with the default queue.
    #[must_use]
    pub fn with_rate(rate: RateSpec) -> Self {
        let (delay, loss, queue) = Default::default();
        Self { rate, delay, loss, queue }
    }
}

/// A point of a scenario's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Moment {
    /// This long after the start.
    At(Duration),
    /// At this share of the duration, 0 to 1; moves when the duration is changed.
    Share(f64),
}

impl Moment {
    /// The moment in a scenario of this duration.
    #[must_use]
    pub fn resolve(self, duration: Duration) -> Instant {
        match self {
            Self::At(time) => Instant::ZERO + time,
            Self::Share(share) => {
                Instant::from_nanos((duration.as_nanos() as f64 * share.clamp(0.0, 1.0)) as u64)
            }
        }
    }
}

/// One path of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSpec {
    /// Name: also the network interface's. At most 15 of `a-z`, `0-9` and `-`.
    pub name: String,
    /// Server to client.
    pub down: LinkSpec,
    /// Client to server.
    pub up: LinkSpec,
    /// `[from, to)`: the radio is silently dead in both directions, without a link-down event.
    pub dead: Vec<(Moment, Moment)>,
}

impl PathSpec {
    /// A path with the same settings in both directions.
    #[must_use]
    pub fn symmetric(name: &str, link: LinkSpec) -> Self {
        Self { name: name.to_owned(), up: link.clone(), down: link, dead: Vec::new() }
    }

    /// The settings of one direction.
    #[must_use]
    pub fn link(&self, direction: Direction) -> &LinkSpec {
        match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        }
    }

    fn links_mut(&mut self) -> [&mut LinkSpec; 2] {
        [&mut self.down, &mut self.up]
    }
}

/// A network between a client and a server, over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Name.
    pub name: String,
    /// One sentence.
    pub description: String,
    /// How long a run of it lasts.
    pub duration: Duration,
    /// Seed of everything random in it.
    pub seed: u64,
    /// Base RTT: half of it is added to the delay of every link. Zero is the bare link.
    pub rtt: Duration,
    /// 1 to 8 paths.
    pub paths: Vec<PathSpec>,
}

/// Why a scenario was refused.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("{file}: {problem}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        problem: String,
    },
    /// A field has an impossible value, is missing or is unknown; or the text is no TOML.
    #[error("{file}:{line}: {field}: {problem}")]
    Field {
        /// The file.
        file: String,
        /// Line, counted from one.
        line: usize,
        /// The field, such as `path.down.rate`.
        field: String,
        /// What is wrong and what is expected.
        problem: String,
    },
    /// A scenario built in code has an impossible value.
    #[error("scenario {scenario}: {field}: {problem}")]
    Impossible {
        /// The scenario's name.
        scenario: String,
        /// The field.
        field: String,
        /// What is wrong and what is expected.
        problem: String,
    },
    /// No shipped scenario has this name.
    #[error("no scenario is called `{name}`; there are {known}, or give the path of a .toml file")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
}

impl Scenario {
    /// An empty scenario of 30 s with seed 1, to be given paths.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            duration: Duration::from_secs(30),
            seed: 1,
            rtt: Duration::ZERO,
            paths: Vec::new(),
        }
    }

    /// With one more path.
    #[must_use]
    pub fn with_path(mut self, path: PathSpec) -> Self {
        self.paths.push(path);
        self
    }

    /// With this base RTT instead.
    #[must_use]
    pub fn with_rtt(mut self, rtt: Duration) -> Self {
        self.rtt = rtt;
        self
    }

    /// With this queue on every link.
    #[must_use]
    pub fn with_queue(mut self, queue: &QueueSpec) -> Self {
        for link in self.paths.iter_mut().flat_map(PathSpec::links_mut) {
            link.queue = queue.clone();
        }
        self
    }

    /// With a queue on every link that follows the rate: `time` at the present rate, 30 kB at least.
    #[must_use]
    pub fn with_queue_time(self, time: Duration) -> Self {
        self.with_queue(&QueueSpec::Time { time, floor: QueueSpec::DEFAULT_FLOOR })
    }

    /// With every queue limited to this many bytes.
    #[must_use]
    pub fn with_queue_bytes(self, size: DataSize) -> Self {
        self.with_queue(&QueueSpec::Bytes(size))
    }

    /// With this seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With this duration; moments given as a share of it move along, rates do not.
    #[must_use]
    pub fn with_duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// With only the path called `name`: one radio alone under the same conditions.
    /// `None` when there is no such path.
    #[must_use]
    pub fn only(mut self, name: &str) -> Option<Self> {
        self.paths.retain(|path| path.name == name);
        (!self.paths.is_empty()).then_some(self)
    }

    /// The path called `name`, with its index.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<(usize, &PathSpec)> {
        self.paths.iter().enumerate().find(|(_, path)| path.name == name)
    }

    /// Everything needed to build one link. The randomness depends on the seed and the path's name,
    /// not on what other paths there are.
    ///
    /// # Panics
    /// When `path` is not an index of `paths`.
    #[must_use]
    pub fn link_config(&self, path: usize, direction: Direction) -> LinkConfig {
        let spec = &self.paths[path];
        let radio = Rng::new(self.seed).child(&spec.name);
        let label = match direction {
            Direction::Down => "down",
            Direction::Up => "up",
        };
        let dead =
            spec.dead.iter().map(|(from, to)| (from.resolve(self.duration), to.resolve(self.duration)));
        LinkConfig {
            spec: spec.link(direction).clone(),
            extra_delay: self.rtt / 2,
            dead: dead.collect(),
            rate_rng: radio.child("rate"),
            rng: radio.child(label),
        }
    }

    /// One link of this scenario, at its origin.
    ///
    /// # Panics
    /// When `path` is not an index of `paths`.
    #[must_use]
    pub fn link<P: Clone>(&self, path: usize, direction: Direction) -> Link<P> {
        Link::new(self.link_config(path, direction))
    }

    /// What a link can carry in `[from, to)`, in bytes of IP packets.
    ///
    /// # Panics
    /// When `path` is not an index of `paths`.
    #[must_use]
    pub fn capacity(&self, path: usize, direction: Direction, from: Instant, to: Instant) -> DataSize {
        self.link_config(path, direction).capacity(from, to)
    }
}
