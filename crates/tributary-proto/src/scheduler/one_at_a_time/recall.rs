//! Sends segments of silent subflows again on one that delivers, ahead of new data.
//!
//! Source: the reinjection queue of multipath-tcp.org, which is sent first and in order. Deviates: there a
//! subflow's time-out fills the queue; here its silence does, and a segment goes to the subflow with the least
//! smoothed RTT. Not here: segments of a lost subflow, which the session sends again itself.

use tributary_types::{DataSeq, SubflowId};

use super::{SubflowView, WindowView};

/// Most copies of one segment, except of the head, for which everything waits.
const MOST_SENDS: u16 = 4;

/// Which segments were searched already.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// The subflows that were silent when the search began; `None` while none or all of them are silent.
    silent: Option<Vec<SubflowId>>,
    /// Segments numbered by then and not searched yet; a silent subflow gets no newer ones.
    left: (DataSeq, DataSeq),
}

impl Recall {
    /// The lowest segment that only silent subflows carry, and a subflow with room that delivers. All segments are
    /// searched once each time the set of silent subflows changes.
    pub fn next(
        &mut self,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<(SubflowId, DataSeq)> {
        if !subflows.iter().any(|s| s.silent) || subflows.iter().all(|s| s.silent) {
            self.silent = None;
            return None;
        }
        self.begin_when_changed(window, subflows);
        let moving = subflows.iter().filter(|s| s.room > 0 && !s.silent);
        let onto = moving.min_by_key(|s| (s.srtt, s.id))?.id;
        let head = window.first();
        if stranded(head, u16::MAX, window, subflows) {
            return Some((onto, head));
        }
        let (from, end) = self.left;
        let search = from.max(head).0..end.0;
        let found = search.map(DataSeq).find(|seq| stranded(*seq, MOST_SENDS, window, subflows));
        self.left.0 = found.unwrap_or(end);
        found.map(|seq| (onto, seq))
    }

    fn begin_when_changed(&mut self, window: &WindowView<'_>, subflows: &[SubflowView]) {
        let silent = || subflows.iter().filter(|s| s.silent).map(|s| s.id);
        let same = |known: &Vec<SubflowId>| {
            known.len() == silent().count() && silent().all(|id| known.contains(&id))
        };
        if !self.silent.as_ref().is_some_and(same) {
            self.silent = Some(silent().collect());
            self.left = (window.first(), window.end());
        }
    }
}

/// Whether the segment was sent, fewer than `most` times, and only on silent subflows.
fn stranded(seq: DataSeq, most: u16, window: &WindowView<'_>, subflows: &[SubflowView]) -> bool {
    let Some(segment) = window.segment(seq).filter(|s| !s.acknowledged && s.sends < most) else {
        return false;
    };
    let carrier = segment.last_copy.and_then(|copy| subflows.iter().find(|s| s.id == copy.carrier));
    carrier.is_some_and(|s| s.silent) && !subflows.iter().any(|s| !s.silent && window.is_on(seq, s.id))
}
