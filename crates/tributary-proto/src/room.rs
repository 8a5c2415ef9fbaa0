//! How much a subflow may take, and how often its transport's state is read. Used on sockets and in the simulator.
//!
//! A subflow is given at most what its path delivers in a few milliseconds, so that data is assigned to a
//! path late (FBDT product mode) and losing the path costs little. Not here: how the transport's state is read,
//! and what is sent (the session decides).

use core::time::Duration;

use tributary_types::{Bitrate, DataSize, Instant};

use crate::subflow::SubflowInfo;

/// Bounds of the bytes left unsent in the transport.
const TARGET: (u64, u64) = (16 * 1024, 1024 * 1024);
/// Unsent bytes in the transport, as time at the path's rate.
const UNSENT_TIME: Duration = Duration::from_millis(4);
/// Least time between two reads of the transport's state.
const INFO_EVERY: Duration = Duration::from_millis(2);
/// Most plaintext encrypted at once: with its ciphertext it fits the processor's cache.
const SEAL_AT_ONCE: u64 = 256 * 1024;

/// The transport's state of a subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransportInfo {
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Its mean deviation.
    pub rttvar: Duration,
    /// Least round-trip time.
    pub min_rtt: Duration,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Unsent bytes in the transport and the driver.
    pub unsent: u64,
    /// The newest delivery rate; zero before the first sample.
    pub delivery_rate: Bitrate,
    /// The sample was taken while the sender had nothing to send: the path may be faster.
    pub app_limited: bool,
    /// Largest segment, bytes.
    pub mss: u32,
    /// Grows with what the peer's transport acknowledges, selectively too: segments in Linux, bytes in the simulator.
    pub delivered: u64,
    /// When an acknowledgement last arrived.
    pub heard_at: Instant,
}

/// The room of one subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    target: u64,
    most: u64,
    asked_at: Option<Instant>,
    /// The last measured rate, zero before the first.
    measured: Bitrate,
}

impl Room {
    /// The room of a new subflow; `sealed`: data is encrypted before it is sent.
    #[must_use]
    pub fn new(sealed: bool) -> Self {
        Self {
            target: TARGET.0 * 4,
            most: if sealed { SEAL_AT_ONCE } else { u64::MAX },
            asked_at: None,
            measured: Bitrate::ZERO,
        }
    }

    /// Target of unsent bytes in the transport. It becomes writable below half of this.
    #[must_use]
    pub fn target(&self) -> u64 {
        self.target
    }

    /// Bytes that the subflow can take with `unsent` bytes in the transport. Zero until half the target is free,
    /// just as Linux reports a socket writable only below half of `TCP_NOTSENT_LOWAT`.
    #[must_use]
    pub fn bytes(&self, unsent: u64) -> usize {
        if unsent.saturating_mul(2) >= self.target {
            return 0;
        }
        usize::try_from(self.most.min(self.target - unsent)).unwrap_or(usize::MAX)
    }

    /// Whether the transport's state must be read now. True once per interval.
    pub fn poll_ask(&mut self, now: Instant) -> bool {
        let due = self.asked_at.is_none_or(|at| now >= at + INFO_EVERY);
        if due {
            self.asked_at = Some(now);
        }
        due
    }

    /// The transport's state: adapts the target and returns the view for the session.
    pub fn handle_info(&mut self, info: &TransportInfo) -> SubflowInfo {
        self.retarget(info);
        // While the application limits the sender, a sample is only a lower bound of the path's rate. It counts if
        // it is higher than the last measurement. Example: the last measurement was made during a blockage; the
        // path then gets little data, and all later samples are limited by the application.
        let raises = self.measured > Bitrate::ZERO && info.delivery_rate > self.measured;
        let measured = info.delivery_rate > Bitrate::ZERO && (!info.app_limited || raises);
        if measured {
            self.measured = info.delivery_rate;
        }
        SubflowInfo {
            srtt: info.srtt,
            rttvar: info.rttvar,
            min_rtt: info.min_rtt,
            cwnd: info.cwnd,
            in_flight: info.in_flight,
            unsent: info.unsent,
            delivery_rate: measured.then_some(info.delivery_rate),
            mss: info.mss,
            delivered: info.delivered,
            heard_at: info.heard_at,
        }
    }

    fn retarget(&mut self, info: &TransportInfo) {
        let rate = if info.app_limited || info.delivery_rate == Bitrate::ZERO {
            let window = DataSize::from_bytes(info.cwnd);
            let by_window = Bitrate::of(window, info.srtt.max(Duration::from_micros(1))).unwrap_or_default();
            info.delivery_rate.max(by_window)
        } else {
            info.delivery_rate
        };
        let wanted = rate.size_in(UNSENT_TIME).as_bytes().clamp(TARGET.0, TARGET.1);
        // Skip changes of a quarter or less, to save system calls.
        if wanted.abs_diff(self.target) * 4 > self.target {
            self.target = wanted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(mbps: u64, app_limited: bool) -> TransportInfo {
        let (srtt, cwnd) = (Duration::from_millis(10), 100_000);
        TransportInfo {
            srtt,
            cwnd,
            delivery_rate: Bitrate::from_mbps(mbps),
            app_limited,
            ..Default::default()
        }
    }

    #[test]
    fn the_target_is_four_milliseconds_of_the_rate_and_room_appears_when_half_of_it_is_free() {
        let mut room = Room::new(false);
        assert_eq!(room.handle_info(&info(800, false)).delivery_rate, Some(Bitrate::from_mbps(800)));
        assert_eq!(room.target(), 400_000);
        assert_eq!(room.bytes(199_999), 200_001);
        assert_eq!(room.bytes(200_000), 0);
        assert_eq!(Room::new(true).bytes(u64::MAX), 0);
    }

    #[test]
    fn an_application_limited_rate_is_replaced_by_the_window() {
        let mut room = Room::new(false);
        // 100 kB in 10 ms are 80 Mbit/s, 40 kB in 4 ms.
        for (mbps, target) in [(8, 40_000), (400, 200_000)] {
            assert_eq!(room.handle_info(&info(mbps, true)).delivery_rate, None);
            assert_eq!(room.target(), target);
        }
        room.handle_info(&info(0, false));
        assert_eq!(room.target(), 40_000);
    }

    #[test]
    fn an_application_limited_rate_raises_a_measurement_and_does_not_lower_it() {
        let mut room = Room::new(false);
        let mut rate = |mbps, app_limited| room.handle_info(&info(mbps, app_limited)).delivery_rate;
        assert_eq!(rate(3, false), Some(Bitrate::from_mbps(3)));
        assert_eq!(rate(2, true), None);
        assert_eq!(rate(7, true), Some(Bitrate::from_mbps(7)));
        assert_eq!(rate(5, true), None);
        assert_eq!(rate(3, false), Some(Bitrate::from_mbps(3)));
    }

    #[test]
    fn a_transport_is_asked_every_two_milliseconds() {
        let mut room = Room::new(true);
        let asked = (0..10).filter(|at| room.poll_ask(Instant::from_millis(*at))).count();
        assert_eq!(asked, 5);
    }
}
