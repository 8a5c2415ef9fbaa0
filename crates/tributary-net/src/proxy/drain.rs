//! The orderly end of a server: connections get some time to finish; those that remain are reset.
//!
//! Not here: the signal that starts it (the program), and how a connection is reset (`relay`, or an HTTP server).

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::session::Session;

/// Time for sending resets and for closing a session, after the time for the connections is over.
const CLOSING: Duration = Duration::from_secs(1);

/// How a server ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were reset because their time was over.
    pub reset: usize,
    /// Payload bytes of sessions that the peer had not acknowledged at the end.
    pub undelivered: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    /// No new connections.
    Draining,
    /// Connections are reset.
    Cut,
}

/// Ends the connections that hold its tickets. Dropping it resets these connections.
#[derive(Debug)]
pub struct Drain {
    phase: watch::Sender<Phase>,
    /// Has one receiver for each ticket.
    held: watch::Sender<()>,
    /// When sessions are to be closed, once connections have ended.
    closing: watch::Sender<Option<Instant>>,
}

/// Held by a connection for as long as it lives.
#[derive(Clone, Debug)]
pub struct Ticket {
    phase: watch::Receiver<Phase>,
    _held: watch::Receiver<()>,
}

impl Default for Drain {
    fn default() -> Self {
        Self::new()
    }
}

impl Drain {
    /// No connection is open.
    #[must_use]
    pub fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Running),
            held: watch::Sender::new(()),
            closing: watch::Sender::new(None),
        }
    }

    /// A ticket for one connection.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        Ticket { phase: self.phase.subscribe(), _held: self.held.subscribe() }
    }

    /// Connections open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.held.receiver_count()
    }

    /// Whether new connections are refused.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    /// Waits until every connection has ended. At `deadline` the others are reset. Returns how many were reset.
    ///
    /// Cancellation: connections that remain are not reset.
    pub async fn finish(&self, deadline: Instant) -> usize {
        self.phase.send_replace(Phase::Draining);
        if timeout_at(deadline, self.held.closed()).await.is_ok() {
            return 0;
        }
        let reset = self.open();
        self.phase.send_replace(Phase::Cut);
        let _ = timeout_at(Instant::now() + CLOSING, self.held.closed()).await;
        reset
    }
}

impl Drain {
    /// Tells the waiters of [`Self::closing`] to close their sessions by `deadline`.
    pub fn close_sessions(&self, deadline: Instant) {
        self.closing.send_replace(Some(deadline));
    }

    /// Waits until sessions must be closed. Returns the deadline. Cancellation: safe.
    pub async fn closing(&self) -> Instant {
        let mut closing = self.closing.subscribe();
        let deadline = closing.wait_for(Option::is_some).await.ok().and_then(|deadline| *deadline);
        // The sender is owned by `self`, so it still exists.
        deadline.unwrap_or_else(Instant::now)
    }
}

impl Ticket {
    /// Waits until no new connections are accepted. Cancellation: safe.
    pub async fn draining(&mut self) {
        let _ = self.phase.wait_for(|phase| *phase >= Phase::Draining).await;
    }

    /// Waits until the connection must be reset. Cancellation: safe.
    pub async fn cut(&mut self) {
        // An error means that the server itself has ended.
        let _ = self.phase.wait_for(|phase| *phase == Phase::Cut).await;
    }
}

/// Closes a session in order by `deadline`, or a little later; returns the bytes it could not deliver.
pub(super) async fn close(session: &Session, deadline: Instant) -> u64 {
    let deadline = deadline.max(Instant::now() + CLOSING);
    if timeout_at(deadline, session.close()).await.is_ok() {
        return 0;
    }
    let undelivered = session.stats().session.send_held;
    session.abort(0, "the proxy ended before everything was delivered");
    undelivered
}
