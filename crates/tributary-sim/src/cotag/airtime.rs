//! When a radio finishes sending its packets: the exact knowledge that only the scheme `cubic-balanced` has.

use core::time::Duration;

use tributary_link::{LinkConfig, RateProcess};
use tributary_types::{Bitrate, Instant};

/// Work per byte in bit · ns / s, the unit of the link.
const WORK_PER_BYTE: u128 = 8 * 1_000_000_000;

/// The rate process of a link, and the time until which the link is busy.
#[derive(Debug)]
pub(super) struct Airtime {
    rate: RateProcess,
    free: Instant,
}

impl Airtime {
    /// For the link with this configuration.
    pub fn new(config: &LinkConfig) -> Self {
        let rate = RateProcess::new(config.spec.rate.clone(), config.rate_rng.clone());
        Self { rate, free: Instant::ZERO }
    }

    /// The rate now, or at the end of the queued packets if that is later.
    fn rate(&mut self, now: Instant) -> Bitrate {
        self.rate.advance_to(now);
        self.rate.span().rate
    }

    /// When all packets have been sent.
    pub fn free(&self) -> Instant {
        self.free
    }

    /// Bytes not yet sent, at the rate at which the last of them is sent.
    pub fn backlog(&mut self, now: Instant) -> u64 {
        let busy = self.free.saturating_since(now);
        self.rate(self.free.max(now)).size_in(busy).as_bytes()
    }

    /// Adds a packet.
    pub fn occupy(&mut self, now: Instant, bytes: u32) {
        let mut at = self.free.max(now);
        let mut left = u128::from(bytes) * WORK_PER_BYTE;
        loop {
            self.rate.advance_to(at);
            let (span, bits) = (self.rate.span(), u128::from(self.rate.span().rate.as_bps()));
            let fits = bits * span.until.saturating_since(at).as_nanos();
            if left <= fits {
                self.free = at + Duration::from_nanos(left.div_ceil(bits) as u64);
                return;
            }
            left -= fits;
            at = span.until;
            if at == Instant::MAX {
                self.free = at; // a radio that never sends again
                return;
            }
        }
    }
}
