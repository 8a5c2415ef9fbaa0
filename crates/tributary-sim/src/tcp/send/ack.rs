//! Processing of acknowledgements by the sender: Linux's `tcp_ack` and `tcp_fastretrans_alert`.

mod shown;

use core::time::Duration;

use tributary_cc::{Ack, Loss, LossKind};

use super::{Instant, Phase, Sender, Siblings, TimerKind, WINDOWS_HELD};
use crate::packet::{SackBlock, TcpSegment};
use crate::tcp::config::LossDetection;
use crate::tcp::rack::DUPLICATE_THRESHOLD;
use crate::tcp::recovery::ProbeVerdict;
use crate::tcp::scoreboard::{EVER_RETRANSMITTED, SACKED};
use shown::{Shown, extend};

impl Sender {
    /// Takes the peer's window from a segment (RFC 9293 §3.10.7.4).
    pub fn update_window(&mut self, seq: u64, window: u64) -> bool {
        if seq < self.peer_window_seq || (seq == self.peer_window_seq && window < self.peer_window) {
            return false;
        }
        let changed = window != self.peer_window;
        self.peer_window_seq = seq;
        self.peer_window = window;
        self.peer_window_most = self.peer_window_most.max(window);
        changed
    }

    /// An acknowledgement arrived. Numbers that were never sent are ignored.
    pub fn handle_ack(&mut self, now: Instant, segment: &TcpSegment, siblings: Siblings<'_>) {
        if segment.ack > self.next {
            return;
        }
        if segment.ack < self.una {
            return self.handle_old_ack(now, segment, siblings);
        }
        self.heard_at = now;
        if self.hears_nothing(segment) {
            self.update_window(segment.seq, segment.window);
            self.window_probes = 0;
            self.prefer_new = false;
            self.recovery.forget_retransmissions();
            self.grow_buffer();
            return self.size_bursts();
        }
        let una = self.una;
        let advanced = segment.ack > una;
        let before = self.board.in_flight();
        let (delivered, lost) = (self.rate.delivered(), self.board.lost_total());
        let shown = self.take_numbers(now, segment);
        let window_moved = self.take_window(segment, advanced);
        if advanced {
            self.timeouts_in_a_row = 0;
        }
        self.window_probes = 0;
        let timer_moves = self.take_rtt(&shown);
        if let Some(prior) = self.rate.prior_delivered() {
            self.rack.adapt(prior, self.rate.delivered());
        }
        self.prefer_new = false;
        let plain = !advanced && !shown.any_sacked && segment.length == 0 && !window_moved;
        self.judge_probe(now, &shown, plain, siblings);
        let waits = self.recover(&shown, before, siblings);
        let tally = Tally { now, before, lost, advanced, bytes: self.rate.delivered() - delivered };
        self.control(&shown, tally, siblings);
        if timer_moves && !waits {
            self.rearm(now);
        }
        self.grow_buffer();
        self.size_bursts();
    }

    /// Whether nothing is in flight and the segment carries only a window, as every packet to the receiver of
    /// a transfer does. Everything else in [`Self::handle_ack`] has no effect then.
    pub fn hears_nothing(&self, segment: &TcpSegment) -> bool {
        self.board.is_empty()
            && segment.ack == self.una
            && segment.sack_count == 0
            && self.recovery.phase == Phase::Open
            && !self.recovery.has_probe()
            && self.rate.prior_delivered().is_none()
    }

    /// A reordered, older acknowledgement. RFC 9293 §3.10.7.4 takes windows only from those with SND.UNA ≤
    /// SEG.ACK. Its SACK blocks still count (Linux's `old_ack`).
    fn handle_old_ack(&mut self, now: Instant, segment: &TcpSegment, siblings: Siblings<'_>) {
        if segment.sack_count == 0 {
            return;
        }
        let before = self.board.in_flight();
        let shown = self.take_numbers(now, segment);
        self.recover(&shown, before, siblings);
    }

    fn take_window(&mut self, segment: &TcpSegment, advanced: bool) -> bool {
        if !advanced {
            return self.update_window(segment.seq, segment.window);
        }
        self.peer_window_seq = self.peer_window_seq.max(segment.seq);
        self.peer_window = segment.window;
        self.peer_window_most = self.peer_window_most.max(segment.window);
        true
    }

    /// Processes the cumulative number and the blocks.
    fn take_numbers(&mut self, now: Instant, segment: &TcpSegment) -> Shown {
        let mut shown = Shown {
            now,
            echo: segment.echo,
            min_rtt: self.rtt.min_rtt(),
            advanced: segment.ack > self.una,
            high: self.recovery.high,
            highest: self.board.highest_sacked().unwrap_or(self.una),
            acked: None,
            sacked: None,
            retransmitted_acked: false,
            any_acked: false,
            any_sacked: false,
            reordered: None,
            original: false,
            duplicate: false,
        };
        let repeats = self.repeats_number(segment);
        self.counts.duplicate_acks += u64::from(repeats);
        if self.reads_sacks() {
            if segment.sack_count > 0 {
                self.take_blocks(segment, &mut shown);
            }
        } else if repeats {
            self.take_repetition(&mut shown);
        }
        let Self { board, rate, rack, .. } = self;
        board.acknowledge(segment.ack, |sent| {
            shown.any_acked = true;
            if sent.has(EVER_RETRANSMITTED) {
                shown.retransmitted_acked = true;
            } else if !sent.has(SACKED) {
                extend(&mut shown.acked, sent.at);
            }
            if !sent.has(SACKED) {
                shown.delivered(sent, rate, rack);
            }
        });
        self.una = self.una.max(segment.ack);
        if shown.advanced && !self.reads_sacks() {
            self.board.forget_sacks();
        }
        if let Some(low) = shown.reordered.filter(|_| self.reads_sacks()) {
            self.rack.on_reordering(shown.highest - low, self.config.mss);
        }
        shown
    }

    /// A duplicate acknowledgement (RFC 5681 §2), except that the window may have shrunk: a connection of several subflows
    /// shares it.
    fn repeats_number(&self, segment: &TcpSegment) -> bool {
        segment.ack == self.una
            && segment.length == 0
            && segment.window <= self.peer_window
            && !self.board.is_empty()
    }

    pub(super) fn reads_sacks(&self) -> bool {
        self.config.loss_detection != LossDetection::NewReno
    }

    /// Without blocks a duplicate acknowledgement says that one more segment has arrived.
    fn take_repetition(&mut self, shown: &mut Shown) {
        let Self { board, rate, rack, .. } = self;
        board.sack_another(|sent| {
            shown.any_sacked = true;
            shown.delivered(sent, rate, rack);
        });
    }

    fn take_blocks(&mut self, segment: &TcpSegment, shown: &mut Shown) {
        let mut blocks = segment.sack_blocks();
        if is_duplicate(blocks, segment.ack) {
            let SackBlock { from, to } = blocks[0];
            blocks = &blocks[1..];
            shown.duplicate = true;
            self.rack.on_duplicate();
            self.recovery.on_duplicate(to, to.saturating_sub(from));
        }
        let Self { board, rate, rack, .. } = self;
        for block in blocks.iter().filter(|block| block.from < block.to && block.to <= self.next) {
            if block.from < segment.ack {
                continue;
            }
            board.sack(block.from, block.to, |sent| {
                shown.any_sacked = true;
                if !sent.has(EVER_RETRANSMITTED) {
                    extend(&mut shown.sacked, sent.at);
                }
                shown.delivered(sent, rate, rack);
            });
            shown.highest = shown.highest.max(self.una);
        }
    }

    /// Takes round-trip samples; returns whether the retransmission timer restarts.
    fn take_rtt(&mut self, shown: &Shown) -> bool {
        let (smooth, least) = shown.rtt();
        if let Some(rtt) = least {
            self.rtt.sample_min(shown.now, rtt);
        }
        if let Some(rtt) = smooth {
            self.rtt.sample(rtt, self.una, self.next);
        }
        // A selective acknowledgement of data sent after the first segment does not postpone the timeout.
        shown.any_acked
            || shown.sacked.is_some_and(|(first, _)| self.board.front().is_some_and(|front| first < front.at))
    }

    fn judge_probe(&mut self, now: Instant, shown: &Shown, plain: bool, siblings: Siblings<'_>) {
        if !self.recovery.has_probe()
            || self.recovery.judge_probe(self.una, shown.duplicate, plain) == ProbeVerdict::Nothing
        {
            return;
        }
        // RFC 8985 §7.4: a loss detected only by the probe reduces the window like any other.
        self.recovery.forget_undo();
        let in_flight = self.board.in_flight();
        let loss = Loss { now, kind: LossKind::Fast, bytes: self.config.mss, in_flight };
        self.controller.on_loss(&loss, siblings);
        self.controller.on_recovery_end(now);
    }

    /// Runs the recovery state machine. Returns whether the reordering timer is armed.
    fn recover(&mut self, shown: &Shown, before: u64, siblings: Siblings<'_>) -> bool {
        let (now, advanced) = (shown.now, shown.advanced);
        let suspicious = self.recovery.phase != Phase::Open
            || shown.any_sacked
            || shown.duplicate
            || self.board.sacked_bytes() + self.board.retransmitted_bytes() > 0;
        if !suspicious {
            self.recovery.forget_retransmissions();
            return false;
        }
        if self.recovery.phase == Phase::Recovery && self.una >= self.recovery.high {
            self.end_recovery(now, shown);
        }
        match self.recovery.phase {
            // Reports may arrive after the episode (`tcp_try_undo_dsack`).
            Phase::Open => self.undo_if(now, self.recovery.all_were_duplicates()),
            Phase::Recovery => {
                if advanced && self.recovery.original_arrived(shown.echo) {
                    self.rack.on_reordering(0, self.config.mss);
                    self.undo_if(now, self.board.retransmitted_bytes() == 0);
                }
                self.undo_if(now, self.recovery.all_were_duplicates());
            }
            Phase::Loss => self.process_loss(now, shown, advanced),
        }
        let retransmitted = self.board.retransmitted_bytes();
        if advanced && self.recovery.phase == Phase::Recovery && !self.reads_sacks() {
            // A partial acknowledgement: the next hole (RFC 6582 §3.2 step 3).
            if let Some(front) = self.board.front_id() {
                self.board.mark_lost(front);
            }
        }
        let waits = self.detect(now);
        let again = self.board.retransmitted_bytes() < retransmitted;
        let enters = match self.recovery.phase {
            Phase::Open => self.board.lost_bytes() > 0,
            Phase::Recovery => false,
            Phase::Loss => again,
        };
        if enters {
            self.enter_recovery(now, before, siblings);
        }
        waits
    }

    /// Marks losses; returns whether the reordering timer was armed.
    fn detect(&mut self, now: Instant) -> bool {
        if !self.is_rack() {
            self.dup_ack.detect(DUPLICATE_THRESHOLD.max(self.rack.reordering()), &mut self.board);
            return false;
        }
        let view = self.rack_view();
        let Some(wait) = self.rack.detect_on_ack(now, view, &mut self.board) else { return false };
        self.arm_reordering(now, wait);
        true
    }

    /// Everything sent before the episode is acknowledged.
    fn end_recovery(&mut self, now: Instant, shown: &Shown) {
        if self.recovery.all_were_duplicates() || self.recovery.original_arrived(shown.echo) {
            self.undo_if(now, true);
            return;
        }
        self.rack.on_recovery_end();
        self.leave(now);
    }

    fn leave(&mut self, now: Instant) {
        self.recovery.end();
        self.controller.on_recovery_end(now);
    }

    /// The losses were spurious: restores the window before them.
    fn undo_if(&mut self, now: Instant, spurious: bool) {
        if !spurious {
            return;
        }
        self.board.unmark_lost();
        self.validation.uncap();
        self.controller.on_spurious_loss(now);
        self.counts.spurious += 1;
        self.timeouts_in_a_row = 0;
        if self.recovery.phase != Phase::Open {
            self.leave(now);
        }
        self.recovery.forget_undo();
        self.recovery.forget_retransmissions();
    }

    /// After a timeout: undo, F-RTO, or continue (Linux's `tcp_process_loss`).
    fn process_loss(&mut self, now: Instant, shown: &Shown, advanced: bool) {
        let recovered = self.una >= self.recovery.high;
        let delayed = self.recovery.all_were_duplicates() || self.recovery.original_arrived(shown.echo);
        if advanced && delayed {
            return self.undo_if(now, true);
        }
        if self.recovery.frto {
            // RFC 5682 §3.1 with SACK, step 3b: it arrived and was never retransmitted.
            if shown.original {
                return self.undo_if(now, true);
            }
            if self.next > self.recovery.high {
                if shown.any_sacked || !advanced {
                    self.recovery.frto = false; // step 3a: the loss was real
                }
            } else if advanced && !recovered {
                self.recovery.high = self.next;
                self.prefer_new = self.unsent() > 0 && self.window_end() > self.next;
                self.recovery.frto = self.prefer_new; // step 2b
            }
        }
        if recovered && !self.prefer_new {
            self.leave(now);
        }
    }

    pub(super) fn enter_recovery(&mut self, now: Instant, before: u64, siblings: Siblings<'_>) {
        let prior = self.window();
        let bytes = self.board.lost_bytes();
        self.counts.fast_recoveries += 1;
        self.validation.uncap();
        self.controller.on_loss(&Loss { now, kind: LossKind::Fast, bytes, in_flight: before }, siblings);
        let target = self.controller.window();
        let begin = self.begin();
        self.recovery.enter_fast(begin, target, prior);
    }

    /// Informs the controller (Linux's `tcp_cong_control`).
    fn control(&mut self, shown: &Shown, tally: Tally, siblings: Siblings<'_>) {
        let Tally { now, before, lost, advanced, bytes } = tally;
        if bytes == 0 {
            return;
        }
        let prior = self.rate.prior_delivered();
        let rate = self.rate.finish(now, self.rtt.min_rtt(), self.board.lost_total());
        let round_ended = prior.is_some_and(|prior| prior >= self.round_end);
        if round_ended {
            self.round_end = self.rate.delivered();
        }
        let in_flight = self.board.in_flight();
        let owner = self.controller.owns_recovery();
        let reducing = self.recovery.phase == Phase::Recovery;
        // The window grows only with in-order progress, unless the path is known to reorder
        // (`tcp_may_raise_cwnd`).
        let may_raise = advanced || (self.rack.reordering() > DUPLICATE_THRESHOLD && shown.any_sacked);
        let (window, threshold) = (self.window(), self.controller.slow_start_threshold());
        let capped = self.validation.is_capped();
        let cwnd_limited = self.validation.is_limited(window, window < threshold);
        if reducing && !owner {
            let clean = advanced && self.board.lost_total() == lost;
            self.recovery.reduce(bytes, in_flight, clean, self.config.mss);
        } else if may_raise && cwnd_limited {
            self.validation.on_ack(bytes, self.controller.window());
        }
        let resting = reducing || !may_raise || capped;
        let in_recovery = if owner { self.recovery.phase != Phase::Open } else { resting };
        self.controller.on_ack(
            &Ack {
                now,
                bytes,
                in_flight_before: before,
                in_flight,
                rtt: shown.rtt().1.map(Duration::from_nanos),
                srtt: Duration::from_nanos(self.rtt.srtt()),
                min_rtt: Duration::from_nanos(self.rtt.min_rtt()),
                rate,
                cwnd_limited,
                in_recovery,
                round_ended,
            },
            siblings,
        );
    }

    /// The send buffer grows with the window (`tcp_sndbuf_expand`).
    fn grow_buffer(&mut self) {
        if self.config.auto_tune && self.recovery.phase == Phase::Open {
            let wanted = WINDOWS_HELD * self.controller.window();
            self.buffer = self.buffer.max(wanted.min(self.config.send_buffer));
        }
    }

    /// Sets the timer after progress: a tail-loss probe if allowed, else the timeout.
    fn rearm(&mut self, now: Instant) {
        if self.board.is_empty() {
            if !self.timer.is(TimerKind::Persist) {
                self.timer.stop();
            }
        } else if !self.arm_tail_probe(now) {
            self.arm_timeout(now);
        }
    }
}

/// Numbers of one acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Tally {
    now: Instant,
    /// In flight before.
    before: u64,
    /// Total bytes lost before.
    lost: u64,
    advanced: bool,
    /// Delivered by it.
    bytes: u64,
}

/// Whether the first block reports a duplicate (RFC 2883 §4).
fn is_duplicate(blocks: &[SackBlock], ack: u64) -> bool {
    match blocks {
        [first, ..] if first.to <= ack => true,
        [first, second, ..] => second.from <= first.from && first.to <= second.to,
        _ => false,
    }
}
