//! Round-trip times of paths from probe packets, as the path controller measures them (`controller/`): a probe ten times a
//! second, the median of the last ten answers, a path without an answer for 0.6 s is dead.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use tributary_player::engine::PathReport;
use tributary_types::{Instant, PathId};

use crate::host::{Host, Outbox};
use crate::multipath::SubflowPath;
use crate::packet::{Body, Packet};

const INTERVAL: Duration = Duration::from_millis(100);
/// Answers in the median.
const WINDOW: usize = 10;
/// Time without an answer after which a path counts as dead.
const DEAD: Duration = Duration::from_millis(600);
/// Answers in a row after which a dead path counts as alive.
const TO_LIVE: u32 = 3;
/// An unanswered probe is forgotten after this time.
const LOST: Duration = Duration::from_secs(2);
/// Bytes of a probe.
const SIZE: u32 = 64;

#[derive(Debug)]
struct Probed {
    way: SubflowPath,
    next: Instant,
    number: u64,
    outstanding: BTreeMap<u64, Instant>,
    delays: VecDeque<Duration>,
    in_row: u32,
    heard: Instant,
    alive: bool,
}

/// Sends probes and receives their echoes.
#[derive(Debug)]
pub(super) struct Prober {
    paths: Vec<Probed>,
}

impl Prober {
    /// Probes of different paths are spread over the interval: sent together, they could delay each other.
    pub fn new(ways: &[SubflowPath]) -> Self {
        let count = ways.len().max(1) as u32;
        let probed = |(at, way): (usize, &SubflowPath)| Probed {
            way: *way,
            next: Instant::ZERO + INTERVAL * at as u32 / count,
            number: 0,
            outstanding: BTreeMap::new(),
            delays: VecDeque::new(),
            in_row: 0,
            heard: Instant::ZERO,
            alive: false,
        };
        Self { paths: ways.iter().enumerate().map(probed).collect() }
    }

    /// Measurements of the paths. Paths that have never answered are left out.
    pub fn reports(&self, now: Instant) -> Vec<PathReport> {
        let report = |path: &Probed| {
            let answers = path.alive && now.saturating_since(path.heard) < DEAD;
            let known = path.number > 0 && path.heard > Instant::ZERO;
            let rtt = path.median().filter(|_| answers);
            known.then_some(PathReport { path: PathId(path.way.path), rtt, retransmissions: 0 })
        };
        self.paths.iter().filter_map(report).collect()
    }
}

impl Probed {
    fn median(&self) -> Option<Duration> {
        let mut sorted: Vec<Duration> = self.delays.iter().copied().collect();
        sorted.sort_unstable();
        let (low, high) = (sorted.get((sorted.len().max(1) - 1) / 2)?, sorted.get(sorted.len() / 2)?);
        Some((*low + *high) / 2)
    }

    fn send(&mut self, now: Instant, out: &mut Outbox) {
        if now.saturating_since(self.heard) >= DEAD {
            (self.alive, self.in_row) = (false, 0);
            self.delays.clear();
        }
        self.outstanding.retain(|_, sent| now.saturating_since(*sent) < LOST);
        self.outstanding.insert(self.number, now);
        let body = Body::Datagram(Bytes::copy_from_slice(&self.number.to_be_bytes()));
        self.number += 1;
        self.next = now + INTERVAL;
        out.send(Packet::new(self.way.up, SIZE, body));
    }

    fn answered(&mut self, now: Instant, number: u64) {
        let Some(sent) = self.outstanding.remove(&number) else { return };
        self.delays.push_back(now.saturating_since(sent));
        if self.delays.len() > WINDOW {
            self.delays.pop_front();
        }
        self.heard = now;
        self.in_row += 1;
        self.alive |= self.in_row >= TO_LIVE;
    }
}

impl Host for Prober {
    fn handle_packet(&mut self, now: Instant, packet: Packet, _: &mut Outbox) {
        let Body::Datagram(bytes) = &packet.body else { return };
        let Ok(number) = <[u8; 8]>::try_from(&bytes[..]) else { return };
        if let Some(path) = self.paths.iter_mut().find(|path| path.way.down == packet.route) {
            path.answered(now, u64::from_be_bytes(number));
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        for path in self.paths.iter_mut().filter(|path| path.next <= now) {
            path.send(now, out);
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
