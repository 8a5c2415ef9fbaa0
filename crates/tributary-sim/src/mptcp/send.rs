//! Sending: which segment is given to which subflow, and which is numbered next.

use core::time::Duration;

use tributary_proto::scheduler::{SchedulerEvent, SubflowView};
use tributary_types::{DataSeq, Instant, SubflowId};

use super::MptcpTransport;

/// Transmission window that schedulers see, bytes; `min-rtt` sees the connection's own limit instead.
const TRANSMISSION_WINDOW: usize = 1 << 20;
/// Least interval between two calls of the scheduler on its own timer.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// The scheduler that needs to know whether the connection's window blocks the sender.
const ASKS_FOR_LIMIT: &str = "min-rtt";

impl MptcpTransport {
    /// Gives subflows all segments that the scheduler assigns now.
    pub(super) fn push(&mut self, now: Instant) {
        let nothing = !self.stream.has_loadable()
            && self.stream.next_urgent().is_none()
            && self.stream.view(0).unacknowledged() == 0;
        if nothing && self.stream.unnumbered() == 0 {
            (self.retransmit_at, self.ask_at) = (None, None);
            return;
        }
        self.allow();
        self.build_views();
        let transmission_window = self.transmission_window();
        let mut pushed = false;
        while self.push_urgent(now) || self.push_scheduled(now, transmission_window) {
            pushed = true;
        }
        if pushed {
            self.period = self.period();
        }
        // A time in the past has just been handled.
        self.ask_at = self.scheduler.poll_timeout().map(|at| at.max(now + LEAST_WAIT));
        self.watch(now);
    }

    /// Rounds credit down to whole segments, to avoid short ones. Uses all of it when nothing is in flight,
    /// because a window smaller than a segment would otherwise never be used.
    fn allow(&mut self) {
        let view = self.stream.view(0);
        let numbered = self.acknowledged_floor() + view.unacknowledged();
        let credit = self.edge.saturating_sub(numbered);
        let whole = credit / self.segment() * self.segment();
        let credit = if whole == 0 && view.unacknowledged() == 0 { credit } else { whole };
        self.stream.allow(numbered + credit);
    }

    /// First byte of the first segment that is not completely acknowledged.
    fn acknowledged_floor(&self) -> u64 {
        let view = self.stream.view(0);
        self.stream.extent(view.first()).map_or(self.acknowledged, |(offset, _)| offset)
    }

    /// Largest segment in bytes: the kernel's unit, or a TCP segment.
    fn segment(&self) -> u64 {
        if self.is_kernel() { 11 * self.config.tcp.mss } else { self.config.tcp.mss }
    }

    /// For `min-rtt` the limit is the connection's window or send buffer; when it is full, the scheduler
    /// retransmits opportunistically and penalises. Others have a transmission window.
    fn transmission_window(&self) -> usize {
        if self.config.own.scheduler.is_some() || self.config.scheduler != ASKS_FOR_LIMIT {
            return TRANSMISSION_WINDOW;
        }
        let window = self.edge.saturating_sub(self.acknowledged_floor());
        let limit = window.min(self.send_buffer);
        limit.saturating_sub(2 * self.segment()).max(self.segment()) as usize
    }

    fn build_views(&mut self) {
        let kernel = self.is_kernel();
        self.views.clear();
        let live = self.subflows.iter_mut().filter(|s| s.established && !s.finishing);
        self.views.extend(live.map(|s| s.view(kernel)));
        // The most reliable subflow first: the one with the least smoothed round-trip time.
        for rank in 0..self.views.len() {
            let key = |v: &SubflowView| (v.silent, v.srtt, v.id);
            let own = key(&self.views[rank]);
            let below = self.views.iter().filter(|v| key(v) < own).count();
            self.views[rank].rank = below as u8;
        }
    }

    /// Sends the next urgent segment; false when there is none or it has to wait.
    fn push_urgent(&mut self, now: Instant) -> bool {
        let Some(seq) = self.stream.next_urgent() else { return false };
        let view = self.stream.view(0);
        let carried = |id| view.is_on(seq, id);
        let live = self.views.iter().any(|v| !v.silent);
        let mut candidates = self.views.iter().filter(|v| (!v.silent || !live) && !carried(v.id)).peekable();
        if candidates.peek().is_none() {
            // All subflows that could take it already carry it; their TCP will deliver it.
            let copies = view.segment(seq).is_some_and(|s| s.last_copy.is_some());
            if copies {
                self.stream.urgent_sent();
            }
            return copies;
        }
        let best = candidates.filter(|v| v.room > 0).min_by_key(|v| (v.srtt, v.id)).map(|v| v.id);
        let Some(onto) = best else { return false };
        self.stream.urgent_sent();
        self.carry(now, seq, onto);
        true
    }

    fn push_scheduled(&mut self, now: Instant, window: usize) -> bool {
        let view = self.stream.view(window);
        if let Some(assignment) = self.scheduler.assign(now, &view, &self.views) {
            self.carry(now, assignment.segment, assignment.subflow);
            self.penalise(now);
            return true;
        }
        if !self.stream.has_loadable() {
            self.penalise(now);
            return false;
        }
        let Some(load) = self.scheduler.load(now, &view, &self.views) else { return false };
        let (first, end) = self.stream.load(load, self.segment() as usize);
        if first < end {
            self.scheduler.on_event(now, SchedulerEvent::Loaded { first, end });
        }
        first < end
    }

    /// Applies the scheduler's penalties to the congestion window itself, as published.
    fn penalise(&mut self, now: Instant) {
        while let Some(id) = self.scheduler.take_penalty() {
            if let Some(subflow) = self.subflows.iter_mut().find(|s| s.id == id) {
                subflow.socket.penalise(now);
            }
        }
    }

    pub(super) fn carry(&mut self, now: Instant, seq: DataSeq, onto: SubflowId) {
        let extent = self.stream.extent(seq).expect("what is assigned is not acknowledged");
        let bytes = u64::from(extent.1);
        let subflow = self.subflows.iter_mut().find(|s| s.id == onto).expect("views show what there is");
        let position = subflow.carry(now, seq, extent);
        if self.stream.view(0).segment(seq).is_some_and(|segment| segment.priority > 0) {
            subflow.observation.prioritised(now, position);
        }
        if self.stream.sent(now, seq, onto, position) {
            self.counters.sent += bytes;
        } else {
            self.counters.reinjected += bytes;
        }
        if let Some(view) = self.views.iter_mut().find(|v| v.id == onto) {
            view.room = view.room.saturating_sub(bytes as usize);
            view.in_flight += bytes;
            view.oldest_sent = view.oldest_sent.or(Some(now));
        }
    }
}
