//! Decides which paths a session has while interfaces and addresses come and go. Sans-IO: takes network
//! configurations, returns paths to add and to remove.
//!
//! Each configured path stands for one or more local ends: an interface or an address stands for itself, `auto` for
//! every interface that has a route to the server. When a local end appears, its path is added at once. When it
//! disappears or gets another address, its path is removed. A local end that comes and goes repeatedly must stay for
//! a while before it is used again. Not here: reading the configuration and changing the session ([`watcher`]), and
//! routes ([`crate::reach`]).

mod watcher;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use tributary_tun::{Interface, Network};
use tributary_types::{Bitrate, Instant, PathId};

use crate::config::{Local, PathConfig};
use crate::reach;
pub(crate) use watcher::{Wanted, Watcher, expand};

/// Maximum number of paths of a session.
pub(crate) const MAX_PATHS: usize = 8;
/// A local end that was used for less time than this counts as flapping.
const CALM: Duration = Duration::from_secs(10);
/// Number of consecutive flaps after which a local end is still used at once.
const FREE_FLAPS: u32 = 3;
/// Shortest and longest time that a local end must be present after further flaps. It doubles with each flap.
const STAY: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));
/// A local end of `auto` that is absent for this long is removed together with its count of flaps.
const FORGET: Duration = Duration::from_secs(60);

/// A change that the session must carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add(PathId, PathConfig),
    Remove(PathId, Loss),
    /// What the path may carry.
    Cap(PathId, Option<Bitrate>),
}

/// Why a path must be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The interface does not exist any more.
    NoInterface,
    /// The interface is switched off or has no carrier.
    Down,
    /// The interface has no address with which the server can be reached.
    NoAddress,
    /// No interface that is up has the address.
    AddressGone,
    /// The interface is there, but not the way to the server.
    NoRoute,
    /// The addresses changed.
    Changed,
    /// The configuration has the path no longer.
    Unwanted,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoInterface => "the interface has disappeared",
            Self::Down => "the interface is down",
            Self::NoAddress => "the interface has no address for the server",
            Self::AddressGone => "no interface has its address any more",
            Self::NoRoute => "the interface has no route to the server",
            Self::Changed => "its address changed",
            Self::Unwanted => "it was taken out of the configuration",
        })
    }
}

/// A local end that is present, with the addresses that a connection may use. A local end that cannot be looked
/// up, such as the routing table's choice, counts as always present and has no addresses.
type Found = (PathConfig, Vec<IpAddr>);

/// A local end that is or was present.
#[derive(Debug)]
struct LocalEnd {
    config: PathConfig,
    /// It was configured by name; otherwise `auto` found it.
    named: bool,
    /// Its path, while the session has one.
    path: Option<PathId>,
    addresses: Vec<IpAddr>,
    /// When it appeared; `None` while it is absent.
    since: Option<Instant>,
    /// When its path was last added, and when it last disappeared.
    added: Instant,
    left: Instant,
    flaps: u32,
}

/// The paths of one session.
#[derive(Debug)]
pub(crate) struct Follow {
    wanted: Vec<PathConfig>,
    ends: Vec<LocalEnd>,
    /// Addresses that some interface has had. Other addresses may still be usable, because of a kernel rule.
    assigned: BTreeSet<IpAddr>,
    next: u8,
    changes: VecDeque<Change>,
}

impl LocalEnd {
    fn new(config: PathConfig, named: bool, now: Instant) -> Self {
        let (addresses, since) = (Vec::new(), None);
        Self { config, named, path: None, addresses, since, added: now, left: now, flaps: 0 }
    }

    /// Updates the local end: `None` if it is absent, else its addresses. Returns its path if the path must be
    /// removed.
    fn update(&mut self, now: Instant, found: Option<&[IpAddr]>) -> Option<PathId> {
        let same = found.is_some_and(|addresses| {
            addresses.is_empty() == self.addresses.is_empty()
                && self.addresses.iter().all(|address| addresses.contains(address))
        });
        let lost = self.path.take_if(|_| !same);
        if lost.is_some() {
            self.flaps = if now >= self.added + CALM { 0 } else { self.flaps.saturating_add(1) };
        }
        match found {
            None => {
                if self.since.take().is_some() {
                    self.left = now;
                }
            }
            Some(addresses) if !same || self.since.is_none() => {
                self.since = Some(now);
                self.addresses = addresses.to_vec();
            }
            Some(_) => {}
        }
        lost
    }

    /// When its path may be added; `None` while it is absent or has a path.
    fn due(&self) -> Option<Instant> {
        let since = self.since.filter(|_| self.path.is_none())?;
        let stay = match self.flaps.checked_sub(FREE_FLAPS) {
            None => Duration::ZERO,
            Some(more) => (STAY.0 * (1 << more.min(8))).min(STAY.1),
        };
        Some(since + stay)
    }
}

impl Follow {
    /// A machine without paths; [`Self::handle_network`] finds the first ones.
    pub(crate) fn new(wanted: Vec<PathConfig>, now: Instant) -> Self {
        let named = wanted.iter().filter(|config| config.local != Local::Auto);
        let ends = named.map(|config| LocalEnd::new(config.clone(), true, now)).collect();
        Self { wanted, ends, assigned: BTreeSet::new(), next: 0, changes: VecDeque::new() }
    }

    /// Whether any of the paths depends on interfaces or addresses.
    pub(crate) fn is_needed(wanted: &[PathConfig]) -> bool {
        wanted.iter().any(|config| match config.local {
            Local::Auto | Local::Interface(_) => true,
            Local::Address(address) => !is_everywhere(address),
            Local::Any => false,
        })
    }

    /// Takes other configured paths; [`Self::handle_network`] must follow. Paths in both configurations go on.
    pub(crate) fn set_wanted(&mut self, wanted: Vec<PathConfig>) {
        // `auto` takes over an interface that was named until now, with its path.
        let finds = |auto: &PathConfig, end: &PathConfig| {
            let rest = PathConfig { local: end.local.clone(), ..auto.clone() };
            auto.local == Local::Auto && matches!(end.local, Local::Interface(_)) && rest == *end
        };
        let mut ends = std::mem::take(&mut self.ends);
        for end in &mut ends {
            let named = wanted.iter().find(|config| config.is_like(&end.config));
            let is_auto =
                |auto: &&PathConfig| finds(auto, &PathConfig { cap: auto.cap, ..end.config.clone() });
            let goes_on = named.or_else(|| wanted.iter().find(is_auto));
            if let Some(config) = goes_on.filter(|config| config.cap != end.config.cap) {
                end.config.cap = config.cap;
                self.changes.extend(end.path.map(|path| Change::Cap(path, config.cap)));
            }
        }
        ends.retain_mut(|end| {
            let named = wanted.contains(&end.config);
            let found = wanted.iter().any(|auto| finds(auto, &end.config));
            end.named = named;
            if !named && !found {
                self.changes.extend(end.path.map(|path| Change::Remove(path, Loss::Unwanted)));
            }
            named || found
        });
        let new = wanted.iter().filter(|config| config.local != Local::Auto);
        for config in new {
            if !ends.iter().any(|end| end.config == *config) {
                ends.push(LocalEnd::new(config.clone(), true, Instant::ZERO));
            }
        }
        (self.ends, self.wanted) = (ends, wanted);
    }

    /// Takes the present network configuration.
    pub(crate) fn handle_network(&mut self, now: Instant, network: &Network) {
        for interface in network.interfaces.iter().filter(|interface| interface.up) {
            let followed = self.wanted.iter().filter_map(|config| match config.local {
                Local::Address(address) => Some(address),
                _ => None,
            });
            self.assigned.extend(followed.filter(|address| interface.addresses.contains(address)));
        }
        let found = self.find(network);
        for end in &mut self.ends {
            let there = found.iter().find(|(config, _)| *config == end.config).map(|(_, there)| &there[..]);
            if let Some(path) = end.update(now, there) {
                let loss = there.map_or_else(|| loss(network, &end.config), |_| Loss::Changed);
                self.changes.push_back(Change::Remove(path, loss));
            }
        }
        for (config, addresses) in found {
            if !self.ends.iter().any(|end| end.config == config) {
                let mut end = LocalEnd::new(config, false, now);
                end.update(now, Some(&addresses));
                self.ends.push(end);
            }
        }
        self.ends.retain(|end| end.named || end.since.is_some() || now < end.left + FORGET);
        self.handle_timeout(now);
    }

    /// Updates the machine to `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while self.has_free_path() {
            let due = |end: &LocalEnd| end.due().is_some_and(|due| due <= now);
            let Some(at) = self.ends.iter().position(due) else { return };
            let path = self.free_id();
            let end = &mut self.ends[at];
            (end.path, end.added) = (Some(path), now);
            self.changes.push_back(Change::Add(path, end.config.clone()));
        }
    }

    /// When [`Self::handle_timeout`] must be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.ends.iter().filter_map(LocalEnd::due).min().filter(|_| self.has_free_path())
    }

    /// The next change for the session.
    pub(crate) fn poll_change(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    fn has_free_path(&self) -> bool {
        self.ends.iter().filter(|end| end.path.is_some()).count() < MAX_PATHS
    }

    /// An unused identifier. Identifiers are reused as late as possible, because the server may still have the old
    /// path.
    fn free_id(&mut self) -> PathId {
        loop {
            let path = PathId(self.next);
            self.next = self.next.wrapping_add(1);
            if !self.ends.iter().any(|end| end.path == Some(path)) {
                return path;
            }
        }
    }

    fn find(&self, network: &Network) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        for config in &self.wanted {
            match &config.local {
                Local::Any => found.push((config.clone(), Vec::new())),
                Local::Address(address) => {
                    let there = network.interfaces.iter().any(|i| i.up && i.addresses.contains(address));
                    if there && !is_everywhere(*address) {
                        found.push((config.clone(), vec![*address]));
                    } else if !self.assigned.contains(address) || is_everywhere(*address) {
                        found.push((config.clone(), Vec::new()));
                    }
                }
                Local::Interface(name) => {
                    let interface = network.interfaces.iter().find(|interface| interface.name == *name);
                    let addresses = interface.map(|interface| reach::usable(interface, &config.server));
                    found.extend(addresses.filter(|a| !a.is_empty()).map(|a| (config.clone(), a)));
                }
                Local::Auto => found.extend(self.find_all(network, config)),
            }
        }
        found
    }

    /// Every interface with a route to the server that no other configured path names.
    fn find_all(&self, network: &Network, auto: &PathConfig) -> Vec<Found> {
        let named = |interface: &Interface| {
            self.wanted.iter().any(|other| match &other.local {
                Local::Interface(name) => *name == interface.name,
                Local::Address(address) => interface.addresses.contains(address),
                Local::Any | Local::Auto => false,
            })
        };
        let there = network.interfaces.iter().filter(|interface| {
            !interface.loopback && !named(interface) && reach::leads(network, interface, &auto.server)
        });
        let path = |interface: &Interface| {
            let local = Local::Interface(interface.name.clone());
            (PathConfig { local, ..auto.clone() }, reach::usable(interface, &auto.server))
        };
        there.map(path).collect()
    }
}

/// Why a local end that was present is not any more.
fn loss(network: &Network, config: &PathConfig) -> Loss {
    let Local::Interface(name) = &config.local else { return Loss::AddressGone };
    match network.interfaces.iter().find(|interface| interface.name == *name) {
        None => Loss::NoInterface,
        Some(interface) if !interface.up => Loss::Down,
        Some(interface) if reach::usable(interface, &config.server).is_empty() => Loss::NoAddress,
        Some(_) => Loss::NoRoute,
    }
}

/// Whether every host has this address, such as 127.0.0.1.
fn is_everywhere(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

#[cfg(test)]
mod tests;
