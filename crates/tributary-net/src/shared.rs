//! State shared by a session's driver and the application's handles: one mutex, and the wakers of both sides.
//!
//! The pattern is that of quinn: handles change the session and wake the driver; the driver drains the session and
//! wakes the handles. No lock is held during a system call or an await.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(test)]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, broadcast, mpsc};
use tributary_proto::{Config, Event, Session, Side};
use tributary_types::{Bitrate, Instant, PathId, StreamId, SubflowId};

use crate::budget::{Fairness, Share, Use};
use crate::clients::Client;
use crate::config::PathConfig;
use crate::dial::Reached;
use crate::error::SessionClosed;
use crate::events::{SessionEvent, SessionEventKind};
use crate::handshake::{Channel, Established, HandshakeError};
use crate::hello::SessionTag;
use crate::paths::Paths;
use crate::stats::SubflowReport;

/// Telemetry events that are kept for a slow subscriber; beyond that it loses the oldest.
const EVENTS_KEPT: usize = 4096;

/// Close code of a session whose driver panicked.
const CODE_BROKEN: u32 = 4;
/// Close code of a session whose records are large while no memory is left.
const CODE_MEMORY: u32 = 5;
/// Close code of a session without a subflow whose place a server gave to another session.
pub(crate) const CODE_REPLACED: u32 = 6;
/// Close code of a session whose client is no longer in the server's list.
pub(crate) const CODE_REVOKED: u32 = 7;

/// Messages to the driver from other tasks.
pub(crate) enum Command {
    /// Client: the server's address has not answered an attempt for a while.
    Quiet(SubflowId),
    /// Client: the TCP connection of an attempt is up, and where it leads.
    Connected(SubflowId, Reached),
    /// Client: TCP was faster than QUIC on this path.
    NoQuic(PathId),
    /// Client: whether an application waits for the session.
    Hurry(bool),
    /// Client: the TLS handshake of an attempt is done.
    Ready(SubflowId, Box<Channel>),
    /// Client: the hello of an attempt has been sent.
    Introduced(Box<Established>),
    /// Client: an attempt failed.
    Failed(SubflowId, HandshakeError),
    /// Server: a subflow has finished its handshake. It is already part of the session.
    Opened(Box<Established>),
    /// A server's subflow was announced to the session and broke before it was handed over.
    Broken(SubflowId),
    /// A test makes the driver panic.
    #[cfg(test)]
    Panic,
    /// Client: add a path.
    AddPath(PathId, PathConfig),
    /// Client: remove a path, and why.
    RemovePath(PathId, String),
    /// Client: what a path may carry.
    SetCap(PathId, Option<Bitrate>),
}

/// What the mutex protects.
pub(crate) struct State {
    pub session: Session,
    pub driver: Option<Waker>,
    pub readers: HashMap<StreamId, Waker>,
    pub writers: HashMap<StreamId, Waker>,
    /// Wakers of tasks that wait for room for a stream, for an accepted stream, or for the end.
    pub waiting: Vec<Waker>,
    pub incoming: VecDeque<StreamId>,
    /// The same for flows of datagrams.
    pub incoming_flows: VecDeque<StreamId>,
    pub closed: Option<SessionClosed>,
    /// Notified at the end of the session, for tasks that wait for nothing else.
    pub ended: Arc<Notify>,
    /// Kernel's view per subflow, for statistics.
    pub subflows: Vec<SubflowReport>,
    /// State and counters of each path, for status displays.
    pub paths: Paths,
    /// The session's tag, once the server has answered.
    pub tag: Option<SessionTag>,
    /// Server: the client in the list, unless all clients have the same key.
    pub client: Option<Arc<Client>>,
    /// Client: the hello that opens the session has been sent.
    pub introduced: bool,
    /// The server has refused a stream because it is ending; streams that are open may finish.
    pub leaving: bool,
    /// Number of subflows that ever came up.
    pub opened: u64,
    /// Error of the last attempt on each path, until the path is up.
    pub failures: BTreeMap<PathId, HandshakeError>,
    /// Server: the session's part of the listener's memory, kept until no handle of the session is left.
    pub share: Option<Share>,
    /// Number of connections to targets; they count in the share.
    pub connections: usize,
    /// The session has ended, and what has arrived is not delivered, because its memory is needed.
    pub given_up: bool,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// When the session began.
    origin: Duration,
    /// Set by tests: milliseconds for which the machine was suspended.
    #[cfg(test)]
    pub suspended: AtomicU64,
    pub commands: mpsc::UnboundedSender<Command>,
    /// Created for the first subscriber, because it allocates memory for all kept events, about 1 MiB.
    events: OnceLock<broadcast::Sender<SessionEvent>>,
    /// Events kept for the first subscriber, so that it misses nothing.
    pub early_events: Mutex<Option<broadcast::Receiver<SessionEvent>>>,
    /// Number of the application's handles; dropping the last one closes the session.
    handles: AtomicUsize,
}

/// A clock that also advances while the machine is suspended, so that a session times out during a long suspend.
fn since_boot() -> Duration {
    let at = clock_gettime(ClockId::Boottime);
    Duration::new(at.tv_sec.unsigned_abs(), u32::try_from(at.tv_nsec).unwrap_or_default())
}

impl Shared {
    pub(crate) fn new(session: Session, keep_events: bool) -> (Arc<Self>, mpsc::UnboundedReceiver<Command>) {
        let (commands, receiver) = mpsc::unbounded_channel();
        let state = State {
            session,
            driver: None,
            readers: HashMap::new(),
            writers: HashMap::new(),
            waiting: Vec::new(),
            incoming: VecDeque::new(),
            incoming_flows: VecDeque::new(),
            closed: None,
            ended: Arc::default(),
            subflows: Vec::new(),
            paths: Paths::default(),
            tag: None,
            client: None,
            introduced: false,
            leaving: false,
            opened: 0,
            failures: BTreeMap::new(),
            share: None,
            connections: 0,
            given_up: false,
        };
        let shared = Self {
            state: Mutex::new(state),
            origin: since_boot(),
            #[cfg(test)]
            suspended: AtomicU64::new(0),
            commands,
            events: OnceLock::new(),
            early_events: Mutex::new(None),
            handles: AtomicUsize::new(0),
        };
        if keep_events {
            *shared.early_events.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared.subscribe());
        }
        (Arc::new(shared), receiver)
    }

    /// Events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<SessionEvent> {
        self.events.get_or_init(|| broadcast::Sender::new(EVENTS_KEPT)).subscribe()
    }

    /// The channel for events; `None` while it has no subscriber.
    pub(crate) fn subscribed(&self) -> Option<&broadcast::Sender<SessionEvent>> {
        self.events.get().filter(|events| events.receiver_count() > 0)
    }

    pub(crate) fn now(&self) -> Instant {
        let elapsed = since_boot().saturating_sub(self.origin);
        #[cfg(test)]
        let elapsed = elapsed + Duration::from_millis(self.suspended.load(Ordering::Relaxed));
        Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Converts a time of the session to the runtime's clock, which stands still while the machine is suspended.
    pub(crate) fn timer(&self, at: Instant) -> tokio::time::Instant {
        tokio::time::Instant::now() + at.saturating_since(self.now())
    }

    /// Locks the state. A panic while it is locked would be a bug; the state can still be used to end the session.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver has ended although the session has not: ends the session, so that no task waits for ever.
    pub(crate) fn driver_gone(&self, why: &str) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        tracing::error!("the session ends: {why}; this is a fault of the program, please report it");
        // After a panic, closing may panic, too.
        let _ = catch_unwind(AssertUnwindSafe(|| state.session.abort(CODE_BROKEN, why)));
        state.closed = Some(SessionClosed { code: CODE_BROKEN, reason: why.to_owned(), by_peer: false });
        state.wake_all();
    }

    /// Changes the session on behalf of the application and lets the driver drain it.
    pub(crate) fn change<T>(&self, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = self.now();
        let mut state = self.lock();
        let result = act(&mut state, now);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }
}

impl State {
    /// Wakes the handles that wait for an event of the session. The driver handles its own actions.
    pub(crate) fn dispatch(&mut self, event: Event) {
        match event {
            Event::StreamOpened(id) => {
                self.incoming.push_back(id);
                self.wake_waiting();
            }
            Event::FlowOpened(id) => {
                self.incoming_flows.push_back(id);
                self.wake_waiting();
            }
            Event::StreamReadable(id) => {
                if let Some(waker) = self.readers.remove(&id) {
                    waker.wake();
                }
            }
            Event::StreamWritable(id) | Event::StreamStopped(id, _) | Event::StreamFinished(id) => {
                if let Some(waker) = self.writers.remove(&id) {
                    waker.wake();
                }
            }
            Event::Closed { code, reason, by_peer } => {
                self.closed = Some(SessionClosed { code, reason, by_peer });
                self.wake_all();
            }
            _ => {}
        }
    }

    /// Memory that the session may use now.
    pub(crate) fn uses(&self) -> Use {
        let subflows = self.session.subflow_stats().count();
        let steady = self.session.is_steady();
        Use { memory: self.session.memory(), subflows, connections: self.connections, steady }
    }

    /// Lets the session grow as far as the memory allows, and reports what it uses.
    pub(crate) fn share_memory(&mut self, now: Instant) {
        if self.share.is_none() {
            return;
        }
        while let Some(demand) = self.session.poll_demand(now) {
            let wanted = Use { memory: self.session.memory_with(demand), ..self.uses() };
            if !self.share.as_mut().is_some_and(|share| share.take(&wanted)) {
                break;
            }
            self.session.allot(now, demand);
        }
        let uses = self.uses();
        match self.share.as_mut().map(|share| share.settle(&uses)) {
            Some(Fairness::Above) => {
                let fell = self.session.give_way();
                self.share.iter().filter(|_| fell).for_each(Share::count_given);
            }
            Some(Fairness::Exhausted) => {
                self.give_up(
                    CODE_MEMORY,
                    "the server has no memory left, and the session's records are large",
                );
            }
            _ => {}
        }
    }

    /// How long the session has had no subflow; `None` while it has one.
    pub(crate) fn alone_for(&self, now: Instant) -> Option<Duration> {
        if self.session.subflow_stats().next().is_some() {
            return None;
        }
        let since = self.paths.iter().map(|path| path.since).max().unwrap_or_default();
        Some(now.saturating_since(Instant::ZERO).saturating_sub(since))
    }

    /// Ends the session at once, with the streams that would still deliver what has arrived: its memory is needed.
    pub(crate) fn give_up(&mut self, code: u32, reason: &str) {
        self.given_up = true;
        self.session.abort(code, reason);
    }

    /// The session has ended: gives back its memory, whoever still has a handle of it, for example the queue of sessions
    /// that nobody has accepted yet. Received data that the application has not read keeps its memory, unless the
    /// session was given up. The streams of such a session only report its end.
    pub(crate) fn release(&mut self) {
        let stats = self.session.stats();
        if self.given_up {
            let empty = Session::new(Side::Server, Config::default(), 0, Instant::ZERO);
            self.session = empty.expect("the default configuration is valid");
            self.session.abort(0, "given up");
            self.incoming.clear();
            self.incoming_flows.clear();
        } else if stats.receive_held > 0 || stats.send_held > 0 || self.connections > 0 {
            return;
        }
        self.share = None;
    }

    /// Takes memory for another subflow; whether there is enough.
    pub(crate) fn takes_subflow(&mut self) -> bool {
        let uses = self.uses();
        let wanted = Use { subflows: uses.subflows + 1, ..uses };
        self.share.as_mut().is_none_or(|share| share.take_connection(&wanted))
    }

    /// Takes memory for another connection to a target; whether there is enough.
    pub(crate) fn takes_connection(&mut self) -> bool {
        let uses = self.uses();
        let wanted = Use { connections: uses.connections + 1, ..uses };
        let taken = self.share.as_mut().is_none_or(|share| share.take_connection(&wanted));
        self.connections += usize::from(taken);
        taken
    }

    /// A subflow is up, the server's reply included.
    pub(crate) fn came_up(&mut self, path: PathId) {
        self.opened += 1;
        self.failures.remove(&path);
        self.wake_waiting();
    }

    /// Client: another path.
    pub(crate) fn add_path(&mut self, now: Instant, path: PathId, config: &PathConfig) {
        self.paths.add(now, path, || config.name());
        self.session.add_path(now, path);
        // The session has no path that was added after its end.
        let _ = self.session.set_metered(path, config.metered);
        self.set_cap(now, path, config.cap);
    }

    /// Client: what a path may carry.
    pub(crate) fn set_cap(&mut self, now: Instant, path: PathId, cap: Option<Bitrate>) {
        // As above, and a path may be removed at any time.
        if self.session.set_cap(now, path, cap).is_ok() {
            self.paths.set_cap(path, cap);
        }
    }

    /// A path was removed. Its reason is known, unless the peer removed it.
    pub(crate) fn forget_path(&mut self, now: Instant, path: PathId) {
        self.failures.remove(&path);
        self.count_paths();
        self.paths.remove(now, path, "the client removed it");
        self.wake_waiting();
    }

    /// Whether there are paths and the last attempt on each has failed.
    pub(crate) fn all_failed(&self) -> bool {
        !self.paths.is_empty() && self.failures.len() >= self.paths.len()
    }

    /// An attempt to connect failed.
    pub(crate) fn fail(&mut self, path: PathId, error: HandshakeError) {
        self.failures.insert(path, error);
        self.wake_waiting();
    }

    /// Name of the session in logs, the same at both ends: the first digits of its tag.
    pub(crate) fn name(&self) -> Option<String> {
        self.tag.map(|tag| tag[..4].iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Brings the paths' counters up to date.
    pub(crate) fn count_paths(&mut self) {
        self.paths.count(self.session.subflow_stats());
    }

    /// An event for subscribers.
    pub(crate) fn event(&self, now: Instant, kind: SessionEventKind) -> SessionEvent {
        let radio = kind.path().and_then(|path| self.paths.name(path)).map(str::to_owned);
        let (at, session) = (now.saturating_since(Instant::ZERO), self.name());
        SessionEvent { at, session, radio, kind }
    }

    /// Keeps the kernel's view of a subflow for statistics.
    pub(crate) fn report(&mut self, report: SubflowReport) {
        match self.subflows.iter_mut().find(|known| known.subflow == report.subflow) {
            Some(known) => *known = report,
            None => self.subflows.push(report),
        }
    }

    /// Registers a task that waits for a stream, for room for one, or for the end.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|known| known.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    pub(crate) fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn wake_all(&mut self) {
        self.wake_waiting();
        self.ended.notify_waiters();
        self.readers.drain().for_each(|(_, waker)| waker.wake());
        self.writers.drain().for_each(|(_, waker)| waker.wake());
    }
}

/// A handle of the application to the session, counted.
pub(crate) struct Handle(pub Arc<Shared>);

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(self.0.clone())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.change(|state, now| state.session.close(now, 0, "the application let go of the session"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Driver;

    #[test]
    fn at_most_one_failure_is_kept_for_each_path() {
        let machine = Session::new(Side::Client, Config::default(), 1, Instant::ZERO).unwrap();
        let (shared, _commands) = Shared::new(machine, false);
        (0..100_000).for_each(|_| shared.lock().fail(PathId(0), HandshakeError::Timeout));
        assert_eq!(shared.lock().failures.len(), 1);
    }

    #[test]
    fn a_session_has_no_memory_for_events_before_somebody_subscribes() {
        let machine = || Session::new(Side::Server, Config::default(), 1, Instant::ZERO).unwrap();
        let (shared, _commands) = Shared::new(machine(), false);
        assert!(shared.events.get().is_none() && shared.subscribed().is_none());
        let receiver = shared.subscribe();
        assert!(shared.subscribed().is_some());
        drop(receiver);
        assert!(shared.subscribed().is_none());
        let (keeping, _commands) = Shared::new(machine(), true);
        assert!(keeping.subscribed().is_some());
    }

    #[tokio::test]
    async fn a_driver_that_panics_ends_its_session() {
        let machine = Session::new(Side::Server, Config::default(), 1, Instant::ZERO).unwrap();
        let (shared, commands) = Shared::new(machine, false);
        let session = crate::session::Session::new(shared.clone());
        Driver::spawn(shared.clone(), commands, None, None, None);
        let stream = session.open_stream(0).await.unwrap();
        let reader = tokio::spawn(async move {
            let mut stream = stream;
            stream.read_chunk().await
        });
        let _ = shared.commands.send(Command::Panic);
        let closed = session.closed().await;
        assert_eq!((closed.code, closed.by_peer), (CODE_BROKEN, false), "{closed}");
        assert!(reader.await.unwrap().is_err());
        assert!(session.is_closed() && session.open_stream(0).await.is_err());
    }
}
