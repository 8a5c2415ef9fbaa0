//! The contents of one direction. Simulated transports carry only numbers of bytes, so the bytes are stored here.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use tributary_types::Instant;

/// Bytes that were written, with the deadline of a message that the transport may drop.
type Written = (Bytes, Option<Instant>);

/// Contents written and not read yet, shared by both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe {
    /// Oldest first.
    written: Rc<RefCell<VecDeque<Written>>>,
}

impl Pipe {
    /// Stores bytes that the transport has accepted.
    pub fn push(&self, bytes: Bytes, deadline: Option<Instant>) {
        self.written.borrow_mut().push_back((bytes, deadline));
    }

    /// The transport has delivered `count` bytes: passes them to `each`, piece by piece.
    pub fn pop(&self, mut count: usize, mut each: impl FnMut(Bytes)) {
        while count > 0 {
            let Some((mut bytes, deadline)) = self.written.borrow_mut().pop_front() else { return };
            let piece = bytes.split_to(count.min(bytes.len()));
            count -= piece.len();
            if !bytes.is_empty() {
                self.written.borrow_mut().push_front((bytes, deadline));
            }
            each(piece);
        }
    }

    /// The transport has dropped `count` messages whose deadline has passed. They are the last ones with such a
    /// deadline, because a message that has begun is sent completely. Returns their bytes.
    pub fn expire(&self, now: Instant, count: u32) -> u64 {
        let mut written = self.written.borrow_mut();
        let mut bytes = 0;
        for _ in 0..count {
            let past = |(_, deadline): &Written| deadline.is_some_and(|at| at <= now);
            let Some(at) = written.iter().rposition(past) else { break };
            bytes += written.remove(at).map_or(0, |(message, _)| message.len() as u64);
        }
        bytes
    }
}
