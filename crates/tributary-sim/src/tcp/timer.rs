//! The sender's retransmission timer, which has one of four purposes at a time (Linux's `icsk_pending`), and
//! the timer wheel, whose ticks are coarser for longer timers.
//!
//! Source: Linux's `kernel/time/timer.c`. Pacing and compressed acknowledgements use exact timers instead.

use core::time::Duration;

use tributary_types::Instant;

/// Slots of a level of the wheel, without the one being served.
const SLOTS: u64 = 63;
/// The tick of a level is eight ticks of the level below.
const LEVEL_SHIFT: u32 = 3;
/// Levels of the wheel.
const LEVELS: u32 = 9;

/// When a timer set at `now` for `at` fires: never early, on a tick; delays from 63 ticks on fire on
/// multiples of 8 ticks, from 504 on of 64, and so on. `tick` zero is an exact clock.
pub(crate) fn on_wheel(tick: Duration, now: Instant, at: Instant) -> Instant {
    let tick = tick.as_nanos() as u64;
    if tick == 0 {
        return at;
    }
    let delay = at.saturating_since(now).as_nanos() as u64;
    let ticks = delay.div_ceil(tick);
    let level = (0..LEVELS - 1).find(|level| ticks < SLOTS << (level * LEVEL_SHIFT)).unwrap_or(LEVELS - 1);
    let shift = level * LEVEL_SHIFT;
    let expires = (((now.as_nanos() / tick + ticks) >> shift) + 1) << shift; // `calc_index`
    Instant::from_nanos(expires.saturating_mul(tick))
}

/// What the timer does when it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerKind {
    /// Retransmission timeout (RFC 6298).
    Retransmission,
    /// Tail-loss probe (RFC 8985 §7).
    Probe,
    /// Segments sent long enough ago to be lost (RFC 8985 §6.2).
    Reordering,
    /// Zero-window probe (RFC 9293 §3.8.6.1).
    Persist,
}

/// The timer.
#[derive(Debug)]
pub(super) struct Timer {
    tick: Duration,
    set: Option<(TimerKind, Instant)>,
}

impl Timer {
    /// With this tick; exact if it is zero.
    pub fn new(tick: Duration) -> Self {
        Self { tick, set: None }
    }

    /// Sets the timer at `now` for `at`.
    pub fn arm(&mut self, kind: TimerKind, now: Instant, at: Instant) {
        self.set = Some((kind, on_wheel(self.tick, now, at)));
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

    /// The purpose that is due, once.
    pub fn fire(&mut self, now: Instant) -> Option<TimerKind> {
        self.set.take_if(|(_, at)| *at <= now).map(|(kind, _)| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_at_ticks_never_early_and_coarser_the_longer_they_run() {
        let tick = Duration::from_millis(4);
        let fires = |now, delay| {
            let now = Instant::from_millis(now);
            on_wheel(tick, now, now + Duration::from_millis(delay)).as_nanos() / 1_000_000
        };
        assert_eq!((fires(0, 1), fires(3, 1), fires(4, 4)), (8, 8, 12));
        assert_eq!(fires(1001, 40), 1044);
        assert_eq!(fires(0, 248), 252, "62 ticks are within the first level");
        assert_eq!(fires(0, 252), 256, "of the second level every eighth tick counts");
        assert_eq!(fires(0, 416), 448);
        assert_eq!(fires(0, 1664), 1696);
        assert_eq!(fires(0, 3328), 3584, "of the third every sixty-fourth");
        for delay in 0..5000 {
            assert!(fires(17, delay) >= 17 + delay);
        }
    }

    #[test]
    fn without_ticks_the_clock_is_exact() {
        let at = Instant::from_nanos(12_345);
        assert_eq!(on_wheel(Duration::ZERO, Instant::ZERO, at), at);
    }
}
