//! Delivery-rate samples from QUIC's events (draft-ietf-ccwg-bbr, section 4.1).

use std::collections::VecDeque;

use tributary_cc::RateSample;
use tributary_types::{Bitrate, Instant};

/// State when the packets of one instant were sent.
#[derive(Clone, Copy, Debug)]
struct Departure {
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    lost: u64,
    app_limited: bool,
}

/// Counts deliveries on one path. Holds one entry per sending instant that may still be acknowledged.
#[derive(Debug, Default)]
pub(super) struct RateMeter {
    departures: VecDeque<Departure>,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    lost: u64,
    app_limited_until: u64,
}

impl RateMeter {
    /// `bytes` are sent; `in_flight` were in flight before.
    pub fn sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        debug_assert!(bytes > 0, "an empty datagram is not sent");
        if in_flight == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        if self.departures.back().is_some_and(|last| last.at == now) {
            return;
        }
        self.departures.push_back(Departure {
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.lost,
            app_limited: self.app_limited_until > self.delivered,
        });
    }

    /// Bytes were lost.
    pub fn lost(&mut self, bytes: u64) {
        self.lost += bytes;
    }

    /// `bytes` arrived; the newest packet of them was sent at `sent`.
    pub fn acknowledged(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
    ) -> Option<RateSample> {
        self.delivered += bytes;
        self.delivered_at = now;
        if app_limited {
            self.app_limited_until = self.delivered + 1;
        }
        while self.departures.front().is_some_and(|front| front.at < sent) {
            self.departures.pop_front();
        }
        let departure = self.departures.front().filter(|front| front.at == sent)?;
        self.first_sent = sent;
        let sending = sent.saturating_since(departure.first_sent);
        let arriving = now.saturating_since(departure.delivered_at);
        let nanos = sending.max(arriving).as_nanos();
        if nanos == 0 {
            return None;
        }
        let delivered = self.delivered - departure.delivered;
        let rate = u128::from(delivered) * 8_000_000_000 / nanos;
        Some(RateSample {
            rate: Bitrate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX)),
            app_limited: departure.app_limited,
            delivered: self.delivered,
            prior_delivered: departure.delivered,
            lost: self.lost - departure.lost,
        })
    }
}
