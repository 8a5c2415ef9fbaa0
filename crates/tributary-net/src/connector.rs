//! Client: carries out what `Handshakes` decides about connections: dials, sends hellos, hands subflows to the
//! driver.
//!
//! Each step of an attempt is a task that ends with a [`Command`] to the driver. Not here: which attempt opens the
//! session, when an attempt is abandoned, and when a path is tried again.

mod direct;
mod quic;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tributary_proto::handshakes::{Action, Failure, Handshakes, Introduction, Progress, SMALL_SEGMENT};
use tributary_proto::{Event, Session};
use tributary_types::{Instant, PathId, SubflowId};

use crate::config::{Common, PathConfig};
use crate::dial::{Reached, dial};
use crate::handshake::{
    Channel, Credentials, Established, HandshakeError, Tls, join, open_session, protect, random,
};
use crate::shared::Command;
use direct::Direct;
use quic::{Blocked, Dialled};

/// After this time without an answer from the server's address, a message is logged.
const QUIET: Duration = Duration::from_millis(700);
/// Longest wait before a path that was led to another instance is dialled again.
///
/// Random, because a load balancer that takes turns leads clients that ask in step to the same wrong instance each time: three
/// clients that ask once a second, of three instances.
const OUT_OF_STEP: Duration = Duration::from_millis(255);

/// An attempt's connection, or the task that works on it.
enum Attempt {
    Task(AbortHandle),
    /// Waits for its hello.
    Ready(Box<Channel>),
    /// Its hello has been sent.
    Introduced(Box<Established>),
}

/// What the driver must do with its subflows.
pub(crate) enum Outcome {
    /// Add this subflow to the session.
    Admit(Box<Established>),
    /// Remove this subflow from the session.
    Drop(SubflowId, bool),
    /// An attempt on this path failed.
    Failed(PathId, HandshakeError),
}

pub(crate) struct Connector {
    paths: BTreeMap<PathId, PathConfig>,
    common: Arc<Common>,
    tls: Tls<ClientConfig>,
    credentials: Option<Credentials>,
    /// Attempts at the instance's own address.
    direct: Direct,
    /// Paths on which QUIC does not get through.
    without_quic: Blocked,
    pub(crate) handshakes: Handshakes,
    /// Paths whose last attempt was led to another instance of the server.
    astray: BTreeSet<PathId>,
    /// Paths that are connected with small segments.
    small: BTreeSet<PathId>,
    attempts: HashMap<SubflowId, (PathId, Attempt)>,
    /// Error of the last failed attempt.
    error: Option<HandshakeError>,
    commands: mpsc::UnboundedSender<Command>,
}

impl Connector {
    pub(crate) fn new(
        paths: Vec<(PathId, PathConfig)>,
        common: Common,
        tls: Tls<ClientConfig>,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Self {
            paths: paths.into_iter().collect(),
            common: Arc::new(common),
            tls,
            credentials: None,
            direct: Direct::default(),
            without_quic: Blocked::default(),
            handshakes: Handshakes::new(true),
            astray: BTreeSet::new(),
            small: BTreeSet::new(),
            attempts: HashMap::new(),
            error: None,
            commands,
        }
    }

    pub(crate) fn add_path(&mut self, path: PathId, config: PathConfig) {
        self.paths.insert(path, config);
    }

    // ---- input

    /// An event of the session, which [`Self::handshakes`] knows already.
    pub(crate) fn event(&mut self, event: &Event) {
        match *event {
            Event::SmallSegments { path, small: true } => drop(self.small.insert(path)),
            Event::SmallSegments { path, small: false } => drop(self.small.remove(&path)),
            Event::PathRemoved { path } => {
                self.small.remove(&path);
                self.astray.remove(&path);
                self.direct.forget(path);
                self.without_quic.forget(path);
                self.paths.remove(&path);
            }
            _ => {}
        }
    }

    pub(crate) fn connected(
        &mut self,
        now: Instant,
        session: &mut Session,
        (id, reached): (SubflowId, Reached),
    ) {
        if let Some(path) = self.path(id) {
            match reached {
                Reached::Own => self.direct.connected(id),
                Reached::Path { in_vain: true } => self.direct.fail(now, path),
                Reached::Path { in_vain: false } => {}
            }
        }
        self.handshakes.handle(now, session, id, Progress::Connected);
    }

    /// The path of an attempt.
    pub(crate) fn path(&self, id: SubflowId) -> Option<PathId> {
        Some(self.attempts.get(&id)?.0)
    }

    /// TCP was faster than QUIC, although that had a head start.
    pub(crate) fn without_quic(&mut self, now: Instant, path: PathId) {
        let Some(name) = self.paths.get(&path).map(PathConfig::name) else { return };
        tracing::info!(
            "path {name}: QUIC does not get through (is UDP blocked, or the server without --quic?); TLS on TCP is used"
        );
        self.without_quic.note(now, path);
    }

    pub(crate) fn hurry(&mut self, now: Instant, session: &mut Session, hurry: bool) {
        self.handshakes.set_hurry(now, session, hurry);
    }

    pub(crate) fn ready(
        &mut self,
        now: Instant,
        session: &mut Session,
        id: SubflowId,
        channel: Box<Channel>,
    ) {
        if let Some((_, attempt)) = self.attempts.get_mut(&id) {
            *attempt = Attempt::Ready(channel);
            self.handshakes.handle(now, session, id, Progress::Ready);
        }
    }

    /// A hello has been sent; if it joins a session, its reply has arrived too.
    pub(crate) fn introduced(&mut self, now: Instant, session: &mut Session, established: Box<Established>) {
        let id = established.subflow;
        let progress = match established.reply {
            Some(_) => Progress::Introduced,
            None => Progress::Accepted,
        };
        if let Some((_, attempt)) = self.attempts.get_mut(&id) {
            *attempt = Attempt::Introduced(established);
            self.handshakes.handle(now, session, id, progress);
        }
    }

    /// The server has accepted the hello that opens the session.
    pub(crate) fn accepted(
        &mut self,
        now: Instant,
        session: &mut Session,
        id: SubflowId,
        credentials: Credentials,
    ) {
        if let Some(address) = &credentials.address {
            tracing::debug!(%address, "further subflows go to the instance that has the session");
        }
        self.direct.set(credentials.address.as_ref());
        if credentials.obeys_caps {
            session.handle_peer_obeys_caps();
        }
        self.credentials = Some(credentials);
        self.handshakes.handle(now, session, id, Progress::Accepted);
    }

    /// An attempt or a subflow ended.
    pub(crate) fn failed(
        &mut self,
        now: Instant,
        session: &mut Session,
        id: SubflowId,
        error: HandshakeError,
    ) {
        let failure = error.failure();
        if let Some(path) = self.path(id) {
            // The server's own answers, but that it is another instance, say that the address is right.
            let is_right = matches!(failure, Failure::TurnedDown | Failure::UnknownSession);
            self.direct.ended(now, (id, path), is_right);
            match failure {
                Failure::OtherInstance => drop(self.astray.insert(path)),
                _ => drop(self.astray.remove(&path)),
            }
        }
        self.error = Some(error);
        self.handshakes.handle(now, session, id, Progress::Failed(failure));
    }

    // ---- output

    /// Carries out a decision; returns what is left of it for the driver.
    pub(crate) fn carry_out(&mut self, now: Instant, action: Action) -> Option<Outcome> {
        match action {
            Action::Dial { path, subflow } => self.dial(now, path, subflow),
            Action::Introduce { subflow, opens } => self.introduce(subflow, opens),
            Action::Admit { subflow, .. } => {
                if let Some((path, Attempt::Introduced(established))) = self.attempts.remove(&subflow) {
                    self.direct.ended(now, (subflow, path), true);
                    return Some(Outcome::Admit(established));
                }
            }
            Action::Failed { path, failure } => {
                let said = self.error.take().filter(|_| failure != Failure::TimedOut);
                return Some(Outcome::Failed(path, said.unwrap_or(HandshakeError::Timeout)));
            }
            Action::Drop { subflow, abort } => {
                if let Some(path) = self.path(subflow) {
                    self.direct.ended(now, (subflow, path), false);
                }
                if !self.drop_attempt(subflow, abort) {
                    return Some(Outcome::Drop(subflow, abort));
                }
            }
        }
        None
    }

    fn dial(&mut self, now: Instant, path: PathId, id: SubflowId) {
        let Some(config) = self.paths.get(&path).cloned() else { return };
        let (common, tls, commands) = (self.common.clone(), self.tls.clone(), self.commands.clone());
        let joins = self.credentials.as_ref().map(|known| known.tag);
        let own = self.direct.address(now, path).cloned();
        let segment = self.small.contains(&path).then_some(SMALL_SEGMENT);
        let tries_quic = self.common.quic && self.without_quic.may_try(now, path);
        let wait = if self.astray.contains(&path) { out_of_step() } else { Duration::ZERO };
        let task = tokio::spawn(async move {
            let ready = async {
                tokio::time::sleep(wait).await;
                let over_tcp = async {
                    let dialling = dial(own.as_ref(), &config, (&common, segment));
                    let mut dialling = std::pin::pin!(dialling);
                    let (stream, reached) = match tokio::time::timeout(QUIET, &mut dialling).await {
                        Ok(outcome) => outcome?,
                        Err(_) => {
                            let _ = commands.send(Command::Quiet(id));
                            dialling.await?
                        }
                    };
                    let _ = commands.send(Command::Connected(id, reached));
                    protect(stream, &tls, &common, joins).await
                };
                if !tries_quic {
                    return over_tcp.await;
                }
                let over_quic = dial_quic(own.as_ref(), &config, &common);
                match quic::first(over_quic, over_tcp).await {
                    Dialled::Quic(channel, reached) => {
                        let _ = commands.send(Command::Connected(id, reached));
                        Ok(channel)
                    }
                    Dialled::Tcp(outcome) => {
                        if outcome.is_ok() {
                            let _ = commands.send(Command::NoQuic(path));
                        }
                        outcome
                    }
                }
            };
            let ready = ready.await;
            let _ = commands.send(match ready {
                Ok(channel) => Command::Ready(id, Box::new(channel)),
                Err(error) => Command::Failed(id, error),
            });
        });
        self.attempts.insert(id, (path, Attempt::Task(task.abort_handle())));
    }

    fn introduce(&mut self, id: SubflowId, opens: bool) {
        let Some((path, attempt)) = self.attempts.remove(&id) else { return };
        let Attempt::Ready(mut channel) = attempt else { return };
        let commands = self.commands.clone();
        let known = self.credentials.clone().filter(|_| !opens);
        let metered = self.paths.get(&path).is_some_and(|config| config.metered);
        let introduction = Introduction { path, subflow: id, metered };
        let task = tokio::spawn(async move {
            let reply = match known {
                Some(known) => join(&mut channel, &known, introduction).await.map(|()| None),
                None => open_session(&mut channel, introduction).await.map(Some),
            };
            let _ = commands.send(match reply {
                Ok(reply) => {
                    Command::Introduced(Box::new(Established { path, subflow: id, channel: *channel, reply }))
                }
                Err(error) => Command::Failed(id, error),
            });
        });
        self.attempts.insert(id, (path, Attempt::Task(task.abort_handle())));
    }

    /// Gives an attempt of a script its connection.
    #[cfg(feature = "script")]
    pub(crate) fn hold(&mut self, established: Box<Established>) {
        self.attempts.insert(established.subflow, (established.path, Attempt::Introduced(established)));
    }

    /// Drops the connection of an attempt; returns whether there was one.
    fn drop_attempt(&mut self, id: SubflowId, abort: bool) -> bool {
        let Some((_, attempt)) = self.attempts.remove(&id) else { return false };
        let mut channel = match attempt {
            Attempt::Task(task) => {
                task.abort();
                return true;
            }
            Attempt::Ready(channel) => channel,
            Attempt::Introduced(established) => Box::new(established.channel),
        };
        if abort {
            channel.stream.abort();
        }
        true
    }
}

#[cfg(feature = "quic")]
use crate::quic::dial as dial_quic;

/// Without the feature, [`Common::quic`] is refused before.
#[cfg(not(feature = "quic"))]
async fn dial_quic(
    _: Option<&crate::config::ServerAddress>,
    _: &PathConfig,
    _: &Arc<Common>,
) -> Result<(Channel, Reached), HandshakeError> {
    Err(HandshakeError::Timeout)
}

/// A random wait.
fn out_of_step() -> Duration {
    random().map_or(Duration::ZERO, |[share]| OUT_OF_STEP * u32::from(share) / u32::from(u8::MAX))
}

impl Drop for Connector {
    fn drop(&mut self) {
        for (_, attempt) in self.attempts.values() {
            if let Attempt::Task(task) = attempt {
                task.abort();
            }
        }
    }
}
