//! Carries out one trial: starts the network and both ends, operates them, looks at them, and judges what is seen.
//!
//! Not here: what must be true once all operations are over (`over`).

mod over;

use super::network::{TrialNetwork, interface, side};
use super::{Bounds, Outcome, REAL_TIME};
use crate::endpoint::trial::{Order, Places, Seen, SessionSeen, TrialEnd};
use crate::endpoint::{Reply, Role, Task, usage};
use crate::error::LabError;
use crate::process::{Process, own_program};
use crate::result::AuditNote;
use crate::transport::SessionSettings;
use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;
use tributary_emu::Side;
use tributary_net::Key;
use tributary_proto::transport::TransportName;
use tributary_sim::trial::{
    Act, End, Fault, Operation, Rule, Series, TICK, Trial, Watch, judge, refusal, too_much,
};
use tributary_types::Instant;

/// The server's port on every path.
const PORT: u16 = 7000;
/// Time for an end to start, and to answer.
const ANSWER: Duration = Duration::from_secs(30);
/// An end that nobody ends is over after this time.
const LIMIT: Duration = Duration::from_secs(1800);
/// The kernel's connections are counted at every so many looks: it takes a thread each time.
const COUNTED: u64 = 10;

/// Why a run is over.
pub(super) enum Stop {
    Fault(Fault),
    Lab(LabError),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(fault) => fault.fmt(f),
            Self::Lab(error) => error.fmt(f),
        }
    }
}

impl<E: Into<LabError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Lab(error.into())
    }
}

/// Something at a time.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Paths change.
    Adapt,
    /// The operation of this number begins.
    Begin(usize),
    /// An end goes on, unless another operation has suspended it for longer.
    Resume(End),
}

pub(super) struct Run<'a> {
    /// What the rules and the server know.
    known: &'a Trial,
    bounds: &'a Bounds,
    /// What happens, in the order of its times.
    happens: Trial,
    network: TrialNetwork,
    key: String,
    ends: [Process; 2],
    /// What each process occupied when it was ready.
    ready: [Places; 2],
    /// When the trial began, on the monotonic clock.
    began: Duration,
    steps: VecDeque<(Instant, Step)>,
    ticks: u64,
    watch: Watch,
    seen: [Option<Seen>; 2],
    read: [Series; 2],
    restarts: [u32; 2],
    /// The process is suspended until then.
    suspended: [Option<Instant>; 2],
    /// The code with which an end has abandoned the session.
    abandoned: Option<u32>,
    /// The other end must learn it: a path lives.
    told: bool,
    /// Why a path alone could not be measured.
    uncompared: Option<String>,
    outcome: Outcome,
}

impl<'a> Run<'a> {
    /// Starts the network and both ends; the trial begins now.
    pub fn start(known: &'a Trial, happens: &Trial, bounds: &'a Bounds) -> Result<Self, Stop> {
        let happens = sorted(happens);
        let network = TrialNetwork::start(&happens)?;
        let key = Key::generate().map_err(LabError::from)?.to_line().to_string();
        let [client, server] = [(End::Client, &happens), (End::Server, known)]
            .map(|(end, trial)| start(&network, &sorted(trial), &key, end));
        // The server listens before the client connects: that begins with the trial.
        let (server, client) = (server?, client?);
        network.emulated().rewind()?;
        let mut run = Self {
            known,
            bounds,
            network,
            key,
            ends: [client.0, server.0],
            ready: [client.1, server.1],
            began: usage::monotonic(),
            steps: steps(&happens),
            happens,
            ticks: 0,
            watch: Watch::new(known, REAL_TIME),
            seen: [None, None],
            read: Default::default(),
            restarts: [0; 2],
            suspended: [None; 2],
            abandoned: None,
            told: true,
            uncompared: None,
            outcome: Outcome::default(),
        };
        for end in End::BOTH {
            run.begin(end)?;
        }
        Ok(run)
    }

    /// The whole trial.
    pub fn whole(&mut self) -> Result<Outcome, Stop> {
        self.operations()?;
        if self.abandoned.is_none() {
            let (bounds, mut uncompared) = (self.bounds, None);
            let alone = |alone: &Trial| {
                let read = read_alone(alone, bounds);
                read.map_err(|reason| uncompared = Some(format!("one path alone: {reason}"))).ok()
            };
            judge(self.known, &self.read, alone).map_err(Stop::Fault)?;
            self.uncompared = uncompared;
            // Nobody looked during the comparison.
            self.watch.interrupt();
            self.ticks = self.now().saturating_since(Instant::ZERO).div_duration_f64(TICK) as u64;
            self.settle()?;
        }
        self.outcome.waited = self.watch.waited();
        if !self.told {
            return Ok(self.outcome);
        }
        let code = self.abandoned.unwrap_or(0);
        if self.abandoned.is_none() {
            let name = self.session(End::Client).and_then(|session| session.name.clone());
            for end in [End::Server, End::Client] {
                self.tell(end, &Order::Close(name.clone()))?;
            }
        }
        self.ends_with(code)?;
        self.nothing_is_left()?;
        Ok(self.outcome)
    }

    /// The emulator's audit so far. Invalid too if a comparison that a rule needs could not be made.
    pub fn audit(&self) -> Result<AuditNote, LabError> {
        let mut audit = AuditNote::new(&self.network.emulated().audit()?);
        audit.valid &= self.uncompared.is_none();
        audit.reasons.extend(self.uncompared.clone());
        Ok(audit)
    }

    /// All operations, and the time until the last one is over.
    fn operations(&mut self) -> Result<(), Stop> {
        let ends = self.known.ends();
        loop {
            self.tick()?;
            for (series, seen) in self.read.iter_mut().zip(&self.seen) {
                let lines = seen.iter().flat_map(|seen| seen.sessions.last()).flat_map(|s| &s.lines);
                series.push(lines.map(|line| line.read).sum());
            }
            if self.now() >= ends || self.abandoned.is_some() {
                return Ok(());
            }
        }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + usage::monotonic().saturating_sub(self.began)
    }

    fn sleep_until(&self, at: Instant) {
        std::thread::sleep(at.saturating_since(self.now()));
    }

    fn fault<T>(&self, rule: Rule, text: String) -> Result<T, Stop> {
        Err(Stop::Fault(Fault { rule, at: self.now(), text }))
    }

    /// One interval, then a look at both ends.
    fn tick(&mut self) -> Result<(), Stop> {
        self.ticks += 1;
        let until = Instant::ZERO + TICK * u32::try_from(self.ticks).unwrap_or(u32::MAX);
        while let Some(&(at, step)) = self.steps.front().filter(|(at, _)| *at <= until) {
            self.steps.pop_front();
            self.sleep_until(at);
            self.step(at, step)?;
        }
        self.sleep_until(until);
        self.look()
    }

    fn step(&mut self, at: Instant, step: Step) -> Result<(), Stop> {
        let operation = match step {
            Step::Adapt => return Ok(self.network.adapt(&self.happens, at)?),
            Step::Begin(number) => self.happens.operations[number].clone(),
            Step::Resume(end) => {
                if self.suspended[end as usize].take_if(|until| *until <= at).is_some() {
                    self.ends[end as usize].resume();
                }
                return Ok(());
            }
        };
        match operation.act {
            Act::Reset { path, end, .. } => self.network.reset(path, end)?,
            Act::Rebind { path, answers } => self.network.forget(path, answers)?,
            Act::Restart { end } => self.restart(end)?,
            Act::Suspend { end, .. } => {
                let until = &mut self.suspended[end as usize];
                *until = (*until).max(Some(operation.ends()));
                self.ends[end as usize].suspend();
            }
            Act::Abandon { end, code } if self.same_session().is_some() => {
                self.abandoned = Some(code);
                let mut paths = 0..self.known.paths.len();
                self.told = paths.any(|path| self.watch.lives(path, at));
                self.steps.clear();
                self.tell(end, &Order::Abandon(code))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The program of an end is killed and started again.
    fn restart(&mut self, end: End) -> Result<(), Stop> {
        let at = end as usize;
        self.restarts[at] += 1;
        self.suspended[at] = None;
        self.ends[at].kill();
        let trial = if end == End::Server { self.known } else { &self.happens };
        (self.ends[at], self.ready[at]) = start(&self.network, &sorted(trial), &self.key, end)?;
        self.seen[at] = None;
        self.begin(end)
    }

    fn begin(&mut self, end: End) -> Result<(), Stop> {
        let at = u64::try_from(self.began.as_nanos()).unwrap_or(u64::MAX);
        self.tell(end, &Order::Begin(at))
    }

    /// Sends an order; an end that has ended is a fault.
    fn tell(&mut self, end: End, order: &Order) -> Result<(), Stop> {
        match self.ends[end as usize].tell(order) {
            Ok(()) => Ok(()),
            Err(_) => self.seen_by(end).map(drop),
        }
    }

    /// The next answer of an end.
    fn seen_by(&self, end: End) -> Result<Seen, Stop> {
        match self.ends[end as usize].reply(ANSWER) {
            Ok(Reply::Trial(seen)) => Ok(*seen),
            Ok(other) => self.fault(Rule::Panic, format!("the {end:?} replied {other:?}")),
            Err(error) => self.fault(Rule::Panic, error.to_string()),
        }
    }

    fn ask(&mut self, end: End) -> Result<Seen, Stop> {
        self.tell(end, &Order::Look)?;
        self.seen_by(end)
    }

    /// Looks at both ends, the client first, and judges.
    fn look(&mut self) -> Result<(), Stop> {
        if self.suspended.iter().any(Option::is_some) {
            // It does not answer.
            self.watch.interrupt();
            return Ok(());
        }
        let before = self.same_session().map(|[_, server]| (server.name.clone(), server.lines.clone()));
        for end in End::BOTH {
            self.seen[end as usize] = Some(self.ask(end)?);
        }
        for end in End::BOTH {
            self.check(end)?;
        }
        if self.ticks.is_multiple_of(COUNTED) {
            for end in End::BOTH {
                self.outcome.connections = self.outcome.connections.max(self.network.connections(end)?);
            }
        }
        let now = self.now();
        let read: u64 = self.seen.iter().flatten().flat_map(|seen| &seen.sessions).map(bytes_read).sum();
        if read != self.outcome.read {
            (self.outcome.read, self.outcome.last_read) = (read, now.saturating_since(Instant::ZERO));
        }
        let Some([client, server]) = self.same_session().map(|both| both.map(|end| end.lines.clone())) else {
            self.watch.interrupt();
            return Ok(());
        };
        // The client is looked at before the server, and after the server's look before.
        let earlier =
            before.filter(|(name, _)| self.same_session().is_some_and(|[_, server]| server.name == *name));
        let earlier = earlier.as_ref().map(|(_, server)| server);
        let writer_later =
            [Some((End::Client, &server, &client)), earlier.map(|earlier| (End::Server, &client, earlier))];
        for (reader, from, to) in writer_later.into_iter().flatten() {
            let compared = self.watch.compare(now, reader, from, to);
            compared.or_else(|(rule, text)| self.fault(rule, text))?;
        }
        let reader_later =
            [Some((End::Server, &client, &server)), earlier.map(|earlier| (End::Client, earlier, &client))];
        for (reader, from, to) in reader_later.into_iter().flatten() {
            if let Some(text) = refusal(from, to) {
                return self.fault(Rule::Content, format!("to the {reader:?}: {text}"));
            }
        }
        Ok(())
    }

    /// What one end shows by itself.
    fn check(&self, end: End) -> Result<(), Stop> {
        let Some(seen) = &self.seen[end as usize] else { return Ok(()) };
        let rule = |text: Option<String>, rule| {
            text.map_or(Ok(()), |text| self.fault(rule, format!("{end:?}: {text}")))
        };
        rule(seen.sessions.iter().find_map(|session| session.broken.clone()), Rule::Content)?;
        let held = |s: &SessionSeen| too_much(self.known, s.send_held, s.receive_held_most);
        rule(seen.sessions.iter().find_map(held), Rule::Memory)?;
        rule(seen.refused.clone(), Rule::Closed)?;
        let restart = |operation: &&Operation| matches!(operation.act, Act::Restart { end: End::Server });
        let known = self.known.operations.iter().filter(restart).count();
        let forgotten =
            format!("{} sessions were forgotten by a server started {known} times", seen.forgotten);
        rule((seen.forgotten as usize > known).then_some(forgotten), Rule::Closed)?;
        // A server's sessions that the client does not have any more end without it.
        let current = match end {
            End::Client => self.session(end),
            End::Server => self.same_session().map(|[_, server]| server),
        };
        let ended = current.and_then(|session| session.ended.as_ref());
        let ended = ended.filter(|(code, _)| self.abandoned != Some(*code));
        rule(
            ended.map(|(code, reason)| format!("the session ended with code {code}: {reason}")),
            Rule::Closed,
        )
    }

    /// The session of an end that it opened last.
    fn session(&self, end: End) -> Option<&SessionSeen> {
        self.seen[end as usize].as_ref()?.sessions.last()
    }

    /// The session that both ends have.
    fn same_session(&self) -> Option<[&SessionSeen; 2]> {
        let client = self.session(End::Client).filter(|session| session.name.is_some())?;
        let sessions = &self.seen[End::Server as usize].as_ref()?.sessions;
        Some([client, sessions.iter().find(|session| session.name == client.name)?])
    }
}

fn bytes_read(session: &SessionSeen) -> u64 {
    session.lines.iter().map(|line| line.read).sum()
}

/// What both ends read in a trial without the rest of it, or why that is not known.
fn read_alone(trial: &Trial, bounds: &Bounds) -> Result<[Series; 2], String> {
    let mut run = Run::start(trial, trial, bounds).map_err(|stop| stop.to_string())?;
    run.operations().map_err(|stop| stop.to_string())?;
    let audit = run.audit().map_err(|error| error.to_string())?;
    if audit.valid { Ok(run.read) } else { Err(audit.reasons.join(", ")) }
}

/// The trial with its operations in the order of their times.
fn sorted(trial: &Trial) -> Trial {
    let mut sorted = trial.clone();
    sorted.operations.sort_by_key(|operation| operation.at_ms);
    sorted
}

/// What happens on the network, and the operations that concern a process, in their order.
fn steps(trial: &Trial) -> VecDeque<(Instant, Step)> {
    let begins = trial.operations.iter().enumerate().map(|(n, o)| (o.begins(), Step::Begin(n)));
    let resumes = trial.operations.iter().filter_map(|operation| match operation.act {
        Act::Suspend { end, .. } => Some((operation.ends(), Step::Resume(end))),
        _ => None,
    });
    let mut steps: Vec<_> = TrialNetwork::times(trial).into_iter().map(|at| (at, Step::Adapt)).collect();
    steps.extend(begins.chain(resumes));
    steps.sort_by_key(|(at, _)| *at);
    steps.into()
}

/// Starts the process of an end; returns it with what it occupies.
fn start(network: &TrialNetwork, trial: &Trial, key: &str, end: End) -> Result<(Process, Places), Stop> {
    let paths = 0..trial.paths.len();
    let role = Role::Trial(Box::new(TrialEnd {
        end,
        trial: trial.clone(),
        servers: paths.clone().map(|path| SocketAddr::from((Side::Server.address(path), PORT))).collect(),
        interfaces: paths.map(interface).collect(),
    }));
    let task = Task {
        transport: TransportName::Session { scheduler: trial.scheduler.clone() },
        session: SessionSettings { plaintext: !trial.tls, ..SessionSettings::default() },
        congestion: trial.congestion.clone(),
        inner_quic: None,
        key: key.to_owned(),
        limit: LIMIT.as_secs_f64(),
        threads: 1,
        windows: false,
        messages: Vec::new(),
        role,
    };
    let command = network.emulated().command(side(end), own_program()?);
    let mut process = Process::endpoint(format!("{end:?}"), command, "run", &task)?;
    match process.reply(ANSWER)? {
        Reply::Ready(_) => {}
        other => return Err(LabError::from(process.failed(format!("unexpected reply: {other:?}"))).into()),
    }
    process.tell(&Order::Look)?;
    match process.reply(ANSWER)? {
        Reply::Trial(seen) => Ok((process, seen.places)),
        other => Err(LabError::from(process.failed(format!("unexpected reply: {other:?}"))).into()),
    }
}
