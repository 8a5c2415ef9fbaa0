//! What a connection's congestion control learns, for the session: bytes in flight and delivered, the delivery rate.
//!
//! quinn reports neither, but its congestion control is told of every acknowledgement. The rate is measured as in
//! draft-ietf-ccwg-bbr §4.1: bytes delivered since the newest acknowledged packet was sent, over that time.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};

/// Marks that are kept, and least time between two: they reach back by at least a second, longer than a round trip.
const MOST_MARKS: usize = 1024;
const MARK_EVERY: Duration = Duration::from_millis(1);

/// What has been learned so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Bytes of packets that the peer has acknowledged.
    pub delivered: u64,
    /// Bytes sent, neither acknowledged nor declared lost. May count packets that nobody acknowledges, until the next
    /// acknowledgement.
    pub in_flight: u64,
    /// Bytes per second; zero before the first sample.
    pub rate: u64,
    /// The sample was taken while there was nothing to send.
    pub app_limited: bool,
    /// Mean deviation of the round-trip time.
    pub rttvar: Duration,
    pub min_rtt: Option<Duration>,
    /// When an acknowledgement last arrived.
    pub heard_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Meter {
    seen: Seen,
    /// When the newest packet of this batch of acknowledgements was sent.
    newest: Option<Instant>,
    /// Bytes that had been delivered at some times, and these times.
    marks: VecDeque<(Instant, u64)>,
}

impl Meter {
    fn acknowledged(
        &mut self,
        (now, sent): (Instant, Instant),
        bytes: u64,
        (srtt, min): (Duration, Duration),
    ) {
        let seen = &mut self.seen;
        seen.delivered += bytes;
        seen.in_flight = seen.in_flight.saturating_sub(bytes);
        seen.heard_at = Some(now);
        seen.min_rtt = Some(min);
        // quinn does not give its own deviation out (RFC 6298 §2.3).
        let sample = now.saturating_duration_since(sent);
        seen.rttvar = (seen.rttvar * 3 + sample.abs_diff(srtt)) / 4;
        self.newest = self.newest.max(Some(sent));
    }

    fn batch_ends(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        self.seen.in_flight = in_flight;
        let Some(sent) = self.newest.take() else { return };
        // The last mark before the packet was sent says what had been delivered then.
        let before = self.marks.iter().rposition(|(at, _)| *at <= sent);
        if let Some(at) = before {
            let (from, delivered) = self.marks[at];
            let took = now.saturating_duration_since(from).max(self.seen.min_rtt.unwrap_or_default());
            let bytes = self.seen.delivered - delivered;
            if took > Duration::ZERO {
                self.seen.rate = (bytes as f64 / took.as_secs_f64()) as u64;
                self.seen.app_limited = app_limited;
            }
            // Packets sent before the mark will hardly be acknowledged after it.
            self.marks.drain(..at);
        }
        if self.marks.back().is_some_and(|(at, _)| now < *at + MARK_EVERY) {
            return;
        }
        if self.marks.len() == MOST_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back((now, self.seen.delivered));
    }
}

/// A congestion controller that is listened to. Its copies share what is learned.
pub(super) struct Metered {
    inner: Box<dyn Controller>,
    meter: Arc<Mutex<Meter>>,
}

impl Metered {
    pub(super) fn seen(&self) -> Seen {
        self.meter().seen
    }

    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Metered {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.meter().seen.in_flight += bytes;
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &quinn_proto::RttEstimator,
    ) {
        self.meter().acknowledged((now, sent), bytes, (rtt.get(), rtt.min()));
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.meter().batch_ends(now, in_flight, app_limited);
        self.inner.on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        {
            let seen = &mut self.meter().seen;
            seen.in_flight = seen.in_flight.saturating_sub(lost_bytes);
        }
        self.inner.on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), meter: self.meter.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Makes controllers that are listened to.
pub(super) struct MeteredFactory(pub Arc<dyn ControllerFactory + Send + Sync>);

impl ControllerFactory for MeteredFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        Box::new(Metered { inner: self.0.clone().build(now, current_mtu), meter: Arc::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of 1250 bytes, one a millisecond, are acknowledged after 20 ms, four at a time: 1.25 MB/s.
    #[test]
    fn the_rate_is_that_of_the_deliveries() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut meter = Meter::default();
        for batch in 0..50_u64 {
            let now = start + ms(20 + batch * 4);
            for packet in batch * 4..batch * 4 + 4 {
                meter.acknowledged((now, start + ms(packet)), 1250, (ms(20), ms(17)));
            }
            meter.batch_ends(now, 25_000, batch > 40);
        }
        let seen = meter.seen;
        assert!(seen.rate.abs_diff(1_250_000) < 60_000, "{} bytes per second", seen.rate);
        assert_eq!((seen.delivered, seen.in_flight, seen.app_limited), (250_000, 25_000, true));
        assert!(seen.rttvar < ms(4), "{:?}", seen.rttvar);
        assert!(meter.marks.len() < 10, "{} marks", meter.marks.len());
    }

    /// A single packet, acknowledged after a pause, gives no sample before there is something to compare it with.
    #[test]
    fn one_acknowledgement_is_no_rate() {
        let start = Instant::now();
        let mut meter = Meter::default();
        meter.acknowledged((start + Duration::from_secs(1), start), 1250, (Duration::ZERO, Duration::ZERO));
        meter.batch_ends(start + Duration::from_secs(1), 0, true);
        assert_eq!(meter.seen.rate, 0);
    }
}
