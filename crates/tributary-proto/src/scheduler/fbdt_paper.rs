//! `fbdt-paper` and `fbdt-release`: forward and backward transmission as published and as released, one window at a
//! time.
//!
//! `fbdt-paper`: FBDT §3.2 and Figure 5. The subflow that finishes first waits one RTT of the other direction, sends
//! the other's unacknowledged segments as well, does not wait for their acknowledgement, and the
//! window is reloaded.
//!
//! `fbdt-release`: the authors' released program, which has no acknowledgements. Its cursors advance when the
//! kernel accepts bytes, and the next window is loaded as soon as they have met. Nothing is sent again.
//!
//! Deviates: segments that both subflows lose are recovered by the session instead of
//! being reported to the application (footnote 3); more than two subflows share the window by the
//! gap rule of the transmission window, since the published text has two. A subflow accepts what its path sends in a
//! few milliseconds, where the kernel of the release accepts a send buffer.

use tributary_types::{DataSeq, Instant, SubflowId};

use super::window::{Role, TransmissionWindow};
use super::{Assignment, AssignmentKind, Load, Scheduler, SchedulerEvent, SubflowView, WindowView, time_for};

/// Bytes of a segment. The paper uses the MSS; here a segment has 16 KiB.
const SEGMENT: usize = 16 << 10;

/// State of the scheduler.
#[derive(Debug)]
pub(super) struct FbdtPaper {
    reload: Reload,
    window: Option<Loaded>,
    wake: Option<Instant>,
    /// The cursors have met since [`Scheduler::take_wait`] was last called.
    met: bool,
}

/// When the next window is loaded, once the cursors have met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reload {
    /// When every segment of the window is acknowledged, or its open segments were sent on the other subflow too.
    Acknowledged,
    /// As soon as every segment was given to a subflow.
    Accepted,
}

#[derive(Debug)]
struct Loaded {
    window: TransmissionWindow,
    phase: Phase,
}

/// Phase of the window.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Each cursor moves towards the other.
    Cursors,
    /// The cursors have met. The subflow that finished first, and since when it waits; `None` while no subflow has
    /// finished.
    Waiting(Option<(SubflowId, Instant)>),
    /// The subflow that finished first sends the other subflow's open segments. The second field is the next
    /// segment to check.
    Redundant(SubflowId, DataSeq),
}

/// Published: the cursor moves whose transport first delivers all that it was given and one more segment, if its congestion
/// window has room (FBDT §3.2). So each subflow gets the share that its throughput gives it (equation 1), and not
/// what its transport accepts at once. Example: of 1 MiB over 470 and 1400 Mbit/s the slower one takes a quarter.
/// While the driver has no room for that cursor, the others wait for it, but not for a silent subflow.
fn earliest_drained(subflows: &[SubflowView]) -> Option<&SubflowView> {
    let segment = SEGMENT as u64;
    let drained = |s: &SubflowView| s.expect(|rate| time_for(rate, s.in_flight + segment));
    let open = subflows.iter().filter(|s| s.in_flight < s.cwnd.max(segment) && (s.room > 0 || !s.silent));
    open.min_by_key(|s| (s.silent, drained(s), s.rank)).filter(|s| s.room > 0)
}

fn role(of: &SubflowView, subflows: &[SubflowView]) -> Role {
    if subflows.iter().all(|s| s.rank >= of.rank) {
        Role::Forward
    } else if subflows.iter().all(|s| s.rank <= of.rank) {
        Role::Backward
    } else {
        Role::Inside
    }
}

impl Loaded {
    fn take(&mut self, subflow: &SubflowView, subflows: &[SubflowView]) -> Option<Assignment> {
        let segment = self.window.take(subflow.id, role(subflow, subflows))?;
        Some(Assignment { subflow: subflow.id, segment, kind: AssignmentKind::Fresh })
    }

    /// A subflow of this window without open segments, while another still has some.
    fn early_finisher(&self, view: &WindowView<'_>, subflows: &[SubflowView]) -> Option<SubflowId> {
        let carries = |id| self.open(view).any(|seq| view.is_on(seq, id));
        subflows.iter().map(|s| s.id).find(|id| !carries(*id))
    }

    fn open<'a>(&self, view: &'a WindowView<'_>) -> impl Iterator<Item = DataSeq> + 'a {
        (self.window.first().0.max(view.first().0)..self.window.end().0)
            .map(DataSeq)
            .filter(|&s| view.is_open(s))
    }
}

impl FbdtPaper {
    /// The rules as published.
    pub fn published() -> Self {
        Self { reload: Reload::Acknowledged, window: None, wake: None, met: false }
    }

    /// What the released program does.
    pub fn released() -> Self {
        Self { reload: Reload::Accepted, ..Self::published() }
    }

    fn advance(
        &mut self,
        now: Instant,
        view: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        let loaded = self.window.as_mut()?;
        if matches!(loaded.phase, Phase::Cursors) {
            let next = match self.reload {
                Reload::Acknowledged => earliest_drained(subflows),
                // Released: whichever transport accepts more.
                Reload::Accepted => subflows.iter().find(|s| s.room > 0),
            };
            if let Some(assignment) = next.and_then(|subflow| loaded.take(subflow, subflows)) {
                return Some(assignment);
            }
            if !loaded.window.met() {
                return None;
            }
            if self.reload == Reload::Accepted {
                self.window = None;
                return None;
            }
            loaded.phase = Phase::Waiting(None);
            self.met = true;
        }
        if loaded.open(view).next().is_none() {
            self.window = None;
            return None;
        }
        if let Phase::Waiting(since) = loaded.phase {
            let (finisher, since) = match since {
                Some(waiting) => waiting,
                None => (loaded.early_finisher(view, subflows)?, now),
            };
            loaded.phase = Phase::Waiting(Some((finisher, since)));
            // At most one RTT of the other direction.
            let wait = subflows.iter().filter(|s| s.id != finisher).map(|s| s.srtt).max()?;
            if now < since + wait {
                self.wake = Some(since + wait);
                return None;
            }
            loaded.phase = Phase::Redundant(finisher, loaded.window.first());
        }
        let Phase::Redundant(finisher, from) = loaded.phase else { return None };
        let Some(subflow) = subflows.iter().find(|s| s.id == finisher) else {
            loaded.phase = Phase::Waiting(None);
            return None;
        };
        let next = loaded.open(view).find(|&seq| seq >= from && !view.is_on(seq, finisher));
        let Some(segment) = next else {
            self.window = None; // The next window is loaded without waiting for these acknowledgements.
            return None;
        };
        if subflow.room == 0 {
            return None;
        }
        loaded.phase = Phase::Redundant(finisher, segment.next());
        Some(Assignment { subflow: finisher, segment, kind: AssignmentKind::Redundant })
    }
}

impl Scheduler for FbdtPaper {
    fn name(&self) -> &'static str {
        match self.reload {
            Reload::Acknowledged => "fbdt-paper",
            Reload::Accepted => "fbdt-release",
        }
    }

    fn load(&mut self, _now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load> {
        if self.window.is_some() || subflows.iter().all(|s| s.room == 0) {
            return None;
        }
        Some(Load { bytes: window.window() as u64, segment: SEGMENT })
    }

    fn assign(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        self.wake = None;
        self.advance(now, window, subflows)
    }

    fn on_event(&mut self, _now: Instant, event: SchedulerEvent) {
        match event {
            SchedulerEvent::Loaded { first, end } => {
                let window = TransmissionWindow::new(first, end);
                self.window = Some(Loaded { window, phase: Phase::Cursors });
            }
            SchedulerEvent::SubflowDown(id) => {
                if let Some(loaded) = &mut self.window {
                    loaded.window.release(id);
                }
            }
            SchedulerEvent::Acknowledged { .. } | SchedulerEvent::SubflowUp(_) => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wake
    }

    fn take_wait(&mut self) -> bool {
        std::mem::take(&mut self.met)
    }
}

#[cfg(test)]
mod tests;
