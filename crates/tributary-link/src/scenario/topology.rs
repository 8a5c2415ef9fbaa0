//! How a scenario's links are connected: a path's own link, shared links, and absences of radios.
//!
//! A path is a chain: its own link next to the client, then the shared links towards the server. Each shared link has
//! one queue and one server for all paths that cross it. Topologies with loops cannot be described.

use super::{Direction, LinkSpec, Moment, PathSpec, Scenario};
use crate::{Background, BackgroundSpec, Link, LinkConfig};
use core::time::Duration;
use tributary_types::{DataSize, Instant, Rng};

/// A link that several paths share.
#[derive(Clone, Debug, PartialEq)]
pub struct HopSpec {
    /// Name, different from every path's. At most 15 of `a-z`, `0-9` and `-`.
    pub name: String,
    /// Server to client.
    pub down: LinkSpec,
    /// Client to server.
    pub up: LinkSpec,
    /// `[from, to)`: drops everything silently in both directions.
    pub dead: Vec<(Moment, Moment)>,
}

impl HopSpec {
    /// A hop with the same settings in both directions.
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
}

/// Whose links they are, one for each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkOwner {
    /// The own link of the path with this index.
    Path(usize),
    /// The shared link with this index.
    Hop(usize),
}

/// A radio disappears or returns, with a link event at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// When.
    pub at: Instant,
    /// Index of the path.
    pub path: usize,
    /// Whether it is up from now on.
    pub up: bool,
}

impl Scenario {
    /// The shared link called `name`, with its index.
    #[must_use]
    pub fn hop(&self, name: &str) -> Option<(usize, &HopSpec)> {
        self.hops.iter().enumerate().find(|(_, hop)| hop.name == name)
    }

    /// The path or shared link called `name`.
    #[must_use]
    pub fn link_owner(&self, name: &str) -> Option<LinkOwner> {
        let path = self.path(name).map(|(i, _)| LinkOwner::Path(i));
        path.or_else(|| self.hop(name).map(|(i, _)| LinkOwner::Hop(i)))
    }

    /// The links that a packet on `path` crosses, in order.
    ///
    /// # Panics
    /// When `path` is not an index of `paths`, or the path crosses a hop that does not exist: see
    /// [`Scenario::check`].
    #[must_use]
    pub fn chain(&self, path: usize, direction: Direction) -> Vec<LinkOwner> {
        let hop = |name: &String| LinkOwner::Hop(self.hop(name).expect("a checked path's hops exist").0);
        let mut chain = vec![LinkOwner::Path(path)];
        chain.extend(self.paths[path].via.iter().map(hop));
        if direction == Direction::Down {
            chain.reverse();
        }
        chain
    }

    /// The settings of a path's own link. The randomness depends on the seed and the path's name, not on the
    /// other paths.
    ///
    /// # Panics
    /// When `path` is not an index of `paths`.
    #[must_use]
    pub fn link_config(&self, path: usize, direction: Direction) -> LinkConfig {
        let spec = &self.paths[path];
        let seed = Rng::new(self.seed);
        let radio = spec.radio.as_ref().unwrap_or(&spec.name);
        LinkConfig {
            spec: spec.link(direction).clone(),
            extra_delay: self.rtt / 2,
            dead: self.away(spec),
            changes: Vec::new(),
            rate_rng: seed.child(radio).child("rate"),
            rng: seed.child(&spec.name).child(label(direction)),
        }
    }

    /// The settings of a shared link. The base RTT is added to the paths' own links only.
    ///
    /// # Panics
    /// When `hop` is not an index of `hops`.
    #[must_use]
    pub fn hop_link_config(&self, hop: usize, direction: Direction) -> LinkConfig {
        let spec = &self.hops[hop];
        let seed = Rng::new(self.seed).child(&spec.name);
        LinkConfig {
            spec: spec.link(direction).clone(),
            extra_delay: Duration::ZERO,
            dead: self.windows(&spec.dead),
            changes: Vec::new(),
            rate_rng: seed.child("rate"),
            rng: seed.child(label(direction)),
        }
    }

    /// The settings of any link.
    ///
    /// # Panics
    /// When the link does not exist.
    #[must_use]
    pub fn link_config_at(&self, owner: LinkOwner, direction: Direction) -> LinkConfig {
        match owner {
            LinkOwner::Path(path) => self.link_config(path, direction),
            LinkOwner::Hop(hop) => self.hop_link_config(hop, direction),
        }
    }

    /// A path's own link in one direction, at time zero.
    ///
    /// # Panics
    /// When `path` is not an index of `paths`.
    #[must_use]
    pub fn link<P: Clone>(&self, path: usize, direction: Direction) -> Link<P> {
        Link::new(self.link_config(path, direction))
    }

    /// Capacity of a path's own link in `[from, to)`, in bytes of IP packets. Shared links are not considered: see
    /// [`Scenario::capacity_bound`].
    ///
    /// # Panics
    /// When `path` is not an index of `paths`.
    #[must_use]
    pub fn capacity(&self, path: usize, direction: Direction, from: Instant, to: Instant) -> DataSize {
        self.link_config(path, direction).capacity(from, to)
    }

    /// Upper bound of the bytes that can pass a path from end to end in `[from, to)` after its queues have emptied:
    /// the minimum over the links of its chain. Fewer bytes pass if other paths or background traffic share a link,
    /// or if links of a chain are fast at different times.
    ///
    /// # Panics
    /// When `path` is not an index of `paths`, or crosses a hop that does not exist.
    #[must_use]
    pub fn capacity_bound(&self, path: usize, direction: Direction, from: Instant, to: Instant) -> DataSize {
        let each = self.chain(path, direction).into_iter();
        let each = each.map(|owner| self.link_config_at(owner, direction).capacity(from, to));
        each.min().unwrap_or(DataSize::ZERO)
    }

    /// When radios disappear and return with a link event, sorted by time, then by path. A radio that is
    /// absent at the end of the scenario does not return.
    #[must_use]
    pub fn link_events(&self) -> Vec<LinkEvent> {
        let mut events = Vec::new();
        let end = Instant::ZERO + self.duration;
        for (path, spec) in self.paths.iter().enumerate() {
            for (from, to) in merged(self.windows(&spec.absent)) {
                events.push(LinkEvent { at: from, path, up: false });
                events.push(LinkEvent { at: to, path, up: true });
            }
        }
        events.retain(|event| event.at < end);
        events.sort_by_key(|event| (event.at, event.path));
        events
    }

    /// The generator of a source of background traffic; `None` for TCP flows, which need endpoints.
    ///
    /// # Panics
    /// When `index` is not an index of `background`.
    #[must_use]
    pub fn background(&self, index: usize) -> Option<Background> {
        let spec = &self.background[index];
        // Counted among the sources of the same link, so that sources of other links do not affect this one.
        let alike = |other: &&BackgroundSpec| other.on == spec.on && other.direction == spec.direction;
        let number = self.background[..index].iter().filter(alike).count();
        let rng = Rng::new(self.seed).child(&spec.on).child(label(spec.direction));
        let rng = rng.child(&format!("background {number}"));
        let (from, to) = (spec.from.resolve(self.duration), spec.to.resolve(self.duration));
        Background::new(&spec.kind, from, to, rng)
    }

    /// Why the network can run only in the simulator; `None` if the emulator supports it, too.
    #[must_use]
    pub fn needs_simulator(&self) -> Option<String> {
        let what = if let Some(hop) = self.hops.first() {
            format!("the shared link `{}`", hop.name)
        } else if let Some(source) = self.background.first() {
            format!("background traffic on `{}`", source.on)
        } else {
            return None;
        };
        Some(format!(
            "scenario {} has {what}, which only the simulator supports: run it there (--world sim), or remove it",
            self.name
        ))
    }

    fn windows(&self, windows: &[(Moment, Moment)]) -> Vec<(Instant, Instant)> {
        let resolve =
            |(from, to): &(Moment, Moment)| (from.resolve(self.duration), to.resolve(self.duration));
        windows.iter().map(resolve).collect()
    }

    /// The times in which the path drops everything, for any reason.
    fn away(&self, spec: &PathSpec) -> Vec<(Instant, Instant)> {
        let mut windows = self.windows(&spec.dead);
        windows.extend(self.windows(&spec.absent));
        merged(windows)
    }
}

fn label(direction: Direction) -> &'static str {
    match direction {
        Direction::Down => "down",
        Direction::Up => "up",
    }
}

/// The same times as ascending windows that neither overlap nor touch.
fn merged(mut windows: Vec<(Instant, Instant)>) -> Vec<(Instant, Instant)> {
    windows.sort_unstable();
    let mut result: Vec<(Instant, Instant)> = Vec::with_capacity(windows.len());
    for (from, to) in windows {
        match result.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => result.push((from, to)),
        }
    }
    result
}
