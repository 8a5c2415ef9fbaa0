//! The application's view of a session: open and accept streams, watch, close.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use rustls::ClientConfig;
use tokio::sync::broadcast;
use tributary_proto::handshakes::Failure;
use tributary_proto::{OpenStreamError, Session as Machine, Side, UnknownPath};
use tributary_types::{Bitrate, Instant, PathId, StreamId};

use crate::clients::Client;
use crate::config::{ConnectConfig, Local, PathConfig, SettingsError};
use crate::connector::Connector;
use crate::driver::Driver;
use crate::error::{ConnectError, SessionClosed};
use crate::events::SessionEvent;
use crate::flow::{Flow, FlowConfig};
use crate::follow::{Follow, MAX_PATHS, Wanted, Watcher};
use crate::handshake::{HandshakeError, Tls, random};
use crate::hello::SessionTag;
use crate::shared::{Command, Handle, Shared, State};
use crate::stats::Stats;
use crate::stream::Stream;
use crate::tls;

/// Close code of a session whose server accepted no connection.
const CODE_REFUSED: u32 = 3;
/// Code of the error when a session has opened its last stream.
const CODE_USED_UP: u32 = 6;
/// A session with fewer streams left than this, or than half of those it may open, needs a successor.
const SPARE_STREAMS: u32 = 1024;

/// A multipath session. Clones are handles to the same session; when the last handle and the last
/// [`Stream`] are dropped, the session ends in order.
#[derive(Clone)]
pub struct Session {
    pub(crate) handle: Handle,
}

/// Connects a session over the given paths and returns as soon as the first of them is up.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tokio::io::AsyncWriteExt;
/// use tributary_net::{Common, ConnectConfig, Key, connect};
///
/// let key = Key::load("tributary.key".as_ref())?;
/// let paths = vec!["192.168.1.7=203.0.113.5:7000".parse()?, "wlan1=203.0.113.5:7000".parse()?];
/// let session = connect(ConnectConfig { paths, common: Common::new(key), timeout: Duration::from_secs(10) }).await?;
/// let mut stream = session.open_stream(0).await?;
/// stream.write_all(b"over all radios at once").await?;
/// stream.shutdown().await?;
/// session.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// Cancellation: dropping the future ends the attempt.
///
/// # Errors
/// [`ConnectError`]; a wrong key or a wrong setting is reported at once, an unreachable server when
/// `timeout` has passed.
pub async fn connect(config: ConnectConfig) -> Result<Session, ConnectError> {
    let (session, attempt) = begin(config, None)?;
    let up = attempt.up().await;
    session.or_abort(up)
}

/// As [`connect`], but one round trip sooner: it returns as soon as the first hello has been sent, and data written
/// to streams follows the hello at once. Nothing is sent before the server has proved in its part of the TLS
/// handshake that it has the key. The server reads the data only after the hello has proved the same of the client.
///
/// If the server refuses, the session ends later with the reason. If a connection breaks before the reply arrives,
/// the written data is sent again in another session, although the server may have read it already in the first one.
/// So use this only for requests that may be carried out twice; for others use [`connect`].
///
/// Cancellation: dropping the future ends the attempt.
///
/// # Errors
/// As [`connect`], except for errors that only the server's reply shows.
pub async fn connect_early(config: ConnectConfig) -> Result<Session, ConnectError> {
    let (session, attempt) = begin(config, None)?;
    let out = attempt.until(|state| state.introduced || state.opened > 0).await;
    let session = session.or_abort(out)?;
    // Holds no handle: when the application drops the session, the session and this task end.
    tokio::spawn(async move {
        let Err(error) = attempt.until(|state| state.opened > 0).await else { return };
        attempt.shared.change(|state, _| state.session.abort(CODE_REFUSED, &error.to_string()));
    });
    Ok(session)
}

/// A session that is being connected.
pub(crate) struct Attempt {
    shared: Arc<Shared>,
    deadline: tokio::time::Instant,
}

impl Attempt {
    /// Waits until a path is up. Fails if every path fails for a permanent reason, or when the time is over.
    pub(crate) async fn up(&self) -> Result<(), ConnectError> {
        self.until(|state| state.opened > 0).await
    }

    /// Waits until every path has failed once. Returns the errors.
    pub(crate) async fn all_failed(&self) -> String {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if state.paths.is_empty() {
                return Poll::Ready(HandshakeError::NoInterface.to_string());
            }
            if state.all_failed() {
                let said: Vec<_> = state.failures.values().map(ToString::to_string).collect();
                return Poll::Ready(said.join("; "));
            }
            state.wait(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// As [`Session::hurry`].
    pub(crate) fn hurry(&self, hurry: bool) {
        let _ = self.shared.commands.send(Command::Hurry(hurry));
    }

    /// Waits until `so` is true. Fails if every path fails for a permanent reason, or when the time is over.
    async fn until(&self, so: impl Fn(&State) -> bool) -> Result<(), ConnectError> {
        let waiting = poll_fn(|cx| {
            let mut state = self.shared.lock();
            if let Some(closed) = &state.closed {
                return Poll::Ready(Err(closed.clone().into()));
            }
            if so(&state) {
                return Poll::Ready(Ok(()));
            }
            if state.all_failed()
                && state.failures.values().all(HandshakeError::is_fatal)
                && let Some((_, error)) = state.failures.pop_first()
            {
                return Poll::Ready(Err(error.into()));
            }
            state.wait(cx.waker());
            Poll::Pending
        });
        match tokio::time::timeout_at(self.deadline, waiting).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let mut state = self.shared.lock();
                let nothing = if state.paths.is_empty() {
                    HandshakeError::NoInterface
                } else {
                    HandshakeError::Timeout
                };
                Err(state.failures.pop_first().map_or(nothing, |(_, error)| error).into())
            }
        }
    }
}

/// Checks the settings of a session without connecting.
pub(crate) fn check(config: &ConnectConfig) -> Result<(), ConnectError> {
    check_paths(&config.paths)?;
    Ok(config.common.check()?)
}

/// Checks the paths of a session.
pub(crate) fn check_paths(paths: &[PathConfig]) -> Result<(), ConnectError> {
    if paths.is_empty() || paths.len() > MAX_PATHS {
        return Err(ConnectError::Paths(paths.len()));
    }
    match (1..paths.len()).find(|at| paths[..*at].iter().any(|other| other.same_radio(&paths[*at]))) {
        Some(at) => Err(ConnectError::SameRadio(paths[at].to_string())),
        None => Ok(()),
    }
}

/// Begins to connect. The session's paths follow `wanted`, if it is given, for as long as the session lasts.
pub(crate) fn begin(
    config: ConnectConfig,
    wanted: Option<Wanted>,
) -> Result<(Session, Attempt), ConnectError> {
    check(&config)?;
    let tls = match config.common.plaintext {
        true => Tls::<ClientConfig>::Off,
        false => Tls::On(tls::client_config(&config.common.keys)?),
    };
    let (paths, watcher) = current_paths(&config.paths, wanted.is_some())?;
    let seed = u64::from_le_bytes(random()?);
    let machine = Machine::new(Side::Client, config.common.machine(), seed, Instant::ZERO);
    let machine = machine.map_err(SettingsError::from)?;
    let (shared, commands) = Shared::new(machine, true);
    let session = Session { handle: Handle::new(shared.clone()) };
    let mark = config.common.siblings.mark(config.common.congestion.as_deref());
    shared.change(|state, now| {
        for (path, config) in &paths {
            state.add_path(now, *path, config);
        }
    });
    let connector = Connector::new(paths, config.common, tls, shared.commands.clone());
    Driver::spawn(shared.clone(), commands, Some(connector), mark, None);
    if let Some(watcher) = watcher {
        tokio::spawn(watcher.run(shared.clone(), wanted));
    }
    let deadline = tokio::time::Instant::now() + config.timeout;
    Ok((session, Attempt { shared, deadline }))
}

/// Paths with their numbers.
type Numbered = Vec<(PathId, PathConfig)>;

/// The present paths, and a watcher of the interfaces if any path depends on one, or if they `may_change`.
fn current_paths(
    wanted: &[PathConfig],
    may_change: bool,
) -> Result<(Numbered, Option<Watcher>), ConnectError> {
    let fixed = || (0..).map(PathId).zip(wanted.iter().cloned()).collect();
    if !may_change && !Follow::is_needed(wanted) {
        return Ok((fixed(), None));
    }
    match Watcher::begin(wanted) {
        Ok((paths, watcher)) => Ok((paths, Some(watcher))),
        Err(error) if wanted.iter().any(|path| path.local == Local::Auto) => {
            Err(ConnectError::Interfaces(error))
        }
        Err(error) => {
            tracing::warn!("interfaces are not followed: {error}; a path that is down is tried repeatedly");
            Ok((fixed(), None))
        }
    }
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { handle: Handle::new(shared) }
    }

    pub(crate) fn or_abort(self, outcome: Result<(), ConnectError>) -> Result<Self, ConnectError> {
        if outcome.is_err() {
            self.abort(0, "the session did not come up");
        }
        outcome.map(|()| self)
    }

    /// Opens a stream in both directions; waits while the peer allows no more at once. Higher `priority`
    /// goes first; zero is bulk.
    ///
    /// Cancellation: dropping the future opens nothing.
    ///
    /// # Errors
    /// [`SessionClosed`]; with code 6 the session has opened as many streams as it may in its life, and those that are open
    /// go on.
    pub async fn open_stream(&self, priority: u8) -> Result<Stream, SessionClosed> {
        let id = self.opened(|machine, _| machine.open_stream(priority)).await?;
        Ok(Stream::new(self.handle.clone(), id))
    }

    /// Opens a flow of datagrams in both directions; waits while the peer allows no more streams and flows at once. The peer sees it with
    /// the first datagram. Cancellation: dropping the future opens nothing.
    ///
    /// # Errors
    /// As [`Self::open_stream`].
    pub async fn open_flow(&self, config: FlowConfig) -> Result<Flow, SessionClosed> {
        let id = self.opened(|machine, now| machine.open_flow(now, config)).await?;
        Ok(Flow::new(self.handle.clone(), id))
    }

    /// As [`Self::open_flow`], but `None` where that would wait, or when the session has ended.
    pub(crate) fn try_open_flow(&self, config: FlowConfig) -> Option<Flow> {
        let id = self.handle.0.change(|state, now| state.session.open_flow(now, config)).ok()?;
        Some(Flow::new(self.handle.clone(), id))
    }

    /// Opens a stream or flow; waits while the peer allows no more at once.
    async fn opened(
        &self,
        open: impl Fn(&mut Machine, Instant) -> Result<StreamId, OpenStreamError>,
    ) -> Result<StreamId, SessionClosed> {
        poll_fn(|cx| {
            let opened = self.handle.0.change(|state, now| {
                let result = open(&mut state.session, now);
                if let Err(OpenStreamError::TooMany(_)) = result {
                    state.wait(cx.waker());
                }
                result
            });
            match opened {
                Ok(id) => Poll::Ready(Ok(id)),
                Err(OpenStreamError::TooMany(_)) => Poll::Pending,
                Err(OpenStreamError::Closed) => Poll::Ready(Err(self.reason())),
                Err(error @ OpenStreamError::UsedUp) => Poll::Ready(Err(SessionClosed {
                    code: CODE_USED_UP,
                    reason: error.to_string(),
                    by_peer: false,
                })),
            }
        })
        .await
    }

    /// The next stream that the peer opened.
    ///
    /// Cancellation: dropping the future loses no stream.
    ///
    /// # Errors
    /// [`SessionClosed`] says why there will be none.
    pub async fn accept_stream(&self) -> Result<Stream, SessionClosed> {
        let id = self.accepted(|state| state.incoming.pop_front()).await?;
        Ok(Stream::new(self.handle.clone(), id))
    }

    /// The next flow of datagrams that the peer opened.
    ///
    /// Cancellation: dropping the future loses no flow.
    ///
    /// # Errors
    /// [`SessionClosed`] says why there will be none.
    pub async fn accept_flow(&self) -> Result<Flow, SessionClosed> {
        let id = self.accepted(|state| state.incoming_flows.pop_front()).await?;
        Ok(Flow::new(self.handle.clone(), id))
    }

    /// Waits for the next of what the peer opened, or the session's end.
    async fn accepted(
        &self,
        next: impl Fn(&mut State) -> Option<StreamId>,
    ) -> Result<StreamId, SessionClosed> {
        poll_fn(|cx| {
            let mut state = self.handle.0.lock();
            if let Some(id) = next(&mut state) {
                return Poll::Ready(Ok(id));
            }
            if let Some(closed) = &state.closed {
                return Poll::Ready(Err(closed.clone()));
            }
            state.wait(cx.waker());
            Poll::Pending
        })
        .await
    }

    /// Ends the session in order: everything written is delivered first. A stream that was not finished is
    /// incomplete, and its reader gets an error.
    ///
    /// Cancellation: when the future is dropped, the session goes on closing in the background.
    ///
    /// # Errors
    /// [`SessionClosed`] when it ended in another way.
    pub async fn close(&self) -> Result<(), SessionClosed> {
        self.handle.0.change(|state, now| state.session.close(now, 0, "done"));
        let closed = self.closed().await;
        if closed.code == 0 { Ok(()) } else { Err(closed) }
    }

    /// Ends the session at once; data in flight is lost.
    pub fn abort(&self, code: u32, reason: &str) {
        self.handle.0.change(|state, _| state.session.abort(code, reason));
    }

    /// Maximum number of streams that the peer lets this side have open.
    pub(crate) fn most_streams(&self) -> u32 {
        self.handle.0.lock().session.most_streams()
    }

    /// Waits for the end of the session. Cancellation: safe, it only watches.
    pub async fn closed(&self) -> SessionClosed {
        poll_fn(|cx| {
            let mut state = self.handle.0.lock();
            match &state.closed {
                Some(closed) => Poll::Ready(closed.clone()),
                None => {
                    state.wait(cx.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// How the session ended; `None` while it has not.
    #[must_use]
    pub fn close_reason(&self) -> Option<SessionClosed> {
        self.handle.0.lock().closed.clone()
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.handle.0.lock().session.is_closed()
    }

    /// Whether the session has a subflow at the moment.
    pub(crate) fn has_subflow(&self) -> bool {
        self.handle.0.lock().session.subflow_stats().next().is_some()
    }

    /// Handles what is due. A session that heard nothing from the peer for too long, for example during a suspend of
    /// this machine, ends.
    pub(crate) fn catch_up(&self) {
        self.handle.0.change(|state, now| {
            if state.session.poll_timeout().is_some_and(|at| at <= now) {
                state.session.handle_timeout(now);
            }
        });
    }

    /// Waits until the session has a subflow. Never returns if the session ends without one.
    pub(crate) async fn until_subflow(&self) {
        self.wait_until(|state| state.session.subflow_stats().next().is_some()).await;
    }

    /// Waits until the session has no subflow and something has refused a connection to the server: the server may have
    /// been started again, or a device on the path refuses connections. This proves nothing.
    pub(crate) async fn refused(&self) {
        self.wait_until(|state| {
            let refused = |error: &HandshakeError| error.failure() == Failure::NobodyListens;
            state.session.subflow_stats().next().is_none() && state.failures.values().any(refused)
        })
        .await;
    }

    /// Streams that this side can still open in the life of the session.
    pub(crate) fn streams_left(&self) -> u32 {
        self.handle.0.lock().session.streams_left()
    }

    /// Waits until the session can open only a few streams more.
    pub(crate) async fn used_up(&self, of: u32) {
        self.wait_until(|state| state.session.streams_left() < SPARE_STREAMS.min(of.div_ceil(2))).await;
    }

    /// Waits until the server has refused a stream because it is ending.
    pub(crate) async fn leaving(&self) {
        self.wait_until(|state| state.leaving).await;
    }

    async fn wait_until(&self, so: impl Fn(&State) -> bool) {
        poll_fn(|cx| {
            let mut state = self.handle.0.lock();
            if so(&state) {
                return Poll::Ready(());
            }
            state.wait(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Client: whether an application waits for a subflow. While one does, every path is tried at once and without
    /// back-off.
    pub(crate) fn hurry(&self, hurry: bool) {
        let _ = self.handle.0.commands.send(Command::Hurry(hurry));
    }

    pub(crate) fn reason(&self) -> SessionClosed {
        self.close_reason().unwrap_or(SessionClosed { code: 0, reason: "closing".to_owned(), by_peer: false })
    }

    /// Client: adds a path while the session runs. Its interface is not followed, unlike those of the configured
    /// paths. Configured paths take identifiers from zero upwards, so choose a high one here.
    pub fn add_path(&self, path: PathId, config: PathConfig) {
        let _ = self.handle.0.commands.send(Command::AddPath(path, config));
    }

    /// Removes a path: its subflow is closed, and its data is sent on the other paths. The server is told if
    /// another path is up.
    pub fn remove_path(&self, path: PathId) {
        self.handle.0.change(|state, now| {
            state.paths.leave(path, "the application removed it".to_owned());
            state.session.remove_path(now, path);
        });
    }

    /// Limits what this side sends over a path, and what the server sends if it is of a version that can; `None`: no limit. Takes effect
    /// at once, without a new connection. Configured paths have the cap of their [`PathConfig`]; this changes it for this session.
    ///
    /// # Errors
    /// [`UnknownPath`].
    pub fn set_cap(&self, path: PathId, cap: Option<Bitrate>) -> Result<(), UnknownPath> {
        self.handle.0.change(|state, now| {
            if !state.session.has_path(path) {
                return Err(UnknownPath(path));
            }
            state.set_cap(now, path, cap);
            Ok(())
        })
    }

    /// The session's events. A client's first subscriber gets them from the beginning, other subscribers from this
    /// call on. With the configuration's `telemetry` they include decisions about segments. A subscriber that is
    /// too slow loses the oldest events.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<SessionEvent> {
        let shared = &self.handle.0;
        let early = shared.early_events.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        early.unwrap_or_else(|| shared.subscribe())
    }

    /// The session's name in logs, the same at both ends; `None` until the server has answered.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.handle.0.lock().name()
    }

    /// The session's tag, once the server has answered.
    pub(crate) fn tag(&self) -> Option<SessionTag> {
        self.handle.0.lock().tag
    }

    /// Server: the client, as the list had it when the session was opened; `None` when all clients have the same key.
    #[must_use]
    pub fn client(&self) -> Option<Arc<Client>> {
        self.handle.0.lock().client.clone()
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut state = self.handle.0.lock();
        state.count_paths();
        Stats {
            paths: state.paths.iter().cloned().collect(),
            session: state.session.stats(),
            subflows: state.session.subflow_stats().collect(),
            kernel: state.subflows.clone(),
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
