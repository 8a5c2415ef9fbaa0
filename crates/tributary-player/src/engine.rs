//! The decision engine: chooses the transport at the start of playback, and the paths during it, from the path
//! controller's measurements of each path.
//!
//! It only decides; a driver carries its [`Decision`]s out. Source: Hayes, Chang and Riley, "Omnidirectional Adaptive
//! Bitrate Media Delivery using MPTCP/QUIC over an SDN Architecture", Algorithm 1. [`Settings::paper`] is that
//! algorithm; [`Settings::default`] adds a least RTT, hysteresis, a minimum dwell time, a test of whether an excess of
//! retransmissions is more than chance, the loss of probe packets, and a way back from QUIC to several paths.

use core::time::Duration;

use tributary_types::{Instant, PathId};

use known::Known;

mod decision;
mod known;
mod settings;
pub mod switching;

pub use decision::{Conditions, Decided, Decision, PathReport, Reason, Transport};
pub use settings::{LOSS_MEMORY, LOSS_SAMPLES, REMOVALS_APART, RTT_MEMORY, SEGMENT_BITS, Settings, Several};

/// A kind of transport over several paths, in the order of the loss for which it is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Mptcp,
    MultipathQuic,
    Session,
}

impl Kind {
    fn on(self, paths: Vec<PathId>) -> Transport {
        match self {
            Self::Mptcp => Transport::Mptcp(paths),
            Self::MultipathQuic => Transport::MultipathQuic(paths),
            Self::Session => Transport::Session(paths),
        }
    }

    /// Of this transport; `None` if it has one path.
    fn of(transport: &Transport) -> Option<Self> {
        match transport {
            Transport::Tcp | Transport::Quic(_) => None,
            Transport::Mptcp(_) => Some(Self::Mptcp),
            Transport::MultipathQuic(_) => Some(Self::MultipathQuic),
            Transport::Session(_) => Some(Self::Session),
        }
    }
}

/// The engine of one session.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    paths: Vec<Known>,
    /// In use, with the paths that it began with. TCP is not controlled.
    transport: Transport,
    /// Used before it.
    before: Transport,
    /// When the transport was last changed.
    moved: Instant,
    /// When the paths were last reported.
    looked: Instant,
}

impl Engine {
    /// An engine that has decided nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let (moved, looked) = (Instant::ZERO, Instant::ZERO);
        Self { settings, paths: Vec::new(), transport: Transport::Tcp, before: Transport::Tcp, moved, looked }
    }

    /// Paths in use.
    pub fn used(&self) -> impl Iterator<Item = PathId> + '_ {
        self.paths.iter().filter(|known| known.used).map(|known| known.path)
    }

    /// Chooses the transport to begin with (Algorithm 1, "Connection Setup"). `paths` is empty without a controller;
    /// `udp` is false where UDP is known to be blocked.
    pub fn start(&mut self, now: Instant, paths: &[PathReport], udp: bool) -> Decided {
        let mut usable: Vec<(PathId, Duration)> = paths.iter().filter_map(reachable).collect();
        usable.sort_by_key(|(path, rtt)| (*rtt, path.0));
        let lowest = usable.first().map(|(path, rtt)| (*path, *rtt));
        let balanced: Vec<PathId> = usable
            .iter()
            .filter(|(_, rtt)| {
                lowest.is_some_and(|(_, least)| self.settings.ratio(*rtt, least) < self.settings.rtt_ratio)
            })
            .map(|(path, _)| *path)
            .collect();
        let (transport, reason) = match (lowest, balanced.len()) {
            (None, _) => (Transport::Tcp, Reason::NoController),
            (Some(_), 2..) => (self.several(udp, None).on(balanced), Reason::Balanced),
            (Some(_), _) if !udp => (Transport::Tcp, Reason::UdpBlocked),
            (Some((path, _)), _) => {
                (Transport::Quic(path), if usable.len() == 1 { Reason::OnePath } else { Reason::Rtt })
            }
        };
        self.settle(now, &transport);
        let used = |report: &PathReport| transport.paths().contains(&report.path);
        self.paths = paths.iter().map(|report| Known::new(report, used(report), Some(now))).collect();
        self.looked = now;
        self.decided(now, (Decision::Start(transport), reason), paths, Duration::ZERO)
    }

    /// Decides during playback (Algorithm 1, "Connection in Progress"). An empty result changes nothing.
    pub fn update(&mut self, now: Instant, paths: &[PathReport], conditions: Conditions) -> Vec<Decided> {
        self.learn(now, paths, conditions.throughput);
        let decided = match self.transport {
            Transport::Tcp => Vec::new(),
            Transport::Quic(_) if !self.settings.leaves_quic => Vec::new(),
            Transport::Quic(_) => self.leave_quic(now, paths, conditions.udp).into_iter().collect(),
            _ => self.change_paths(now, paths, conditions),
        };
        decided.into_iter().map(|decided| self.decided(now, decided, paths, conditions.level)).collect()
    }

    /// The transport that was chosen last could not be connected: the one before it stays in use. The paths that the new
    /// one would have added are tried again later.
    pub fn set_back(&mut self, now: Instant) {
        self.transport = self.before.clone();
        for known in self.paths.iter_mut().filter(|known| known.used) {
            if !self.transport.paths().contains(&known.path) {
                (known.used, known.suspected, known.changed, known.clean) = (false, true, Some(now), now);
                known.suspicions += 1;
            }
        }
    }

    /// TCP is in use now. The engine does not control it.
    pub fn set_tcp(&mut self) {
        self.transport = Transport::Tcp;
    }

    /// Changes of the paths of a transport over several, and its end.
    fn change_paths(
        &mut self,
        now: Instant,
        paths: &[PathReport],
        conditions: Conditions,
    ) -> Vec<(Decision, Reason)> {
        let mut decisions = Vec::new();
        for (path, reason) in self.unusable(now, paths, conditions) {
            let others = self.used().filter(|used| *used != path).count();
            // A suspected path is better than none.
            let dead = reason == Reason::Unreachable && others == 0;
            let decision = match self.best_unused(now, paths, dead) {
                Some(with) => {
                    self.change(now, with, None, paths);
                    Decision::Replace { out: path, with }
                }
                None if others > 0 => Decision::Remove(path),
                // The last path is kept, because there is no other.
                None => continue,
            };
            self.change(now, path, Some(reason), paths);
            decisions.push((decision, reason));
        }
        while let Some(path) = self.best_unused(now, paths, false) {
            self.change(now, path, None, paths);
            decisions.push((Decision::Add(path), Reason::Recovered));
        }
        let last = self.used().next().filter(|_| self.used().count() == 1);
        let critical = conditions.level < self.settings.critical;
        let changed = self.paths.iter().filter_map(|known| known.changed).max().unwrap_or(now);
        let alone = self.settings.alone.is_some_and(|time| now.saturating_since(changed) >= time);
        if let Some(path) = last.filter(|_| conditions.udp && (critical || alone)) {
            let transport = Transport::Quic(path);
            self.settle(now, &transport);
            let reason = if critical { Reason::BufferCritical } else { Reason::OnePath };
            decisions.push((Decision::Move(transport), reason));
        } else {
            decisions.extend(self.other_kind(now, conditions.udp));
        }
        decisions
    }

    /// Another kind of transport over several paths.
    fn other_kind(&mut self, now: Instant, udp: bool) -> Option<(Decision, Reason)> {
        let present = Kind::of(&self.transport);
        let kind = self.several(udp, present);
        if Some(kind) == present || now.saturating_since(self.moved) < self.settings.dwell {
            return None;
        }
        let reason = if Some(kind) > present { Reason::Loss } else { Reason::LossEnded };
        let transport = kind.on(self.used().collect());
        self.settle(now, &transport);
        Some((Decision::Move(transport), reason))
    }

    /// The next transport of a playback on QUIC: several paths as soon as there are several, or another path when
    /// its own cannot be reached.
    fn leave_quic(&mut self, now: Instant, paths: &[PathReport], udp: bool) -> Option<(Decision, Reason)> {
        let used: Vec<PathId> = self.used().collect();
        let dead = used.iter().all(|used| report(paths, *used).and_then(reachable).is_none());
        let mut joined = false;
        // A suspected path is better than a dead one.
        while let Some(path) = self.best_unused(now, paths, dead && !joined) {
            self.change(now, path, None, paths);
            joined = true;
        }
        if !joined {
            return None;
        }
        let lowest = self.lowest(paths);
        for path in used {
            let rtt = report(paths, path).and_then(|report| report.rtt).zip(lowest);
            match rtt.map(|(rtt, lowest)| self.settings.ratio(rtt, lowest) > self.settings.rtt_ratio) {
                _ if dead => self.change(now, path, Some(Reason::Unreachable), paths),
                Some(true) => self.change(now, path, Some(Reason::Rtt), paths),
                _ => {}
            }
        }
        let used: Vec<PathId> = self.used().collect();
        let transport = match used[..] {
            [path] => Transport::Quic(path),
            _ => self.several(udp, None).on(used),
        };
        self.settle(now, &transport);
        Some((Decision::Move(transport), if dead { Reason::Unreachable } else { Reason::Recovered }))
    }

    /// What runs over several paths; `present` is what does now.
    fn several(&self, udp: bool, present: Option<Kind>) -> Kind {
        let Several::Any { lossy, session } = self.settings.several else { return Kind::Mptcp };
        let used: Vec<f64> = self.paths.iter().filter(|known| known.used).map(|known| known.loss).collect();
        let mean = used.iter().sum::<f64>() / used.len().max(1) as f64;
        let least = used.iter().copied().fold(1.0, f64::min);
        // It does not change back at the same loss.
        let above = |loss: f64, limit: f64, kind: Kind| {
            loss > if present.is_some_and(|present| present >= kind) { limit / 2.0 } else { limit }
        };
        match above(mean, lossy, Kind::MultipathQuic) {
            false => Kind::Mptcp,
            true if !udp || above(least, session, Kind::Session) => Kind::Session,
            true => Kind::MultipathQuic,
        }
    }

    /// A transport is in use from now on.
    fn settle(&mut self, now: Instant, transport: &Transport) {
        let before = core::mem::replace(&mut self.transport, transport.clone());
        // Its paths may have changed since it began.
        self.before = Kind::of(&before).map_or(before, |kind| kind.on(self.used().collect()));
        self.moved = now;
    }

    /// Adds paths that the controller has found since the last call, and takes in the loss of all.
    fn learn(&mut self, now: Instant, paths: &[PathReport], throughput: Option<f64>) {
        let share = now.saturating_since(self.looked).as_secs_f64() / LOSS_MEMORY.as_secs_f64();
        self.looked = now;
        for report in paths {
            match self.paths.iter_mut().find(|known| known.path == report.path) {
                Some(known) => known.handle_report(now, report, share.min(1.0)),
                None => self.paths.push(Known::new(report, false, None)),
            }
        }
        let lowest = self.lowest(paths);
        for at in 0..self.paths.len() {
            let known = self.paths[at];
            let rtt = report(paths, known.path).and_then(|report| report.rtt).zip(lowest);
            let is_bad =
                rtt.is_none_or(|(rtt, lowest)| self.settings.ratio(rtt, lowest) > self.settings.rtt_ratio);
            self.paths[at].bad = if is_bad { known.bad.or(Some(now)) } else { None };
            let lost = report(paths, known.path).and_then(|report| report.loss).unwrap_or(0.0);
            // By the same tests that remove it, of which one is enough to keep it.
            let worth = self.worth_loss(&known, self.used().count() + 1, throughput).unwrap_or(0.0);
            if known.suspected && lost > self.most_loss(known.path, paths).max(worth) / 2.0 {
                self.paths[at].clean = now;
            }
        }
    }

    /// Loss above which a path is unusable beside the best other one in use.
    fn most_loss(&self, path: PathId, paths: &[PathReport]) -> f64 {
        let others = self.paths.iter().filter(|known| known.used && known.path != path);
        let loss = |known: &Known| {
            let present = report(paths, known.path).filter(|report| report.rtt.is_some())?;
            Some(present.loss?.max(known.loss))
        };
        let least = others.filter_map(loss).fold(f64::INFINITY, f64::min);
        if least.is_finite() { self.settings.most_loss(least) } else { f64::INFINITY }
    }

    /// Loss up to which TCP could carry its part on the path, if it shares the present throughput with `sharing - 1` others.
    fn worth_loss(&self, known: &Known, sharing: usize, throughput: Option<f64>) -> Option<f64> {
        // Its least RTT, because the queue is not full where packets are lost.
        let ((worth, throughput), rtt) = self.settings.worth.zip(throughput).zip(known.least_rtt())?;
        let part = worth * throughput / sharing as f64;
        let root = 1.22 * SEGMENT_BITS / (rtt.as_secs_f64() * part);
        Some(root * root)
    }

    /// Paths in use that must be removed, with the reason.
    fn unusable(&self, now: Instant, paths: &[PathReport], conditions: Conditions) -> Vec<(PathId, Reason)> {
        if self.lowest(paths).is_none() {
            return Vec::new();
        }
        let in_use: Vec<(&Known, Option<&PathReport>, u64)> = self
            .paths
            .iter()
            .filter(|known| known.used)
            .map(|known| {
                let report = report(paths, known.path);
                let again = report.map_or(0, |report| report.retransmissions.saturating_sub(known.baseline));
                (known, report, again)
            })
            .collect();
        let rtt = |report: &Option<&PathReport>| report.and_then(|report| report.rtt);
        // The paper compares with the path in use that has the highest RTT.
        let reference = in_use.iter().filter(|(_, of, _)| rtt(of).is_some()).max_by_key(|(_, of, _)| rtt(of));
        let low_buffer = conditions.level < self.settings.lossy_below;
        let exceeds = |own: u64| reference.is_some_and(|(_, _, other)| self.settings.exceeds(own, *other));
        let lossy = |report: &PathReport| {
            let loss = report.loss.is_some_and(|loss| loss > self.most_loss(report.path, paths));
            loss && conditions.throughput.is_some()
        };
        let carries_little = |known: &Known, report: &PathReport| {
            let most = self.worth_loss(known, in_use.len(), conditions.throughput);
            most.zip(report.loss).is_none_or(|(most, loss)| loss > most)
        };
        // The transport gets over a short outage or a long queue by itself, with less cost than by leaving and joining.
        let critical = conditions.level < self.settings.critical;
        let patience = if critical { Duration::ZERO } else { self.settings.dwell };
        let mut leaving = Vec::new();
        for (known, report, again) in &in_use {
            let is_bad = known.bad.is_some_and(|since| now.saturating_since(since) >= patience);
            let Some(report) = report.filter(|report| report.rtt.is_some()) else {
                if is_bad {
                    leaving.push((known.path, Reason::Unreachable));
                }
                continue;
            };
            let reason = match report {
                _ if !known.has_dwelt(now, self.settings.dwell) => continue,
                _ if is_bad => Reason::Rtt,
                report if !carries_little(known, report) => continue,
                report if lossy(report) => Reason::Loss,
                _ if low_buffer && exceeds(*again) => Reason::Retransmissions,
                _ => continue,
            };
            leaving.push((known.path, reason));
        }
        leaving
    }

    /// The unused path with the lowest RTT that may join; with `any` also a suspected one.
    fn best_unused(&self, now: Instant, paths: &[PathReport], any: bool) -> Option<PathId> {
        let lowest = self.lowest(paths)?;
        let least = self.paths.iter().filter(|known| report(paths, known.path).is_some_and(is_reachable));
        let least = least.filter_map(Known::least_rtt).min().unwrap_or(lowest);
        let below = self.settings.rtt_ratio * self.settings.hysteresis;
        let near = |known: &Known| {
            let own = known.least_rtt().filter(|_| self.settings.least_recent);
            own.is_none_or(|own| self.settings.ratio(own, least) < below)
        };
        let trusted = |known: &Known| any || !known.suspected || self.probation_is_over(known, now);
        self.paths
            .iter()
            .filter(|known| !known.used && self.may_join(known, now) && trusted(known) && near(known))
            .filter_map(|known| report(paths, known.path).and_then(reachable))
            .filter(|(_, rtt)| self.settings.ratio(*rtt, lowest) < below)
            .min_by_key(|(path, rtt)| (*rtt, path.0))
            .map(|(path, _)| path)
    }

    fn may_join(&self, known: &Known, now: Instant) -> bool {
        let times = known.removals.saturating_sub(u32::from(known.was_out)).min(6);
        known.has_dwelt(now, self.settings.dwell * times)
    }

    /// A suspected path has been without much loss for long enough to be tried again.
    fn probation_is_over(&self, known: &Known, now: Instant) -> bool {
        let repeated = 1 << known.suspicions.saturating_sub(1).min(3);
        self.settings.probation.is_some_and(|time| now.saturating_since(known.clean) >= repeated * time)
    }

    /// Lowest RTT of all reachable paths.
    fn lowest(&self, paths: &[PathReport]) -> Option<Duration> {
        paths.iter().filter_map(|report| report.rtt).min()
    }

    /// A path joins, or leaves for a reason.
    fn change(&mut self, now: Instant, path: PathId, leaves: Option<Reason>, paths: &[PathReport]) {
        for known in &mut self.paths {
            let report = report(paths, known.path);
            if let Some(report) = report.filter(|_| leaves.is_none()) {
                // Paths are compared by what they retransmitted since the last of them joined.
                known.baseline = report.retransmissions;
            }
            if known.path == path {
                if let Some(reason) = leaves {
                    let used = known.changed.map_or(Duration::MAX, |at| now.saturating_since(at));
                    known.removals = if used < REMOVALS_APART { known.removals + 1 } else { 1 };
                    known.was_out = reason == Reason::Unreachable;
                }
                known.used = leaves.is_none();
                (known.changed, known.clean) = (Some(now), now);
                known.suspected = matches!(leaves, Some(Reason::Retransmissions | Reason::Loss));
                known.suspicions += u32::from(known.suspected);
            }
        }
    }

    fn decided(
        &self,
        at: Instant,
        (decision, reason): (Decision, Reason),
        paths: &[PathReport],
        level: Duration,
    ) -> Decided {
        Decided { at, decision, reason, paths: paths.to_vec(), level }
    }
}

fn report(paths: &[PathReport], path: PathId) -> Option<&PathReport> {
    paths.iter().find(|report| report.path == path)
}

fn is_reachable(report: &PathReport) -> bool {
    report.rtt.is_some()
}

fn reachable(report: &PathReport) -> Option<(PathId, Duration)> {
    report.rtt.map(|rtt| (report.path, rtt))
}

#[cfg(test)]
mod tests;
