//! Scenarios: descriptions of networks, by name, file or code. Other crates run them.
//!
//! A scenario names its paths and describes each path's two links. Emulator and simulator run the same
//! scenario. The file format is described in `docs/guide/scenarios.md`.

use crate::error::ScenarioError;
use crate::name::{Name, WrittenAt};
use crate::spec::{Direction, LinkSpec, Moment};
use crate::{BackgroundSpec, QueueSpec};
use core::time::Duration;
use tributary_types::DataSize;

mod begun;
mod builtin;
mod check;
mod link_fields;
mod quantity;
mod rate_fields;
mod read;
mod run;
mod run_fields;
mod table;
#[cfg(test)]
mod tests;
mod topology;
mod trace_fields;

pub use run::{Lines, RunSpec, WorkloadSpec};
pub use topology::{HopSpec, LinkEvent, LinkOwner};

/// A session has at most this many paths.
pub const MAX_PATHS: usize = 8;
/// A scenario has at most this many shared links.
pub const MAX_HOPS: usize = 32;
/// A scenario has at most this many sources of background traffic.
pub const MAX_BACKGROUND: usize = 64;
/// Maximum number of connections of a run at the same time.
pub const MAX_CONNECTIONS: u32 = 10_000;
/// A connection has at most this many subflows on each path.
pub const MAX_SUBFLOWS: u32 = 16;

/// One path of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSpec {
    /// Name of the path and of its network interface. At most 15 characters of `a-z`, `0-9` and `-`.
    pub name: String,
    /// Server to client.
    pub down: LinkSpec,
    /// Client to server.
    pub up: LinkSpec,
    /// `[from, to)`: the radio is dead in both directions, without a link-down event.
    pub dead: Vec<(Moment, Moment)>,
    /// `[from, to)`: the radio is absent in both directions, and a link-down event tells both ends. Packets
    /// sent nevertheless are dropped as in `dead`. See [`Scenario::link_events`].
    pub absent: Vec<(Moment, Moment)>,
    /// Names of the shared links between this path's own link and the server, in order from the client's side.
    pub via: Vec<String>,
    /// The radio whose random numbers determine the rate; `None`: the path has its own. Paths with the same radio and
    /// the same Markov chain change state together.
    pub radio: Option<String>,
}

impl PathSpec {
    /// A path with the same settings in both directions.
    #[must_use]
    pub fn symmetric(name: &str, link: LinkSpec) -> Self {
        Self {
            name: name.to_owned(),
            up: link.clone(),
            down: link,
            dead: Vec::new(),
            absent: Vec::new(),
            via: Vec::new(),
            radio: None,
        }
    }

    /// Adds shared links between its own link and the server, in order from the client's side.
    #[must_use]
    pub fn with_via(mut self, hops: &[&str]) -> Self {
        self.via = hops.iter().map(|&hop| hop.to_owned()).collect();
        self
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
    /// Duration of a run.
    pub duration: Duration,
    /// Seed of all random numbers of the scenario.
    pub seed: u64,
    /// Base RTT: half of it is added to the delay of every link.
    pub rtt: Duration,
    /// 1 to 8 paths.
    pub paths: Vec<PathSpec>,
    /// Links that paths share, by name.
    pub hops: Vec<HopSpec>,
    /// Background traffic.
    pub background: Vec<BackgroundSpec>,
    /// Transports and workloads to run over the network, if the file gives them.
    pub run: RunSpec,
}

impl Scenario {
    /// An empty scenario of 30 s with seed 1, to which paths are added.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
            duration: Duration::from_secs(30),
            seed: 1,
            rtt: Duration::ZERO,
            paths: Vec::new(),
            hops: Vec::new(),
            background: Vec::new(),
            run: RunSpec::default(),
        }
    }

    /// Adds a path.
    #[must_use]
    pub fn with_path(mut self, path: PathSpec) -> Self {
        self.paths.push(path);
        self
    }

    /// Adds a shared link that paths can cross.
    #[must_use]
    pub fn with_hop(mut self, hop: HopSpec) -> Self {
        self.hops.push(hop);
        self
    }

    /// Adds a source of background traffic.
    #[must_use]
    pub fn with_background(mut self, background: BackgroundSpec) -> Self {
        self.background.push(background);
        self
    }

    /// Sets the base RTT.
    #[must_use]
    pub fn with_rtt(mut self, rtt: Duration) -> Self {
        self.rtt = rtt;
        self
    }

    /// Sets the queue of every path's own links.
    #[must_use]
    pub fn with_queue(mut self, queue: &QueueSpec) -> Self {
        for link in self.paths.iter_mut().flat_map(PathSpec::links_mut) {
            link.queue = queue.clone();
        }
        self
    }

    /// Sets the queue of every path's own links to `time` at the present rate, at least 30 kB.
    #[must_use]
    pub fn with_queue_time(self, time: Duration) -> Self {
        self.with_queue(&QueueSpec::Time { time, floor: QueueSpec::DEFAULT_FLOOR })
    }

    /// Limits the queue of every path's own links to this many bytes.
    #[must_use]
    pub fn with_queue_bytes(self, size: DataSize) -> Self {
        self.with_queue(&QueueSpec::Bytes(size))
    }

    /// Sets the seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the duration. Times given as a share of the duration move with it; rates do not.
    #[must_use]
    pub fn with_duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// The same network with only the path called `name` and the shared links it crosses, to measure one
    /// radio alone. `None` if there is no such path.
    #[must_use]
    pub fn only(mut self, name: &str) -> Option<Self> {
        self.paths.retain(|path| path.name == name);
        let crossed = &self.paths.first()?.via;
        self.hops.retain(|hop| crossed.contains(&hop.name));
        let hops = &self.hops;
        self.background.retain(|source| source.on == name || hops.iter().any(|hop| hop.name == source.on));
        Some(self)
    }

    /// The names of the paths, in order.
    #[must_use]
    pub fn path_names(&self) -> Vec<&str> {
        self.paths.iter().map(|path| path.name.as_str()).collect()
    }

    /// The path called `name`, with its index.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<(usize, &PathSpec)> {
        self.paths.iter().enumerate().find(|(_, path)| path.name == name)
    }
}
