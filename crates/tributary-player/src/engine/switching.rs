//! How a client's transport follows the engine: what is dialled, when requests move, and what it falls back to. Used on sockets
//! and in the simulator.
//!
//! The driver owns the connections. It reports what happened (`handle_*`) and carries out [`Switching::poll_action`]. Not here:
//! what is decided ([`Engine`]), the connections, the requests.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::{Instant, PathId};

use super::{Conditions, Decided, Decision, Engine, PathReport, Settings, Transport};

/// Time limit of a QUIC handshake; without an end by then, UDP counts as blocked.
pub const HANDSHAKE: Duration = Duration::from_secs(3);

/// Instruction to the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The engine has decided this. For the log; what follows from it are further actions.
    Decided(Decided),
    /// Use a path, or stop using it.
    Use(PathId, bool),
    /// Connect this transport, and tell [`Switching::handle_connected`].
    Connect(Transport),
    /// Send requests over this transport from now on, and tell [`Switching::handle_moved`]. Keep the connection before it until
    /// [`Action::Settle`] or [`Action::Back`].
    Move(Transport),
    /// The connection before the present one is not needed any more.
    Settle,
    /// Send requests over the connection before again. The present one is not needed any more.
    Back,
    /// The connection of this transport, which was never used, is not needed.
    Drop(Transport),
}

/// The transport of one client.
#[derive(Clone, Debug)]
pub struct Switching {
    engine: Engine,
    /// The server can be reached with QUIC, unless UDP is blocked.
    quic: bool,
    /// The paths as they were reported before playback.
    first: Vec<PathReport>,
    /// A transport is in use.
    began: bool,
    /// UDP packets arrive.
    udp: bool,
    /// The path of a QUIC connection that is kept ready.
    ready: Option<PathId>,
    /// The transport to move to when it is connected.
    moving: Option<Transport>,
    /// The time limit of a handshake that goes on while requests are sent.
    settling: Option<Instant>,
    actions: VecDeque<Action>,
}

impl Switching {
    /// Chooses the transport to begin with. `quic`: the server has QUIC.
    #[must_use]
    pub fn new(now: Instant, settings: Settings, paths: Vec<PathReport>, quic: bool) -> Self {
        let mut switching = Self {
            engine: Engine::new(settings),
            quic,
            first: paths,
            began: false,
            udp: false,
            ready: None,
            moving: None,
            settling: None,
            actions: VecDeque::new(),
        };
        switching.start(now, quic);
        switching
    }

    fn start(&mut self, now: Instant, udp: bool) {
        let decided = self.engine.start(now, &self.first, udp);
        let Decision::Start(transport) = decided.decision.clone() else { return };
        self.actions.push_back(Action::Decided(decided));
        if transport.paths().len() > 1 {
            let unused = self.first.iter().filter(|report| !transport.paths().contains(&report.path));
            self.actions.extend(unused.map(|report| Action::Use(report.path, false)));
        }
        self.actions.push_back(Action::Connect(transport));
    }

    // ---- input

    /// A transport was connected (QUIC with 0-RTT: requests can be sent), or could not be.
    pub fn handle_connected(&mut self, now: Instant, transport: &Transport, connected: bool) {
        if !self.began {
            return self.begin(now, transport, connected);
        }
        let moving = self.moving.take_if(|to| to == transport).is_some();
        match (connected, transport) {
            (true, _) if moving => self.actions.push_back(Action::Move(transport.clone())),
            (true, Transport::Quic(path)) => {
                self.udp = true;
                let before = self.ready.replace(*path).filter(|before| before != path);
                self.actions.extend(before.map(|before| Action::Drop(Transport::Quic(before))));
            }
            // The engine has decided otherwise in the meantime.
            (true, _) => self.actions.push_back(Action::Drop(transport.clone())),
            (false, _) => {
                if moving {
                    self.engine.set_back(now);
                }
                self.udp &= !matches!(transport, Transport::Quic(_));
            }
        }
    }

    /// The transport to begin with was connected or not. QUIC's failure means that UDP is blocked; the engine chooses again. Any
    /// other is followed by TCP, whose failure the driver reports.
    fn begin(&mut self, now: Instant, transport: &Transport, connected: bool) {
        match transport {
            _ if connected => {
                self.began = true;
                self.udp = matches!(transport, Transport::Quic(_));
                self.actions.push_back(Action::Move(transport.clone()));
                // A QUIC connection in advance shows whether UDP packets arrive, and provides session tickets. A move to its
                // path then needs no handshake; a move to another path sends requests with 0-RTT.
                let several = self.quic && transport.paths().len() > 1;
                if let Some(path) = self.engine.used().next().filter(|_| several) {
                    self.actions.push_back(Action::Connect(Transport::Quic(path)));
                }
            }
            Transport::Quic(_) => self.start(now, false),
            Transport::Tcp => {}
            _ => {
                self.engine.set_tcp();
                self.actions.push_back(Action::Connect(Transport::Tcp));
            }
        }
    }

    /// A connection that was kept ready has ended.
    pub fn handle_ended(&mut self, transport: &Transport) {
        self.ready.take_if(|path| *transport == Transport::Quic(*path));
    }

    /// The controller has measured the paths. Whether QUIC can be used is known here.
    pub fn handle_reports(&mut self, now: Instant, paths: &[PathReport], conditions: Conditions) {
        for decided in self.engine.update(now, paths, Conditions { udp: self.udp, ..conditions }) {
            let decision = decided.decision.clone();
            self.actions.push_back(Action::Decided(decided));
            match decision {
                Decision::Remove(path) => self.actions.push_back(Action::Use(path, false)),
                Decision::Add(path) => self.actions.push_back(Action::Use(path, true)),
                Decision::Replace { out, with } => {
                    self.actions.extend([Action::Use(with, true), Action::Use(out, false)]);
                }
                Decision::Move(transport) => self.move_to(transport, paths),
                Decision::Start(_) => {}
            }
        }
    }

    fn move_to(&mut self, transport: Transport, paths: &[PathReport]) {
        if transport.paths().len() > 1 {
            let used =
                |report: &PathReport| Action::Use(report.path, transport.paths().contains(&report.path));
            self.actions.extend(paths.iter().map(used));
        }
        let ready = self.ready.take_if(|path| transport == Transport::Quic(*path)).is_some();
        self.actions.push_back(match ready {
            true => Action::Move(transport),
            false => {
                self.moving = Some(transport.clone());
                Action::Connect(transport)
            }
        });
    }

    /// Requests have moved. `shaking`: the handshake goes on; then [`Self::handle_settled`] or a time-out follows.
    pub fn handle_moved(&mut self, now: Instant, shaking: bool) {
        self.settling = shaking.then_some(now + HANDSHAKE);
        if !shaking {
            self.actions.push_back(Action::Settle);
        }
    }

    /// The handshake has ended, well or not.
    pub fn handle_settled(&mut self, now: Instant, up: bool) {
        match self.settling.take() {
            Some(_) if up => self.actions.push_back(Action::Settle),
            Some(_) => {
                self.udp = false;
                self.engine.set_back(now);
                self.actions.push_back(Action::Back);
            }
            None => {}
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.settling.is_some_and(|until| until <= now) {
            self.handle_settled(now, false);
        }
    }

    // ---- output

    /// Whether the engine uses a path.
    #[must_use]
    pub fn uses(&self, path: PathId) -> bool {
        self.engine.used().any(|used| used == path)
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.settling
    }

    /// The next instruction, until `None`.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

#[cfg(test)]
mod tests;
