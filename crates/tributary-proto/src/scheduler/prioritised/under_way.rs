//! Prioritised segments in flight, and which of them are late.

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::{DataSeq, Instant};

use super::{SubflowView, WindowView};

/// Most segments watched. Further ones are left to the bulk scheduler and to TCP.
const WATCHED: usize = 256;
/// Copies of one segment at most.
const MOST_SENDS: u16 = 4;
/// A segment is late when it exceeds its subflow's round trip by this time, or by a quarter of the round trip if
/// that is longer.
const MARGIN: Duration = Duration::from_millis(5);

/// The segments, in the order they were sent.
#[derive(Debug)]
pub(super) struct UnderWay {
    watched: VecDeque<DataSeq>,
    /// Earliest time at which one of them can be late, unless its subflow falls silent.
    late_at: Option<Instant>,
    /// A segment is late, and no subflow has room for it.
    overdue: bool,
}

impl Default for UnderWay {
    fn default() -> Self {
        Self { watched: VecDeque::with_capacity(WATCHED), late_at: None, overdue: false }
    }
}

fn patience(subflow: &SubflowView) -> Duration {
    subflow.srtt + (subflow.srtt / 4).max(MARGIN)
}

impl UnderWay {
    /// A segment was sent on a subflow.
    pub fn sent(&mut self, now: Instant, segment: DataSeq, onto: Option<&SubflowView>) {
        if self.watched.len() < WATCHED {
            self.watched.push_back(segment);
            self.sent_again(now, onto);
        }
    }

    /// A watched segment was sent again.
    pub fn sent_again(&mut self, now: Instant, onto: Option<&SubflowView>) {
        if let Some(subflow) = onto {
            let at = now + patience(subflow);
            self.late_at = Some(self.late_at.map_or(at, |before| before.min(at)));
        }
    }

    /// Whether a search for late ones is useful.
    pub fn may_be_late(&mut self, now: Instant, subflows: &[SubflowView]) -> bool {
        if self.late_at.is_some_and(|at| at <= now) {
            (self.late_at, self.overdue) = (None, true);
        }
        !self.watched.is_empty()
            && subflows.iter().any(|s| s.room > 0 && !s.silent)
            && (self.overdue || subflows.iter().any(|s| s.silent))
    }

    /// The first late segment that another subflow can take now.
    pub fn late(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<DataSeq> {
        self.watched.retain(|segment| window.is_open(*segment));
        (self.late_at, self.overdue) = (None, false);
        let mut found = None;
        for &seq in &self.watched {
            let Some(segment) = window.segment(seq).filter(|s| s.sends < MOST_SENDS) else { continue };
            let Some(copy) = segment.last_copy else { continue };
            let at = match subflows.iter().find(|s| s.id == copy.carrier) {
                // The session sends segments of an ended subflow again itself.
                None => continue,
                Some(carrier) if carrier.silent => now,
                Some(carrier) => copy.at + patience(carrier),
            };
            if at > now {
                self.late_at = Some(self.late_at.map_or(at, |before| before.min(at)));
                continue;
            }
            let free = |s: &SubflowView| !s.silent && !window.is_on(seq, s.id);
            if found.is_none() && subflows.iter().any(|s| s.room > 0 && free(s)) {
                found = Some(seq);
            } else {
                // It is sent as soon as a subflow without a copy has room.
                self.overdue |= subflows.iter().any(free);
            }
        }
        found
    }

    /// When to check again without an event. `None` when late segments only wait for room.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.watched.is_empty() { None } else { self.late_at }
    }
}
