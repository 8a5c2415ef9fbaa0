//! Output: control frames, urgent segments, then the segments that the scheduler assigns.

use core::time::Duration;

use bytes::Bytes;
use tributary_types::{Bitrate, DataSeq, Instant, SubflowId};

use super::{Life, Session};
use crate::event::{Event, Transmit};
use crate::scheduler::{AssignmentKind, SchedulerEvent, SubflowView, WindowView, earliest_arrival};
use crate::subflow::{FRESH_AFTER, Subflow};
use crate::wire::{
    Ack, Control, Head, MAX_ACK_RANGES, MAX_ACK_SUBFLOWS, encode_control, encode_segment_head,
};

/// Control frames are cut from blocks of this size.
const CONTROL_BLOCK: usize = 64 * 1024;
/// Least limit on a stream's bytes that no subflow has taken: what a driver hands over in one turn.
const LEAST_UNSENT: usize = 16 << 10;
/// While a subflow wants data that is needed later, writers may exceed the limit this many times.
const STARVED_LIMITS: u32 = 4;
/// The mean lateness of paths is compared in steps of this length above the least one. Paths in the same step are equally
/// reliable.
const EQUALLY_LATE: Duration = Duration::from_millis(2);
/// A segment that is overdue by less does not count in the order of paths. Otherwise jitter would change the order.
const OVERDUE: Duration = Duration::from_millis(30);

impl Session {
    /// The next bytes to write, until `None`. Call after every mutation.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.clock = now;
        if self.life == Life::Closed {
            return self.closing_frame();
        }
        if self.ack_at.is_some_and(|at| at <= now) {
            self.acknowledge();
        }
        if let Some(transmit) = self.control_frames() {
            return Some(transmit);
        }
        if let Some(transmit) = self.next_segment(now) {
            return Some(transmit);
        }
        if self.scheduler.take_wait()
            && let Some(transmit) = self.ask_for_acknowledgement()
        {
            return Some(transmit);
        }
        if self.watch_waiting(now)
            && let Some(transmit) = self.next_segment(now)
        {
            return Some(transmit);
        }
        if let Life::Closing(code) = self.life
            && self.send.is_flushed()
        {
            let reason = self.close_reason.clone();
            self.end(code, reason, false);
            return self.closing_frame();
        }
        None
    }

    /// The next event, until `None`. Call after `poll_transmit` has none left.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if let Some(Event::CloseSubflow { subflow, .. }) = event {
            self.subflows.remove(&subflow);
        }
        event
    }

    /// Whether the driver must send at once: credit that the peer may be waiting for, or urgent segments.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.ack_at == Some(Instant::ZERO) || self.send.has_urgent()
    }

    /// When to call `handle_timeout` and drain although nothing happened.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.life == Life::Closed {
            return None;
        }
        let idle = self.last_heard + self.config.idle_timeout;
        let alone = self.are_all_silent();
        let subflows = self.subflows.values().flat_map(|s| {
            let silence = match s.silent {
                true => s.fresh_at(alone).map(|at| at.max(s.last_refresh + FRESH_AFTER)),
                false => s.silent_at(),
            };
            let alive = (s.last_heard + self.config.keep_alive).max(s.last_ping + self.config.keep_alive);
            [silence, Some(alive), s.listening.poll_timeout(&s.info), s.capped.poll_timeout()]
                .into_iter()
                .flatten()
        });
        [
            self.ack_at,
            self.scheduler.poll_timeout(),
            self.paths.poll_timeout(),
            self.expecting_until,
            self.metered.poll_timeout(),
            Some(idle),
        ]
        .into_iter()
        .flatten()
        .chain(subflows)
        .min()
    }

    // ---- control

    fn control_frames(&mut self) -> Option<Transmit> {
        // A ping follows the segments that it asks about.
        let has_ordered = |s: &Subflow| {
            s.settings_due
                || s.ping_due
                || s.refresh_due.is_some()
                || s.replace_due.is_some()
                || s.capped.due
                || !s.gone_due.is_empty()
        };
        let due = |s: &Subflow| s.ack_due || s.pong_due.is_some() || has_ordered(s);
        let id = self.subflows.values().find(|s| s.room > 0 && due(s))?.id;
        let ack = self.current_ack();
        let settings = self.granted.settings;
        self.control.reserve(CONTROL_BLOCK);
        let out = &mut self.control;
        if self.subflows.get(&id).is_some_and(|s| s.ack_due) {
            for other in self.subflows.values().filter(|s| s.arrived_apart > 0) {
                encode_control(&Control::Apart { subflow: other.id, count: other.arrived_apart }, out);
            }
        }
        let subflow = self.subflows.get_mut(&id)?;
        let may_overtake = !has_ordered(subflow);
        if std::mem::take(&mut subflow.settings_due) {
            encode_control(&Control::Settings(settings), out);
        }
        if std::mem::take(&mut subflow.ack_due) {
            encode_control(&Control::Ack(ack), out);
            subflow.acknowledged_arrivals = subflow.arrived + subflow.arrived_apart;
        }
        if std::mem::take(&mut subflow.ping_due) {
            encode_control(&Control::Ping(subflow.arrived), out);
        }
        if let Some(number) = subflow.pong_due.take() {
            encode_control(&Control::Pong(number), out);
        }
        if let Some(path) = subflow.refresh_due.take() {
            encode_control(&Control::Refresh(path), out);
        }
        if let Some(path) = subflow.replace_due.take() {
            encode_control(&Control::Replace(path), out);
        }
        if std::mem::take(&mut subflow.capped.due) {
            encode_control(&Control::Cap(subflow.capped.own()), out);
        }
        for gone in std::mem::take(&mut subflow.gone_due) {
            encode_control(&Control::Gone(gone), out);
        }
        let payload = out.split().freeze();
        Some(Transmit { may_overtake, ..self.take_room(id, Head::default(), payload) })
    }

    /// A ping behind the last segment of each subflow: the peer answers it at once, with the acknowledgement that it would
    /// else delay by a millisecond.
    fn ask_for_acknowledgement(&mut self) -> Option<Transmit> {
        for subflow in self.subflows.values_mut().filter(|s| s.waiting_since().is_some()) {
            subflow.ping_due = true;
        }
        self.control_frames()
    }

    /// Acknowledgements go on every subflow, because one that is blocked must not delay the news of what arrived
    /// on it (FBDT §3.2). An acknowledgement that gives credit urgently goes on metered subflows, too.
    fn acknowledge(&mut self) {
        let urgent = self.ack_at.take() == Some(Instant::ZERO);
        self.offer_credit();
        let saved: Vec<_> =
            self.subflows.values().filter(|s| !urgent && self.saves_ack(s)).map(|s| s.id).collect();
        for subflow in self.subflows.values_mut().filter(|s| !saved.contains(&s.id)) {
            subflow.ack_due = true;
        }
    }

    fn current_ack(&self) -> Ack {
        Ack {
            next: self.arrivals.next(),
            max_data: self.granted.max_data,
            ranges: self.arrivals.ranges().take(MAX_ACK_RANGES).collect(),
            progress: self.subflows.values().map(|s| (s.id, s.arrived)).take(MAX_ACK_SUBFLOWS).collect(),
        }
    }

    /// Says on every subflow that this side has ended the session, whether or not there is room.
    fn closing_frame(&mut self) -> Option<Transmit> {
        let code = self.events.iter().find_map(|event| match event {
            Event::Closed { code, by_peer: false, reason } => Some((*code, reason.clone())),
            _ => None,
        });
        let (code, reason) = code?;
        let subflow = self.subflows.values_mut().find(|s| !s.close_sent)?;
        subflow.close_sent = true;
        let id = subflow.id;
        encode_control(&Control::Close { code, reason: Bytes::from(reason) }, &mut self.control);
        let payload = self.control.split().freeze();
        Some(self.take_room(id, Head::default(), payload))
    }

    fn take_room(&mut self, subflow: SubflowId, head: Head, payload: Bytes) -> Transmit {
        let transmit = Transmit { subflow, head, payload, may_overtake: false };
        if let Some(state) = self.subflows.get_mut(&subflow) {
            state.room = state.room.saturating_sub(transmit.len());
            state.capped.pay(self.clock, transmit.len(), !transmit.head.as_slice().is_empty());
        }
        if let Some(view) = self.views.iter_mut().find(|view| view.id == subflow) {
            view.room = view.room.saturating_sub(transmit.len());
        }
        transmit
    }

    // ---- segments

    fn next_segment(&mut self, now: Instant) -> Option<Transmit> {
        self.watch_caps(now);
        if self.views_stale {
            self.rebuild_views(now);
        }
        self.urgent_segment(now)
            .or_else(|| self.next_copy(now))
            .or_else(|| self.urgent_datagrams(now))
            .or_else(|| self.scheduled_segment(now))
    }

    /// Datagrams of a flow that is not bulk, ahead of bulk that is numbered already. A scheduler that knows priorities does
    /// this itself.
    fn urgent_datagrams(&mut self, now: Instant) -> Option<Transmit> {
        if self.scheduler.prioritises() || !self.views.iter().any(|view| view.room > 0) {
            return None;
        }
        self.expire_messages(now);
        let id = self.send.next_urgent_flow()?;
        if !self.send.number_urgently(id) {
            return None;
        }
        // A flow that is not bulk fills no path, so the rate that was measured with it says nothing: by that rate a slower path
        // may seem better, and the order changes.
        let seq = self.send.next_urgent()?;
        let bytes = self.send.segment(seq)?.payload.len() as u64;
        let open = self.views.iter().filter(|view| view.room > 0);
        let onto = open.min_by_key(|view| (view.silent, view.unloaded_arrival(bytes), view.rank))?.id;
        self.send.urgent_sent();
        Some(self.transmit(now, seq, onto, false))
    }

    fn urgent_segment(&mut self, now: Instant) -> Option<Transmit> {
        let seq = self.send.next_urgent()?;
        let segment = self.send.segment(seq)?;
        let (bytes, again) = (segment.payload.len() as u64, segment.sends > 0);
        let onto = earliest_arrival(&self.views, bytes)?;
        self.send.urgent_sent();
        Some(self.transmit(now, seq, onto, again))
    }

    fn scheduled_segment(&mut self, now: Instant) -> Option<Transmit> {
        self.expire_messages(now);
        self.starved = false;
        loop {
            let more = self.expects_more(now);
            let view = WindowView::new(&self.send, self.config.window).expecting(more);
            if let Some(assignment) = self.scheduler.assign(now, &view, &self.views) {
                let again = assignment.kind != AssignmentKind::Fresh;
                if assignment.kind == AssignmentKind::Reinjection {
                    self.tell(Event::Reinjected { seq: assignment.segment, onto: assignment.subflow });
                }
                if let Some(decision) = self.scheduler.take_decision() {
                    self.tell(Event::Prioritised(decision));
                }
                return Some(self.transmit(now, assignment.segment, assignment.subflow, again));
            }
            if !self.send.has_loadable() {
                self.starve(now);
                return None;
            }
            let load = self.scheduler.load(now, &view, &self.views)?;
            let (first, end, bytes) = self.send.load(load.bytes, load.segment);
            if first == end {
                return None;
            }
            self.scheduler.on_event(now, SchedulerEvent::Loaded { first, end });
            self.tell(Event::WindowLoaded { first, end, bytes });
            // Numbering made room for what the streams' writers wait to add.
            let mut woken = None;
            for seq in (first.0..end.0).map(DataSeq) {
                let stream = self.send.segment(seq).map(|segment| segment.head.stream);
                if let Some(id) = stream.filter(|_| woken != stream) {
                    self.wake_writer(now, id);
                }
                woken = stream;
            }
        }
    }

    pub(super) fn transmit(&mut self, now: Instant, seq: DataSeq, onto: SubflowId, again: bool) -> Transmit {
        self.send.skip_late(seq, now);
        let segment = self.send.segment_mut(seq).expect("schedulers assign segments that are held");
        let payload = segment.payload.clone();
        let head = encode_segment_head(&segment.head);
        let bytes = payload.len() as u32;
        let (stream, first, redundant) = (segment.head.stream, segment.sends == 0, segment.redundant);
        let subflow = self.subflows.get_mut(&onto).expect("schedulers assign to subflows they were shown");
        let view = self.views.iter_mut().find(|view| view.id == onto);
        let due = now + view.as_ref().map(|view| view.arrival(u64::from(bytes))).unwrap_or_default();
        let may_overtake = subflow.counts_apart(segment.head.kind);
        let position = subflow.sent(now, &segment.head, bytes, due);
        segment.sent(onto, now, position);
        if let Some(view) = view {
            view.in_flight += u64::from(bytes);
            view.oldest_sent = view.oldest_sent.or(Some(now));
        }
        if first && redundant {
            self.plan_copies(seq, onto);
        }
        if first {
            self.send.taken(stream, payload.len());
            if self.config.unsent.is_some() {
                self.wake_writer(now, stream);
            }
        }
        if again {
            self.stats.sent_again += u64::from(bytes);
        } else {
            self.stats.sent += u64::from(bytes);
        }
        Transmit { may_overtake, ..self.take_room(onto, head, payload) }
    }

    /// The fastest subflow's queue is left to its congestion control. The queues of the others are kept short, because
    /// they carry retransmissions when the fastest is blocked. With `short_queues` all queues are kept short.
    fn keep_queues_short(&mut self, now: Instant) {
        let exempt = !self.config.short_queues;
        let fastest =
            self.subflows.values().filter(|_| exempt).max_by_key(|s| s.best_rate(now)).map(|s| s.id);
        for view in self.views.iter_mut().filter(|view| Some(view.id) != fastest) {
            if let Some(subflow) = self.subflows.get(&view.id) {
                view.room = view.room.min(subflow.headroom(now));
            }
        }
    }

    /// Nothing more can be numbered, and the scheduler wants more data for a subflow with room: lets a writer exceed the
    /// limit on unsent bytes, by what is sent in the longest round trip and a few times the limit. A subflow that is
    /// slow in a blockage would otherwise want so much that nothing could be replaced.
    fn starve(&mut self, now: Instant) {
        let Some(time) = self.config.unsent.filter(|_| self.send.could_number_more()) else { return };
        let longest = self.views.iter().map(|view| view.min_rtt).max().unwrap_or_default();
        let most = self.bytes_in(longest + time * STARVED_LIMITS).max(LEAST_UNSENT * STARVED_LIMITS as usize);
        if self.send.untaken() >= most {
            return;
        }
        let view = WindowView::new(&self.send, self.config.window);
        self.starved = self.scheduler.load(now, &view, &self.views).is_some();
        if self.starved {
            self.wake_all_writers(now);
        }
    }

    /// The rate of all subflows that are not silent, over the last second. Over a shorter time, data that a loss held up
    /// and then released at once would count as speed.
    #[must_use]
    pub fn send_rate(&self) -> Bitrate {
        let rates = self.views.iter().filter(|view| !view.silent).filter_map(|view| view.long_rate);
        Bitrate::from_bps(rates.map(Bitrate::as_bps).sum())
    }

    /// The configured limit on a stream's data that no subflow has taken ([`crate::Config::unsent`]).
    #[must_use]
    pub fn unsent_time(&self) -> Option<Duration> {
        self.config.unsent
    }

    /// Sets the limit on bytes that no subflow has taken to the bytes that all subflows carry in the configured time.
    fn bound_unsent(&mut self) {
        let Some(time) = self.config.unsent else { return };
        self.send.set_unsent_limit(self.bytes_in(time).max(LEAST_UNSENT));
    }

    /// What all subflows carry in this time.
    fn bytes_in(&self, time: Duration) -> usize {
        usize::try_from(self.send_rate().size_in(time).as_bytes()).unwrap_or(usize::MAX)
    }

    fn rebuild_views(&mut self, now: Instant) {
        self.views_stale = false;
        self.views.clear();
        let spared = self.spares_metered();
        for subflow in self.subflows.values_mut() {
            let view = subflow.view(now);
            let mut view = subflow.capped.limit(now, view);
            if spared && self.metered.contains(subflow.path) {
                // A metered subflow that gets no data is listed only while segments are in flight on it, because
                // these may be late.
                if view.in_flight == 0 {
                    continue;
                }
                view.room = 0;
            }
            self.views.push(view);
        }
        self.keep_queues_short(now);
        self.bound_unsent();
        // The most reliable path first: by mean lateness, or what is overdue now if that is more, in steps above the least. Of
        // equal paths the slower one is first, because a blockage of the faster one holds up more data.
        let lateness = |view: &SubflowView| {
            let due = self.subflows.get(&view.id).and_then(Subflow::oldest_due);
            let overdue = due.map(|due| now.saturating_since(due)).filter(|time| *time >= OVERDUE);
            self.paths.lateness(view.path).max(overdue.unwrap_or_default())
        };
        let least = self.views.iter().map(lateness).min().unwrap_or_default();
        self.views.sort_by_cached_key(|view| {
            let steps = (lateness(view) - least).as_micros() / EQUALLY_LATE.as_micros();
            (steps, self.subflows.get(&view.id).and_then(|s| s.best_rate(now)), view.id)
        });
        for (rank, view) in self.views.iter_mut().enumerate() {
            view.rank = rank as u8;
        }
    }
}
