//! The sender's timers: timeouts, tail-loss probes, reordering, zero windows. Linux's `tcp_timer.c`.

use core::time::Duration;

use tributary_cc::{Loss, LossKind};

use super::{Forced, Instant, Outgoing, Phase, Sender, Siblings, TimerKind};
use crate::tcp::config::LossDetection;
use crate::tcp::info::TcpError;
use crate::tcp::rack::RackView;
use crate::tcp::scoreboard::SACKED;

/// Linux's `TCP_TIMEOUT_MIN_US`.
const LEAST: u64 = 2_000_000;

impl Sender {
    /// When to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let pacing = self.pacer.poll_timeout().filter(|_| self.has_work());
        self.timer.at().into_iter().chain(pacing).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant, siblings: Siblings<'_>) -> Result<(), TcpError> {
        self.pacer.on_timeout(now);
        match self.timer.fire(now) {
            None => Ok(()),
            Some(TimerKind::Retransmission) => self.on_retransmission_timeout(now, siblings),
            Some(TimerKind::Probe) => {
                self.on_probe_timeout(now);
                Ok(())
            }
            Some(TimerKind::Reordering) => {
                self.on_reordering_timeout(now, siblings);
                Ok(())
            }
            Some(TimerKind::Persist) => self.on_window_probe_timeout(now),
        }
    }

    // ---- loss detection by time

    pub(super) fn is_rack(&self) -> bool {
        self.config.loss_detection == LossDetection::Rack
    }

    pub(super) fn rack_view(&self) -> RackView {
        RackView {
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            recovering: self.recovery.phase != Phase::Open,
        }
    }

    // ---- arming

    /// Sets the timeout: from the oldest segment's transmission if another timer took its place
    /// (`tcp_rearm_rto`), else from now.
    pub(super) fn arm_timeout(&mut self, now: Instant) {
        let Some(front) = self.board.front() else { return self.timer.stop() };
        let rto = Duration::from_nanos(self.rtt.rto());
        let stood_in = self.timer.is(TimerKind::Probe) || self.timer.is(TimerKind::Reordering);
        let at = if stood_in { (front.at + rto).max(now + Duration::from_nanos(1)) } else { now + rto };
        self.timer.arm(TimerKind::Retransmission, now, at);
    }

    /// Sets a probe after two round trips (`tcp_schedule_loss_probe`); returns false if none is allowed.
    pub(super) fn arm_tail_probe(&mut self, now: Instant) -> bool {
        let clean = self.recovery.phase == Phase::Open
            && self.board.sacked_bytes() + self.board.lost_bytes() + self.board.retransmitted_bytes() == 0;
        if !self.is_rack() || !clean || self.recovery.has_probe() || self.board.is_empty() {
            return false;
        }
        let wait = if self.rtt.has_sample() {
            // The acknowledgement of a single segment may be delayed (RFC 8985 §7.2).
            2 * self.rtt.srtt() + if self.board.count() == 1 { self.rtt.floor() } else { LEAST }
        } else {
            self.rtt.rto()
        };
        let front = self.board.front().expect("the board is not empty");
        let timeout = front.at + Duration::from_nanos(self.rtt.rto());
        let at = (now + Duration::from_nanos(wait)).min(timeout.max(now + Duration::from_nanos(1)));
        self.timer.arm(TimerKind::Probe, now, at);
        true
    }

    pub(super) fn arm_reordering(&mut self, now: Instant, wait: u64) {
        let at = now + Duration::from_nanos(wait.saturating_add(LEAST).min(self.rtt.rto()));
        self.timer.arm(TimerKind::Reordering, now, at);
    }

    pub(super) fn arm_window_probe(&mut self, now: Instant) {
        let doubled = 1_u64.checked_shl(self.window_probes.min(30)).unwrap_or(u64::MAX);
        let wait = self.rtt.rto().saturating_mul(doubled).min(self.config.max_rto.as_nanos() as u64);
        self.timer.arm(TimerKind::Persist, now, now + Duration::from_nanos(wait));
    }

    // ---- firing

    fn on_retransmission_timeout(&mut self, now: Instant, siblings: Siblings<'_>) -> Result<(), TcpError> {
        let Some(front) = self.board.front() else { return Ok(()) };
        if self.timeouts_in_a_row >= self.config.retries {
            return Err(TcpError::TimedOut(self.timeouts_in_a_row));
        }
        // The receiver has reneged (RFC 2018 §8), or the marks were guesses.
        if front.has(SACKED) || !self.reads_sacks() {
            self.board.forget_sacks();
        }
        let in_flight = self.board.in_flight();
        let before = self.recovery.phase;
        if self.is_rack() {
            self.rack.mark_on_timeout(now, &mut self.board);
        } else {
            self.dup_ack.mark_on_timeout(&mut self.board);
        }
        // At most once per window: not again for data sent before the last reduction (`tcp_enter_loss`).
        // Controllers use the same rule for the threshold.
        let reduces = before == Phase::Open
            || self.una >= self.recovery.high
            || (before == Phase::Loss && self.timeouts_in_a_row == 0);
        let bytes = self.board.lost_bytes();
        self.validation.uncap();
        self.controller.on_loss(&Loss { now, kind: LossKind::Timeout, bytes, in_flight }, siblings);
        let begin = self.begin();
        self.recovery.enter_loss(begin, reduces);
        self.recovery.frto = self.reads_sacks() && (before == Phase::Open || self.timeouts_in_a_row > 0);
        self.prefer_new = false;
        self.timeouts_in_a_row += 1;
        self.counts.timeouts += 1;
        self.rtt.back_off();
        self.forced = Some(Forced::Oldest);
        self.timer.arm(TimerKind::Retransmission, now, now + Duration::from_nanos(self.rtt.rto()));
        Ok(())
    }

    fn on_probe_timeout(&mut self, now: Instant) {
        if !self.board.is_empty() && !self.recovery.has_probe() {
            self.forced = Some(Forced::TailProbe);
        } else {
            self.arm_timeout(now);
        }
    }

    fn on_reordering_timeout(&mut self, now: Instant, siblings: Siblings<'_>) {
        let (before, lost) = (self.board.in_flight(), self.board.lost_total());
        let view = self.rack_view();
        let wait = self.rack.detect(now, view, &mut self.board);
        if self.board.lost_total() > lost {
            if self.recovery.phase != Phase::Recovery {
                self.enter_recovery(now, before, siblings);
            }
            if !self.controller.owns_recovery() {
                let mss = self.config.mss;
                self.recovery.reduce(mss, self.board.in_flight(), false, mss);
            }
        }
        match wait {
            Some(wait) => self.arm_reordering(now, wait),
            None => self.arm_timeout_since_front(now),
        }
    }

    fn arm_timeout_since_front(&mut self, now: Instant) {
        let Some(front) = self.board.front() else { return };
        let at = front.at + Duration::from_nanos(self.rtt.rto());
        self.timer.arm(TimerKind::Retransmission, now, at.max(now + Duration::from_nanos(1)));
    }

    fn on_window_probe_timeout(&mut self, now: Instant) -> Result<(), TcpError> {
        if !self.board.is_empty() || self.unsent() == 0 {
            return Ok(());
        }
        if self.window_probes >= self.config.retries {
            return Err(TcpError::TimedOut(self.window_probes));
        }
        self.window_probes += 1;
        self.forced = Some(Forced::WindowProbe);
        self.arm_window_probe(now);
        Ok(())
    }

    // ---- what timers send

    pub(super) fn send_forced(&mut self, now: Instant, forced: Forced) -> Option<Outgoing> {
        match forced {
            Forced::Oldest => {
                let id = self.board.front_id()?;
                Some(self.retransmit(now, id))
            }
            Forced::TailProbe => self.send_tail_probe(now),
            Forced::WindowProbe => self.send_window_probe(now),
        }
    }

    /// Sends new data if there is some, else the last segment again (RFC 8985 §7.3).
    fn send_tail_probe(&mut self, now: Instant) -> Option<Outgoing> {
        let id = self.board.back_id()?;
        let new = self.next_new().map(|(length, is_fin)| self.emit(now, length, is_fin));
        let repeats = new.is_none();
        let outgoing = new.unwrap_or_else(|| self.retransmit(now, id));
        self.recovery.on_probe(self.next, repeats);
        // A full timeout, counted from the probe (`tcp_send_loss_probe` does not keep the elapsed part).
        self.timer.arm(TimerKind::Retransmission, now, now + Duration::from_nanos(self.rtt.rto()));
        Some(outgoing)
    }

    /// Sends what the window allows, else an empty segment below it, which the peer must answer
    /// (`tcp_write_wakeup`).
    fn send_window_probe(&mut self, now: Instant) -> Option<Outgoing> {
        let room = self.window_end().saturating_sub(self.next);
        let length = room.min(self.unsent()).min(self.config.mss);
        if length > 0 {
            return Some(self.emit(now, length, false));
        }
        Some(Outgoing { seq: self.una - 1, length: 0, is_fin: false })
    }
}
