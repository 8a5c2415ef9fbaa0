//! `fbdt`, the default: forward and backward transmission with a window that slides, late-binding.
//!
//! Source: FBDT §3. As in the paper, the most reliable subflow sends what is needed next and a less reliable one
//! what is needed later, and at the end of the data they meet. Beyond the paper: "later" is a time ([`LEAD`]) instead of
//! the end of a window; late segments that block delivery are reinjected ahead
//! of new data; a silent subflow gets nothing until it delivers again; near the end of the data a subflow declines a
//! segment that another would deliver sooner. Datagrams in order have a queue too short for a lead: a slower subflow takes one
//! only if it arrives before the others would get to it. On slow links data is sent in order, and copied only where
//! a subflow is silent or holds up delivery.

use core::time::Duration;

use tributary_types::{Bitrate, DataSeq, DataSize, Instant, SubflowId};

use super::free::Free;
use super::{
    Assignment, AssignmentKind, LONG_ARRIVAL, Load, Scheduler, SchedulerEvent, SegmentCopy, SubflowView,
    WindowView, carried_rate,
};

/// A segment counts as late when it exceeds its carrier's delivery delay by this time, or by a quarter of that
/// delay if that is longer. A segment that is not late is also sent again if the copy arrives sooner by more than this
/// time, or if the segment has held up delivery for this time.
const LATE_FLOOR: Duration = Duration::from_millis(30);
/// The same near the end of the data, and the number of bytes in flight up to which it applies.
const TAIL_FLOOR: Duration = Duration::from_millis(2);
const TAIL: u64 = 512 << 10;
/// A path whose least delivery delay is shorter is a wire, which is not blocked for a moment. Near the end of the data its
/// segments have the same patience as before: on a busy computer 2 ms are no delay, and copies cost both ends time.
const NEAR: Duration = Duration::from_millis(1);
/// Links are slow when all subflows together take longer than this for [`SEGMENT`]'s least bytes: below 4.4 Mbit/s. A copy then takes
/// as long as a segment may be late elsewhere, and a lead of a few segments as long as a blockage.
const SLOW_LINKS: Duration = LATE_FLOOR;
/// They are slow when this has been so for this long: not while a connection begins or a radio fades.
const SLOW_SINCE: Duration = Duration::from_secs(2);
/// On them only the first unacknowledged segment of a silent subflow is copied at once, the others when they are older than this: a
/// connection that waits for a retransmission timeout after a loss is silent too. A subflow that is not silent may hold up delivery,
/// because TCP repairs many losses there. Its segments are copied at this age, or at 1¼ of its round trips if that is longer.
const SLOW_AGE: Duration = Duration::from_secs(1);
/// Segments that are searched for late ones, from the first unacknowledged one on.
const LATE_SEARCH_SEGMENTS: u64 = 512;
/// The same while no subflow is silent. Delivery does not wait for the segments behind these yet.
const BLOCKING_SEGMENTS: u64 = 16;
/// Copies of one segment at most.
const MOST_SENDS: u16 = 4;
/// The least reliable subflow's segments are chosen so that they should arrive this long before they are needed, or an eighth
/// longer than its usual blockage: then delivery goes on meanwhile, and what it holds need not be sent again. Subflows
/// between it and the most reliable one get equal parts: with three subflows, the second one has half.
const LEAD: Duration = Duration::from_millis(30);
/// A subflow with data in flight takes no segment that would arrive more than this after the others' next one. Otherwise all
/// credit would be numbered for a subflow that stands still.
const FARTHEST: Duration = Duration::from_secs(2);
/// A slower subflow takes a segment of datagrams in order if it arrives there this much sooner than on the others.
const FLOW_MARGIN: Duration = Duration::from_millis(5);
/// Bytes of such a segment.
const FLOW_SEGMENT: u64 = 8 << 10;
/// Free segments at most.
const MOST_FREE: u64 = 1 << 16;
/// A bulk segment carries what all subflows together send in half a millisecond, within these bounds in bytes.
const SEGMENT: (u64, u64) = (16 << 10, 64 << 10);
/// On slow links the lower bound is less: what all subflows together send in this time, at least 4 KiB.
const SLOW: Duration = Duration::from_millis(2);
/// A small object is cut into about this many segments, of at least 4 KiB.
const SMALL_PARTS: u64 = 24;
const SMALL_SEGMENT: u64 = 4 << 10;

/// State of the scheduler.
#[derive(Debug, Default)]
pub(super) struct Fbdt {
    free: Free,
    /// More data must be numbered for a subflow with room.
    wants_more: bool,
    wake: Option<Instant>,
    /// The first unacknowledged segment, and since when it has been the first. `None` before the first acknowledgement.
    head: Option<(DataSeq, Instant)>,
    /// From when until when data last waited for slow links, without a pause of [`SLOW_SINCE`].
    slow: Option<(Instant, Instant)>,
}

/// How long a segment must be outstanding before it is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// There is more to send: a copy costs goodput.
    Bulk,
    /// Everything has been sent and little is in flight: idle room is used for copies of the end.
    Tail,
    /// The links are slow: only a silent subflow's segments are copied.
    Slow,
}

/// A subflow that holds up delivery, and since when.
#[derive(Clone, Copy, Debug)]
struct Blocker {
    carrier: SubflowId,
    since: Instant,
}

impl Blocker {
    /// From when its segments are copied to this subflow; `None` if it is the blocker itself.
    fn copied_from(&self, onto: &SubflowView) -> Option<Instant> {
        (self.carrier != onto.id).then(|| self.since + onto.arrival(SEGMENT.0).max(LATE_FLOOR))
    }
}

impl Patience {
    /// What applies to segments on this subflow.
    fn on(self, subflow: &SubflowView) -> Self {
        if self == Self::Tail && subflow.least_delay < NEAR { Self::Bulk } else { self }
    }
}

/// Whether the subflows that deliver could together carry more than slow links do.
fn are_fast(subflows: &[SubflowView]) -> bool {
    let time = carried_rate(subflows).time_for(DataSize::from_bytes(SEGMENT.0));
    time.is_some_and(|time| time <= SLOW_LINKS)
}

/// What one decision depends on, the same for every subflow that it may choose.
struct Situation<'a> {
    now: Instant,
    window: &'a WindowView<'a>,
    all: &'a [SubflowView],
    patience: Patience,
    blocker: Option<Blocker>,
}

/// How old a segment on this subflow must be to count as late.
fn late_after(subflow: &SubflowView, patience: Patience) -> Duration {
    let margin = match patience.on(subflow) {
        Patience::Slow => return SLOW_AGE,
        Patience::Tail => TAIL_FLOOR,
        Patience::Bulk => LATE_FLOOR,
    };
    subflow.srtt + (subflow.srtt / 4).max(margin)
}

/// Whether anything on the subflow may be late, so that a search is useful.
fn may_be_late(now: Instant, subflow: &SubflowView, onto: &SubflowView, patience: Patience) -> bool {
    match patience.on(subflow) {
        _ if subflow.silent => return true,
        Patience::Tail => return true,
        Patience::Slow => return false,
        Patience::Bulk => {}
    }
    let Some(sent) = subflow.oldest_sent else { return false };
    let next = subflow.arrival(0);
    now.saturating_since(sent) + next > late_after(subflow, patience)
        || onto.arrival(SEGMENT.0) + LATE_FLOOR < next
}

/// Whether a copy on another subflow, given by its rank and the time until the copy arrives, is useful: it would arrive more
/// than [`LATE_FLOOR`] sooner than this one, or this one will be late and the new one would arrive sooner.
fn worth_reinjecting(
    now: Instant,
    copy: &SegmentCopy,
    carrier: &SubflowView,
    (rank, arrival): (u8, Duration),
    patience: Patience,
) -> bool {
    let (age, left) = (now.saturating_since(copy.at), carrier.remaining(now, copy));
    if patience == Patience::Slow {
        return carrier.silent && age > late_after(carrier, patience);
    }
    if patience.on(carrier) == Patience::Tail {
        // Copies are sent at once on a more reliable subflow that delivers about as soon, in case this one is blocked, and
        // on a subflow that delivers them sooner.
        return carrier.silent
            || rank < carrier.rank && arrival < left + LATE_FLOOR
            || age > late_after(carrier, patience)
            || arrival < left;
    }
    let overdue = carrier.silent || age + left > late_after(carrier, patience);
    let sooner = carrier.silent || arrival < left;
    arrival + LATE_FLOOR < left || overdue && sooner && age > LATE_FLOOR / 2
}

/// What a subflow does with the free segments.
#[derive(Clone, Copy, Debug)]
enum Takes {
    /// Takes the one with this many below it, or the highest one if there are fewer.
    After(u64),
    /// Takes none: the others would deliver everything at hand sooner.
    Nowhere,
    /// Takes none before it has delivered some of what it carries.
    TooFar,
}

impl Fbdt {
    /// The lowest segment below all free ones whose subflow has held up delivery for longer than a copy on `onto` takes, or
    /// that will be late on its subflow and would arrive sooner on `onto`. Such a segment delays, or soon will delay, the
    /// delivery of everything behind it.
    fn late_segment(&self, situation: &Situation<'_>, onto: &SubflowView) -> Option<DataSeq> {
        let &Situation { now, window, all, patience, blocker } = situation;
        let blocker = blocker.filter(|b| b.copied_from(onto).is_some_and(|from| from <= now));
        if blocker.is_none() && !all.iter().any(|s| s.id != onto.id && may_be_late(now, s, onto, patience)) {
            return None;
        }
        let duration = onto.arrival(SEGMENT.0);
        let (first, under_way) = (window.first().0, self.free.lowest().unwrap_or(window.end()));
        let slow = patience == Patience::Slow;
        let blocking = patience == Patience::Bulk && !all.iter().any(|s| s.silent);
        let searched = if blocking { BLOCKING_SEGMENTS } else { LATE_SEARCH_SEGMENTS };
        (first..under_way.0.min(first + searched)).map(DataSeq).find(|&seq| {
            let Some(segment) = window.segment(seq).filter(|s| !s.acknowledged) else { return false };
            let Some(copy) = segment.last_copy else { return false };
            let Some(carrier) = all.iter().find(|s| s.id == copy.carrier) else { return false };
            let could_have_arrived = copy.at + carrier.least_delay + LATE_FLOOR <= now;
            let blocked = blocker.is_some_and(|b| {
                let held = b.carrier == carrier.id;
                let age = now.saturating_since(copy.at);
                let whole = held && !slow && seq.0 < first + BLOCKING_SEGMENTS;
                let lost = held && slow && age > SLOW_AGE.max(carrier.srtt * 5 / 4);
                whole || lost || seq.0 == first && could_have_arrived
            });
            let stranded = slow && seq.0 == first && carrier.silent;
            carrier.id != onto.id
                && segment.sends < MOST_SENDS
                && (blocked
                    || stranded
                    || worth_reinjecting(now, &copy, carrier, (onto.rank, duration), patience))
                && !window.is_on(seq, onto.id)
        })
    }

    /// The subflow that holds up delivery: the one with the oldest copy of the first unacknowledged segment, from when that
    /// segment is the first and could have arrived. The subflow's rate is not considered.
    fn blocker(&self, window: &WindowView<'_>, all: &[SubflowView]) -> Option<Blocker> {
        let (head, since) = self.head.filter(|(head, _)| *head == window.first())?;
        let copy = window.oldest_copy(head)?;
        let carrier = all.iter().find(|s| s.id == copy.carrier)?;
        Some(Blocker { carrier: carrier.id, since: since.max(copy.at + carrier.least_delay) })
    }

    /// Data waits for room: notes whether the links are slow. While nothing waits, their rates show only how little there is to send.
    fn waits(&mut self, now: Instant, subflows: &[SubflowView]) {
        let since =
            self.slow.filter(|(_, last)| now.saturating_since(*last) < SLOW_SINCE).map_or(now, |s| s.0);
        self.slow = if are_fast(subflows) { None } else { Some((since, now)) };
    }

    fn is_slow(&self, now: Instant) -> bool {
        self.slow.is_some_and(|(since, last)| {
            last.saturating_since(since) >= SLOW_SINCE && now.saturating_since(last) < SLOW_SINCE
        })
    }

    fn patience(&self, now: Instant, window: &WindowView<'_>) -> Patience {
        if self.is_slow(now) {
            return Patience::Slow;
        }
        // While a writer waits for room, an empty queue does not mean the end.
        let all_under_way = self.free.is_empty() && window.available() == 0 && !window.expects_more();
        if all_under_way && window.unacknowledged() <= TAIL { Patience::Tail } else { Patience::Bulk }
    }

    /// Where this subflow takes its next segment. Of two subflows, the one with the smaller sum of arrival and lead takes
    /// the lowest free segment. The other one leaves as many free segments below its own as the first one sends in the
    /// difference of the two sums.
    fn takes(of: &SubflowView, window: &WindowView<'_>, all: &[SubflowView]) -> Takes {
        let average = average_segment(window);
        let arrival = of.arrival(average);
        // The others' rates are averaged over about the time that the segment takes. A short pause of the others
        // must not move urgent data to a slow subflow.
        let rate = |s: &SubflowView| if arrival > LONG_ARRIVAL { s.long_rate } else { s.rate };
        let live = || all.iter().filter(|s| !s.silent);
        let others = || live().filter(|s| s.id != of.id);
        let more_reliable = |s: &SubflowView| live().filter(|other| other.rank < s.rank).count() as u32;
        let ahead = |s: &SubflowView| LEAD.max(s.usual_blockage * 9 / 8);
        let lead = |s: &SubflowView| ahead(s) * more_reliable(s) / others().count().max(1) as u32;
        let Some(soonest) = others().map(|s| s.arrival(average)).min() else { return Takes::After(0) };
        let together = Bitrate::from_bps(others().filter_map(rate).map(Bitrate::as_bps).sum());
        let everything = together.time_for(DataSize::from_bytes(window.unacknowledged()));
        if of.in_flight > 0 && arrival > soonest + FARTHEST {
            return Takes::TooFar;
        }
        if soonest < arrival && everything.is_some_and(|needed| needed < arrival) {
            return Takes::Nowhere;
        }
        let front = others().map(|s| s.arrival(average) + lead(s)).min().unwrap_or_default();
        let bytes = |time| together.size_in(time).as_bytes();
        let most = reach(window, all).max(bytes(arrival.saturating_sub(soonest)));
        Takes::After(bytes((arrival + lead(of)).saturating_sub(front)).min(most) / average)
    }
}

/// As [`Fbdt::takes`] for datagrams in order. Their queue is shorter than the lead of a slow subflow, and their sender answers to
/// round trips: a segment that holds up the delivery lowers its rate, and then less waits, and more is held up. So a slower subflow
/// takes one only if the others need longer for what waits, and then the one that they would reach when it arrives.
fn flow_takes(of: &SubflowView, window: &WindowView<'_>, all: &[SubflowView]) -> Takes {
    let others = || all.iter().filter(|s| !s.silent && s.id != of.id);
    let arrival = of.sustained_arrival(FLOW_SEGMENT);
    let soonest = others().map(|s| s.sustained_arrival(FLOW_SEGMENT)).min();
    let Some(soonest) = soonest.filter(|soonest| *soonest < arrival) else { return Takes::After(0) };
    let together = Bitrate::from_bps(others().filter_map(|s| s.sustained_rate).map(Bitrate::as_bps).sum());
    let waiting = together.time_for(DataSize::from_bytes(window.waiting())).unwrap_or_default();
    if soonest + waiting < arrival + FLOW_MARGIN {
        return Takes::Nowhere;
    }
    Takes::After(together.size_in(arrival - soonest).as_bytes() / average_segment(window))
}

/// Mean bytes of the segments that are numbered and not acknowledged, at least one.
fn average_segment(window: &WindowView<'_>) -> u64 {
    let segments = (window.end().0 - window.first().0).max(1);
    (window.unacknowledged() / segments).max(1)
}

/// Bytes that a lead may be ahead: the subflows' bandwidth-delay products, within one and four windows.
fn reach(window: &WindowView<'_>, subflows: &[SubflowView]) -> u64 {
    let product: u64 = subflows.iter().filter_map(|s| Some(s.rate?.size_in(s.srtt).as_bytes())).sum();
    let base = window.window() as u64;
    product.next_power_of_two().clamp(base, base * 4)
}

impl Scheduler for Fbdt {
    fn name(&self) -> &'static str {
        "fbdt"
    }

    fn load(&mut self, _now: Instant, window: &WindowView<'_>, subflows: &[SubflowView]) -> Option<Load> {
        let enough = !self.free.is_empty() && !self.wants_more;
        if enough || self.free.len() >= MOST_FREE || subflows.iter().all(|s| s.room == 0 || s.silent) {
            return None;
        }
        let rate: u64 = subflows.iter().filter_map(|s| s.rate).map(Bitrate::as_bps).sum();
        let base = window.window() as u64;
        let bytes = reach(window, subflows) / 8;
        let bulk = Bitrate::from_bps(rate).size_in(Duration::from_micros(500)).as_bytes();
        // On slow radios a large segment takes tens of milliseconds, too coarse a unit for reinjection.
        let least = match Bitrate::from_bps(rate).size_in(SLOW).as_bytes() {
            0 => SEGMENT.0,
            bytes => bytes.clamp(SMALL_SEGMENT, SEGMENT.0),
        };
        let bulk = bulk.clamp(least, SEGMENT.1);
        let small = window.available() + window.unacknowledged() < base / 2;
        let segment =
            if small { (window.available() / SMALL_PARTS).clamp(SMALL_SEGMENT, SEGMENT.0) } else { bulk };
        Some(Load { bytes, segment: segment as usize })
    }

    fn assign(
        &mut self,
        now: Instant,
        window: &WindowView<'_>,
        subflows: &[SubflowView],
    ) -> Option<Assignment> {
        let patience = self.patience(now, window);
        let late_at = |s: &SubflowView| Some(s.oldest_sent? + late_after(s, patience));
        let blocker = self.blocker(window, subflows);
        let blocked_at = |s: &SubflowView| blocker.as_ref()?.copied_from(s);
        let open = || subflows.iter().filter(|s| s.room > 0 && !s.silent);
        let times = subflows.iter().filter_map(late_at).chain(open().filter_map(blocked_at));
        self.wake = times.filter(|at| *at > now).min();
        let situation = Situation { now, window, all: subflows, patience, blocker };
        for subflow in open() {
            if let Some(segment) = self.late_segment(&situation, subflow) {
                return Some(Assignment { subflow: subflow.id, segment, kind: AssignmentKind::Reinjection });
            }
        }
        self.wants_more = false;
        let more = window.available() > 0;
        let of_flow = self.free.lowest().is_some_and(|seq| window.is_flow_in_order(seq));
        let takes = match patience {
            _ if of_flow => flow_takes,
            Patience::Slow => |_: &SubflowView, _: &WindowView<'_>, _: &[SubflowView]| Takes::After(0),
            Patience::Bulk | Patience::Tail => Self::takes,
        };
        for subflow in open() {
            let below = match takes(subflow, window, subflows) {
                Takes::After(below) if !more || below < self.free.len() => below,
                Takes::TooFar => continue,
                Takes::After(_) | Takes::Nowhere => {
                    self.wants_more = true;
                    continue;
                }
            };
            if let Some(segment) = self.free.take(below) {
                return Some(Assignment { subflow: subflow.id, segment, kind: AssignmentKind::Fresh });
            }
        }
        if more || !self.free.is_empty() {
            self.waits(now, subflows);
        }
        None
    }

    fn on_event(&mut self, now: Instant, event: SchedulerEvent) {
        match event {
            SchedulerEvent::Loaded { first, end } => self.free.add(first, end),
            SchedulerEvent::Acknowledged { first } if self.head.is_none_or(|(head, _)| head != first) => {
                self.head = Some((first, now));
            }
            SchedulerEvent::SubflowDown(_)
            | SchedulerEvent::Acknowledged { .. }
            | SchedulerEvent::SubflowUp(_) => {}
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.wake
    }
}

#[cfg(test)]
mod tests;
