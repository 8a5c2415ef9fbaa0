//! How connections become subflows of a session. Used both on sockets and in the simulator.
//!
//! Server: [`accept`]. Client: the session says which path to connect ([`Event::OpenSubflow`]); this machine takes each attempt from the first
//! packet to the accepted subflow. Exactly one attempt opens the session. The other attempts connect, wait until
//! the session is open, and then join it. Each step has a deadline. A path that fails does not affect the others
//! and is tried again with back-off. A session that the server no longer knows ends at once. Not here: the
//! attempts on a silent path (`path.rs` of the session) and the messages themselves (the driver sends and receives
//! those).
//!
//! The driver reports what happened with [`Handshakes::handle`], then carries out what
//! [`Handshakes::poll_action`] says.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use tributary_types::{Instant, PathId, SubflowId};

use crate::event::Event;
use crate::session::{OpenError, Session};

/// Time limit of each step of an attempt: the transport's connection, its TLS or plaintext handshake, the answer
/// to the hello.
const STEP: Duration = Duration::from_secs(3);
/// First and longest wait after an attempt that the network refused at once.
const REFUSED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Wait between attempts while an application waits for the session and nothing listens at the server's address.
/// The server is probably just starting, and an attempt costs only one packet.
const NOBODY_LISTENS_HURRY: Duration = Duration::from_millis(25);
/// First and longest wait after an answer that did not prove knowledge of the key.
const UNAUTHENTICATED_BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// After so many answers in a row by other instances of the server, without a subflow meanwhile, the one that has the session is
/// taken for lost. A load balancer that takes turns between three has led to it after two.
const MOST_ELSEWHERE: u32 = 6;
/// Close code of a session that the server no longer knows.
pub const CODE_GONE: u32 = 5;
/// Payload of a small TCP segment: with IPv6 and TCP headers it fits in the 1280 bytes that every IPv6 link
/// carries (RFC 8200 §5). See [`Event::SmallSegments`].
pub const SMALL_SEGMENT: u32 = 1200;
/// Server: time limit for a connection to become a subflow.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Time a closed subflow has to flush and to receive the peer's end.
pub const LINGER: Duration = Duration::from_secs(3);

/// Progress of an attempt, reported by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The transport is connected.
    Connected,
    /// The TLS handshake is done: the hello can be sent.
    Ready,
    /// The hello has been sent.
    Introduced,
    /// The server accepts it.
    Accepted,
    /// The connection ended, before or after it was accepted.
    Failed(Failure),
}

/// Why an attempt or a subflow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A step exceeded its deadline.
    TimedOut,
    /// Nothing listens at the server's address, or something on the path says so.
    NobodyListens,
    /// The network or this machine reports that the path is unusable at present.
    Unreachable,
    /// The connection broke.
    Broken,
    /// The peer did not prove that it knows the key: the keys or versions differ, or something else answered, for
    /// example a captive portal.
    Unauthenticated,
    /// The server knows the key and refuses the connection.
    TurnedDown,
    /// The server knows the key but not the session: it was restarted.
    UnknownSession,
    /// The server knows the key, and another instance of it has the session.
    OtherInstance,
}

/// What a client's hello says about its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The path.
    pub path: PathId,
    /// The attempt and, if it is accepted, the subflow.
    pub subflow: SubflowId,
    /// The path costs money.
    pub metered: bool,
}

/// Server: takes a connection into the session that its hello opens or joins. The client has proved that it may. A hello that is
/// refused changes nothing.
///
/// # Errors
/// [`OpenError`]; the reply says so, and the driver closes the connection.
pub fn accept(now: Instant, session: &mut Session, hello: Introduction) -> Result<(), OpenError> {
    session.handle_subflow_open(now, hello.subflow, hello.path)?;
    session.set_metered(hello.path, hello.metered).expect("a subflow was just opened on the path");
    Ok(())
}

impl From<OpenError> for Failure {
    /// What a refusal means to the client.
    fn from(refusal: OpenError) -> Self {
        match refusal {
            OpenError::Closed => Self::UnknownSession,
            _ => Self::TurnedDown,
        }
    }
}

/// Instruction to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect this path and carry out the TLS or plaintext handshake.
    Dial {
        /// The path.
        path: PathId,
        /// The attempt and, if it succeeds, the subflow.
        subflow: SubflowId,
    },
    /// Send the hello.
    Introduce {
        /// The attempt.
        subflow: SubflowId,
        /// The hello opens the session; otherwise it joins.
        opens: bool,
    },
    /// The connection is a subflow of the session.
    Admit {
        /// The subflow.
        subflow: SubflowId,
        /// The server's answer has not arrived yet.
        unanswered: bool,
    },
    /// An attempt failed; for reports. [`Action::Drop`] follows.
    Failed {
        /// Its path.
        path: PathId,
        /// Why.
        failure: Failure,
    },
    /// Drop the connection. The session was informed before.
    Drop {
        /// The attempt or subflow.
        subflow: SubflowId,
        /// With a reset instead of a normal close.
        abort: bool,
    },
}

/// Who opens the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    Nobody,
    /// This attempt's hello has been sent.
    By(SubflowId),
    /// The server has accepted.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The transport connects and protects itself.
    Dialling,
    /// Another attempt opens the session; this one joins it then.
    Waiting,
    /// The hello is being sent, or has been sent.
    Introducing,
    /// Already a subflow; the answer to its hello has not arrived yet.
    Early,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    path: PathId,
    step: Step,
    until: Instant,
}

/// The attempts of one client's session.
#[derive(Debug)]
pub struct Handshakes {
    attempts: BTreeMap<SubflowId, Attempt>,
    opening: Opening,
    early: bool,
    /// Failed attempts of each path since the last accepted one.
    failures: BTreeMap<PathId, u32>,
    /// Answers of other instances of the server since an attempt was accepted last, or a subflow was up.
    elsewhere: u32,
    /// An application waits for the session: paths are tried without back-off.
    hurry: bool,
    actions: VecDeque<Action>,
}

impl Handshakes {
    /// No attempts yet. With `early` the connection whose hello opens the session is a subflow as soon as
    /// the hello has been sent, so that frames follow it at once.
    #[must_use]
    pub fn new(early: bool) -> Self {
        Self {
            attempts: BTreeMap::new(),
            opening: Opening::Nobody,
            early,
            failures: BTreeMap::new(),
            elsewhere: 0,
            hurry: false,
            actions: VecDeque::new(),
        }
    }

    /// Handles a request of the session: [`Event::OpenSubflow`], [`Event::AbandonConnect`] or
    /// [`Event::CloseSubflow`].
    /// Other events are ignored.
    pub fn handle_event(&mut self, now: Instant, event: &Event) {
        match *event {
            Event::OpenSubflow { path, subflow } => {
                self.attempts.insert(subflow, Attempt { path, step: Step::Dialling, until: now + STEP });
                self.actions.push_back(Action::Dial { path, subflow });
            }
            Event::AbandonConnect { subflow } if self.is_attempt(subflow) => {
                self.forget(subflow);
                self.actions.push_back(Action::Drop { subflow, abort: true });
            }
            Event::CloseSubflow { subflow, .. } => self.forget(subflow),
            _ => {}
        }
    }

    /// Handles progress or the end of an attempt.
    pub fn handle(&mut self, now: Instant, session: &mut Session, subflow: SubflowId, progress: Progress) {
        let Some(attempt) = self.attempts.get(&subflow).copied() else {
            if let Progress::Failed(_) = progress {
                session.handle_subflow_closed(now, subflow);
            }
            return;
        };
        if let Some(attempt) = self.attempts.get_mut(&subflow) {
            attempt.until = now + STEP;
        }
        match progress {
            Progress::Connected => session.handle_connect_progress(subflow),
            Progress::Ready => self.introduce(subflow),
            Progress::Introduced => {
                if self.early && self.opening == Opening::By(subflow) {
                    self.admit(now, session, (subflow, attempt), true);
                }
            }
            Progress::Accepted => {
                if self.opening == Opening::By(subflow) {
                    self.opening = Opening::Done;
                }
                if attempt.step != Step::Early {
                    self.admit(now, session, (subflow, attempt), false);
                }
                self.attempts.remove(&subflow);
                self.failures.remove(&attempt.path);
                self.elsewhere = 0;
                self.release();
            }
            Progress::Failed(failure) => self.fail(now, session, subflow, failure),
        }
    }

    /// Sets whether an application waits for the session. When this becomes true, every path is tried at once.
    pub fn set_hurry(&mut self, now: Instant, session: &mut Session, hurry: bool) {
        if hurry && !std::mem::replace(&mut self.hurry, hurry) {
            session.retry_paths(now);
        }
        self.hurry = hurry;
    }

    /// Time has passed: ends attempts that exceeded their deadline.
    pub fn handle_timeout(&mut self, now: Instant, session: &mut Session) {
        while let Some(subflow) = self.late(now) {
            self.fail(now, session, subflow, Failure::TimedOut);
        }
    }

    /// When [`Self::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.attempts.values().map(|attempt| attempt.until).min()
    }

    /// The next instruction to the driver.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether the attempt is running and not yet a subflow.
    fn is_attempt(&self, subflow: SubflowId) -> bool {
        self.attempts.get(&subflow).is_some_and(|attempt| attempt.step != Step::Early)
    }

    fn late(&self, now: Instant) -> Option<SubflowId> {
        self.attempts.iter().find(|(_, attempt)| now >= attempt.until).map(|(id, _)| *id)
    }

    fn introduce(&mut self, subflow: SubflowId) {
        let Some(attempt) = self.attempts.get_mut(&subflow) else { return };
        if !matches!(attempt.step, Step::Dialling | Step::Waiting) {
            return;
        }
        if let Opening::By(_) = self.opening {
            attempt.step = Step::Waiting;
            return;
        }
        attempt.step = Step::Introducing;
        let opens = self.opening == Opening::Nobody;
        if opens {
            self.opening = Opening::By(subflow);
        }
        self.actions.push_back(Action::Introduce { subflow, opens });
    }

    fn admit(
        &mut self,
        now: Instant,
        session: &mut Session,
        (subflow, attempt): (SubflowId, Attempt),
        unanswered: bool,
    ) {
        if session.handle_subflow_open(now, subflow, attempt.path).is_err() {
            self.forget(subflow);
            self.actions.push_back(Action::Drop { subflow, abort: false });
            return;
        }
        if let Some(attempt) = self.attempts.get_mut(&subflow) {
            attempt.step = Step::Early;
        }
        self.actions.push_back(Action::Admit { subflow, unanswered });
    }

    fn fail(&mut self, now: Instant, session: &mut Session, subflow: SubflowId, failure: Failure) {
        let Some(attempt) = self.attempts.get(&subflow).copied() else { return };
        self.forget(subflow);
        self.actions.push_back(Action::Failed { path: attempt.path, failure });
        self.actions.push_back(Action::Drop { subflow, abort: true });
        if let Some(wait) = self.back_off(attempt.path, failure) {
            session.retry_path(now + wait, attempt.path);
        }
        match attempt.step {
            Step::Early => session.handle_subflow_closed(now, subflow),
            _ => session.handle_connect_failed(now, subflow),
        }
        // Anybody on a path can send a reset or refuse a connection, so only the server's own answer ends the session.
        if self.opening == Opening::Done && failure == Failure::UnknownSession {
            session.abort(CODE_GONE, "the server does not know the session: it was started again");
        }
        if failure == Failure::OtherInstance {
            let is_up = session.subflow_stats().next().is_some();
            self.elsewhere = if is_up { 0 } else { self.elsewhere + 1 };
            if self.opening == Opening::Done && self.elsewhere >= MOST_ELSEWHERE {
                session.abort(CODE_GONE, "the instance of the server that has the session cannot be reached");
            }
        }
    }

    /// Wait before the next attempt on the path; `None`: no wait. A time-out was a wait itself, and after the
    /// answer that the session is unknown there is nothing to wait for.
    fn back_off(&mut self, path: PathId, failure: Failure) -> Option<Duration> {
        let failures = self.failures.entry(path).or_default();
        *failures = failures.saturating_add(1);
        let (first, last) = match failure {
            Failure::TimedOut | Failure::UnknownSession => return None,
            Failure::Unauthenticated if self.hurry => (UNAUTHENTICATED_BACKOFF.0, REFUSED.1),
            Failure::Unauthenticated => UNAUTHENTICATED_BACKOFF,
            Failure::NobodyListens if self.hurry => return Some(NOBODY_LISTENS_HURRY),
            _ if self.hurry => return Some(REFUSED.0),
            _ => REFUSED,
        };
        Some((first * (1 << (*failures - 1).min(8))).min(last))
    }

    /// An attempt is over; if it was the one that opens the session, another one takes over.
    fn forget(&mut self, subflow: SubflowId) {
        self.attempts.remove(&subflow);
        if self.opening == Opening::By(subflow) {
            self.opening = Opening::Nobody;
            self.release();
        }
    }

    /// Lets the waiting attempts send their hello.
    fn release(&mut self) {
        let waiting: Vec<_> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.step == Step::Waiting)
            .map(|(id, _)| *id)
            .collect();
        waiting.into_iter().for_each(|subflow| self.introduce(subflow));
    }
}

#[cfg(test)]
mod tests;
