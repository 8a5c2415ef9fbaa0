//! The sender's one retransmission timer, which means one of four things (Linux's `icsk_pending`).

use tributary_types::Instant;

/// What happens when it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerKind {
    /// Retransmission time-out (RFC 6298).
    Retransmission,
    /// Tail-loss probe (RFC 8985 §7).
    Probe,
    /// Segments late enough to be lost (RFC 8985 §6.2).
    Reordering,
    /// Zero-window probe (RFC 9293 §3.8.6.1).
    Persist,
}

/// The timer.
#[derive(Debug, Default)]
pub(super) struct Timer {
    set: Option<(TimerKind, Instant)>,
}

impl Timer {
    pub fn arm(&mut self, kind: TimerKind, at: Instant) {
        self.set = Some((kind, at));
    }

    pub fn stop(&mut self) {
        self.set = None;
    }

    pub fn is(&self, kind: TimerKind) -> bool {
        self.set.is_some_and(|(set, _)| set == kind)
    }

    pub fn at(&self) -> Option<Instant> {
        self.set.map(|(_, at)| at)
    }

    /// What is due, once.
    pub fn fire(&mut self, now: Instant) -> Option<TimerKind> {
        self.set.take_if(|(_, at)| *at <= now).map(|(kind, _)| kind)
    }
}
