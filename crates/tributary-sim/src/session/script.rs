//! A record of what a session's driver was given and what it did with it, turn by turn. `tests/tests/drivers.rs` gives
//! the same arrivals to the driver on sockets, which must do the same.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use tributary_proto::handshakes::Progress;
use tributary_proto::{Config, SubflowInfo};
use tributary_types::{Instant, PathId, StreamId, SubflowId};

/// Something that a driver or an application passes to the session.
#[derive(Clone, Debug)]
pub enum Arrival {
    /// Server: a connection has become a subflow on this path.
    Opened(SubflowId, PathId),
    /// Client: an attempt on this path made progress.
    Progress(SubflowId, PathId, Progress),
    /// Bytes, in order.
    Input(SubflowId, Bytes),
    /// The connection of an attempt or a subflow ended.
    Broken(SubflowId),
    /// The state of a subflow's transport.
    Info(SubflowId, SubflowInfo),
    /// The room of a subflow, told or not.
    Room(SubflowId, usize),
    /// The application opens a stream of this priority.
    Open(u8),
    /// It offers bytes to a stream, which may take fewer.
    Write(StreamId, Bytes),
    /// It ends a stream.
    Finish(StreamId),
    /// It takes what a stream can deliver.
    Read(StreamId),
    /// Client: a path was added.
    AddPath(PathId),
    /// A path was removed.
    RemovePath(PathId),
}

/// One turn of a driver.
#[derive(Clone, Debug)]
pub struct ScriptTurn {
    /// When it took place.
    pub at: Instant,
    /// What arrived since the turn before, in order.
    pub arrivals: Vec<Arrival>,
    /// Bytes that were queued on each subflow, in order: the head and the payload of each frame.
    pub frames: Vec<(SubflowId, Vec<u8>, Bytes)>,
    /// Subflows that the session closed, and whether with a reset.
    pub closed: Vec<(SubflowId, bool)>,
}

/// All turns of a driver.
#[derive(Clone, Debug)]
pub struct Script {
    /// When its session began.
    pub began: Instant,
    /// Configuration and seed of the session.
    pub session: (Config, u64),
    /// The turns.
    pub turns: Vec<ScriptTurn>,
}

/// Where a driver writes its script, if anybody wants it.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder(Option<Rc<RefCell<Recording>>>);

#[derive(Debug, Default)]
struct Recording {
    script: Option<Script>,
    arrivals: Vec<Arrival>,
}

/// A script that is being written.
#[derive(Debug)]
pub struct Recorded(Rc<RefCell<Recording>>);

impl Recorded {
    /// The script so far; `None` before there is a session.
    #[must_use]
    pub fn script(&self) -> Option<Script> {
        self.0.borrow().script.clone()
    }
}

impl Recorder {
    pub fn start(&mut self) -> Recorded {
        Recorded(self.0.get_or_insert_default().clone())
    }

    pub fn begin(&self, began: Instant, config: &Config, seed: u64) {
        if let Some(recording) = &self.0 {
            let session = (config.clone(), seed);
            recording.borrow_mut().script = Some(Script { began, session, turns: Vec::new() });
        }
    }

    pub fn arrived(&self, arrival: impl FnOnce() -> Arrival) {
        if let Some(recording) = &self.0 {
            recording.borrow_mut().arrivals.push(arrival());
        }
    }

    pub fn turn(&self, at: Instant) {
        if let Some(recording) = &self.0 {
            let mut recording = recording.borrow_mut();
            let arrivals = std::mem::take(&mut recording.arrivals);
            let turn = ScriptTurn { at, arrivals, frames: Vec::new(), closed: Vec::new() };
            recording.script.iter_mut().for_each(|script| script.turns.push(turn.clone()));
        }
    }

    /// Records a decision of the present turn.
    pub fn decided(&self, decision: impl FnOnce(&mut ScriptTurn)) {
        if let Some(recording) = &self.0
            && let Some(turn) =
                recording.borrow_mut().script.as_mut().and_then(|script| script.turns.last_mut())
        {
            decision(turn);
        }
    }
}
