//! The content discriminator: a prioritised segment goes to the subflow with the best forecast. The other segments
//! go where another scheduler, the *bulk scheduler*, puts them.
//!
//! Source: AVIRA §III-B and §III-G. A prioritised segment is one of a stream with a priority above zero, or one that
//! `NumberedStream::prioritise_every` selects. Data of a prioritised stream is numbered and sent before numbered
//! bulk. `avira` is the paper's form, over `round-robin`, the default of the ns-3 model that the paper extends.
//! `avira+NAME` is the product's form: a small segment is also copied to the second best subflow when that is nearly
//! as good, and a late one is sent again on another. Without priorities the bulk scheduler decides alone.

mod under_way;

use core::time::Duration;
use std::collections::VecDeque;

use tributary_types::{DataSeq, Instant, SubflowId};

use super::classifier::{self, Choice, Weights};
use super::forecast::{Latency, Tracker};
use super::{Assignment, AssignmentKind, Load, Scheduler, SchedulerEvent, SubflowView, WindowView};
use crate::content::ContentClass;
use under_way::UnderWay;

/// Bytes of a prioritised segment at most.
const SEGMENT: usize = 16 << 10;
/// Limit on prioritised bytes sent ahead of numbered bulk. Each byte of bulk sent allows three more, so that bulk
/// gets at least a quarter while both wait.
const MOST_AHEAD_OF_BULK: u64 = 256 << 10;
const SHARE: u64 = 3;
/// Larger segments are not copied, bytes.
const COPY_MOST: u32 = 4 << 10;
/// Most copies that wait for room.
const MOST_COPIES: usize = 32;
/// The second best counts as nearly as good when its score exceeds the best by at most this. Scores are shares of
/// the largest latency, so this is half of the range.
const CLOSE: f64 = 0.5;

/// Reason of the choice of a subflow for a prioritised segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityChoice {
    /// Its forecast was the best.
    Forecast,
    /// The best subflow had no room. Then the bulk scheduler's choice is used or, ahead of bulk, the best subflow
    /// with room.
    Fallback,
    /// A copy on the second best subflow, which is nearly as good.
    Copy,
    /// The segment was late on another subflow.
    Late,
}

/// A decision about a prioritised segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityDecision {
    /// The segment.
    pub segment: DataSeq,
    /// Where it goes.
    pub onto: SubflowId,
    /// The reason.
    pub choice: PriorityChoice,
    /// The latency that was forecast for that subflow.
    pub forecast: Duration,
}

/// State of the discriminator.
#[derive(Debug)]
pub(super) struct Prioritised {
    name: &'static str,
    bulk: Box<dyn Scheduler>,
    weights: Weights,
    tracker: Tracker,
    /// The product's form, with the additions to the paper.
    is_product: bool,
    /// Holds everything back until the subflow with the best forecast has room.
    waits: bool,
    /// The segment that is held back, and the subflow that it waits for.
    held: Option<(Assignment, SubflowId)>,
    /// Prioritised segments that were numbered and not sent.
    fresh: Option<(DataSeq, DataSeq)>,
    /// The next window that is loaded contains prioritised segments.
    asked: bool,
    copies: VecDeque<(DataSeq, SubflowId)>,
    /// Larger segments are not copied, bytes.
    copy_most: u32,
    under_way: UnderWay,
    /// Prioritised bytes recently sent ahead of bulk.
    ahead: u64,
    decision: Option<PriorityDecision>,
}

impl Prioritised {
    /// The paper's scheduler.
    pub fn paper(name: &'static str, bulk: Box<dyn Scheduler>, weights: Weights) -> Self {
        Self::new(name, bulk, weights, Latency::RoundTrip)
    }

    /// The paper's scheduler, but a prioritised segment waits for the subflow with the best forecast. Everything
    /// after it in the connection waits as well.
    pub fn waiting(name: &'static str, bulk: Box<dyn Scheduler>, weights: Weights) -> Self {
        Self { waits: true, ..Self::paper(name, bulk, weights) }
    }

    /// With the present state of the subflows instead of the forecast. It shows the effect of priority alone.
    pub fn of_the_present(self) -> Self {
        Self { tracker: self.tracker.of_the_present(), ..self }
    }

    /// Without copies of small segments on the second best subflow.
    pub fn without_copies(self) -> Self {
        Self { copy_most: 0, ..self }
    }

    /// The product's scheduler.
    pub fn product(name: &'static str, bulk: Box<dyn Scheduler>, weights: Weights) -> Self {
        Self { is_product: true, ..Self::new(name, bulk, weights, Latency::Arrival) }
    }

    fn new(name: &'static str, bulk: Box<dyn Scheduler>, weights: Weights, latency: Latency) -> Self {
        Self {
            name,
            bulk,
            weights,
            tracker: Tracker::new(latency),
            is_product: false,
            waits: false,
            held: None,
            fresh: None,
            asked: false,
            copies: VecDeque::with_capacity(MOST_COPIES),
            copy_most: COPY_MOST,
            under_way: UnderWay::default(),
            ahead: 0,
            decision: None,
        }
    }

    /// The best of the allowed subflows for this class of content.
    fn best(
        &self,
        (now, content): (Instant, ContentClass),
        subflows: &[SubflowView],
        allowed: impl Fn(&SubflowView) -> bool,
    ) -> Option<Choice> {
        classifier::best((now, &self.tracker, &self.weights.of(content)), subflows, allowed)
    }

    fn decide(&mut self, segment: DataSeq, choice: &Choice, why: PriorityChoice) {
        // Limited to an hour.
        let forecast = Duration::from_nanos((choice.forecast.latency.min(3600.0) * 1e9) as u64);
        self.decision = Some(PriorityDecision { segment, onto: choice.subflow, choice: why, forecast });
    }

    /// Whether prioritised bytes wait for a number and could be sent at once. If they were numbered earlier, more
    /// urgent bytes written later could not overtake them.
    fn wants_load(&self, window: &WindowView<'_>, subflows: &[SubflowView]) -> bool {
        let waits = self.fresh.is_some() || window.raised().is_some();
        !waits && window.available_prioritised() > 0 && subflows.iter().any(|s| s.room > 0)
    }

    /// The next prioritised segment that is numbered and not sent. Those that got their priority after they were numbered are older
    /// and go first.
    fn first_unsent(&mut self, window: &WindowView<'_>) -> Option<DataSeq> {
        if let Some(raised) = window.raised() {
            return Some(raised);
        }
        let (first, end) = self.fresh?;
        // A bulk scheduler that reads all numbered segments may have sent it already.
        let next = (first.0..end.0).map(DataSeq).find(|seq| window.is_unsent(*seq));
        self.fresh = next.map(|next| (next, end));
        next
    }

    /// The next prioritised segment ahead of bulk.
    fn next_fresh(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        let segment = self.first_unsent(window)?;
        let (bytes, content) =
            window.segment(segment).map_or((0, ContentClass::Mixed), |s| (s.bytes, s.content));
        let best = self.best((now, content), subflows, |_| true)?;
        // AVIRA §IV: a subflow that is full by its congestion window does not get the segment.
        let (choice, why) = if best.has_room {
            (best, PriorityChoice::Forecast)
        } else {
            (self.best((now, content), subflows, |s| s.room > 0)?, PriorityChoice::Fallback)
        };
        // The next look begins behind it.
        if let Some((first, end)) = self.fresh
            && first == segment
        {
            self.fresh = (segment.next() < end).then(|| (segment.next(), end));
        }
        self.ahead = self.ahead.saturating_add(u64::from(bytes)).min(2 * MOST_AHEAD_OF_BULK);
        self.decide(segment, &choice, why);
        if self.is_product {
            self.under_way.sent(now, segment, subflows.iter().find(|s| s.id == choice.subflow));
            self.plan_copy((now, content), (segment, bytes), &choice, subflows);
        }
        Some(Assignment { subflow: choice.subflow, segment, kind: AssignmentKind::Fresh })
    }

    fn plan_copy(
        &mut self,
        for_content: (Instant, ContentClass),
        (segment, bytes): (DataSeq, u32),
        first: &Choice,
        subflows: &[SubflowView],
    ) {
        if bytes > self.copy_most || self.copies.len() >= MOST_COPIES {
            return;
        }
        let second = self.best(for_content, subflows, |s| s.id != first.subflow && !s.silent);
        if let Some(second) = second.filter(|second| second.score - first.score <= CLOSE) {
            self.copies.push_back((segment, second.subflow));
        }
    }

    /// The next copy whose subflow has room.
    fn next_copy(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        self.copies.retain(|(segment, onto)| window.is_open(*segment) && !window.is_on(*segment, *onto));
        let can = |onto: SubflowId| subflows.iter().any(|s| s.id == onto && s.room > 0 && !s.silent);
        let at = self.copies.iter().position(|(_, onto)| can(*onto))?;
        let (segment, subflow) = self.copies.remove(at)?;
        let choice = self.best((now, content(window, segment)), subflows, |s| s.id == subflow)?;
        self.decide(segment, &choice, PriorityChoice::Copy);
        Some(Assignment { subflow, segment, kind: AssignmentKind::Redundant })
    }

    /// A late prioritised segment, onto the best other subflow.
    fn next_late(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        if !self.under_way.may_be_late(now, subflows) {
            return None;
        }
        let segment = self.under_way.late(now, window, subflows)?;
        let content = content(window, segment);
        let choice = self.best((now, content), subflows, |s| s.room > 0 && !window.is_on(segment, s.id))?;
        self.under_way.sent_again(now, subflows.iter().find(|s| s.id == choice.subflow));
        self.decide(segment, &choice, PriorityChoice::Late);
        Some(Assignment { subflow: choice.subflow, segment, kind: AssignmentKind::Reinjection })
    }

    /// The segment that was held back, once its subflow has room. If that subflow has ended, a new one is chosen.
    fn next_held(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        let (assignment, onto) = self.held?;
        let moving = subflows.iter().any(|s| !s.silent);
        let alive = subflows.iter().any(|s| s.id == onto && s.silent != moving);
        let content = content(window, assignment.segment);
        let choice = self.best((now, content), subflows, |s| s.id == onto || !alive)?;
        if !choice.has_room {
            self.held = Some((assignment, choice.subflow));
            return None;
        }
        self.held = None;
        self.decide(assignment.segment, &choice, PriorityChoice::Forecast);
        Some(Assignment { subflow: choice.subflow, ..assignment })
    }

    /// The bulk scheduler's decision; where a prioritised segment goes is decided here.
    fn next_bulk(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        let mut assignment = self.bulk.assign(now, window, subflows)?;
        let mut segment = window.segment(assignment.segment)?;
        // The bulk scheduler does not know what was sent ahead of it because it got its priority later.
        while segment.raised && segment.sends > 0 && assignment.kind == AssignmentKind::Fresh {
            let next = self.bulk.assign(now, window, subflows)?;
            if next == assignment {
                break;
            }
            (assignment, segment) = (next, window.segment(next.segment)?);
        }
        if segment.priority == 0 {
            self.ahead = self.ahead.saturating_sub(SHARE * u64::from(segment.bytes));
            return Some(assignment);
        }
        // The bulk scheduler does not know which segments were sent ahead of it.
        assignment.kind = match assignment.kind {
            _ if segment.sends == 0 => AssignmentKind::Fresh,
            AssignmentKind::Fresh => AssignmentKind::Redundant,
            other => other,
        };
        // Prioritised segments beyond their stream's share are scheduled as bulk.
        if self.is_product || assignment.kind != AssignmentKind::Fresh {
            return Some(assignment);
        }
        let best = self.best((now, segment.content), subflows, |_| true)?;
        if best.has_room {
            self.decide(assignment.segment, &best, PriorityChoice::Forecast);
            return Some(Assignment { subflow: best.subflow, ..assignment });
        }
        if self.waits {
            self.held = Some((assignment, best.subflow));
            return None;
        }
        if let Some(choice) = self.best((now, segment.content), subflows, |s| s.id == assignment.subflow) {
            self.decide(assignment.segment, &choice, PriorityChoice::Fallback);
        }
        Some(assignment)
    }
}

/// What a numbered segment's stream needs.
fn content(window: &WindowView<'_>, segment: DataSeq) -> ContentClass {
    window.segment(segment).map_or(ContentClass::Mixed, |segment| segment.content)
}

impl Scheduler for Prioritised {
    fn name(&self) -> &'static str {
        self.name
    }

    fn load(&mut self, now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load> {
        if self.held.is_some() {
            return None;
        }
        self.asked = self.wants_load(window, subflows);
        if self.asked {
            let bytes = window.available_prioritised().min(MOST_AHEAD_OF_BULK);
            return Some(Load { bytes, segment: SEGMENT });
        }
        self.bulk.load(now, window, subflows)
    }

    fn assign(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        self.decision = None;
        self.tracker.observe(now, subflows);
        if self.held.is_some() {
            return self.next_held(now, window, subflows);
        }
        if self.ahead >= MOST_AHEAD_OF_BULK {
            // Bulk has waited long enough.
            if let Some(assignment) = self.next_bulk(now, window, subflows) {
                return Some(assignment);
            }
            self.ahead = 0;
        }
        if let Some(assignment) = self.next_fresh(now, window, subflows) {
            return Some(assignment);
        }
        if self.wants_load(window, subflows) {
            return None; // The session loads it now.
        }
        self.next_late(now, window, subflows)
            .or_else(|| self.next_copy(now, window, subflows))
            .or_else(|| self.next_bulk(now, window, subflows))
    }

    fn prioritises(&self) -> bool {
        true
    }

    fn on_event(&mut self, now: Instant, event: SchedulerEvent) {
        match event {
            SchedulerEvent::Loaded { first, end } if std::mem::take(&mut self.asked) => {
                self.fresh = (first < end).then_some((first, end));
                return;
            }
            SchedulerEvent::SubflowUp(id) => self.tracker.up(id),
            SchedulerEvent::SubflowDown(id) => {
                self.tracker.down(id);
                self.copies.retain(|(_, onto)| *onto != id);
            }
            SchedulerEvent::Loaded { .. } | SchedulerEvent::Acknowledged { .. } => {}
        }
        self.bulk.on_event(now, event);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.bulk.poll_timeout().into_iter().chain(self.under_way.poll_timeout()).min()
    }

    fn take_penalty(&mut self) -> Option<SubflowId> {
        self.bulk.take_penalty()
    }

    fn take_wait(&mut self) -> bool {
        self.bulk.take_wait()
    }

    fn take_decision(&mut self) -> Option<PriorityDecision> {
        self.decision.take()
    }
}

#[cfg(test)]
mod tests;
