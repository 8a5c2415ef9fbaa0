//! A record of the inputs and decisions of [`Establish`]. It shows why a session came up as it did, and that the
//! same inputs give the same decisions on sockets and in the simulator. It makes no decisions itself.

use tributary_types::{Instant, PathId, SubflowId};

use super::{Action, Establish, Progress, Subflows};
use crate::event::Event;

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An event of the session.
    Event(Instant, Event),
    /// Progress of an attempt.
    Progress(Instant, SubflowId, Progress),
    /// Whether an application waits for the session.
    Hurry(Instant, bool),
    /// A call of [`Establish::handle_timeout`].
    Timeout(Instant),
    /// A call of [`Establish`] to the session, with the session's answer.
    Told(Told),
    /// An instruction to the driver.
    Action(Action),
}

/// A call of [`Establish`] to the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The transport of an attempt is connected.
    Connecting(SubflowId),
    /// A subflow is open, and whether the session accepted it.
    Open(SubflowId, PathId, bool),
    /// A subflow has ended.
    Closed(SubflowId),
    /// An attempt has failed.
    ConnectFailed(SubflowId),
    /// Every path may be tried at once.
    RetryPaths,
    /// The path may be tried from this moment on.
    RetryPath(Instant, PathId),
    /// The session is over, with this code.
    Abort(u32),
    /// Whether a subflow is open, as the session answered.
    HasSubflows(bool),
}

/// [`Establish`] with a record of its inputs and decisions. It has the same methods.
#[derive(Debug)]
pub struct Recorder {
    establish: Establish,
    early: bool,
    entries: Vec<Entry>,
}

/// A session that records every call to it and its answer.
struct Overheard<'a, S> {
    session: &'a mut S,
    entries: &'a mut Vec<Entry>,
}

impl<S> Overheard<'_, S> {
    fn note(&mut self, told: Told) {
        self.entries.push(Entry::Told(told));
    }
}

impl<S: Subflows> Subflows for Overheard<'_, S> {
    fn connecting(&mut self, subflow: SubflowId) {
        self.note(Told::Connecting(subflow));
        self.session.connecting(subflow);
    }

    fn open(&mut self, now: Instant, subflow: SubflowId, path: PathId) -> bool {
        let taken = self.session.open(now, subflow, path);
        self.note(Told::Open(subflow, path, taken));
        taken
    }

    fn closed(&mut self, now: Instant, subflow: SubflowId) {
        self.note(Told::Closed(subflow));
        self.session.closed(now, subflow);
    }

    fn connect_failed(&mut self, now: Instant, subflow: SubflowId) {
        self.note(Told::ConnectFailed(subflow));
        self.session.connect_failed(now, subflow);
    }

    fn retry_paths(&mut self, now: Instant) {
        self.note(Told::RetryPaths);
        self.session.retry_paths(now);
    }

    fn retry_path(&mut self, at: Instant, path: PathId) {
        self.note(Told::RetryPath(at, path));
        self.session.retry_path(at, path);
    }

    fn abort(&mut self, code: u32, reason: &'static str) {
        self.note(Told::Abort(code));
        self.session.abort(code, reason);
    }

    fn has_subflows(&mut self) -> bool {
        let has = self.session.has_subflows();
        self.note(Told::HasSubflows(has));
        has
    }
}

impl Recorder {
    /// As [`Establish::new`].
    #[must_use]
    pub fn new(early: bool) -> Self {
        Self { establish: Establish::new(early), early, entries: Vec::new() }
    }

    /// As [`Establish::handle_event`].
    pub fn handle_event(&mut self, now: Instant, event: &Event) {
        self.entries.push(Entry::Event(now, event.clone()));
        self.establish.handle_event(now, event);
    }

    /// As [`Establish::handle`].
    pub fn handle(
        &mut self,
        now: Instant,
        session: &mut impl Subflows,
        subflow: SubflowId,
        progress: Progress,
    ) {
        self.entries.push(Entry::Progress(now, subflow, progress));
        let session = &mut Overheard { session, entries: &mut self.entries };
        self.establish.handle(now, session, subflow, progress);
    }

    /// As [`Establish::set_hurry`].
    pub fn set_hurry(&mut self, now: Instant, session: &mut impl Subflows, hurry: bool) {
        self.entries.push(Entry::Hurry(now, hurry));
        let session = &mut Overheard { session, entries: &mut self.entries };
        self.establish.set_hurry(now, session, hurry);
    }

    /// As [`Establish::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant, session: &mut impl Subflows) {
        self.entries.push(Entry::Timeout(now));
        let session = &mut Overheard { session, entries: &mut self.entries };
        self.establish.handle_timeout(now, session);
    }

    /// As [`Establish::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.establish.poll_timeout()
    }

    /// As [`Establish::poll_action`].
    pub fn poll_action(&mut self) -> Option<Action> {
        let action = self.establish.poll_action()?;
        self.entries.push(Entry::Action(action));
        Some(action)
    }

    /// What was recorded, first to last.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Gives a new [`Establish`] the recorded inputs and the recorded answers of the session. Returns the record
    /// of this second run. It equals the first record if the decisions depend on the inputs only.
    #[must_use]
    pub fn replay(&self) -> Vec<Entry> {
        let mut fresh = Self::new(self.early);
        for (at, entry) in self.entries.iter().enumerate() {
            let answers = self.entries[at + 1..].iter().map_while(|entry| match entry {
                Entry::Told(told) => Some(*told),
                _ => None,
            });
            let session = &mut Answers(answers.collect::<Vec<_>>().into_iter());
            match entry {
                Entry::Event(now, event) => fresh.handle_event(*now, event),
                Entry::Progress(now, subflow, progress) => fresh.handle(*now, session, *subflow, *progress),
                Entry::Hurry(now, hurry) => fresh.set_hurry(*now, session, *hurry),
                Entry::Timeout(now) => fresh.handle_timeout(*now, session),
                Entry::Told(_) => {}
                Entry::Action(_) => drop(fresh.poll_action()),
            }
        }
        while fresh.poll_action().is_some() {}
        fresh.entries
    }
}

/// A session that gives the recorded answers.
struct Answers(std::vec::IntoIter<Told>);

impl Subflows for Answers {
    fn connecting(&mut self, _: SubflowId) {
        self.0.next();
    }

    fn open(&mut self, _: Instant, _: SubflowId, _: PathId) -> bool {
        matches!(self.0.next(), Some(Told::Open(_, _, true)))
    }

    fn closed(&mut self, _: Instant, _: SubflowId) {
        self.0.next();
    }

    fn connect_failed(&mut self, _: Instant, _: SubflowId) {
        self.0.next();
    }

    fn retry_paths(&mut self, _: Instant) {
        self.0.next();
    }

    fn retry_path(&mut self, _: Instant, _: PathId) {
        self.0.next();
    }

    fn abort(&mut self, _: u32, _: &'static str) {
        self.0.next();
    }

    fn has_subflows(&mut self) -> bool {
        matches!(self.0.next(), Some(Told::HasSubflows(true)))
    }
}
