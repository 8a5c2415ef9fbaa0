//! A path's cap: how much may be sent over it. A token bucket; times and bytes come in, none is read.
//!
//! The bucket is kept as one time (the virtual scheduling of GCRA, ITU-T I.371 §A): when everything that was taken is paid for at the
//! cap's rate. Before that time the path is *held* and has no room; after it, unused time counts up to [`DEPTH`]. A segment is never
//! divided, so the last one before the path is held may exceed the room; it is paid for like the others. Not here: which bytes count
//! (the session's frames), and what is sent elsewhere meanwhile (the scheduler).

use core::time::Duration;

use tributary_types::{Bitrate, DataSize, Instant};

/// Unused time that counts: longer than a driver's timer may be late, shorter than a radio's queue.
const DEPTH: Duration = Duration::from_millis(20);
/// A lower cap counts as this one: with less, the longest segment would hold a path for longer than five seconds.
pub const LEAST_CAP: Bitrate = Bitrate::from_bps(100_000);

/// What may be sent over one subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cap {
    rate: Bitrate,
    /// When everything that was sent is paid for.
    paid_at: Instant,
}

impl Cap {
    /// A cap of at least [`LEAST_CAP`] on a subflow that has sent nothing.
    pub fn new(rate: Bitrate) -> Self {
        Self { rate: rate.max(LEAST_CAP), paid_at: Instant::ZERO }
    }

    /// The same with another rate. Bytes that are not paid for stay so.
    pub fn with_rate(self, now: Instant, rate: Bitrate) -> Self {
        let (debt, other) = (self.debt(now), Self::new(rate));
        if debt == 0 { other } else { Self { paid_at: now + other.time_for(debt), ..other } }
    }

    /// Its rate.
    pub fn rate(&self) -> Bitrate {
        self.rate
    }

    /// When the path has room again, if it has none now.
    pub fn held_until(&self, now: Instant) -> Option<Instant> {
        Some(self.paid_at).filter(|at| *at > now)
    }

    /// Bytes that may be sent now; zero only while the path is held.
    pub fn room(&self, now: Instant) -> usize {
        if self.held_until(now).is_some() {
            return 0;
        }
        let bytes = self.rate.size_in(now.saturating_since(self.begin(now))).as_bytes();
        usize::try_from(bytes).unwrap_or(usize::MAX).max(1)
    }

    /// Bytes that were sent and are not paid for.
    pub fn debt(&self, now: Instant) -> u64 {
        self.rate.size_in(self.paid_at.saturating_since(now)).as_bytes()
    }

    /// Bytes are sent.
    pub fn take(&mut self, now: Instant, bytes: usize) {
        self.paid_at = self.begin(now) + self.time_for(bytes as u64);
    }

    /// From when the bytes that are sent next are paid for.
    fn begin(&self, now: Instant) -> Instant {
        self.paid_at.max(now - DEPTH)
    }

    fn time_for(&self, bytes: u64) -> Duration {
        self.rate.time_for(DataSize::from_bytes(bytes)).expect("a cap is not zero")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Bitrate = Bitrate::from_mbps(8);

    /// Sends segments of `bytes` for `ms` from a second on, whenever a timer of `tick` finds room. The bytes sent.
    fn send(cap: &mut Cap, bytes: usize, ms: u64, tick: u64) -> u64 {
        let mut sent = 0;
        for now in (1000..1000 + ms).step_by(tick as usize).map(Instant::from_millis) {
            let mut room = cap.room(now);
            while room > 0 {
                cap.take(now, bytes);
                sent += bytes as u64;
                room = room.saturating_sub(bytes);
            }
        }
        sent
    }

    #[test]
    fn the_rate_is_the_caps_for_any_size_of_segments_and_any_timer() {
        for (bytes, tick) in [(40, 1), (1400, 1), (16 << 10, 1), (64 << 10, 1), (16 << 10, 7), (1400, 19)] {
            let sent = send(&mut Cap::new(RATE), bytes, 10_000, tick);
            // 8 Mbit/s for ten seconds, the depth, and the last segment.
            let (least, most) = (10_000_000 - 20_000, 10_000_000 + 20_000 + bytes as u64);
            assert!((least..=most).contains(&sent), "{bytes} bytes every {tick} ms: {sent}");
        }
    }

    #[test]
    fn time_without_data_counts_up_to_the_depth() {
        let mut cap = Cap::new(RATE);
        assert_eq!(cap.room(Instant::from_millis(60_000)), 20_000);
        cap.take(Instant::from_millis(60_000), 20_000);
        assert_eq!(cap.room(Instant::from_millis(60_000)), 1);
        assert_eq!(cap.room(Instant::from_millis(60_003)), 3000);
    }

    #[test]
    fn a_segment_beyond_the_room_is_paid_for_before_the_next_one() {
        let (mut cap, at) = (Cap::new(RATE), Instant::from_millis(1000));
        cap.take(at, 20_000 + 65_536);
        assert_eq!((cap.room(at), cap.debt(at)), (0, 65_536));
        let until = cap.held_until(at).expect("it is held");
        assert_eq!(until, at + Duration::from_micros(65_536));
        assert_eq!((cap.room(until), cap.debt(until), cap.held_until(until)), (1, 0, None));
    }

    #[test]
    fn another_rate_keeps_the_debt_and_not_the_unused_time() {
        let at = Instant::from_millis(1000);
        let mut cap = Cap::new(RATE);
        cap.take(at, 20_000 + 10_000);
        let halved = cap.with_rate(at, Bitrate::from_mbps(4));
        assert_eq!((halved.debt(at), halved.held_until(at)), (10_000, Some(at + Duration::from_millis(20))));
        assert_eq!(cap.with_rate(at + DEPTH, RATE).room(at + DEPTH), 20_000);
    }

    #[test]
    fn the_least_cap_holds_a_path_for_a_few_seconds_at_most() {
        let at = Instant::from_millis(1000);
        for rate in [Bitrate::ZERO, Bitrate::from_bps(1), LEAST_CAP] {
            let mut cap = Cap::new(rate);
            cap.take(at, crate::wire::MAX_SEGMENT + crate::wire::MAX_FRAME_HEAD);
            let until = cap.held_until(at).expect("it is held");
            assert!(until < at + Duration::from_secs(6), "{rate}: {until}");
        }
    }
}
