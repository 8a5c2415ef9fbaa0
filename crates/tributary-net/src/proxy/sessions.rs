//! The client side's session: one attempt at a time for all applications, repeated without end, and a limit on the
//! connections that wait for it.
//!
//! A task connects, watches the session, and connects again when it has ended. Local connections wait together for
//! the outcome. Their number and their time are limited; the others are refused with a reset. The same limits apply
//! to connections that wait for a stream because the session already has as many as the server allows.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::drain;
use super::priority::Priority;
use super::watch::Watch;
use crate::config::{ConnectConfig, PathConfig};
use crate::error::{ConnectError, SessionClosed};
use crate::event_log::EventLog;
use crate::follow::Wanted;
use crate::places::{Full, Held, Shares, Source};
use crate::rate_limited::RateLimited;
use crate::session::{Session, begin};
use crate::sockopt;
use crate::stream::Stream;

/// Limit on the number of local connections that wait for a session or a stream.
const MOST_WAITING: usize = 256;
/// Minimum time that a local connection waits: its arrival makes the session try all paths at once.
const GRACE: Duration = Duration::from_millis(500);
/// Interval at which a waiting application's connection is checked: the application may have closed it.
const LOOK: Duration = Duration::from_millis(100);
/// Shortest and longest wait before connecting again when no path came up and no application waits.
const AGAIN: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// `TCP_INFO` states: closed, and the peer has sent its end.
const CLOSED: u8 = 7;
const CLOSE_WAIT: u8 = 8;

/// Why a local connection was refused.
#[derive(Debug, Error)]
pub(super) enum Refused {
    #[error("no path to the server is up since {0:.0?}: {1}")]
    Down(Duration, String),
    #[error("no place to wait for a session: {0}")]
    Crowd(#[from] Full),
    #[error("the session has its limit of {0} connections; one of them must end first")]
    Full(u32),
    #[error("the application left")]
    Left,
}

/// Why there is no first session.
#[derive(Debug)]
pub(super) enum Missing {
    /// Trying again does not help.
    Fatal(Arc<ConnectError>),
    /// The errors of all paths.
    Down(String),
}

/// State of the session.
#[derive(Clone, Debug)]
enum Link {
    Up(Session),
    Down { since: Instant, was_up: bool, reason: Option<Arc<ConnectError>>, said: String },
}

/// The current session, replaced when it has ended.
#[derive(Debug)]
pub(super) struct Sessions {
    link: watch::Receiver<Link>,
    /// Number of connections that wait for a session or for a subflow of it. While there are any, the task retries
    /// without pauses.
    waiting: watch::Sender<usize>,
    places: Shares,
    patience: Duration,
    /// The configured paths of the session that is open, and of those to come.
    paths: Arc<watch::Sender<Vec<PathConfig>>>,
    task: AbortHandle,
    /// Somebody waits for the first session, and gives up if that fails for good.
    starting: Arc<AtomicBool>,
    shown: Watch,
    log: Option<EventLog>,
    /// Rate-limited log of connections that were refused here or reset by the server.
    refusals: RateLimited,
    pub resets: RateLimited,
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Counts a waiting connection as long as it lives.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Sessions {
    /// Starts the task that connects.
    pub(super) fn start(config: ConnectConfig, log: Option<EventLog>) -> Self {
        let down = Link::Down { since: Instant::now(), was_up: false, reason: None, said: String::new() };
        let (tell, link) = watch::channel(down);
        let (waiting, hurry) = watch::channel(0);
        let patience = config.timeout;
        let shown = Watch::new(None);
        let (paths, wanted) = watch::channel(config.paths.clone());
        let starting = Arc::new(AtomicBool::new(true));
        let keeper = Keeper {
            config,
            wanted,
            log: log.clone(),
            starting: starting.clone(),
            shown: shown.clone(),
            tell,
            hurry,
            was_up: false,
        };
        Self {
            link,
            waiting,
            places: Shares::new(MOST_WAITING),
            patience,
            paths: Arc::new(paths),
            task: tokio::spawn(keeper.run()).abort_handle(),
            starting,
            shown,
            log,
            refusals: RateLimited::default(),
            resets: RateLimited::default(),
        }
    }

    /// Waits for the first session, at most for the time `within`; then returns why there is none. Returns an error
    /// at once if every path fails for a permanent reason.
    pub(super) async fn first(&self, within: Duration) -> Result<(), Missing> {
        let mut link = self.link.clone();
        let done = link.wait_for(|link| match link {
            Link::Up(_) => true,
            Link::Down { reason, .. } => reason.as_deref().is_some_and(ConnectError::is_fatal),
        });
        let _ = tokio::time::timeout(within, done).await;
        let link = self.link.borrow();
        if let Link::Down { reason: Some(reason), .. } = &*link
            && reason.is_fatal()
        {
            return Err(Missing::Fatal(reason.clone()));
        }
        self.starting.store(false, Relaxed);
        match &*link {
            Link::Up(_) => Ok(()),
            Link::Down { said, .. } if said.is_empty() => Err(Missing::Down("no answer".to_owned())),
            Link::Down { said, .. } => Err(Missing::Down(said.clone())),
        }
    }

    /// The configured paths, which may be replaced.
    pub(super) fn paths(&self) -> Arc<watch::Sender<Vec<PathConfig>>> {
        self.paths.clone()
    }

    /// A handle to the session's status.
    pub(super) fn watch(&self) -> Watch {
        self.shown.clone()
    }

    /// The session that new connections use now.
    pub(super) fn current(&self) -> Option<Session> {
        match &*self.link.borrow() {
            Link::Up(session) if !session.is_closed() => Some(session.clone()),
            _ => None,
        }
    }

    /// The session for a new stream. A session without a subflow is not used, because it may be lost already. Either
    /// it gets a subflow soon, or it ends and a new one is opened. One that has opened its last stream gets a successor.
    fn usable(&self) -> Option<Session> {
        self.current().filter(|session| session.has_subflow() && session.streams_left() > 0)
    }

    /// The open session for a local connection, which waits while one is being connected. A question for a name has no
    /// connection.
    pub(super) async fn get<'a>(&self, tcp: impl Into<Option<&'a TcpStream>>) -> Result<Session, Refused> {
        let tcp = tcp.into();
        // After a suspend of this machine the server may have dropped the session; it would reset the connection.
        if let Some(session) = self.current() {
            session.catch_up();
        }
        if let Some(session) = self.usable() {
            return Ok(session);
        }
        let _place = self.place(tcp)?;
        let _waiting = Waiting::new(&self.waiting);
        let mut link = self.link.clone();
        let mut look = tokio::time::interval(LOOK);
        let began = Instant::now();
        loop {
            if let Some(session) = self.usable() {
                return Ok(session);
            }
            if let Some(refused) = self.refusal().filter(|_| began.elapsed() >= GRACE) {
                return Err(refused);
            }
            let has_subflow = async {
                match self.current() {
                    Some(session) if session.streams_left() > 0 => session.until_subflow().await,
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = link.changed() => {
                    if changed.is_err() {
                        return Err(Refused::Down(Duration::ZERO, "the proxy is ending".to_owned()));
                    }
                }
                () = has_subflow => {}
                _ = look.tick() => {
                    if tcp.is_some_and(has_left) {
                        return Err(Refused::Left);
                    }
                }
            }
        }
    }

    /// A place among the waiting connections. Other machines share them by address; this machine's own applications
    /// are one user's.
    fn place(&self, tcp: Option<&TcpStream>) -> Result<Held, Refused> {
        let other =
            tcp.and_then(|tcp| tcp.peer_addr().ok()).filter(|peer| !peer.ip().to_canonical().is_loopback());
        Ok(self.places.enter(other.map(Source::of).as_slice())?)
    }

    /// A stream for a local connection. If the chosen session ends before the stream is open, the next session is
    /// tried once.
    pub(super) async fn open<'a>(
        &self,
        tcp: impl Into<Option<&'a TcpStream>>,
        priority: Priority,
    ) -> Result<Stream, Refused> {
        let tcp = tcp.into();
        let mut ended = String::new();
        for _ in 0..2 {
            let session = self.get(tcp).await?;
            match self.open_on(&session, tcp, priority.level).await? {
                Ok(stream) => {
                    priority.apply_mode(&stream);
                    return Ok(stream);
                }
                Err(closed) => ended = closed.to_string(),
            }
        }
        Err(Refused::Down(Duration::ZERO, ended))
    }

    /// Opens a stream of this session. If the session has as many as the server allows, waits for one to end.
    async fn open_on(
        &self,
        session: &Session,
        tcp: Option<&TcpStream>,
        priority: u8,
    ) -> Result<Result<Stream, SessionClosed>, Refused> {
        let mut opening = std::pin::pin!(session.open_stream(priority));
        // Usually there is room at once, and no waiting place is needed.
        tokio::select! {
            biased;
            opened = &mut opening => return Ok(opened),
            () = std::future::ready(()) => {}
        }
        let _place = self.place(tcp)?;
        let mut look = tokio::time::interval(LOOK);
        let mut patience = std::pin::pin!(tokio::time::sleep(self.patience));
        loop {
            tokio::select! {
                opened = &mut opening => return Ok(opened),
                () = &mut patience => return Err(Refused::Full(session.most_streams())),
                _ = look.tick() => {
                    if tcp.is_some_and(has_left) {
                        return Err(Refused::Left);
                    }
                }
            }
        }
    }

    /// The reason to refuse waiting local connections: there has been no session for too long, or every path has
    /// failed and none was ever up.
    fn refusal(&self) -> Option<Refused> {
        let link = self.link.borrow();
        let Link::Down { since, was_up, said, .. } = &*link else { return None };
        let over = since.elapsed() >= self.patience || !was_up && !said.is_empty();
        let said = if said.is_empty() { "no answer" } else { said };
        over.then(|| Refused::Down(since.elapsed(), said.to_owned()))
    }

    /// Logs that a local connection was refused, at a limited rate.
    pub(super) fn tell(&self, refused: &Refused) {
        match refused {
            Refused::Left => tracing::debug!("an application left before it had a connection"),
            _ => self.refusals.tell(|more| tracing::warn!("application refused: {refused}{more}")),
        }
    }

    /// Closes the session by `deadline`. Returns the bytes that could not be delivered.
    pub(super) async fn close(&self, deadline: Instant) -> u64 {
        self.task.abort();
        let undelivered = match self.current() {
            Some(session) => drain::close(&session, deadline).await,
            None => 0,
        };
        if let Some(log) = &self.log {
            log.finish().await;
        }
        undelivered
    }
}

/// Whether the application reset its connection, or closed it without sending anything.
fn has_left(tcp: &TcpStream) -> bool {
    match sockopt::tcp_info(tcp.as_fd()).map_or(CLOSED, |info| info.state) {
        CLOSED => true,
        // Half-closed with an unread request: the application still waits for the answer.
        CLOSE_WAIT => {
            !socket2::SockRef::from(tcp).peek(&mut [std::mem::MaybeUninit::uninit()]).is_ok_and(|n| n > 0)
        }
        _ => false,
    }
}

/// The task that connects, watches the session, and connects again.
struct Keeper {
    config: ConnectConfig,
    wanted: Wanted,
    log: Option<EventLog>,
    starting: Arc<AtomicBool>,
    shown: Watch,
    tell: watch::Sender<Link>,
    hurry: watch::Receiver<usize>,
    was_up: bool,
}

/// Why the current session is not enough.
enum Doubt {
    /// It has ended.
    Closed(SessionClosed),
    /// Its connections were refused while an application waits. Perhaps the server was started again; but anybody on the
    /// path can refuse a connection, so the session goes on.
    Refused,
    /// It can open few streams more, or none: it gets a successor, for this reason.
    Spent(&'static str),
}

impl Keeper {
    async fn run(mut self) {
        let mut wait = AGAIN.0;
        let mut successor = None;
        loop {
            let connected = match successor.take() {
                Some(session) => Ok(session),
                None => self.connect(true).await,
            };
            match connected {
                Ok(session) => {
                    (self.was_up, wait) = (true, AGAIN.0);
                    self.tell.send_replace(Link::Up(session.clone()));
                    let began = Instant::now();
                    successor = self.keep(&session).await;
                    self.shown.end(&session);
                    // Pause before connecting again, in case the server ends every session at once.
                    if successor.is_none() && began.elapsed() < AGAIN.0 {
                        self.pause(AGAIN.0).await;
                    }
                }
                Err(error) => {
                    // The paths' log leaves out what no further attempt mends. A program that is starting ends with it; another one
                    // goes on, and says so.
                    let (said, is_fatal) = (error.to_string(), error.is_fatal());
                    self.down(Some(Arc::new(error)), said.clone());
                    self.pause(wait).await;
                    if is_fatal && !self.starting.load(Relaxed) {
                        tracing::warn!("{said}; it is tried again");
                    }
                    wait = (wait * 2).min(AGAIN.1);
                }
            }
        }
    }

    /// Waits until the session has ended, or has a successor, which is returned. A session with a successor goes on until
    /// its streams have ended.
    async fn keep(&mut self, session: &Session) -> Option<Session> {
        loop {
            match self.until_doubt(session).await {
                Doubt::Closed(closed) => {
                    tracing::warn!("{closed}; a new one is opened");
                    self.down(None, String::new());
                    return None;
                }
                Doubt::Refused => match self.replace(session).await {
                    Some(Ok(successor)) => return Some(successor),
                    Some(Err(error)) => {
                        tracing::debug!("no other session either: {error}");
                        self.pause(AGAIN.0).await;
                    }
                    None => drop(self.tell.send_replace(Link::Up(session.clone()))),
                },
                Doubt::Spent(why) => {
                    tracing::info!("another session is opened: {why}");
                    if let Some(successor) = self.succeed(session, why).await {
                        return Some(successor);
                    }
                }
            }
        }
    }

    /// Connects a session that replaces one which cannot open streams any more; `None` when that has ended, and, after a pause,
    /// when no other comes up.
    async fn succeed(&mut self, session: &Session, why: &str) -> Option<Session> {
        let connected = tokio::select! {
            connected = self.connect(false) => connected,
            _ = session.closed() => return None,
        };
        if let Err(error) = &connected {
            tracing::warn!("no other session comes up, although {why}: {error}");
            self.pause(AGAIN.1).await;
        }
        connected.ok()
    }

    /// Connects another session; `None` when this one has a subflow again before.
    async fn replace(&mut self, session: &Session) -> Option<Result<Session, ConnectError>> {
        let mut other = std::pin::pin!(self.connect(true));
        tokio::select! {
            other = &mut other => Some(other),
            () = session.until_subflow() => None,
        }
    }

    /// Connects a session. `tells`: publishes why there is none as soon as every path has failed once.
    async fn connect(&mut self, tells: bool) -> Result<Session, ConnectError> {
        let paths = self.wanted.borrow_and_update().clone();
        let config = ConnectConfig { paths, ..self.config.clone() };
        let (session, attempt) = begin(config, Some(self.wanted.clone()))?;
        self.shown.add(&session, None);
        let up = {
            let mut up = std::pin::pin!(attempt.up());
            let mut verdict = std::pin::pin!(attempt.all_failed());
            let mut open = tells;
            loop {
                attempt.hurry(*self.hurry.borrow_and_update() > 0);
                tokio::select! {
                    up = &mut up => break up,
                    said = &mut verdict, if open => {
                        open = false;
                        self.down(None, said);
                    }
                    changed = self.hurry.changed() => {
                        if changed.is_err() {
                            break up.await;
                        }
                    }
                }
            }
        };
        let session = session.or_abort(up)?;
        if let Some(log) = &self.log {
            log.follow(&session);
        }
        Ok(session)
    }

    /// Waits until the session is not enough. While applications wait because it has no subflow, its paths are tried
    /// without back-off.
    async fn until_doubt(&mut self, session: &Session) -> Doubt {
        let numbers = self.config.common.session.stream_numbers;
        let mut closed = std::pin::pin!(session.closed());
        let mut told = None;
        loop {
            let wanted = *self.hurry.borrow_and_update() > 0;
            if told != Some(wanted) {
                session.hurry(wanted);
                told = Some(wanted);
            }
            tokio::select! {
                biased;
                closed = &mut closed => return Doubt::Closed(closed),
                () = session.refused(), if wanted => return Doubt::Refused,
                () = session.used_up(numbers) => return Doubt::Spent("the stream numbers of this one are nearly used up"),
                // A load balancer may lead to another server.
                () = session.leaving() => return Doubt::Spent("the server of this one is ending"),
                changed = self.hurry.changed() => {
                    if changed.is_err() {
                        return Doubt::Closed(closed.await);
                    }
                }
            }
        }
    }

    /// Publishes why there is no session, and since when.
    fn down(&self, reason: Option<Arc<ConnectError>>, said: String) {
        self.tell.send_modify(|link| {
            let since = match link {
                Link::Down { since, .. } => *since,
                Link::Up(_) => Instant::now(),
            };
            *link = Link::Down { since, was_up: self.was_up, reason, said };
        });
    }

    /// Pause between two attempts. It ends early when an application connects, or other paths are configured.
    async fn pause(&mut self, wait: Duration) {
        let waiting = *self.hurry.borrow_and_update();
        let pause = if waiting > 0 { AGAIN.0 } else { wait };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = self.hurry.wait_for(|count| *count > waiting) => {}
            Ok(()) = self.wanted.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests;
