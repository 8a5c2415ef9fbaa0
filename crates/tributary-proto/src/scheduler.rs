//! The scheduler interface: which segment goes on which subflow.
//!
//! A scheduler reads views and returns a decision; it changes nothing itself. The session applies the
//! decision, numbers data when asked to, and tells the scheduler what happened. The session sends urgent segments
//! (control, and those of a lost subflow) itself, before it asks the scheduler.

mod classifier;
mod fbdt;
mod fbdt_paper;
mod forecast;
mod free;
mod numbered_stream;
mod one_at_a_time;
mod prioritised;
mod redundant;
mod registry;
mod window;

use core::fmt::Debug;
use core::time::Duration;

use tributary_types::{Bitrate, DataSeq, DataSize, Instant, PathId, SubflowId};

use crate::content::ContentClass;
pub use crate::send::SegmentCopy;
use crate::send::SendBuffer;
use crate::wire::SegmentKind;
pub use classifier::{Weights, WeightsError};
pub use numbered_stream::NumberedStream;
pub use prioritised::{PriorityChoice, PriorityDecision};
pub use registry::{create, create_weighted, is_known, names};

/// State of a subflow, as schedulers see it.
#[derive(Clone, Copy, Debug)]
pub struct SubflowView {
    /// The subflow.
    pub id: SubflowId,
    /// Its path.
    pub path: PathId,
    /// Bytes it can take now and send soon. Zero: assign nothing to it.
    pub room: usize,
    /// Smoothed time from handing a segment over to its acknowledgement.
    pub srtt: Duration,
    /// Mean deviation of it.
    pub rttvar: Duration,
    /// Least round-trip time.
    pub min_rtt: Duration,
    /// Least time from handing a segment over to its acknowledgement, of the last seconds; if there is none, the least
    /// round-trip time.
    pub least_delay: Duration,
    /// How much later than expected segments arrive after the blockages that its path usually has; zero if it has none, or
    /// if they are too long to wait for.
    pub usual_blockage: Duration,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Payload bytes handed over and not acknowledged.
    pub in_flight: u64,
    /// Payload bytes sent on it that have arrived.
    pub delivered: u64,
    /// Recent delivery rate while busy; `None` until known.
    pub rate: Option<Bitrate>,
    /// The same, averaged over a second.
    pub long_rate: Option<Bitrate>,
    /// The higher of these two, so that a moment with little to send does not lower it; before it is measured, the best rate
    /// of the last seconds, and only then what the congestion window allows, which may be far more than the path carries.
    pub sustained_rate: Option<Bitrate>,
    /// When the oldest unacknowledged segment was handed over.
    pub oldest_sent: Option<Instant>,
    /// Silent: nothing has been acknowledged for much longer than usual.
    pub silent: bool,
    /// Order of reliability: 0 is the most reliable.
    pub rank: u8,
}

impl SubflowView {
    /// Expected time until the copy is acknowledged.
    #[must_use]
    pub fn remaining(&self, now: Instant, copy: &SegmentCopy) -> Duration {
        let ahead = copy.position.saturating_sub(self.delivered);
        let way = self.least_delay.saturating_sub(now.saturating_since(copy.at));
        self.expect(|rate| time_for(rate, ahead).max(way))
    }

    /// Expected time until `bytes` more, handed over now, are acknowledged. Acknowledgements return on every path and the
    /// first one counts, so two subflows differ only in the way to the receiver.
    #[must_use]
    pub fn arrival(&self, bytes: u64) -> Duration {
        // Bytes in flight drain during the propagation delay; an idle pipe still has that delay.
        self.expect(|rate| {
            (self.least_delay + time_for(rate, bytes)).max(time_for(rate, self.in_flight + bytes))
        })
    }

    /// As [`Self::arrival`], by the sustained rate: for data that arrives in bursts and does not fill the paths all the time.
    #[must_use]
    pub fn sustained_arrival(&self, bytes: u64) -> Duration {
        Self { rate: self.sustained_rate, ..*self }.arrival(bytes)
    }

    /// As [`Self::arrival`] for data that fills no path: the rate is what the congestion window allows, and not the little that
    /// was sent.
    #[must_use]
    pub fn unloaded_arrival(&self, bytes: u64) -> Duration {
        let rate = self.rate.max(Bitrate::of(DataSize::from_bytes(self.cwnd), self.srtt));
        (self.least_delay + time_for(rate, bytes)).max(time_for(rate, self.in_flight + bytes))
    }

    /// A time by the recent rate. If that is over [`LONG_ARRIVAL`], the time by the rate over a second if that is less, but at
    /// least [`LONG_ARRIVAL`]. On a slow subflow a segment takes as long as the recent rate is averaged over, so that
    /// rate may be zero between two segments.
    fn expect(&self, time: impl Fn(Option<Bitrate>) -> Duration) -> Duration {
        let recent = time(self.rate);
        if recent > LONG_ARRIVAL { recent.min(time(self.long_rate).max(LONG_ARRIVAL)) } else { recent }
    }
}

/// The rate of all subflows that are not silent: measured over a second or, if that is more because the application sent less, what
/// their congestion windows allow.
pub(crate) fn carried_rate(subflows: &[SubflowView]) -> Bitrate {
    let rate = |subflow: &SubflowView| {
        let window = Bitrate::of(DataSize::from_bytes(subflow.cwnd), subflow.srtt);
        subflow.long_rate.max(window).map_or(0, Bitrate::as_bps)
    };
    Bitrate::from_bps(subflows.iter().filter(|subflow| !subflow.silent).map(rate).sum())
}

/// If a segment would take longer than this by the recent rate, the rate over a second counts.
const LONG_ARRIVAL: Duration = Duration::from_millis(250);

fn time_for(rate: Option<Bitrate>, bytes: u64) -> Duration {
    rate.and_then(|rate| rate.time_for(DataSize::from_bytes(bytes))).unwrap_or_default()
}

/// State of the data, as schedulers see it.
#[derive(Clone, Copy)]
pub struct WindowView<'a> {
    send: &'a SendBuffer,
    window: usize,
    more: bool,
}

/// State of a segment, as schedulers see it.
#[derive(Clone, Copy, Debug)]
pub struct SegmentView {
    /// Payload bytes.
    pub bytes: u32,
    /// Priority of its stream; zero is bulk.
    pub priority: u8,
    /// What its stream needs of a subflow, if it has a priority.
    pub content: ContentClass,
    /// The peer has it.
    pub acknowledged: bool,
    /// The newest copy; `None` when it was never sent.
    pub last_copy: Option<SegmentCopy>,
    /// Times it was sent.
    pub sends: u16,
    /// It got its priority after it was numbered.
    pub raised: bool,
}

impl<'a> WindowView<'a> {
    pub(crate) fn new(send: &'a SendBuffer, window: usize) -> Self {
        Self { send, window, more: false }
    }

    /// The same view; `more`: the application waits for room to write more.
    pub(crate) fn expecting(self, more: bool) -> Self {
        Self { more, ..self }
    }

    /// Whether the application waits for room, so that more data follows the data at hand.
    #[must_use]
    pub fn expects_more(&self) -> bool {
        self.more
    }

    /// The lowest number that is not acknowledged.
    #[must_use]
    pub fn first(&self) -> DataSeq {
        self.send.first()
    }

    /// One past the highest number assigned.
    #[must_use]
    pub fn end(&self) -> DataSeq {
        self.send.end()
    }

    /// The segment; `None` when it was acknowledged long ago or never numbered.
    #[must_use]
    pub fn segment(&self, seq: DataSeq) -> Option<SegmentView> {
        self.send.segment(seq).map(|s| SegmentView {
            bytes: s.payload.len() as u32,
            priority: s.priority,
            content: s.content,
            acknowledged: s.acknowledged,
            last_copy: s.copies().next(),
            sends: s.sends,
            raised: s.raised,
        })
    }

    /// The oldest copy of the segment that is remembered.
    #[must_use]
    pub fn oldest_copy(&self, seq: DataSeq) -> Option<SegmentCopy> {
        self.send.segment(seq)?.copies().last()
    }

    /// Whether a copy of the segment is on this subflow.
    #[must_use]
    pub fn is_on(&self, seq: DataSeq, subflow: SubflowId) -> bool {
        self.send.segment(seq).is_some_and(|s| s.is_on(subflow))
    }

    /// Whether the segment is not acknowledged yet.
    #[must_use]
    pub fn is_open(&self, seq: DataSeq) -> bool {
        self.send.segment(seq).is_some_and(|s| !s.acknowledged)
    }

    /// Whether no subflow has taken the segment, and the peer does not have it.
    #[must_use]
    pub fn is_unsent(&self, seq: DataSeq) -> bool {
        self.send.is_unsent(seq)
    }

    /// The first segment that got a priority after it was numbered, and was not sent.
    #[must_use]
    pub fn raised(&self) -> Option<DataSeq> {
        self.send.raised()
    }

    /// Written bytes that could be numbered now.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.send.available()
    }

    /// The part of them that goes first: streams with a priority, limited so that bulk does not starve.
    #[must_use]
    pub fn available_prioritised(&self) -> u64 {
        self.send.available_prioritised()
    }

    /// Bytes that no subflow has taken, numbered or not, within credit.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.send.untaken() as u64 + self.available()
    }

    /// Whether the segment has datagrams that are delivered in order.
    #[must_use]
    pub fn is_flow_in_order(&self, seq: DataSeq) -> bool {
        let kind = self.send.segment(seq).map(|segment| segment.head.kind);
        matches!(kind, Some(SegmentKind::Datagrams { in_order: true, .. }))
    }

    /// Bytes written and not numbered, regardless of credit.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.send.held().saturating_sub(self.send.unacknowledged()) as u64
    }

    /// Payload bytes that may still be numbered within the peer's credit.
    #[must_use]
    pub fn credit(&self) -> u64 {
        self.send.credit()
    }

    /// Payload bytes numbered and not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.send.unacknowledged() as u64
    }

    /// The agreed transmission window, bytes.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window
    }
}

/// Reason of sending a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssignmentKind {
    /// For the first time.
    Fresh,
    /// Again, on another subflow: the first copy is late.
    Reinjection,
    /// Again, on purpose.
    Redundant,
}

/// A decision: this segment on this subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The subflow.
    pub subflow: SubflowId,
    /// The segment.
    pub segment: DataSeq,
    /// Why.
    pub kind: AssignmentKind,
}

/// Request to number this much more data as one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Payload bytes at most.
    pub bytes: u64,
    /// Bytes a segment at most.
    pub segment: usize,
}

/// Notification of the session to a scheduler.
#[derive(Clone, Copy, Debug)]
pub enum SchedulerEvent {
    /// Segments `first..end` were numbered as one window, because [`Scheduler::load`] asked.
    Loaded {
        /// First segment.
        first: DataSeq,
        /// One past the last.
        end: DataSeq,
    },
    /// Every segment below `first` is acknowledged.
    Acknowledged {
        /// The lowest number that is not.
        first: DataSeq,
    },
    /// A subflow opened.
    SubflowUp(SubflowId),
    /// A subflow has ended. The session, not the scheduler, sends its segments again.
    SubflowDown(SubflowId),
}

/// Decides which segment goes on which subflow. Built by name from the registry.
pub trait Scheduler: Debug + Send {
    /// Its name in the registry.
    fn name(&self) -> &'static str;

    /// How much more data to number now; asked when [`Self::assign`] had nothing.
    fn load(&mut self, now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load>;

    /// The next assignment, or `None` when nothing useful can be sent now. Assigns only to subflows with room.
    fn assign(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment>;

    /// Whether it sends segments with a priority ahead of bulk that is numbered already.
    fn prioritises(&self) -> bool {
        false
    }

    /// Handles a notification.
    fn on_event(&mut self, now: Instant, event: SchedulerEvent);

    /// When to ask again although nothing happened.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next subflow whose congestion window is to be halved because it delays the others. A driver that owns
    /// the congestion windows calls this after each `assign`. If no driver calls it, the scheduler limits the
    /// bytes in flight itself.
    fn take_penalty(&mut self) -> Option<SubflowId> {
        None
    }

    /// Whether the scheduler has begun to wait until everything that it assigned is acknowledged. The session then asks the
    /// peer to acknowledge at once. True once for each wait.
    fn take_wait(&mut self) -> bool {
        false
    }

    /// Reasons of the last assignment, if its segment was prioritised. For telemetry.
    fn take_decision(&mut self) -> Option<PriorityDecision> {
        None
    }
}

/// The subflow with room on which `bytes` would arrive first; silent ones only when all are.
#[must_use]
pub(crate) fn earliest_arrival(subflows: &[SubflowView], bytes: u64) -> Option<SubflowId> {
    subflows.iter().filter(|s| s.room > 0).min_by_key(|s| (s.silent, s.arrival(bytes), s.rank)).map(|s| s.id)
}

#[cfg(test)]
mod tests;
