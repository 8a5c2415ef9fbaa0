//! Mappings (RFC 8684 §3.3.1): which bytes of the connection a subflow's bytes are.
//!
//! On the wire they are options of segments. Here they wait beside the packets, in the order of the subflow's
//! bytes, until TCP has delivered those bytes.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A range of the connection's bytes that has not arrived.
#[derive(Clone, Copy, Debug)]
struct Run {
    offset: u64,
    left: u64,
}

/// The mappings of one direction of a subflow, shared by both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Mappings {
    runs: Rc<RefCell<VecDeque<Run>>>,
}

impl Mappings {
    /// The subflow's next bytes are those of the connection from `offset` on.
    pub fn push(&self, offset: u64, bytes: u64) {
        let mut runs = self.runs.borrow_mut();
        match runs.back_mut() {
            Some(last) if last.left > 0 && last.offset + last.left == offset => last.left += bytes,
            _ => runs.push_back(Run { offset, left: bytes }),
        }
    }

    /// `bytes` more have arrived in order on the subflow; calls `each` with their ranges `from..to` in the
    /// connection.
    pub fn advance(&self, mut bytes: u64, mut each: impl FnMut(u64, u64)) {
        let mut runs = self.runs.borrow_mut();
        while bytes > 0 {
            let run = runs.front_mut().expect("TCP delivers only what was mapped");
            let part = bytes.min(run.left);
            each(run.offset, run.offset + part);
            run.offset += part;
            run.left -= part;
            bytes -= part;
            if run.left == 0 {
                runs.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_subflow_come_out_at_their_places_in_any_cutting() {
        let sent = Mappings::default();
        let arriving = sent.clone();
        for (offset, bytes) in [(0, 100), (100, 50), (400, 10)] {
            sent.push(offset, bytes);
        }
        let mut places = Vec::new();
        for bytes in [30, 125, 5] {
            arriving.advance(bytes, |from, to| places.push((from, to)));
        }
        assert_eq!(places, [(0, 30), (30, 150), (400, 405), (405, 410)]);
    }
}
