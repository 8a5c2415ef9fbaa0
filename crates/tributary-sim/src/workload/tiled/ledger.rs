//! What travels beside the bytes of a viewing: plans, and which part of which message comes next on a stream.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tributary_types::Instant;

use super::TileMessage;
use crate::transport::StreamKey;

/// A plan on its way to the server.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub gop: usize,
    pub deadline: Instant,
    /// Index of the first message among all that were planned for the GoP.
    pub first: usize,
    pub messages: Vec<TileMessage>,
    /// Bytes the request has on the wire.
    pub bytes: u64,
}

/// A part of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub gop: usize,
    pub message: usize,
    /// Tile and quality.
    pub copy: (usize, usize),
    pub bytes: u64,
    pub deadline: Instant,
}

#[derive(Debug, Default)]
struct Pages {
    plans: VecDeque<Plan>,
    lanes: BTreeMap<StreamKey, VecDeque<Part>>,
    withdrawn: Vec<(usize, usize)>,
}

/// Held by both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    pages: Rc<RefCell<Pages>>,
}

impl Ledger {
    /// The client asks.
    pub fn ask(&self, plan: Plan) {
        self.pages.borrow_mut().plans.push_back(plan);
    }

    /// The server has read so many bytes of requests; a plan that is complete by them.
    pub fn asked(&self, read: &mut u64) -> Option<Plan> {
        let mut pages = self.pages.borrow_mut();
        let bytes = pages.plans.front()?.bytes;
        *read = read.checked_sub(bytes)?;
        pages.plans.pop_front()
    }

    /// The server has written a part.
    pub fn push(&self, stream: StreamKey, part: Part) {
        self.pages.borrow_mut().lanes.entry(stream).or_default().push_back(part);
    }

    /// The transport has dropped `count` messages of a stream whose deadline is past: the last such ones, for
    /// one that had begun is sent to its end. Their bytes.
    pub fn expire(&self, now: Instant, stream: StreamKey, count: u32) -> u64 {
        let mut pages = self.pages.borrow_mut();
        let Some(lane) = pages.lanes.get_mut(&stream) else { return 0 };
        let mut bytes = 0;
        for _ in 0..count {
            let Some(at) = lane.iter().rposition(|part| part.deadline <= now) else { break };
            bytes += lane.remove(at).map_or(0, |part| part.bytes);
        }
        bytes
    }

    /// The server took a message back before any of it was written.
    pub fn withdraw(&self, gop: usize, message: usize) {
        self.pages.borrow_mut().withdrawn.push((gop, message));
    }

    /// What was taken back since the last call.
    pub fn withdrawn(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.pages.borrow_mut().withdrawn)
    }

    /// The client has read `bytes` of a stream; `each` hears of every part they belong to and how many.
    pub fn arrived(&self, stream: StreamKey, mut bytes: u64, mut each: impl FnMut(&Part, u64)) {
        let mut pages = self.pages.borrow_mut();
        let Some(lane) = pages.lanes.get_mut(&stream) else { return };
        while bytes > 0 {
            let Some(part) = lane.front_mut() else { return };
            let taken = bytes.min(part.bytes);
            each(part, taken);
            bytes -= taken;
            part.bytes -= taken;
            if part.bytes == 0 {
                lane.pop_front();
            }
        }
    }
}
