//! The task that owns a session's subflows: moves bytes between sockets and the session.
//!
//! One turn: handle commands, read from the sockets, report each subflow's room to the session, drain the session
//! ([`Turn`]), write. Turns repeat while they move bytes. The driver makes no decisions: the session and `Handshakes` decide
//! when to connect, close or reset.
//!
//! A peer decides how much work its bytes are, so the work without a pause, and that under one lock, is limited by time
//! ([`slice`]): what is left waits for the next turn, after the other sessions' drivers.

mod gather;
#[cfg(feature = "script")]
pub mod script;
mod slice;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Sleep;
use tributary_proto::handshakes::{Action, Handshakes, LINGER};
use tributary_proto::turn::{self, Output, Turn};
use tributary_proto::{Event, ProtocolError};
use tributary_types::{Instant, PathId, SubflowId};

use crate::budget;
use crate::connector::{Connector, Outcome};
use crate::events::{SessionEvent, SessionEventKind};
use crate::handshake::{Established, HandshakeError};
use crate::paths::{PathState, PathStatus, UNACKNOWLEDGED};
use crate::pipe::SubflowProtocol;
use crate::shared::{Command, Shared, State};
use crate::stats::SubflowReport;
use crate::subflow::Subflow;
use gather::{Gathered, Order, gather_subflow};
use slice::Slice;

/// Number of turns before the driver yields to other tasks, if its slice of time is not over sooner.
const TURNS: usize = 8;
/// Writes of the session after which the clock is read.
const TRANSMITS: usize = 16;

pub(crate) struct Driver {
    shared: Arc<Shared>,
    commands: mpsc::UnboundedReceiver<Command>,
    subflows: BTreeMap<SubflowId, Subflow>,
    /// Client only.
    connector: Option<Connector>,
    timer: Pin<Box<Sleep>>,
    /// The time for which the timer is set.
    armed: Instant,
    gathered: Gathered,
    /// The subflow that is read first in the next turn: the one at which the last turn's slice was over.
    reads_from: SubflowId,
    /// Reasons of subflows that ended, until the session reports their end.
    reasons: BTreeMap<SubflowId, String>,
    actions: Vec<Event>,
    /// A turn is running. A driver that is dropped during a turn has panicked.
    in_turn: bool,
    /// Mark of the session's sockets; `None` once the kernel has refused it.
    mark: Option<u32>,
    /// Dropped at the end of the session: this removes it from the server's registry.
    _registration: Option<Box<dyn Send>>,
}

impl Driver {
    pub(crate) fn spawn(
        shared: Arc<Shared>,
        commands: mpsc::UnboundedReceiver<Command>,
        connector: Option<Connector>,
        mark: Option<u32>,
        registration: Option<Box<dyn Send>>,
    ) {
        tokio::spawn(Self::new(shared, commands, connector, mark, registration));
    }

    fn new(
        shared: Arc<Shared>,
        commands: mpsc::UnboundedReceiver<Command>,
        connector: Option<Connector>,
        mark: Option<u32>,
        registration: Option<Box<dyn Send>>,
    ) -> Self {
        Self {
            shared,
            commands,
            subflows: BTreeMap::new(),
            connector,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            armed: Instant::ZERO,
            gathered: Gathered::default(),
            reads_from: SubflowId(0),
            reasons: BTreeMap::new(),
            actions: Vec::new(),
            in_turn: false,
            mark,
            _registration: registration,
        }
    }

    /// One turn; returns whether it moved any bytes.
    fn turn(&mut self, cx: &mut Context<'_>, slice: &Slice) -> bool {
        let mut moved = self.gather(cx, slice);
        let now = self.shared.now();
        let shared = self.shared.clone();
        let mut state = shared.lock();
        moved |= self.exchange(&mut state, now, slice);
        let deadline = turn::deadline(&state.session, self.connector.as_ref().map(|c| &c.handshakes));
        if !state.driver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.driver = Some(cx.waker().clone());
        }
        if moved {
            state.wake_waiting();
        }
        drop(state);
        moved |= self.flush(cx);
        moved |= self.act();
        self.arm(cx, deadline);
        moved
    }

    /// Passes on what was gathered, and takes what the session gives. Returns whether there was anything.
    fn exchange(&mut self, state: &mut State, now: Instant, slice: &Slice) -> bool {
        let fed = self.feed(state, now, slice);
        state.share_memory(now);
        let kept = budget::kept(state.session.memory().blocks);
        self.subflows.values_mut().for_each(|subflow| subflow.keep(kept));
        self.drain(state, now, slice) || fed
    }

    // ---- from the sockets

    /// Reads the sockets, in turn, until the slice is over; returns whether it was over too soon. Subflows whose last
    /// input waits are not read.
    fn gather(&mut self, cx: &mut Context<'_>, slice: &Slice) -> bool {
        let gathered = &mut self.gathered;
        while let Poll::Ready(Some(command)) = self.commands.poll_recv(cx) {
            gathered.commands.push(command);
        }
        let now = self.shared.now();
        let first = self.reads_from;
        let mut unread = None;
        let mut gather = |subflow: &mut Subflow| {
            if !gather_subflow(gathered, subflow, now, (cx, slice)) {
                unread.get_or_insert(subflow.id);
            }
        };
        self.subflows.range_mut(first..).for_each(|(_, subflow)| gather(subflow));
        self.subflows.range_mut(..first).for_each(|(_, subflow)| gather(subflow));
        self.reads_from = unread.unwrap_or(SubflowId(0));
        unread.is_some()
    }

    fn feed(&mut self, state: &mut State, now: Instant, slice: &Slice) -> bool {
        let mut gathered = std::mem::take(&mut self.gathered);
        let mut moved = !gathered.commands.is_empty() || !gathered.inputs.is_empty();
        moved |= !gathered.accepted.is_empty() || !gathered.refused.is_empty();
        for command in gathered.commands.drain(..) {
            self.command(state, now, command);
        }
        for (id, credentials) in gathered.accepted.drain(..) {
            tracing::debug!(%id, "the server accepts");
            state.tag = Some(credentials.tag);
            if let Some(path) = self.subflows.get(&id).map(|subflow| subflow.path) {
                self.came_up(state, now, path);
            }
            if let Some(connector) = &mut self.connector {
                connector.accepted(now, &mut state.session, id, credentials);
            }
        }
        for (id, error) in gathered.refused.drain(..) {
            self.failed(state, now, id, error);
        }
        self.input(state, now, &mut gathered, slice);
        // A subflow ends after its input.
        let (waiting, ended) =
            gathered.ended.drain(..).partition(|(id, _)| gathered.inputs.iter().any(|(of, ..)| of == id));
        gathered.ended = waiting;
        let ended: Vec<_> = ended;
        for (id, reason) in ended {
            if self.subflows.contains_key(&id) {
                self.reasons.insert(id, reason);
                self.failed(state, now, id, HandshakeError::HungUp);
                moved = true;
            }
        }
        for (id, info) in gathered.infos.drain(..) {
            state.session.handle_subflow_info(id, info);
            if let Some(subflow) = self.subflows.get(&id) {
                let (path, protocol, tcp) = (subflow.path, subflow.protocol(), subflow.tcp_info());
                state.report(SubflowReport { subflow: id, path, protocol, tcp });
            }
        }
        for (id, room) in gathered.rooms.drain(..) {
            state.session.handle_room(id, room);
        }
        self.gathered = gathered;
        moved
    }

    /// Passes input to the session until the slice is over.
    fn input(&mut self, state: &mut State, now: Instant, gathered: &mut Gathered, slice: &Slice) {
        while let Some((id, mut data, order)) = gathered.inputs.pop_front() {
            if !self.subflows.contains_key(&id) {
                continue;
            }
            let (outcome, rest) = match order {
                Order::Overtaking => (state.session.handle_overtaking(now, id, &mut data), Order::Overtaking),
                order => {
                    let begins = order == Order::Begins;
                    (state.session.handle_part(now, id, &mut data, begins), Order::Continues)
                }
            };
            match outcome {
                Ok(()) if data.is_empty() => {}
                Ok(()) => gathered.inputs.push_front((id, data, rest)),
                // The session has dropped the subflow, and the driver is about to.
                Err(ProtocolError::UnknownSubflow(_)) => {}
                Err(error) => {
                    tracing::warn!(%id, %error, "protocol error; the session ends");
                    self.actions.push(Event::CloseSubflow { subflow: id, abort: true });
                }
            }
            if slice.is_over() {
                return;
            }
        }
    }

    fn command(&mut self, state: &mut State, now: Instant, command: Command) {
        let session = &mut state.session;
        match (command, &mut self.connector) {
            (Command::Quiet(id), Some(connector)) => {
                if let Some(path) = connector.path(id).filter(|path| state.paths.is_connecting(*path)) {
                    self.path_failed(state, now, path, HandshakeError::Timeout);
                }
            }
            (Command::Connected(id, reached), Some(connector)) => {
                connector.connected(now, session, (id, reached));
            }
            (Command::NoQuic(path), Some(connector)) => connector.without_quic(now, path),
            (Command::Hurry(hurry), Some(connector)) => connector.hurry(now, session, hurry),
            (Command::Ready(id, channel), Some(connector)) => connector.ready(now, session, id, channel),
            (Command::Introduced(established), Some(connector)) => {
                connector.introduced(now, session, established);
            }
            (Command::Failed(id, error), _) => self.failed(state, now, id, error),
            (Command::AddPath(path, config), Some(connector)) => {
                state.add_path(now, path, &config);
                connector.add_path(path, config);
            }
            (Command::RemovePath(path, why), Some(_)) => {
                state.paths.leave(path, why);
                session.remove_path(now, path);
            }
            (Command::SetCap(path, cap), Some(_)) => state.set_cap(now, path, cap),
            // The session was given this subflow before the reply was sent, and may have dropped it since.
            (Command::Opened(established), None)
                if session.subflow_stats().any(|stats| stats.subflow == established.subflow) =>
            {
                self.admit(state, now, *established);
            }
            (Command::Broken(id), None) => session.handle_subflow_closed(now, id),
            #[cfg(test)]
            (Command::Panic, _) => panic!("a test breaks the driver"),
            _ => {}
        }
        self.connect(state, now);
    }

    /// An attempt or a subflow ended.
    fn failed(&mut self, state: &mut State, now: Instant, id: SubflowId, error: HandshakeError) {
        if self.subflows.remove(&id).is_some() {
            state.count_paths();
            state.subflows.retain(|report| report.subflow != id);
        }
        match &mut self.connector {
            Some(connector) => connector.failed(now, &mut state.session, id, error),
            None => state.session.handle_subflow_closed(now, id),
        }
        self.connect(state, now);
    }

    /// Client: carries out the decisions about connections.
    fn connect(&mut self, state: &mut State, now: Instant) {
        while let Some(action) = handshakes(&mut self.connector).and_then(Handshakes::poll_action) {
            self.carry_out(state, now, action);
        }
    }

    fn carry_out(&mut self, state: &mut State, now: Instant, action: Action) {
        match self.connector.as_mut().and_then(|connector| connector.carry_out(now, action)) {
            Some(Outcome::Admit(established)) => self.admit(state, now, *established),
            Some(Outcome::Drop(subflow, abort)) => {
                self.actions.push(Event::CloseSubflow { subflow, abort });
            }
            Some(Outcome::Failed(path, error)) => self.path_failed(state, now, path, error),
            None => {}
        }
    }

    /// An attempt on a path failed. A path that has a subflow, silent or not, keeps its state.
    fn path_failed(&mut self, state: &mut State, now: Instant, path: PathId, error: HandshakeError) {
        tracing::debug!(%path, %error, "connection attempt failed");
        if self.subflows.values().any(|subflow| subflow.path == path && !subflow.awaits_reply()) {
            let changed = state.paths.fresh_failed(path, &error.to_string());
            return self.tell_path(state, now, changed);
        }
        if error.is_fatal() && state.opened == 0 {
            let changed = state.paths.give_up(now, path, error.to_string());
            self.tell_path(state, now, changed);
        } else {
            self.went_down(state, now, path, Some(error.to_string()));
        }
        state.fail(path, error);
    }

    /// Tells the kernel that the subflow is a sibling of the session's others.
    fn mark(&mut self, established: &Established) {
        let Some(mark) = self.mark else { return };
        if let Err(error) = established.channel.stream.set_mark(mark) {
            tracing::warn!(
                %error,
                "the session's subflows are not coupled: marking sockets needs CAP_NET_ADMIN or CAP_NET_RAW"
            );
            self.mark = None;
        }
    }

    /// Adds a subflow that is already part of the session.
    fn admit(&mut self, state: &mut State, now: Instant, established: Established) {
        let (id, path) = (established.subflow, established.path);
        if self.connector.is_none() {
            let peer = established.channel.stream.peer();
            state.paths.add(now, path, || {
                peer.map_or_else(|_| path.to_string(), |peer| peer.ip().to_canonical().to_string())
            });
        }
        self.mark(&established);
        match Subflow::new(established) {
            Ok(subflow) => {
                if subflow.protocol() == SubflowProtocol::Quic {
                    state.session.let_overtake(id);
                }
                if subflow.awaits_reply() {
                    state.introduced = true;
                    state.wake_waiting();
                } else {
                    self.came_up(state, now, path);
                }
                self.subflows.insert(id, subflow);
            }
            Err(error) => {
                tracing::warn!(%id, %error, "subflow lost at its start");
                state.session.handle_subflow_closed(now, id);
            }
        }
    }

    fn came_up(&self, state: &mut State, now: Instant, path: PathId) {
        state.came_up(path);
        let changed = state.paths.change(now, path, PathState::Up, None);
        self.tell_path(state, now, changed);
    }

    /// A connection of a path ended; the path is down unless it has another one.
    fn went_down(&self, state: &mut State, now: Instant, path: PathId, cause: Option<String>) {
        let session = &state.session;
        // A path that the peer removed is no path of the session any more.
        if session.is_closed()
            || !session.has_path(path)
            || session.subflow_stats().any(|stats| stats.path == path)
        {
            return;
        }
        let changed = state.paths.change(now, path, PathState::Down, cause);
        self.tell_path(state, now, changed);
    }

    fn tell_path(&self, state: &State, now: Instant, changed: Option<PathStatus>) {
        if let Some(status) = changed {
            self.tell(state, now, SessionEventKind::Path(status));
        }
    }

    fn tell(&self, state: &State, now: Instant, kind: SessionEventKind) {
        if let Some(events) = self.shared.subscribed() {
            // An error means that the last subscriber has just been dropped.
            let _ = events.send(state.event(now, kind));
        }
    }

    // ---- to the sockets

    /// Takes the session's output, frames until the slice is over; returns whether there were any.
    fn drain(&mut self, state: &mut State, now: Instant, slice: &Slice) -> bool {
        let mut turn = Turn::begin(now, &mut state.session, handshakes(&mut self.connector));
        let mut frames = 0;
        while let Some(output) = turn.poll(now, &mut state.session, handshakes(&mut self.connector)) {
            match output {
                Output::Frame(transmit) => {
                    if let Some(subflow) = self.subflows.get_mut(&transmit.subflow) {
                        subflow.push(transmit);
                    }
                    frames += 1;
                    if frames % TRANSMITS == 0 && slice.is_over() {
                        turn.pause();
                    }
                }
                Output::Action(action) => self.carry_out(state, now, action),
                Output::Event(event) => self.event(state, now, event),
            }
        }
        frames > 0
    }

    fn event(&mut self, state: &mut State, now: Instant, event: Event) {
        if SessionEvent::is_worth_telling(&event) && self.shared.subscribed().is_some() {
            self.tell(state, now, SessionEventKind::Session(event.clone()));
        }
        match event {
            Event::SubflowDown { subflow, path, .. } => {
                let reason = self.reasons.remove(&subflow);
                self.went_down(state, now, path, reason);
            }
            Event::PathSilent { path, .. } => {
                let cause = Some(UNACKNOWLEDGED.to_owned());
                let changed = state.paths.change(now, path, PathState::Silent, cause);
                self.tell_path(state, now, changed);
            }
            Event::PathRemoved { path } => state.forget_path(now, path),
            Event::SmallSegments { path, small } => state.paths.warn_of_segments(path, small),
            Event::PathBack { path } => {
                let changed = state.paths.back(now, path);
                self.tell_path(state, now, changed);
            }
            _ => {}
        }
        if let Some(connector) = &mut self.connector {
            connector.event(&event);
        }
        match event {
            Event::CloseSubflow { .. } => self.actions.push(event),
            other => state.dispatch(other),
        }
    }

    /// Writes what the subflows hold; returns whether one that held something has room again.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        let mut emptied = false;
        for (id, subflow) in &mut self.subflows {
            let held = subflow.held() > 0;
            match subflow.poll_flush(cx) {
                Poll::Ready(Ok(())) => emptied |= held,
                Poll::Ready(Err(error)) => self.gathered.ended.push((*id, error.to_string())),
                Poll::Pending => {}
            }
        }
        emptied
    }

    /// Carries out the session's actions.
    fn act(&mut self) -> bool {
        let acted = !self.actions.is_empty() || !self.gathered.ended.is_empty();
        for action in std::mem::take(&mut self.actions) {
            let Event::CloseSubflow { subflow, abort } = action else { continue };
            let Some(subflow) = self.subflows.remove(&subflow) else { continue };
            self.shared.lock().subflows.retain(|report| report.subflow != subflow.id);
            if abort {
                subflow.abort();
            } else {
                tokio::spawn(subflow.finish(LINGER));
            }
        }
        acted
    }

    fn arm(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        let now = self.shared.now();
        let at = turn::wake_at(now, deadline);
        if self.armed != at {
            self.armed = at;
            self.timer.as_mut().reset(self.shared.timer(at));
        }
        // Past deadlines were moved a tick ahead, so this registers.
        if self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

fn handshakes(connector: &mut Option<Connector>) -> Option<&mut Handshakes> {
    connector.as_mut().map(|connector| &mut connector.handshakes)
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let slice = Slice::begin();
        for _ in 0..TURNS {
            self.in_turn = true;
            let moved = self.turn(cx, &slice);
            self.in_turn = false;
            if !moved {
                let mut state = self.shared.lock();
                if state.closed.is_none() || !self.actions.is_empty() {
                    return Poll::Pending;
                }
                state.release();
                return Poll::Ready(());
            }
            if slice.is_over() {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.in_turn {
            self.shared.driver_gone("its driver panicked");
        }
    }
}
