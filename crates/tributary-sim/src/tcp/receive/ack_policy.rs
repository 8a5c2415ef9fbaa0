//! When to acknowledge: at once at the beginning, after gaps and for every second segment, otherwise after 40
//! ms (RFC 5681 §4.2; Linux's `__tcp_ack_snd_check`, `tcp_event_data_recv` and compressed SACKs).

use core::time::Duration;

use tributary_types::Instant;

use crate::tcp::config::TcpConfig;
use crate::tcp::timer::on_wheel;

/// Acknowledgements sent at once at the start and after a pause (Linux's `TCP_MAX_QUICKACKS`).
const QUICK: u64 = 16;
/// Duplicate acknowledgements that are never delayed: the sender may need them to detect a loss.
const NEVER_DELAYED_DUPLICATES: u32 = 3;
/// Most out-of-order segments that share a compressed acknowledgement (Linux's `tcp_comp_sack_nr`).
const MOST_COMPRESSED: u32 = 44;
/// Longest delay of a compressed acknowledgement in ns (Linux's `tcp_comp_sack_delay_ns`).
const COMPRESSION_DELAY: u64 = 1_000_000;

/// A segment with payload or FIN that was accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Bytes by which the stream advanced.
    pub bytes: u64,
    /// Next number expected after it.
    pub next: u64,
    /// It closed the last gap.
    pub fills_gap: bool,
    /// There is a gap after it.
    pub has_gap: bool,
    /// The stream is at its end.
    pub ends: bool,
    /// A pause longer than this, in ns, counts as idle.
    pub rto: u64,
    /// The remaining window.
    pub window_left: u64,
}

/// The policy of one receiver.
#[derive(Debug)]
pub(super) struct AckPolicy {
    mss: u64,
    patience: Duration,
    tick: Duration,
    thin: bool,
    /// Bytes not acknowledged yet.
    pending: u64,
    now: bool,
    delayed: Option<Instant>,
    thinned_until: Option<Instant>,
    thinned: u32,
    unthinned: u32,
    gap_at: u64,
    quick: u64,
    last: Option<Instant>,
    /// Data also flows back and carries acknowledgements.
    interactive: bool,
    last_probe: Option<Instant>,
    /// Round-trip time as the receiver measures it, nanoseconds.
    rtt: u64,
}

impl AckPolicy {
    pub fn new(config: &TcpConfig) -> Self {
        Self {
            mss: config.mss,
            patience: config.delayed_ack,
            tick: config.tick,
            thin: config.compress_sacks,
            pending: 0,
            now: false,
            delayed: None,
            thinned_until: None,
            thinned: 0,
            unthinned: 0,
            gap_at: 0,
            quick: 0,
            last: None,
            interactive: false,
            last_probe: None,
            rtt: 0,
        }
    }

    pub fn acknowledge_now(&mut self) {
        self.now = true;
    }

    /// Round-trip time, for the delay of compressed acknowledgements.
    pub fn set_rtt(&mut self, rtt: u64) {
        self.rtt = rtt;
    }

    fn be_quick(&mut self, window_left: u64) {
        self.quick = (window_left / (2 * self.mss)).clamp(2, QUICK);
        self.interactive = false;
    }

    /// A segment could not be used: the sender needs our state.
    pub fn on_unusable(&mut self) {
        self.quick = self.quick.max(2);
        self.interactive = false;
        self.now = true;
    }

    /// An empty segment below the expected number asks for an acknowledgement. One in half a second is
    /// answered, so that two confused ends do not keep each other busy.
    pub fn on_probe(&mut self, now: Instant) {
        let rest = Duration::from_millis(500);
        if self.last_probe.is_none_or(|last| now.saturating_since(last) >= rest) {
            self.last_probe = Some(now);
            self.now = true;
        }
    }

    pub fn on_data(&mut self, now: Instant, arrival: Arrival) {
        let pause = self.last.replace(now).map(|last| now.saturating_since(last).as_nanos() as u64);
        if pause.is_none_or(|pause| pause > arrival.rto) {
            self.be_quick(arrival.window_left);
        }
        self.pending += arrival.bytes;
        if arrival.has_gap {
            return self.on_gap(now, arrival.next);
        }
        let quick = self.quick > 0 && !self.interactive;
        if self.pending > self.mss || quick || arrival.fills_gap || arrival.ends {
            self.now = true;
        } else if self.delayed.is_none() {
            self.delayed = Some(on_wheel(self.tick, now, now + self.patience));
        }
    }

    fn on_gap(&mut self, now: Instant, next: u64) {
        if self.gap_at != next {
            (self.gap_at, self.unthinned) = (next, 0);
        }
        if !self.thin || self.unthinned < NEVER_DELAYED_DUPLICATES || self.thinned >= MOST_COMPRESSED {
            self.unthinned = self.unthinned.saturating_add(1);
            self.now = true;
            return;
        }
        self.thinned += 1;
        if self.thinned_until.is_none() {
            let wait = if self.rtt == 0 { COMPRESSION_DELAY } else { COMPRESSION_DELAY.min(self.rtt / 20) };
            self.thinned_until = Some(now + Duration::from_nanos(wait));
        }
    }

    pub fn is_due(&self) -> bool {
        self.now
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.delayed.into_iter().chain(self.thinned_until).min()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.now = true;
        }
    }

    /// An acknowledgement was sent, with payload or alone.
    pub fn on_acknowledged(&mut self, now: Instant, with_payload: bool) {
        let scheduled = self.now || self.delayed.is_some();
        self.quick = self.quick.saturating_sub(u64::from(scheduled));
        if with_payload && self.last.is_some_and(|last| now.saturating_since(last) < self.patience) {
            self.interactive = true;
        }
        (self.pending, self.now, self.thinned) = (0, false, 0);
        (self.delayed, self.thinned_until) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(next: u64) -> Arrival {
        let (bytes, rto, window_left) = (1448, 200_000_000, 65_535);
        Arrival { bytes, next, fills_gap: false, has_gap: false, ends: false, rto, window_left }
    }

    #[test]
    fn quick_at_first_then_every_second_segment_or_after_40_ms() {
        let mut policy = AckPolicy::new(&TcpConfig { tick: Duration::ZERO, ..TcpConfig::default() });
        let now = Instant::from_millis(1);
        for _ in 0..16 {
            policy.on_data(now, arrival(1));
            assert!(policy.is_due());
            policy.on_acknowledged(now, false);
        }
        policy.on_data(now, arrival(1));
        assert!(!policy.is_due());
        assert_eq!(policy.poll_timeout(), Some(Instant::from_millis(41)));
        policy.on_data(now, arrival(1));
        assert!(policy.is_due());
        policy.on_acknowledged(now, false);
        policy.on_data(now, arrival(1));
        policy.handle_timeout(Instant::from_millis(41));
        assert!(policy.is_due());
    }

    #[test]
    fn a_pause_brings_quick_acknowledgements_back() {
        let mut policy = AckPolicy::new(&TcpConfig::default());
        for _ in 0..20 {
            policy.on_data(Instant::from_millis(1), arrival(1));
            policy.on_acknowledged(Instant::from_millis(1), false);
        }
        policy.on_data(Instant::from_millis(900), arrival(1));
        assert!(policy.is_due());
    }

    #[test]
    fn beyond_three_duplicates_acknowledgements_are_compressed() {
        let mut policy = AckPolicy::new(&TcpConfig::default());
        policy.set_rtt(100_000_000);
        let gap = Arrival { bytes: 0, has_gap: true, ..arrival(7) };
        for due in [true, true, true, false, false] {
            policy.on_data(Instant::from_millis(1), gap);
            assert_eq!(policy.is_due(), due);
            if due {
                policy.on_acknowledged(Instant::from_millis(1), false);
            }
        }
        assert_eq!(policy.poll_timeout(), Some(Instant::from_millis(2)));
    }
}
