//! Delivery-rate samples: bytes delivered over the longer of the sending and the acknowledging
//! interval (draft-cheng-iccrg-delivery-rate-estimation, Linux's `tcp_rate.c`).

use tributary_cc::RateSample;
use tributary_types::{Bitrate, Instant};

use super::scoreboard::{APP_LIMITED, Sent, Stamp};

#[derive(Clone, Copy, Debug)]
struct Newest {
    at: Instant,
    end: u64,
    stamp: Stamp,
    app_limited: bool,
}

/// The estimator.
#[derive(Debug)]
pub(super) struct RateEstimator {
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    /// Segments are marked as application-limited until this much is delivered.
    app_limited_until: u64,
    newest: Option<Newest>,
    shown: Bitrate,
    shown_app_limited: bool,
}

impl Default for RateEstimator {
    fn default() -> Self {
        Self {
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            app_limited_until: 0,
            newest: None,
            shown: Bitrate::from_bps(0),
            shown_app_limited: true,
        }
    }
}

impl RateEstimator {
    /// A segment is sent; `idle` if nothing was in flight before it.
    pub fn stamp(&mut self, now: Instant, idle: bool, lost: u64) -> Stamp {
        if idle {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let Self { first_sent, delivered_at, delivered, .. } = *self;
        Stamp { first_sent, delivered_at, delivered, lost }
    }

    /// Whether segments sent now are marked.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// The application has no more data, with `in_flight` bytes in flight.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A segment is reported as arrived for the first time.
    pub fn on_delivered(&mut self, sent: &Sent) {
        self.delivered += u64::from(sent.span);
        let (at, end) = (sent.at, sent.end());
        if self.newest.is_none_or(|newest| (at, end) > (newest.at, newest.end)) {
            self.newest = Some(Newest { at, end, stamp: sent.stamp, app_limited: sent.has(APP_LIMITED) });
            self.first_sent = at;
        }
    }

    /// Bytes that had been delivered when the newest segment of this acknowledgement was sent.
    pub fn prior_delivered(&self) -> Option<u64> {
        self.newest.map(|newest| newest.stamp.delivered)
    }

    /// Ends an acknowledgement; returns its sample, if it gives one.
    pub fn finish(&mut self, now: Instant, min_rtt: u64, lost: u64) -> Option<RateSample> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let Newest { at, stamp, app_limited, .. } = self.newest.take()?;
        self.delivered_at = now;
        let sending = at.saturating_since(stamp.first_sent);
        let acknowledging = now.saturating_since(stamp.delivered_at);
        let interval = sending.max(acknowledging).as_nanos() as u64;
        if interval == 0 || interval < min_rtt {
            return None; // shorter than any round trip: an acknowledgement of retransmitted data
        }
        let bytes = self.delivered - stamp.delivered;
        let bps = u128::from(bytes) * 8_000_000_000 / u128::from(interval);
        let rate = Bitrate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX));
        if !app_limited || rate.as_bps() >= self.shown.as_bps() {
            (self.shown, self.shown_app_limited) = (rate, app_limited);
        }
        Some(RateSample {
            rate,
            app_limited,
            delivered: self.delivered,
            prior_delivered: stamp.delivered,
            lost: lost - stamp.lost,
        })
    }

    /// For display: the rate, and whether the application limited it.
    pub fn shown(&self) -> (Bitrate, bool) {
        (self.shown, self.shown_app_limited)
    }
}
