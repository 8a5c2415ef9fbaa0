//! Carries out a trial: the network, both ends, the operations in their order, then everything to its end, and the checks.

use core::time::Duration;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tributary_proto::handshakes::CODE_GONE;
use tributary_types::Instant;

use super::fault::{Fault, Rule};
use super::node::Node;
use super::rate::{self, Series, TICK};
use super::rules::{CLOSING, DELIVERY, LINGERING, Rules, is_same_session, too_much, transfer};
use super::script::{Act, End, Trial};
use crate::host::Outbox;
use crate::id::HostId;
use crate::multipath::SubflowPath;
use crate::session::SessionTransport;
use crate::world::World;

/// Events of a trial at most, several times those of the largest.
const BUDGET: u64 = 20_000_000;
/// Time without anything to do, and events in it at most, per path: pings, their answers, acknowledgements.
const IDLE: (Duration, u64) = (Duration::from_secs(20), 400);

/// Numbers of a trial that broke no rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Events of the simulation.
    pub events: u64,
    /// Bytes and datagrams read at both ends.
    pub read: u64,
    /// Longest wait of a reader as a share of what the liveness rule allows.
    pub waited: f64,
    /// Most TCP connections of an end.
    pub connections: usize,
    /// When the last byte was read, or both ends knew that the session was abandoned as far as they could, to within 50 ms.
    pub last_read: Instant,
    /// When everything had arrived and both directions of every stream were over, after the last operation.
    pub settled: Duration,
}

/// Runs a trial and checks every rule.
///
/// # Errors
/// The [`Fault`]: the first rule that is broken. A panic is one.
///
/// # Panics
/// If the trial's values are out of range ([`Trial::check`]).
pub fn run(trial: &Trial) -> Result<Outcome, Fault> {
    trial.check().expect("a trial is checked when it is read");
    judged(trial, trial)
}

/// Carries out `happens`, and judges it by the rules of `trial`. Where the first has a fault that the second does not know, a rule is
/// broken.
fn judged(trial: &Trial, happens: &Trial) -> Result<Outcome, Fault> {
    guarded(|| {
        let mut run = Run::new(trial, happens);
        run.operations()?;
        if run.abandoned.is_none() {
            rate::judge(trial, &run.read, |alone| {
                let mut run = Run::new(alone, alone);
                // A rule that the comparison breaks is another trial's fault.
                run.operations().ok().map(|()| run.read)
            })?;
        }
        run.end()
    })
}

/// A panic as a broken rule.
fn guarded<T>(run: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown").to_owned();
        Err(Fault { rule: Rule::Panic, at: Instant::ZERO, text })
    })
}

/// Something at a time.
#[derive(Debug)]
enum Step {
    /// The operation of this number begins.
    Begin(usize),
    /// The radio that it took away returns.
    Return(usize),
}

/// An end has abandoned the session.
#[derive(Clone, Copy, Debug)]
struct Abandoned {
    code: u32,
    /// The other end must learn the code: they were connected over a path that lives.
    told: bool,
}

impl Abandoned {
    /// Whether an end's session may end with this code. A client that tries to join may learn from the refusal that the session is
    /// gone, before the reason arrives.
    fn may_end(self, end: End, code: u32) -> bool {
        !self.told || code == self.code || end == End::Client && code == CODE_GONE
    }
}

#[derive(Debug)]
struct Run<'a> {
    /// What the rules know.
    trial: &'a Trial,
    /// What happens.
    happens: &'a Trial,
    world: World,
    hosts: [HostId; 2],
    rules: Rules,
    steps: VecDeque<(Instant, Step)>,
    read: [Series; 2],
    /// The server has forgotten the client's session.
    forgotten: bool,
    abandoned: Option<Abandoned>,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    fn new(trial: &'a Trial, happens: &'a Trial) -> Self {
        let mut world = World::new(BUDGET);
        let hosts = [world.reserve_host(), world.reserve_host()];
        let paths: Vec<_> = (0..happens.paths.len())
            .map(|path| {
                let [up, down] = [End::Server, End::Client].map(|to| world.add_link(happens.link(path, to)));
                let (up, down) = (world.add_route(&[up], hosts[1]), world.add_route(&[down], hosts[0]));
                SubflowPath { path: path as u8, up, down }
            })
            .collect();
        let (client, server) =
            SessionTransport::pair(&happens.session(), &paths).expect("a trial's settings are checked");
        let client = Node::new(happens, End::Client, client, paths.iter().map(|path| path.up).collect());
        let server = Node::new(happens, End::Server, server, paths.iter().map(|path| path.down).collect());
        world.place_host(hosts[1], Box::new(server));
        world.place_host(hosts[0], Box::new(client));
        let mut steps: Vec<_> =
            happens.operations.iter().enumerate().map(|(n, o)| (o.begins(), Step::Begin(n))).collect();
        let leaves =
            happens.operations.iter().enumerate().filter(|(_, o)| matches!(o.act, Act::Absent { .. }));
        steps.extend(leaves.map(|(number, operation)| (operation.ends(), Step::Return(number))));
        steps.sort_by_key(|(at, _)| *at);
        Self {
            trial,
            happens,
            world,
            hosts,
            rules: Rules::new(trial),
            steps: steps.into(),
            read: Default::default(),
            forgotten: false,
            abandoned: None,
            outcome: Outcome::default(),
        }
    }

    fn node(&self, end: End) -> &Node {
        self.world.host(self.hosts[end as usize]).expect("both hosts are nodes")
    }

    fn nodes(&self) -> [&Node; 2] {
        End::BOTH.map(|end| self.node(end))
    }

    fn act(&mut self, end: End, act: impl FnOnce(&mut Node, Instant, &mut Outbox)) {
        self.world.act(self.hosts[end as usize], act).expect("both hosts are nodes");
    }

    fn fault<T>(&self, rule: Rule, text: String) -> Result<T, Fault> {
        Err(Fault { rule, at: self.world.now(), text })
    }

    /// All operations, and the time until the last one is over.
    fn operations(&mut self) -> Result<(), Fault> {
        let ends = self.trial.ends();
        loop {
            self.tick()?;
            for end in End::BOTH {
                let read = self.node(end).lines.all.iter().map(|line| line.read).sum();
                self.read[end as usize].push(read);
            }
            if self.world.now() >= ends || self.abandoned.is_some() {
                return Ok(());
            }
        }
    }

    /// One interval, then the checks.
    fn tick(&mut self) -> Result<(), Fault> {
        let until = self.world.now() + TICK;
        while let Some((at, _)) = self.steps.front().filter(|(at, _)| *at <= until) {
            self.advance(*at)?;
            let (_, step) = self.steps.pop_front().expect("it was just seen");
            self.step(&step);
        }
        self.advance(until)?;
        self.check()
    }

    fn advance(&mut self, until: Instant) -> Result<(), Fault> {
        self.world.run_until(until).or_else(|error| self.fault(Rule::Rest, error.to_string()))
    }

    fn step(&mut self, step: &Step) {
        let [client, server] = self.hosts;
        let trial = self.happens;
        match *step {
            Step::Return(number) => {
                let path = trial.operations[number].act.path().expect("a radio returns");
                self.world.path_changed(client, path, true);
            }
            Step::Begin(number) => match &trial.operations[number].act {
                Act::Absent { path, both_told, .. } => {
                    self.world.path_changed(client, *path, false);
                    if *both_told {
                        self.world.path_changed(server, *path, false);
                    }
                }
                Act::Rebind { path, answers } => {
                    let newest = End::BOTH.map(|end| self.node(end).newest(*path));
                    let newest = newest[0].max(newest[1]);
                    End::BOTH.into_iter().for_each(|end| {
                        self.act(end, |node, _, _| node.forget(*path, newest, *answers));
                    });
                }
                Act::Abandon { end, code } => self.abandon(*end, *code),
                act => {
                    self.forgotten |= matches!(act, Act::Restart { end: End::Server });
                    End::BOTH.into_iter().for_each(|end| {
                        self.act(end, |node, now, out| node.operate(now, act, out));
                    });
                }
            },
        }
    }

    /// An end abandons the session, if both have the same one.
    fn abandon(&mut self, end: End, code: u32) {
        let (now, nodes) = (self.world.now(), self.nodes());
        let connected = nodes.iter().all(|node| node.transport.is_connected());
        if !connected || !is_same_session(nodes) {
            return;
        }
        let [client, server] = nodes.map(|node| &node.transport);
        let is_connected_over =
            |path| client.open_on(path).any(|number| server.open_on(path).any(|other| other == number));
        let paths = 0..self.trial.paths.len();
        let told =
            paths.into_iter().any(|path| self.rules.watch.lives(path, now) && is_connected_over(path as u8));
        self.abandoned = Some(Abandoned { code, told });
        self.steps.clear();
        self.act(end, |node, now, out| node.abandon(code, now, out));
    }

    fn check(&mut self) -> Result<(), Fault> {
        for end in End::BOTH {
            let held = self.node(end).of_session(|session| session.stats());
            let text = held.and_then(|held| too_much(self.trial, held.send_held, held.receive_held_most));
            if let Some(text) = text {
                return self.fault(Rule::Memory, format!("{end:?}: {text}"));
            }
            let Some(code) = self.node(end).transport.ended() else { continue };
            if self.abandoned.is_some_and(|abandoned| abandoned.may_end(end, code)) {
                continue;
            }
            if end == End::Server || !std::mem::take(&mut self.forgotten) || code != CODE_GONE {
                return self.fault(Rule::Closed, format!("the {end:?}'s session ended with code {code}"));
            }
            self.act(end, |node, now, out| {
                node.restart();
                node.poke(now, out);
            });
        }
        let (now, events) = (self.world.now(), self.world.events());
        self.forgotten &= !is_same_session(self.nodes());
        if self.abandoned.is_some() {
            return Ok(());
        }
        // Not `Self::nodes`, which borrows the rules, too.
        let nodes = self.hosts.map(|host| self.world.host(host).expect("both hosts are nodes"));
        self.rules.check(now, events, nodes)
    }

    /// Everything to its end: all arrives, nothing happens while nothing is to do, and nothing is left after the session.
    fn end(mut self) -> Result<Outcome, Fault> {
        if self.abandoned.is_none() {
            self.settle()?;
        }
        self.outcome.read = End::BOTH
            .map(|end| self.node(end).lines.all.iter().map(|line| line.read).sum::<u64>())
            .iter()
            .sum();
        match self.abandoned {
            Some(Abandoned { code, told: true }) => {
                self.ends_with(code)?;
                self.outcome.last_read = self.world.now();
                self.nothing_is_left()?;
            }
            Some(_) => {
                self.outcome.last_read = self.world.now();
                self.advance(self.world.now() + CLOSING + LINGERING)?;
            }
            None => {
                self.idle()?;
                self.act(End::Client, |node, now, out| node.close(now, out));
                self.ends_with(0)?;
                self.nothing_is_left()?;
            }
        }
        self.outcome.events = self.world.events();
        self.outcome.waited = self.rules.watch.waited();
        self.outcome.connections = self.rules.connections;
        Ok(self.outcome)
    }

    fn settle(&mut self) -> Result<(), Fault> {
        let from = self.world.now();
        End::BOTH.into_iter().for_each(|end| self.act(end, |node, now, out| node.finish(now, out)));
        let bytes: u64 = End::BOTH
            .map(|end| self.node(end).lines.all.iter().map(|line| line.wanted()).sum::<u64>())
            .iter()
            .sum();
        let until = from + DELIVERY + transfer(self.trial, bytes);
        while !self.is_complete() {
            if self.world.now() >= until {
                return self.fault(Rule::Delivery, self.missing());
            }
            self.tick()?;
        }
        self.outcome.last_read = self.rules.last_read;
        self.outcome.settled = self.world.now().saturating_since(from);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        is_same_session(self.nodes())
            && End::BOTH.into_iter().all(|end| {
                let node = self.node(end);
                let streams = node.of_session(|session| session.streams().own + session.streams().peers);
                streams == Some(0) && node.lines.all.iter().all(|line| line.has_written() && line.has_read())
            })
    }

    /// What has not ended.
    fn missing(&self) -> String {
        let of = |end: End| {
            let node = self.node(end);
            let lines = node.lines.all.iter().filter(|line| !line.has_written() || !line.has_read());
            let lines: Vec<String> = lines
                .map(|l| format!("{} written {} read {} {:?}", l.name.id, l.written, l.read, l.ended))
                .collect();
            let streams = node.of_session(|session| session.streams());
            format!("{end:?}: {streams:?}, {} subflows, {}", node.transport.subflows(), lines.join(", "))
        };
        format!("after {DELIVERY:?} without a fault: {}; {}", of(End::Client), of(End::Server))
    }

    fn idle(&mut self) -> Result<(), Fault> {
        // What the last bytes caused is over.
        self.advance(self.world.now() + IDLE.0 / 2)?;
        let before = self.world.events();
        self.advance(self.world.now() + IDLE.0)?;
        let events = self.world.events() - before;
        if events > IDLE.1 * self.trial.paths.len() as u64 {
            return self.fault(Rule::Rest, format!("{events} events in {:?} without anything to do", IDLE.0));
        }
        self.check()
    }

    /// Both ends know that the session is over, and why.
    fn ends_with(&mut self, code: u32) -> Result<(), Fault> {
        let until = self.world.now() + CLOSING;
        let knows = |run: &Self, end| {
            let ended = run.node(end).transport.ended();
            let may = |ended| run.abandoned.is_some_and(|abandoned| abandoned.may_end(end, ended));
            ended.is_some_and(|ended| ended == code || may(ended))
        };
        while !End::BOTH.into_iter().all(|end| knows(self, end)) {
            if self.world.now() >= until {
                let codes = End::BOTH.map(|end| self.node(end).transport.ended());
                return self.fault(Rule::Closed, format!("{CLOSING:?} after the end, codes {codes:?}"));
            }
            self.advance(self.world.now() + TICK)?;
        }
        Ok(())
    }

    fn nothing_is_left(&mut self) -> Result<(), Fault> {
        self.advance(self.world.now() + LINGERING)?;
        let left = End::BOTH.map(|end| self.node(end).transport.connections());
        if left != [(0, 0); 2] {
            return self.fault(Rule::Places, format!("connections are left after the session: {left:?}"));
        }
        let before = self.world.events();
        self.advance(self.world.now() + IDLE.0)?;
        match self.world.events() - before {
            0 => Ok(()),
            events => self.fault(Rule::Rest, format!("{events} events after the session")),
        }
    }
}

#[cfg(test)]
mod tests;
