//! State of loss recovery: phases, proportional rate reduction (RFC 6937 with Linux's slow-start reduction
//! bound), what may be undone (RFC 4015, RFC 2883), F-RTO (RFC 5682) and the tail-loss probe's episode (RFC
//! 8985 §7.4). Marks and sends nothing.

use tributary_types::Instant;

/// As Linux's `icsk_ca_state`; Disorder and CWR count as open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Open,
    /// Fast recovery.
    Recovery,
    /// After a timeout.
    Loss,
}

/// State of the sender when an episode began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// First unacknowledged number.
    pub una: u64,
    /// Next number to be sent.
    pub next: u64,
    /// Retransmitted bytes in flight.
    pub retransmitted: u64,
}

/// Proportional rate reduction, in bytes rounded to segments.
#[derive(Debug, Default)]
struct Reduction {
    target: u64,
    prior: u64,
    delivered: u64,
    sent: u64,
    window: u64,
}

/// The state.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    pub phase: Phase,
    /// The phase ends when this is acknowledged.
    pub high: u64,
    /// First unacknowledged number at the last reduction; `None` when the reduction cannot be undone.
    undo_marker: Option<u64>,
    /// Bytes retransmitted since then and not reported as duplicates; `None` before the first retransmission.
    undo_bytes: Option<u64>,
    /// First retransmission of the episode.
    first_retransmission: Option<Instant>,
    /// F-RTO is finding out whether the time-out was spurious.
    pub frto: bool,
    probe: Option<TailProbe>,
    reduction: Reduction,
}

#[derive(Clone, Copy, Debug)]
struct TailProbe {
    end: u64,
    repeats: bool,
}

/// What an acknowledgement says about the outstanding tail-loss probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeVerdict {
    /// Nothing: the probe is not answered yet, or there is none.
    Nothing,
    /// The probe repaired a loss that nothing else had detected.
    Repaired,
}

impl Recovery {
    // ---- phases

    /// Enters fast recovery. `target` is the window after the reduction, `prior` the one before.
    pub fn enter_fast(&mut self, begin: Begin, target: u64, prior: u64) {
        self.init_undo(begin);
        self.phase = Phase::Recovery;
        self.high = begin.next;
        self.probe = None;
        self.reduction = Reduction { target, prior: prior.max(1), window: target, ..Reduction::default() };
    }

    /// Enters loss recovery after a time-out; `reduced` when the window was reduced for it.
    pub fn enter_loss(&mut self, begin: Begin, reduced: bool) {
        if reduced {
            self.init_undo(begin);
        }
        self.phase = Phase::Loss;
        self.high = begin.next;
        self.probe = None;
    }

    /// The reduction may be undone until the next episode begins, because duplicates may be reported late.
    pub fn end(&mut self) {
        self.phase = Phase::Open;
        self.frto = false;
    }

    fn init_undo(&mut self, begin: Begin) {
        self.undo_marker = Some(begin.una);
        self.undo_bytes = (begin.retransmitted > 0).then_some(begin.retransmitted);
    }

    // ---- undo

    pub fn on_retransmission(&mut self, now: Instant, bytes: u64) {
        self.first_retransmission.get_or_insert(now);
        self.undo_bytes = Some(self.undo_bytes.unwrap_or(0) + bytes);
        self.on_sent(bytes);
    }

    /// The receiver had `[from, to)` already (RFC 2883).
    pub fn on_duplicate(&mut self, to: u64, bytes: u64) {
        if self.undo_marker.is_some_and(|marker| to > marker)
            && let Some(left) = &mut self.undo_bytes
        {
            *left = left.saturating_sub(bytes);
        }
    }

    /// Every retransmission of the episode was reported as a duplicate.
    pub fn all_were_duplicates(&self) -> bool {
        self.undo_marker.is_some() && self.undo_bytes == Some(0)
    }

    /// The segment acknowledged was sent before the first retransmission: it was not lost (RFC 3522).
    pub fn original_arrived(&self, echo: Instant) -> bool {
        self.undo_marker.is_some()
            && self.first_retransmission.is_none_or(|first| echo > Instant::ZERO && echo < first)
    }

    /// Called when the last reduction was undone, or cannot be undone any more.
    pub fn forget_undo(&mut self) {
        self.undo_marker = None;
    }

    pub fn forget_retransmissions(&mut self) {
        self.first_retransmission = None;
    }

    // ---- proportional rate reduction

    pub fn on_sent(&mut self, bytes: u64) {
        if self.phase == Phase::Recovery {
            self.reduction.sent += bytes;
        }
    }

    /// `delivered` bytes arrived with `in_flight` left; `clean` when the acknowledgement advanced and
    /// showed no loss.
    pub fn reduce(&mut self, delivered: u64, in_flight: u64, clean: bool, mss: u64) {
        if delivered == 0 {
            return;
        }
        let Reduction { target, prior, sent, .. } = self.reduction;
        self.reduction.delivered += delivered;
        let total = self.reduction.delivered;
        let mut allowed = if in_flight > target {
            // RFC 6937 §3: in proportion, whole segments.
            let share = (u128::from(target) * u128::from(total)).div_ceil(u128::from(prior)) as u64;
            share.div_ceil(mss).saturating_mul(mss).saturating_sub(sent)
        } else {
            let more = if clean { mss } else { 0 };
            let allowed = total.saturating_sub(sent).max(delivered) + more;
            allowed.min(target - in_flight)
        };
        if sent == 0 {
            allowed = allowed.max(mss); // the fast retransmission itself
        }
        self.reduction.window = in_flight + allowed;
    }

    /// What may be in flight during fast recovery.
    pub fn window(&self) -> u64 {
        self.reduction.window
    }

    // ---- tail-loss probes

    pub fn has_probe(&self) -> bool {
        self.probe.is_some()
    }

    pub fn on_probe(&mut self, end: u64, repeats: bool) {
        self.probe = Some(TailProbe { end, repeats });
    }

    /// RFC 8985 §7.4.2. `plain` when the acknowledgement says nothing but its number.
    pub fn judge_probe(&mut self, ack: u64, duplicate: bool, plain: bool) -> ProbeVerdict {
        let Some(TailProbe { end, repeats }) = self.probe.filter(|probe| ack >= probe.end) else {
            return ProbeVerdict::Nothing;
        };
        if !repeats || duplicate {
            self.probe = None;
        } else if ack > end {
            self.probe = None;
            return ProbeVerdict::Repaired;
        } else if plain {
            self.probe = None; // original and probe both arrived
        }
        ProbeVerdict::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduction_sends_in_proportion_and_ends_at_the_target() {
        let mut recovery = Recovery::default();
        recovery.enter_fast(Begin { una: 0, next: 20_000, retransmitted: 0 }, 10_000, 20_000);
        let (mut in_flight, mut sent) = (19_000_u64, 0);
        for _ in 0..19 {
            in_flight -= 1000;
            recovery.reduce(1000, in_flight, false, 1000);
            while in_flight + 1000 <= recovery.window() {
                in_flight += 1000;
                sent += 1000;
                recovery.on_sent(1000);
            }
        }
        assert_eq!((in_flight, sent), (10_000, 10_000));
    }

    #[test]
    fn under_heavy_loss_what_arrives_is_replaced_and_a_little_more() {
        let mut recovery = Recovery::default();
        recovery.enter_fast(Begin { una: 0, next: 20_000, retransmitted: 0 }, 10_000, 20_000);
        recovery.reduce(1000, 4000, false, 1000);
        assert_eq!(recovery.window(), 5000);
        recovery.on_sent(1000);
        recovery.reduce(1000, 4000, true, 1000);
        assert_eq!(recovery.window(), 6000);
    }

    #[test]
    fn a_probe_that_repeats_and_is_acknowledged_beyond_repaired_a_loss() {
        let mut recovery = Recovery::default();
        recovery.on_probe(100, true);
        assert_eq!(recovery.judge_probe(90, false, true), ProbeVerdict::Nothing);
        assert!(recovery.has_probe());
        assert_eq!(recovery.judge_probe(101, false, false), ProbeVerdict::Repaired);
        recovery.on_probe(200, true);
        assert_eq!(recovery.judge_probe(200, true, false), ProbeVerdict::Nothing);
        assert!(!recovery.has_probe());
    }
}
