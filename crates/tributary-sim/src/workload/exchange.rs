//! The meaning of a connection's bytes: sizes of requests, and the times at which pushed messages were made.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tributary_types::Instant;

use crate::transport::StreamKey;

/// A pushed message.
#[derive(Clone, Copy, Debug)]
pub(super) struct PushedMessage {
    /// When it was made.
    pub made: Instant,
    /// Offset in its stream at which the message ends.
    pub end: u64,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    stream: Option<StreamKey>,
    /// Requested sizes that the server has not read yet; `None` is a transfer without end.
    requests: VecDeque<Option<u64>>,
    messages: VecDeque<PushedMessage>,
    made: u64,
}

/// One lane for each workload, shared by both ends.
#[derive(Clone, Debug)]
pub struct Exchange {
    lanes: Rc<RefCell<Vec<Lane>>>,
}

impl Exchange {
    pub(super) fn new(workloads: usize) -> Self {
        Self { lanes: Rc::new(RefCell::new(vec![Lane::default(); workloads])) }
    }

    /// Records which stream carries a workload.
    pub(super) fn bind(&self, workload: usize, stream: StreamKey) {
        self.lanes.borrow_mut()[workload].stream = Some(stream);
    }

    /// The workload on a stream.
    pub(super) fn workload(&self, stream: StreamKey) -> Option<usize> {
        self.lanes.borrow().iter().position(|lane| lane.stream == Some(stream))
    }

    pub(super) fn stream(&self, workload: usize) -> Option<StreamKey> {
        self.lanes.borrow()[workload].stream
    }

    /// The client requests this many bytes; `None` is a transfer without end.
    pub(super) fn ask(&self, workload: usize, size: Option<u64>) {
        self.lanes.borrow_mut()[workload].requests.push_back(size);
    }

    /// The server has read a request. Returns its size.
    pub(super) fn asked(&self, workload: usize) -> Option<Option<u64>> {
        self.lanes.borrow_mut()[workload].requests.pop_front()
    }

    /// The server has made a message.
    pub(super) fn push(&self, workload: usize, message: PushedMessage) {
        let lane = &mut self.lanes.borrow_mut()[workload];
        lane.messages.push_back(message);
        lane.made += 1;
    }

    /// The oldest message that has not arrived.
    pub(super) fn oldest(&self, workload: usize) -> Option<PushedMessage> {
        self.lanes.borrow()[workload].messages.front().copied()
    }

    /// The oldest message has arrived.
    pub(super) fn arrived(&self, workload: usize) {
        self.lanes.borrow_mut()[workload].messages.pop_front();
    }

    /// Times at which the messages that have not arrived were made.
    pub(super) fn outstanding(&self, workload: usize) -> Vec<Instant> {
        self.lanes.borrow()[workload].messages.iter().map(|message| message.made).collect()
    }

    /// Messages made so far.
    pub(super) fn made(&self, workload: usize) -> u64 {
        self.lanes.borrow()[workload].made
    }
}
