//! Whether the window limits the sender, and how it decays while it does not: Linux's `tcp_cwnd_validate`,
//! `tcp_is_cwnd_limited` and `tcp_cwnd_application_limited` (RFC 2861). The controllers restart after idle
//! time themselves.
//!
//! A controller does not know that its window is not used, so the transport keeps a *cap* on it. The cap
//! grows as in slow start until it no longer limits.

use tributary_types::Instant;

/// Inputs of validation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    pub now: Instant,
    pub unacknowledged: u64,
    pub next: u64,
    pub out: u64,
    pub window: u64,
    pub limited: bool,
    pub slow_start: bool,
}

/// Its state.
#[derive(Debug, Default)]
pub(super) struct Validation {
    limited: bool,
    most_out: u64,
    usage_end: u64,
    used: u64,
    used_since: Instant,
    cap: Option<u64>,
}

impl Validation {
    /// Bytes that may be in flight under a controller's `window`.
    pub fn capped(&self, window: u64) -> u64 {
        self.cap.map_or(window, |cap| cap.min(window))
    }

    pub fn is_capped(&self) -> bool {
        self.cap.is_some()
    }

    pub fn uncap(&mut self) {
        self.cap = None;
    }

    /// Bytes were acknowledged: the cap grows towards the controller's `window`.
    pub fn on_ack(&mut self, bytes: u64, window: u64) {
        if let Some(cap) = self.cap {
            let cap = cap + bytes;
            self.cap = (cap < window).then_some(cap);
        }
    }

    /// The sender has sent everything it could.
    pub fn on_drained(&mut self, usage: Usage) {
        if usage.unacknowledged >= self.usage_end
            || usage.limited
            || (!self.limited && usage.out > self.most_out)
        {
            self.limited = usage.limited;
            self.most_out = usage.out;
            self.usage_end = usage.next;
        }
        if self.is_limited(usage.window, usage.slow_start) {
            self.used = 0;
            self.used_since = usage.now;
        } else {
            self.used = self.used.max(usage.out);
        }
    }

    /// Whether the window limits the sender; in slow start it may grow to twice what was used.
    pub fn is_limited(&self, window: u64, slow_start: bool) -> bool {
        self.limited || (slow_start && window < 2 * self.most_out)
    }

    /// The application has limited the sender for the time of a timeout: lowers the cap halfway to the used
    /// window.
    pub fn on_app_limited(&mut self, now: Instant, window: u64, rto: u64, initial: u64) {
        if (now.saturating_since(self.used_since).as_nanos() as u64) < rto {
            return;
        }
        let used = self.used.max(initial);
        if used < window {
            self.cap = Some((window + used) / 2);
        }
        self.used = 0;
        self.used_since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_window_sinks_halfway_and_acknowledgements_lift_the_cap() {
        let mut validation = Validation::default();
        validation.on_app_limited(Instant::from_millis(1), 80_000, 2_000_000, 14_480);
        assert_eq!(validation.capped(80_000), 80_000);
        validation.on_app_limited(Instant::from_millis(2), 80_000, 2_000_000, 20_000);
        assert_eq!(validation.capped(80_000), 50_000);
        validation.on_ack(20_000, 80_000);
        assert_eq!(validation.capped(80_000), 70_000);
        validation.on_ack(20_000, 80_000);
        assert!(!validation.is_capped());
    }

    #[test]
    fn in_slow_start_half_the_window_used_counts_as_limited() {
        let mut validation = Validation::default();
        let usage = Usage {
            now: Instant::ZERO,
            unacknowledged: 0,
            next: 10,
            out: 6000,
            window: 10_000,
            limited: false,
            slow_start: true,
        };
        validation.on_drained(usage);
        assert!(validation.is_limited(10_000, true));
        assert!(!validation.is_limited(10_000, false));
        assert!(!validation.is_limited(12_000, true));
    }
}
