//! The decision engine: chooses the transport at the start of playback, and the paths during it, from the path
//! controller's measurements of each path.
//!
//! It only decides; a driver carries its [`Decision`]s out. Source: Hayes, Chang and Riley, "Omnidirectional Adaptive
//! Bitrate Media Delivery using MPTCP/QUIC over an SDN Architecture", Algorithm 1. [`Settings::paper`] is that
//! algorithm; [`Settings::default`] adds a least RTT, hysteresis, a minimum dwell time, and a test of whether an
//! excess of retransmissions is more than chance.

use core::time::Duration;

use tributary_types::{Instant, PathId};

/// Thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// A path is unusable above this ratio of its RTT to the lowest one (the paper's `rttThres`).
    pub rtt_ratio: f64,
    /// RTTs below this are raised to it before ratios are computed, because such short RTTs are mostly scheduling
    /// delay of the hosts. Example: 0.9 ms beside 0.1 ms has the ratio 9 with zero here, and 1 with 1 ms.
    pub least_rtt: Duration,
    /// A path is unusable when its retransmissions exceed those of the highest-RTT path in use by this share (the
    /// paper's `retransThres`).
    pub retransmission_excess: f64,
    /// No path is removed for retransmissions up to this number. 2 against 1 is already an excess of 100 %, and the
    /// end of slow start loses tens of packets at once.
    pub least_retransmissions: u64,
    /// The excess must be larger than this many standard deviations; a count of n has a standard deviation of √n.
    /// Example: beside a path with 100 retransmissions, another path is removed at 111 with 0 deviations, and at 180
    /// with 4.
    pub certainty: f64,
    /// A path is removed for retransmissions only while the play buffer holds less than this. With more, the delay
    /// that they cause does not stall playback.
    pub lossy_below: Duration,
    /// A path removed for retransmissions is tried again after this time, because an unused path has none to count.
    /// `None`: it is used again only when no other path is left.
    pub probation: Option<Duration>,
    /// A removed path rejoins when its RTT ratio is below this share of `rtt_ratio`. Example: with 9 and 0.8 a path
    /// is removed above 9 and rejoins below 7.2.
    pub hysteresis: f64,
    /// Least time between two changes of the same path.
    pub dwell: Duration,
    /// Play buffer below which a session on its last path moves to QUIC.
    pub critical: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rtt_ratio: 9.0,
            least_rtt: Duration::from_millis(1),
            retransmission_excess: 0.10,
            least_retransmissions: 50,
            certainty: 4.0,
            lossy_below: Duration::from_secs(8),
            probation: Some(Duration::from_secs(30)),
            hysteresis: 0.8,
            dwell: Duration::from_secs(5),
            critical: Duration::from_secs(4),
        }
    }
}

impl Settings {
    /// The paper's algorithm: no least RTT, no hysteresis, no dwell time, every excess of retransmissions counts.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            least_rtt: Duration::ZERO,
            least_retransmissions: 0,
            certainty: 0.0,
            lossy_below: Duration::MAX,
            probation: None,
            hysteresis: 1.0,
            dwell: Duration::ZERO,
            ..Self::default()
        }
    }

    /// An RTT relative to the lowest one.
    fn ratio(&self, rtt: Duration, lowest: Duration) -> f64 {
        let [rtt, lowest] = [rtt, lowest].map(|rtt| rtt.max(self.least_rtt).as_secs_f64());
        rtt / lowest.max(1e-6)
    }

    /// Whether a path retransmits too much beside another one.
    fn exceeds(&self, own: u64, other: u64) -> bool {
        let most = 1.0 + self.retransmission_excess;
        let (count, other) = (own as f64, other as f64);
        let chance = self.certainty * libm::sqrt(count + most * most * other);
        own > self.least_retransmissions && count - most * other > chance
    }
}

/// What the controller and the transport report of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// The path.
    pub path: PathId,
    /// Mean RTT; `None` when it cannot be reached.
    pub rtt: Option<Duration>,
    /// Retransmissions on it since the session began.
    pub retransmissions: u64,
}

impl PathReport {
    /// An RTT in milliseconds as a controller reports it. `None` for an impossible value: not a number, not above
    /// zero, or above one minute.
    #[must_use]
    pub fn rtt_from_millis(millis: f64) -> Option<Duration> {
        let plausible = millis > 0.0 && millis <= 60_000.0;
        plausible.then(|| Duration::from_secs_f64(millis / 1000.0))
    }
}

/// Transport of the media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP on the default route.
    Tcp,
    /// QUIC on one path.
    Quic(PathId),
    /// Multipath TCP on these paths.
    Mptcp(Vec<PathId>),
}

/// Reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no controller, or it reports no usable path.
    NoController,
    /// UDP does not get through.
    UdpBlocked,
    /// Only one path is usable.
    OnePath,
    /// The RTT ratios of the paths in use are below the threshold.
    Balanced,
    /// The path's RTT is too far above the lowest.
    Rtt,
    /// The path retransmits too much.
    Retransmissions,
    /// The path cannot be reached.
    Unreachable,
    /// The path is usable again.
    Recovered,
    /// One path is left and the play buffer is nearly empty.
    BufferCritical,
}

/// Instruction to the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Begin with this transport.
    Start(Transport),
    /// Stop using a path; it stays monitored.
    Remove(PathId),
    /// Replace a path by another one.
    Replace {
        /// The path that leaves.
        out: PathId,
        /// The path that joins.
        with: PathId,
    },
    /// Use a path again.
    Add(PathId),
    /// Abort the running request and continue with QUIC on this path.
    MoveToQuic(PathId),
}

/// A decision with its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// When.
    pub at: Instant,
    /// What to do.
    pub decision: Decision,
    /// Why.
    pub reason: Reason,
    /// The paths as they were reported.
    pub paths: Vec<PathReport>,
    /// The play buffer; zero at the start.
    pub level: Duration,
}

/// State of a path in a running session.
#[derive(Clone, Copy, Debug)]
struct Known {
    path: PathId,
    used: bool,
    changed: Instant,
    /// Retransmissions when the last path joined.
    baseline: u64,
    /// It was removed for its retransmissions.
    suspected: bool,
}

/// The engine of one session.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    paths: Vec<Known>,
    on_mptcp: bool,
}

impl Engine {
    /// An engine that has decided nothing.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, paths: Vec::new(), on_mptcp: false }
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
            (Some(_), 2..) => (Transport::Mptcp(balanced), Reason::Balanced),
            (Some(_), _) if !udp => (Transport::Tcp, Reason::UdpBlocked),
            (Some((path, _)), _) => {
                (Transport::Quic(path), if usable.len() == 1 { Reason::OnePath } else { Reason::Rtt })
            }
        };
        self.on_mptcp = matches!(transport, Transport::Mptcp(_));
        let uses = |path: PathId| match &transport {
            Transport::Tcp => false,
            Transport::Quic(one) => *one == path,
            Transport::Mptcp(many) => many.contains(&path),
        };
        self.paths = paths
            .iter()
            .map(|report| Known {
                path: report.path,
                used: uses(report.path),
                changed: now,
                baseline: report.retransmissions,
                suspected: false,
            })
            .collect();
        self.decided(now, (Decision::Start(transport), reason), paths, Duration::ZERO)
    }

    /// Decides during playback (Algorithm 1, "Connection in Progress"). `level` is the media in the play buffer;
    /// `udp` says whether QUIC can be used. An empty result changes nothing.
    pub fn update(&mut self, now: Instant, paths: &[PathReport], level: Duration, udp: bool) -> Vec<Decided> {
        if !self.on_mptcp {
            return Vec::new();
        }
        self.learn(now, paths);
        let mut decisions = Vec::new();
        for (path, reason) in self.unusable(now, paths, level) {
            let others = self.used().filter(|used| *used != path).count();
            // A suspected path is better than none.
            let dead = reason == Reason::Unreachable && others == 0;
            let candidate = self.best_unused(now, paths, dead);
            let decision = match candidate {
                Some(with) => {
                    self.change(now, with, None, paths);
                    Decision::Replace { out: path, with }
                }
                None if others > 0 => Decision::Remove(path),
                // The last path is kept, because there is no other.
                None => continue,
            };
            self.change(now, path, Some(reason), paths);
            decisions.push(self.decided(now, (decision, reason), paths, level));
        }
        while let Some(path) = self.best_unused(now, paths, false) {
            self.change(now, path, None, paths);
            decisions.push(self.decided(now, (Decision::Add(path), Reason::Recovered), paths, level));
        }
        let last = self.used().next().filter(|_| self.used().count() == 1);
        if let Some(path) = last.filter(|_| udp && level < self.settings.critical) {
            self.on_mptcp = false;
            let decision = (Decision::MoveToQuic(path), Reason::BufferCritical);
            decisions.push(self.decided(now, decision, paths, level));
        }
        decisions
    }

    /// Sets whether MPTCP is in use: it may not have been available when it was chosen.
    pub fn set_mptcp(&mut self, on: bool) {
        self.on_mptcp = on;
    }

    /// Adds paths that the controller has found since the last call.
    fn learn(&mut self, now: Instant, paths: &[PathReport]) {
        for report in paths {
            if !self.paths.iter().any(|known| known.path == report.path) {
                // A new path may join at once.
                let changed =
                    Instant::from_nanos(now.as_nanos().saturating_sub(self.settings.dwell.as_nanos() as u64));
                let baseline = report.retransmissions;
                self.paths.push(Known {
                    path: report.path,
                    used: false,
                    changed,
                    baseline,
                    suspected: false,
                });
            }
        }
    }

    /// Paths in use that must be removed, with the reason.
    fn unusable(&self, now: Instant, paths: &[PathReport], level: Duration) -> Vec<(PathId, Reason)> {
        let Some(lowest) = self.lowest(paths) else { return Vec::new() };
        let report = |path| paths.iter().find(|report: &&PathReport| report.path == path);
        let in_use: Vec<(&Known, Option<Duration>, u64)> = self
            .paths
            .iter()
            .filter(|known| known.used)
            .map(|known| match report(known.path) {
                Some(report) => (known, report.rtt, report.retransmissions.saturating_sub(known.baseline)),
                None => (known, None, 0),
            })
            .collect();
        // The paper compares with the path in use that has the highest RTT.
        let reference = in_use.iter().filter(|(_, rtt, _)| rtt.is_some()).max_by_key(|(_, rtt, _)| *rtt);
        let low_buffer = level < self.settings.lossy_below;
        let exceeds = |own: u64| reference.is_some_and(|(_, _, other)| self.settings.exceeds(own, *other));
        let mut leaving = Vec::new();
        for (known, rtt, retransmissions) in &in_use {
            match rtt {
                // Nothing is sent on a dead path, so it is removed without a dwell time.
                None => leaving.push((known.path, Reason::Unreachable)),
                Some(_) if !self.may_change(known, now) => {}
                Some(rtt) if self.settings.ratio(*rtt, lowest) > self.settings.rtt_ratio => {
                    leaving.push((known.path, Reason::Rtt));
                }
                Some(_) if low_buffer && exceeds(*retransmissions) => {
                    leaving.push((known.path, Reason::Retransmissions));
                }
                Some(_) => {}
            }
        }
        leaving
    }

    /// The unused path with the lowest RTT that may join; with `any` also a suspected one.
    fn best_unused(&self, now: Instant, paths: &[PathReport], any: bool) -> Option<PathId> {
        let lowest = self.lowest(paths)?;
        let below = self.settings.rtt_ratio * self.settings.hysteresis;
        let trusted = |known: &Known| any || !known.suspected || self.probation_is_over(known, now);
        self.paths
            .iter()
            .filter(|known| !known.used && self.may_change(known, now) && trusted(known))
            .filter_map(|known| paths.iter().find(|report| report.path == known.path).and_then(reachable))
            .filter(|(_, rtt)| self.settings.ratio(*rtt, lowest) < below)
            .min_by_key(|(path, rtt)| (*rtt, path.0))
            .map(|(path, _)| path)
    }

    fn may_change(&self, known: &Known, now: Instant) -> bool {
        now.saturating_since(known.changed) >= self.settings.dwell
    }

    /// A suspected path has been out of use for long enough to be tried again.
    fn probation_is_over(&self, known: &Known, now: Instant) -> bool {
        self.settings.probation.is_some_and(|time| now.saturating_since(known.changed) >= time)
    }

    /// Lowest RTT of all reachable paths.
    fn lowest(&self, paths: &[PathReport]) -> Option<Duration> {
        paths.iter().filter_map(|report| report.rtt).min()
    }

    /// A path joins, or leaves for a reason.
    fn change(&mut self, now: Instant, path: PathId, leaves: Option<Reason>, paths: &[PathReport]) {
        for known in &mut self.paths {
            let report = paths.iter().find(|report| report.path == known.path);
            if let Some(report) = report.filter(|_| leaves.is_none()) {
                // Paths are compared by what they retransmitted since the last of them joined.
                known.baseline = report.retransmissions;
            }
            if known.path == path {
                known.used = leaves.is_none();
                known.changed = now;
                known.suspected = leaves == Some(Reason::Retransmissions);
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

fn reachable(report: &PathReport) -> Option<(PathId, Duration)> {
    report.rtt.map(|rtt| (report.path, rtt))
}

#[cfg(test)]
mod tests;
