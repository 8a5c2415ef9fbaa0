//! Requests of one connection that the server has not answered. Simulated streams carry numbers of bytes, not contents, so
//! both ends share this list.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::transport::StreamKey;

/// Bytes of a request: method, path, range and CMCD.
pub(super) const REQUEST: u64 = 400;
/// Bytes of an answer's headers.
pub(super) const HEADERS: u64 = 200;

/// Lengths of the bodies that were requested and not yet begun, first to last, for each stream. Both ends hold it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    asked: Rc<RefCell<BTreeMap<StreamKey, VecDeque<u64>>>>,
}

impl Requests {
    /// The client requests a body of this length.
    pub(super) fn ask(&self, stream: StreamKey, length: u64) {
        self.asked.borrow_mut().entry(stream).or_default().push_back(length);
    }

    /// The server has read a request: the length of the body.
    pub(super) fn take(&self, stream: StreamKey) -> Option<u64> {
        let mut asked = self.asked.borrow_mut();
        let length = asked.get_mut(&stream)?.pop_front();
        if asked.get(&stream).is_some_and(VecDeque::is_empty) {
            asked.remove(&stream);
        }
        length
    }
}
