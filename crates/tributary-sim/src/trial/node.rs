//! One end as a host: the session's transport, the application on it, and what the network does to single packets before they arrive.
//!
//! Links keep the order and know no connections, so packets are reordered, doubled and refused here.

use core::time::Duration;
use std::collections::BTreeMap;

use tributary_proto::Session;
use tributary_types::{Instant, PathId, Rng};

use super::lines::Lines;
use super::script::{Act, End, Trial};
use crate::host::{Host, Outbox};
use crate::id::RouteId;
use crate::multipath::{incarnation_and_path, refusal};
use crate::packet::{Body, Packet, TcpSegment};
use crate::session::SessionTransport;
use crate::transport::Transport;

/// A second packet arrives this much after the first.
const TWICE_WITHIN_MS: u64 = 5;
/// A number beside the expected one, within any window.
const GUESS: u64 = 1000;

/// Happens to so many of a thousand packets until then.
#[derive(Clone, Copy, Debug, Default)]
struct Chance {
    per_mille: u64,
    until: Instant,
}

impl Chance {
    fn new(per_mille: u32, until: Instant) -> Self {
        Self { per_mille: u64::from(per_mille), until }
    }

    fn draw(self, now: Instant, rng: &mut Rng) -> bool {
        now < self.until && rng.below(1000) < self.per_mille
    }
}

/// What happens to packets that arrive over one path.
#[derive(Debug, Default)]
struct Arriving {
    lost: Chance,
    twice: Chance,
    late: Chance,
    late_by: Duration,
    /// Longer packets are lost until then.
    longest: (u32, Instant),
    refused_until: Instant,
    /// Connections up to this one are forgotten; what arrives on them may be answered by a reset.
    forgotten: Option<(u32, bool)>,
    /// The newest connection that a packet belonged to.
    newest: u32,
}

/// One end.
#[derive(Debug)]
pub(super) struct Node {
    end: End,
    pub transport: SessionTransport,
    pub lines: Lines,
    paths: Vec<Arriving>,
    /// Routes to the peer.
    routes: Vec<RouteId>,
    delayed: BTreeMap<(Instant, u64), Packet>,
    /// Packets delayed so far.
    count: u64,
    rng: Rng,
    /// The session that the lines belong to.
    session: u32,
    /// The application has something to do.
    acts: bool,
    acts_at: Option<Instant>,
    /// The end sleeps until then.
    asleep_until: Instant,
    /// Link events while it slept: the path, and whether it is up.
    missed: Vec<(u8, bool)>,
}

impl Node {
    pub fn new(trial: &Trial, end: End, transport: SessionTransport, routes: Vec<RouteId>) -> Self {
        Self {
            end,
            transport,
            lines: Lines::new(trial, end),
            paths: routes.iter().map(|_| Arriving::default()).collect(),
            routes,
            delayed: BTreeMap::new(),
            count: 0,
            rng: Rng::new(trial.seed).child(&format!("packets to the {end:?}")),
            session: 0,
            acts: false,
            acts_at: None,
            asleep_until: Instant::ZERO,
            missed: Vec::new(),
        }
    }

    /// The newest connection seen on a path.
    pub fn newest(&self, path: u8) -> u32 {
        self.paths[usize::from(path)].newest
    }

    /// The connections of a path up to this one are forgotten.
    pub fn forget(&mut self, path: u8, newest: u32, answers: bool) {
        self.paths[usize::from(path)].forgotten = Some((newest, answers));
    }

    /// Begins what an operation means for this end.
    pub fn operate(&mut self, now: Instant, act: &Act, out: &mut Outbox) {
        let until = now + act.lasts();
        match *act {
            Act::Loss { path, per_mille, .. } => self.path(path).lost = Chance::new(per_mille, until),
            Act::Duplicate { path, per_mille, .. } => self.path(path).twice = Chance::new(per_mille, until),
            Act::Reorder { path, per_mille, late_ms, .. } => {
                self.path(path).late = Chance::new(per_mille, until);
                self.path(path).late_by = Duration::from_millis(late_ms);
            }
            Act::Mtu { path, way, bytes, .. } if way.reaches(self.end) => {
                self.path(path).longest = (u32::try_from(bytes).unwrap_or(u32::MAX), until);
            }
            Act::Refuse { path, .. } => self.path(path).refused_until = until,
            Act::Reset { path, end, guesses } if end == self.end && !self.is_asleep(now) => {
                let beside = if guesses { GUESS } else { 0 };
                for packet in self.transport.resets(path, beside) {
                    self.transport.handle_packet(now, packet, out);
                }
            }
            Act::Metered { path, metered } => {
                // Unknown while the path is away.
                self.transport.change(|session| session.set_metered(PathId(path), metered).is_ok());
            }
            Act::Restart { end } if end == self.end => {
                self.asleep_until = now;
                self.restart();
            }
            Act::Suspend { end, .. } if end == self.end => {
                self.asleep_until = self.asleep_until.max(until);
                self.acts_at = Some(self.asleep_until);
            }
            _ => self.lines.operate(now, act),
        }
        self.poke(now, out);
    }

    /// The application ends every stream.
    pub fn finish(&mut self, now: Instant, out: &mut Outbox) {
        self.lines.settle(now);
        self.poke(now, out);
    }

    /// The application ends the session.
    pub fn close(&mut self, now: Instant, out: &mut Outbox) {
        self.transport.change(|session| session.close(now, 0, "done"));
        self.poke(now, out);
    }

    /// The application abandons the session.
    pub fn abandon(&mut self, code: u32, now: Instant, out: &mut Outbox) {
        self.transport.change(|session| session.abort(code, "abandoned"));
        self.poke(now, out);
    }

    /// Application and session have something to do.
    pub fn poke(&mut self, now: Instant, out: &mut Outbox) {
        self.acts = true;
        if !self.is_asleep(now) {
            self.settle(now, out);
        }
    }

    /// The program is started again.
    pub fn restart(&mut self) {
        self.transport.restart();
        self.lines.begin_again();
    }

    /// Reads something of the session; `None` before there is one.
    pub fn of_session<T>(&self, read: impl FnOnce(&Session) -> T) -> Option<T> {
        self.transport.session().map(read)
    }

    fn is_asleep(&self, now: Instant) -> bool {
        now < self.asleep_until
    }

    fn path(&mut self, path: u8) -> &mut Arriving {
        &mut self.paths[usize::from(path)]
    }

    /// The packet, if it arrives now.
    fn admit(&mut self, now: Instant, packet: Packet, out: &mut Outbox) -> Option<Packet> {
        let Body::Segment(segment) = &packet.body else { return Some(packet) };
        let (connection, path) = incarnation_and_path(segment.connection);
        let Some(route) = self.routes.get(path).copied() else { return Some(packet) };
        let arriving = &mut self.paths[path];
        arriving.newest = arriving.newest.max(connection);
        let answer = |segment: &TcpSegment, out: &mut Outbox| {
            refusal(segment).into_iter().for_each(|reset| out.send(Packet::segment(route, reset)));
        };
        if self.end == End::Server && now < arriving.refused_until && segment.is_syn {
            answer(segment, out);
            return None;
        }
        let forgotten = arriving.forgotten.filter(|(newest, _)| connection <= *newest);
        // A reset may be the translator's own answer to this end, and passes.
        if let Some((_, answers)) = forgotten.filter(|(_, answers)| !(*answers && segment.is_reset)) {
            if answers {
                answer(segment, out);
            }
            return None;
        }
        let (longest, until) = arriving.longest;
        if now < until && packet.size > longest || arriving.lost.draw(now, &mut self.rng) {
            return None;
        }
        let (twice, late) = (arriving.twice.draw(now, &mut self.rng), arriving.late.draw(now, &mut self.rng));
        let late_by = arriving.late_by;
        if twice {
            let later = now + Duration::from_millis(self.rng.below(TWICE_WITHIN_MS + 1));
            self.delay(later, packet.clone());
        }
        if late {
            self.delay(now + late_by, packet);
            return None;
        }
        Some(packet)
    }

    fn delay(&mut self, until: Instant, packet: Packet) {
        self.count += 1;
        self.delayed.insert((until, self.count), packet);
    }

    /// Session and application, until neither has anything to do.
    fn settle(&mut self, now: Instant, out: &mut Outbox) {
        loop {
            self.transport.flush(now, out);
            if !self.attend(now) {
                return;
            }
        }
    }

    /// The application's turn; returns whether it had anything to do.
    fn attend(&mut self, now: Instant) -> bool {
        let fresh = std::mem::replace(&mut self.session, self.transport.sessions()) != self.session;
        if fresh {
            self.lines.begin_again();
        }
        let mut acts = fresh | std::mem::take(&mut self.acts) | self.acts_at.is_some_and(|at| at <= now);
        while let Some(notice) = self.transport.poll_notice() {
            self.lines.notice(notice);
            acts = true;
        }
        if acts && self.transport.is_connected() {
            let lines = &mut self.lines;
            self.transport.change(|session| lines.act(now, session));
        }
        if acts {
            self.acts_at = self.lines.due(now);
        }
        acts
    }
}

impl Host for Node {
    fn handle_packet(&mut self, now: Instant, packet: Packet, out: &mut Outbox) {
        if let Some(packet) = self.admit(now, packet, out).filter(|_| !self.is_asleep(now)) {
            self.transport.handle_packet(now, packet, out);
            self.settle(now, out);
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox) {
        if self.is_asleep(now) {
            return;
        }
        for (path, up) in std::mem::take(&mut self.missed) {
            self.transport.handle_path(now, path, up, out);
        }
        while let Some(entry) = self.delayed.first_entry().filter(|entry| entry.key().0 <= now) {
            let packet = entry.remove();
            self.transport.handle_packet(now, packet, out);
        }
        if self.transport.poll_timeout().is_some_and(|at| at <= now) {
            self.transport.handle_timeout(now, out);
        }
        self.settle(now, out);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let delayed = self.delayed.first_key_value().map(|((at, _), _)| *at);
        let next = self.transport.poll_timeout().into_iter().chain(delayed).chain(self.acts_at).min();
        next.map(|at| at.max(self.asleep_until))
    }

    fn handle_path(&mut self, now: Instant, path: u8, up: bool, out: &mut Outbox) {
        if self.is_asleep(now) {
            return self.missed.push((path, up));
        }
        self.transport.handle_path(now, path, up, out);
        self.settle(now, out);
    }
}
