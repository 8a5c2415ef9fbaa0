//! Measurements of paths from probe packets, as the path controller makes them (`controller/`, `measure.py`), with the constants
//! of the same file, `probes.toml`: RTT, death, and the share of lost probes that no long queue explains.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use tributary_player::engine::PathReport;
use tributary_types::{Instant, PathId};

use crate::host::{Host, Outbox};
use crate::multipath::SubflowPath;
use crate::packet::{Body, Packet};

/// Bytes of a probe.
const SIZE: u32 = 64;

/// The constants, explained in the file.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Probing {
    #[serde(deserialize_with = "seconds")]
    interval: Duration,
    answers: usize,
    #[serde(deserialize_with = "seconds")]
    dead: Duration,
    answers_to_live: u32,
    #[serde(deserialize_with = "seconds")]
    lost: Duration,
    overtaken: usize,
    loss_probes: usize,
    least_loss_probes: usize,
    #[serde(deserialize_with = "seconds")]
    least_rtt: Duration,
    #[serde(deserialize_with = "seconds")]
    short_queue: Duration,
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    f64::deserialize(from).map(Duration::from_secs_f64)
}

impl Probing {
    fn load() -> Self {
        toml::from_str(include_str!("../../../probes.toml")).expect("the file is part of the program")
    }
}

/// What became of a probe.
#[derive(Clone, Copy, Debug)]
struct Fate {
    lost: bool,
    /// Its delay; of a lost one the shorter delay of the answers around it.
    delay: Duration,
}

/// The probes of one path.
#[derive(Debug)]
struct Answers {
    probing: Probing,
    outstanding: BTreeMap<u64, Instant>,
    /// When the last answered probes were sent, and their delays.
    answered: VecDeque<(Instant, Duration)>,
    fates: VecDeque<Fate>,
    /// Least delay of the present interval, and of the one before; when the present one began.
    least: [Option<Duration>; 2],
    least_since: Instant,
    in_row: u32,
    heard: Instant,
    alive: bool,
}

impl Answers {
    fn new(probing: Probing) -> Self {
        Self {
            probing,
            outstanding: BTreeMap::new(),
            answered: VecDeque::new(),
            fates: VecDeque::new(),
            least: [None; 2],
            least_since: Instant::ZERO,
            in_row: 0,
            heard: Instant::ZERO,
            alive: false,
        }
    }

    fn handle_sent(&mut self, number: u64, now: Instant) {
        self.outstanding.insert(number, now);
    }

    fn handle_answer(&mut self, number: u64, now: Instant) {
        let Some(sent) = self.outstanding.remove(&number) else { return };
        let delay = now.saturating_since(sent);
        push(&mut self.answered, (sent, delay), self.probing.answers);
        self.learn_least(now, delay);
        self.decided(Fate { lost: false, delay });
        let latest = self.answered.iter().rev().take(self.probing.overtaken);
        if let Some(oldest) = latest.map(|(at, _)| *at).min().filter(|_| self.is_overtaking()) {
            self.lose_those(|sent| sent < oldest);
        }
        self.heard = now;
        self.in_row += 1;
        if self.in_row >= self.probing.answers_to_live && !self.alive {
            self.alive = true;
            // What was lost while it was dead does not count.
            self.fates.clear();
        }
    }

    fn handle_time(&mut self, now: Instant) {
        let patience = self.probing.lost;
        self.lose_those(|sent| now.saturating_since(sent) >= patience);
        if now.saturating_since(self.heard) >= self.probing.dead {
            if self.alive {
                self.answered.clear();
                self.least = [None; 2];
            }
            (self.alive, self.in_row) = (false, 0);
        }
    }

    fn is_overtaking(&self) -> bool {
        self.answered.len() >= self.probing.overtaken
    }

    fn learn_least(&mut self, now: Instant, delay: Duration) {
        let [present, before] = &mut self.least;
        if present.is_some() && now.saturating_since(self.least_since) >= self.probing.least_rtt {
            *before = present.take();
        }
        if present.is_none() {
            self.least_since = now;
        }
        *present = Some(present.map_or(delay, |least| least.min(delay)));
    }

    /// Outstanding probes that were sent at such times are lost.
    fn lose_those(&mut self, are_lost: impl Fn(Instant) -> bool) {
        while let Some(entry) = self.outstanding.first_entry().filter(|entry| are_lost(*entry.get())) {
            let sent = entry.remove();
            let before = self.answered.iter().filter(|answer| answer.0 < sent).max();
            let after = self.answered.iter().filter(|answer| answer.0 > sent).min();
            let delay = before.zip(after).map_or(Duration::ZERO, |(before, after)| before.1.min(after.1));
            self.decided(Fate { lost: true, delay });
        }
    }

    fn decided(&mut self, fate: Fate) {
        push(&mut self.fates, fate, self.probing.loss_probes);
    }

    fn median(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.answered.iter().map(|(_, delay)| *delay).collect();
        sorted.sort_unstable();
        let (low, high) = (sorted.get((sorted.len().max(1) - 1) / 2)?, sorted.get(sorted.len() / 2)?);
        Some((*low + *high) / 2)
    }

    /// Share of probes lost, both ways together, without those lost while the queue was long.
    fn lost_beside_short_queue(&self) -> Option<f64> {
        let least = self.least.iter().flatten().min().copied().unwrap_or_default();
        let largest = self.fates.iter().filter(|fate| !fate.lost).map(|fate| fate.delay).max();
        let queue = largest.unwrap_or_default().saturating_sub(least) / 2;
        let long = least + queue.max(self.probing.short_queue);
        let lost = self.fates.iter().filter(|fate| fate.lost && fate.delay <= long).count();
        let known = self.fates.len() >= self.probing.least_loss_probes;
        known.then(|| lost as f64 / self.fates.len() as f64)
    }
}

/// Adds to the latest values, of which so many are kept.
fn push<T>(latest: &mut VecDeque<T>, value: T, kept: usize) {
    latest.push_back(value);
    if latest.len() > kept {
        latest.pop_front();
    }
}

#[derive(Debug)]
struct Probed {
    way: SubflowPath,
    next: Instant,
    number: u64,
    answers: Answers,
}

/// Sends probes and receives their echoes.
#[derive(Debug)]
pub(super) struct Prober {
    probing: Probing,
    paths: Vec<Probed>,
}

impl Prober {
    /// Probes of different paths are spread over the interval: sent together, they could delay each other.
    pub fn new(ways: &[SubflowPath]) -> Self {
        let probing = Probing::load();
        let count = ways.len().max(1) as u32;
        let probed = |(at, way): (usize, &SubflowPath)| Probed {
            way: *way,
            next: Instant::ZERO + probing.interval * at as u32 / count,
            number: 0,
            answers: Answers::new(probing),
        };
        Self { probing, paths: ways.iter().enumerate().map(probed).collect() }
    }

    /// Measurements of the paths. Paths that have never answered are left out.
    pub fn reports(&self, now: Instant) -> Vec<PathReport> {
        let report = |Probed { way, answers, .. }: &Probed| {
            let answers_now = answers.alive && now.saturating_since(answers.heard) < self.probing.dead;
            let rtt = answers.median().filter(|_| answers_now);
            // Each probe crosses the path twice.
            let loss = answers.lost_beside_short_queue().map(|both_ways| 1.0 - (1.0 - both_ways).sqrt());
            let known = answers.heard > Instant::ZERO;
            known.then(|| PathReport { loss, ..PathReport::new(PathId(way.path), rtt) })
        };
        self.paths.iter().filter_map(report).collect()
    }
}

impl Probed {
    fn send(&mut self, now: Instant, interval: Duration, out: &mut Outbox) {
        self.answers.handle_time(now);
        self.answers.handle_sent(self.number, now);
        let body = Body::Datagram(Bytes::copy_from_slice(&self.number.to_be_bytes()));
        self.number += 1;
        self.next = now + interval;
        out.send(Packet::new(self.way.up, SIZE, body));
    }
}

impl Host for Prober {
    fn handle_packet(&mut self, now: Instant, packet: Packet, _: &mut Outbox) {
        let Body::Datagram(bytes) = &packet.body else { return };
        let Ok(number) = <[u8; 8]>::try_from(&bytes[..]) else { return };
        if let Some(path) = self.paths.iter_mut().find(|path| path.way.down == packet.route) {
            path.answers.handle_answer(u64::from_be_bytes(number), now);
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        for path in self.paths.iter_mut().filter(|path| path.next <= now) {
            path.send(now, self.probing.interval, out);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.paths.iter().map(|path| path.next).min()
    }
}

/// Sends every probe back on its path.
#[derive(Debug)]
pub(super) struct Echo {
    pub ways: Vec<SubflowPath>,
}

impl Host for Echo {
    fn handle_packet(&mut self, _: Instant, packet: Packet, out: &mut Outbox) {
        if let Some(way) = self.ways.iter().find(|way| way.up == packet.route) {
            out.send(Packet::new(way.down, packet.size, packet.body));
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Outbox) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests;
